// Package keys is the verb that makes, lists and revokes tenants' API keys. They are rows: every replica takes or refuses
// them within seconds.
package keys

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"text/tabwriter"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet-runtime/database"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// Command is `flyfleet-runtime keys`.
type Command struct {
	Add    add    `cmd:"" help:"Make a key and print it, once."`
	List   list   `cmd:"" help:"List keys, without what is secret in them."`
	Revoke revoke `cmd:"" help:"End a key. It works for ten seconds more."`
}

type add struct {
	Tenant string        `arg:"" help:"Whose key it is."`
	For    time.Duration `help:"How long it is good; 0 is until it is revoked." default:"0"`
}

// tenantName is what a tenant may be called: it is in logs and in names of apps.
var tenantName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// Run prints the key on stdout and its id on stderr.
func (a *add) Run() error {
	if !tenantName.MatchString(a.Tenant) || a.For < 0 {
		return errors.New("keys add: a tenant is letters, digits, and . _ - between them, and --for is no negative time")
	}
	return database.Within(func(ctx context.Context, s *store.Store) error {
		text, id, err := gateway.AddKey(ctx, s, a.Tenant, a.For)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "key %s of tenant %s; it is shown this once\n", id, a.Tenant)
		_, err = fmt.Fprintln(os.Stdout, text)
		return err
	})
}

type list struct {
	Tenant string `arg:"" optional:"" help:"Only this tenant's."`
}

// Run lists.
func (l *list) Run() error {
	return database.Within(func(ctx context.Context, s *store.Store) error {
		all, err := s.APIKeys(ctx, l.Tenant)
		if err != nil {
			return err
		}
		return table(os.Stdout, all)
	})
}

func table(w io.Writer, all []store.APIKey) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tTENANT\tMADE\tSTATE")
	for _, k := range all {
		state := "good"
		if k.Dead {
			state = "over"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", k.ID, k.Tenant, k.CreatedAt.UTC().Format(time.RFC3339), state)
	}
	return t.Flush()
}

type revoke struct {
	ID string `arg:"" help:"The key's public id: its second part."`
}

// Run revokes.
func (r *revoke) Run() error {
	return database.Within(func(ctx context.Context, s *store.Store) error { return s.RevokeAPIKey(ctx, r.ID) })
}
