package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/statement"
)

// SessionState says who has to act next.
type SessionState int16

// The states of a session. They are columns of the database: numbers never change.
const (
	// SessionIdle has nothing to do.
	SessionIdle SessionState = 1
	// SessionReady waits for an executor.
	SessionReady SessionState = 2
	// SessionRunning has an owner.
	SessionRunning SessionState = 3
	// SessionParked has a submission under way that waits for a person.
	SessionParked SessionState = 4
	// SessionClosed takes no more input.
	SessionClosed SessionState = 5
)

func (s SessionState) String() string {
	return name(s, "idle", "ready", "running", "parked", "closed")
}

// name gives the i-th name, counted from 1.
func name[T ~int16](i T, names ...string) string {
	if i < 1 || int(i) > len(names) {
		return fmt.Sprintf("state %d", int16(i))
	}
	return names[i-1]
}

// Session is a session's row.
type Session struct {
	ID     uuid.UUID
	Tenant string
	Agent  string
	State  SessionState
	// Fence of the last claim.
	Fence int64
	// Parent and ParentSeq say where a fork was cut; uuid.Nil and 0 when it is none.
	Parent    uuid.UUID
	ParentSeq int64
	CreatedAt time.Time

	lineage []segment
}

func sessionOf(row statement.Session) Session {
	return Session{
		ID: row.ID, Tenant: row.TenantID, Agent: row.Agent, State: SessionState(row.State), Fence: row.Fence,
		Parent: orZero(row.ParentID), ParentSeq: row.BaseSeq, CreatedAt: row.CreatedAt, lineage: segments(row),
	}
}

// CreateSession makes a session of an agent with its first entry, session_created. The id is the caller's, a UUIDv7
// (NewID), so that a repeated call can be told from a second session: it gives the same session.
func (s *Store) CreateSession(ctx context.Context, tenant, agent string, id uuid.UUID) (Session, error) {
	kind, body, err := journal.Marshal(&journalv1.Body{Body: &journalv1.Body_SessionCreated{SessionCreated: &journalv1.SessionCreated{Agent: agent}}})
	if err != nil {
		return Session{}, err
	}
	err = s.transaction(ctx, func(q *statement.Queries) error {
		if err := q.InsertSession(ctx, statement.InsertSessionParams{
			ID: id, TenantID: tenant, Agent: agent, Lineage: []uuid.UUID{}, LineageUpto: []int64{},
		}); err != nil {
			return err
		}
		return q.InsertFirstEntry(ctx, statement.InsertFirstEntryParams{SessionID: id, Seq: 1, Kind: int16(kind), Body: body})
	})
	if err != nil && !hasCode(err, codeUnique) {
		return Session{}, fmt.Errorf("store: create session: %w", err)
	}
	made, err := s.Session(ctx, tenant, id)
	if err == nil && (made.Agent != agent || made.Parent != uuid.Nil) {
		return Session{}, fmt.Errorf("session %s: %w", id, ErrConflict)
	}
	return made, err
}

// NewID makes a UUIDv7: ids that were made later sort later.
func NewID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// Session gives a tenant's session, or ErrNotFound.
func (s *Store) Session(ctx context.Context, tenant string, id uuid.UUID) (Session, error) {
	row, err := found(ask(ctx, s.query.GetSession, statement.GetSessionParams{ID: id, TenantID: tenant}))
	if err != nil {
		return Session{}, fmt.Errorf("session %s: %w", id, err)
	}
	return sessionOf(row), nil
}

// Sessions lists a tenant's sessions, the newest first, that are older than before (uuid.Max: all), at most most.
func (s *Store) Sessions(ctx context.Context, tenant string, before uuid.UUID, most int) ([]Session, error) {
	rows, err := ask(ctx, s.query.ListSessions, statement.ListSessionsParams{TenantID: tenant, Before: before, Most: int32(most)})
	if err != nil {
		return nil, fmt.Errorf("store: sessions: %w", err)
	}
	return each(rows, sessionOf), nil
}

// CloseSession lets an idle session take no more input. A busy one is ErrBusy.
func (s *Store) CloseSession(ctx context.Context, tenant string, id uuid.UUID) error {
	n, err := ask(ctx, s.query.CloseSession, statement.CloseSessionParams{ID: id, TenantID: tenant})
	if err != nil {
		return fmt.Errorf("store: close session: %w", err)
	}
	if n == 1 {
		return nil
	}
	switch now, err := s.Session(ctx, tenant, id); {
	case err != nil:
		return err
	case now.State != SessionClosed:
		return fmt.Errorf("session %s: %w", id, ErrBusy)
	}
	return nil
}

func each[From, To any](from []From, f func(From) To) []To {
	to := make([]To, 0, len(from))
	for _, v := range from {
		to = append(to, f(v))
	}
	return to
}
