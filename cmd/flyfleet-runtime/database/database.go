// Package database is how a verb that ends at once gets at the database.
package database

import (
	"context"
	"os"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/daemon"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// Within opens the database of the environment for one thing, which may take a minute.
func Within(do func(context.Context, *store.Store) error) error {
	url, err := daemon.SecretsFrom(os.Getenv).Database()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := store.Migrate(ctx, url); err != nil {
		return err
	}
	s, err := store.Open(ctx, store.Options{URL: url, Conns: 1})
	if err != nil {
		return err
	}
	defer s.Close()
	return do(ctx, s)
}
