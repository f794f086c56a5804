package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/statement"
)

// Checkpoint is a fold up to an entry. It is a cache: it may be gone at any time, and then the fold starts at the first entry.
type Checkpoint struct {
	Seq int64
	// Version of the fold's encoding; another version is not given back.
	Version int
	Data    []byte
}

// Checkpoint gives the session's checkpoint of that version, if there is one.
func (s *Store) Checkpoint(ctx context.Context, session uuid.UUID, version int) (Checkpoint, bool, error) {
	row, err := ask(ctx, s.query.GetCheckpoint, statement.GetCheckpointParams{SessionID: session, Version: int32(version)})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Checkpoint{}, false, nil
	case err != nil:
		return Checkpoint{}, false, fmt.Errorf("store: checkpoint of session %s: %w", session, err)
	}
	return Checkpoint{Seq: row.Seq, Version: int(row.Version), Data: row.Data}, true, nil
}

// PutCheckpoint keeps a checkpoint unless a later one is there.
func (s *Store) PutCheckpoint(ctx context.Context, c Claim, point Checkpoint) error {
	err := tell(ctx, s.query.PutCheckpoint, statement.PutCheckpointParams{
		SessionID: c.Session, Seq: point.Seq, Version: int32(point.Version), Data: nonNil(point.Data),
	})
	if err != nil {
		return fmt.Errorf("store: checkpoint of session %s: %w", c.Session, err)
	}
	return nil
}
