package daemon

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// Run is a replica's life: it serves until ctx ends, then hands over what it has.
func Run(ctx context.Context, c Config, log *slog.Logger) error {
	db, err := store.Open(ctx, store.Options{URL: c.DatabaseURL, Log: log})
	if err != nil {
		return err
	}
	defer db.Close()
	_ = gateway(c, db)
	_, closing, err := machines(c, db, log)
	if err != nil {
		return fmt.Errorf("machines: %w", err)
	}
	<-ctx.Done()
	return closing()
}
