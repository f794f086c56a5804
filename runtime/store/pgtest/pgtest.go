// Package pgtest gives tests a real Postgres: a cluster of package pglocal, one a test process, with one database a test.
// FLYFLEET_TEST_DATABASE_URL names a server to use instead; its role must be allowed to create databases.
package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/pglocal"
)

// urlEnv names a server to use instead of a throw-away one.
const urlEnv = "FLYFLEET_TEST_DATABASE_URL"

var (
	shared = sync.OnceValues(func() (string, error) {
		if given := os.Getenv(urlEnv); given != "" {
			return given, nil
		}
		// Data of a test need not survive the computer.
		server, err := pglocal.Start(context.Background(), pglocal.Settings{"fsync": "off", "max_connections": "300"})
		if err != nil {
			return "", fmt.Errorf("%w\n(or set %s)", err, urlEnv)
		}
		process = server
		return server.URL("postgres"), nil
	})
	// process keeps the shared cluster's pipe from being collected, and so closed.
	process *pglocal.Server
	// template is a database with today's schema, of which the others are copies: a migration takes longer than
	// most tests. A server of somebody else's gets none: nothing would drop it.
	template = sync.OnceValues(func() (string, error) {
		admin, err := shared()
		if err != nil || os.Getenv(urlEnv) != "" {
			return "", err
		}
		const name = "flyfleet_template"
		if err := run(context.Background(), admin, "CREATE DATABASE "+name); err != nil {
			return "", err
		}
		return name, store.Migrate(context.Background(), process.URL(name))
	})
	count atomic.Int64
)

// Migrated makes a database with the store's schema for the test and gives its URL. It is dropped at the test's end.
func Migrated(t testing.TB) string {
	t.Helper()
	name, err := template()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	if name != "" {
		return databaseOn(t, process.URL("postgres"), " TEMPLATE "+name)
	}
	url := Database(t)
	if err := store.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	return url
}

// Database makes an empty database for the test and gives its URL. It is dropped at the test's end.
func Database(t testing.TB) string {
	t.Helper()
	admin, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return databaseOn(t, admin, "")
}

// DatabaseOn makes an empty database for the test on a server of its own and gives its URL.
func DatabaseOn(t testing.TB, server *pglocal.Server) string {
	t.Helper()
	return databaseOn(t, server.URL("postgres"), "")
}

func databaseOn(t testing.TB, admin, options string) string {
	t.Helper()
	name := fmt.Sprintf("flyfleet_test_%d_%d", os.Getpid(), count.Add(1))
	if err := run(t.Context(), admin, "CREATE DATABASE "+name+options); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := run(ctx, admin, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil && !stopped(err) {
			t.Errorf("pgtest: %v", err)
		}
	})
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatalf("pgtest: %s: %v", urlEnv, err)
	}
	u.Path = "/" + name
	return u.String()
}

// stopped says that there is no server any more, as after the test has stopped its own.
func stopped(err error) bool {
	return strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "no such file")
}

func run(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, sql)
	return err
}
