// Package erase is the verb that takes people's words out of a session's journal, as the law may ask.
package erase

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet-runtime/database"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// Command is `flyfleet-runtime erase`.
type Command struct {
	Tenant  string    `arg:"" help:"Whose session it is."`
	Session uuid.UUID `arg:"" help:"The session."`
	Entries []int64   `arg:"" optional:"" help:"Numbers of entries; without them everything that anybody said in the session."`
	Reason  string    `required:"" help:"Why; it stays in the journal in place of what was erased."`
}

// Run erases.
func (c *Command) Run() error {
	return database.Within(func(ctx context.Context, s *store.Store) error { return c.erase(ctx, s, os.Stdout) })
}

func (c *Command) erase(ctx context.Context, s *store.Store, out io.Writer) error {
	all := c.Entries
	if len(all) == 0 {
		entries, err := s.Load(ctx, c.Tenant, c.Session, 0, 0)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			// What a fork inherits is its parent's.
			if entry.Session == c.Session && journal.Erasable(entry.Kind) {
				all = append(all, entry.Seq)
			}
		}
	}
	for _, seq := range all {
		if err := s.Erase(ctx, c.Tenant, c.Session, seq, c.Reason); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "erased %d entries of session %s\n", len(all), c.Session)
	return err
}
