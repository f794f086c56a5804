package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/crashpoint"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/statement"
)

// SubmissionState is how far the work on a submission is.
type SubmissionState int16

// The states of a submission. They are columns of the database: numbers never change.
const (
	SubmissionQueued  SubmissionState = 1
	SubmissionRunning SubmissionState = 2
	// SubmissionJoined became part of the one that ran, and settles with it.
	SubmissionJoined SubmissionState = 3
	// SubmissionTerminalizing has its end decided (Submission.Terminal) and not written.
	SubmissionTerminalizing SubmissionState = 4
	SubmissionSettled       SubmissionState = 5
)

func (s SubmissionState) String() string {
	return name(s, "queued", "running", "joined", "terminalizing", "settled")
}

// Policy says what a submission does to a session that is at work.
type Policy int

const (
	// PolicyQueue waits for its turn.
	PolicyQueue Policy = iota
	// PolicyReject is ErrBusy.
	PolicyReject
	// PolicyInterrupt cancels everything that came before it.
	PolicyInterrupt
	// PolicyJoin becomes part of the running turn at its next boundary, or waits as PolicyQueue does when none
	// runs.
	PolicyJoin
	// PolicyAnswer waits as PolicyQueue does, and denies the open cards, so that its turn comes.
	PolicyAnswer
)

// Input is a submission to come.
type Input struct {
	// ID is for a new submission, when something was made for it before, such as Credentials; uuid.Nil for any.
	ID      uuid.UUID
	Tenant  string
	Session uuid.UUID
	// Key makes a repeated Submit the same submission. It belongs to the session.
	Key string
	// Payload is what the executor will make the input of. Equal keys must come with equal payloads.
	Payload []byte
	Policy  Policy
	// TimeLimit bounds the work, counted from its begin and not while the session is parked; 0 is none.
	TimeLimit time.Duration
	// Credentials are for the work only, and deleted with its end.
	Credentials *Sealed
	// Blobs are the digests of its attachments, stored by PutBlob before.
	Blobs [][]byte
	// Trace is the span that the work continues, a traceparent of W3C's Trace Context; "" is none.
	Trace string
}

// Sealed is a secret under a key that the store does not have.
type Sealed struct {
	KeyID string
	Data  []byte
	// ExpiresIn is how long they are good; 0 is for ever.
	ExpiresIn time.Duration
}

// Submission is one input to a session and the work that answers it.
type Submission struct {
	ID      uuid.UUID
	Tenant  string
	Session uuid.UUID
	Key     string
	Payload []byte
	// Ordinal orders the submissions of a session, from 1.
	Ordinal int64
	State   SubmissionState
	// Joins is the one it joined or is to join; uuid.Nil when none.
	Joins uuid.UUID
	// Cancelled says that its end was asked for.
	Cancelled bool
	// Limited says whether Remaining, which may be negative, bounds the work. It was counted when the row was read.
	Limited   bool
	Remaining time.Duration
	// Attempts is how many owners died over it.
	Attempts int
	// Terminal is what Step.Terminalize reserved.
	Terminal []byte
	// InputSeq and SettledSeq are its first and last entry; 0 when not written.
	InputSeq   int64
	SettledSeq int64
	// Outcome of a settled one.
	Outcome   journalv1.SettledOutcome
	CreatedAt time.Time
	// Trace is Input.Trace of the Submit that made it.
	Trace string
}

func submissionOf(row statement.Submission, remainingMs int64) Submission {
	u := Submission{
		ID: row.ID, Tenant: row.TenantID, Session: row.SessionID, Key: row.IdemKey, Payload: row.Payload, Ordinal: row.Ordinal,
		State: SubmissionState(row.State), Joins: orZero(row.Joins), Cancelled: row.CancelAt != nil, Limited: row.DeadlineAt != nil, Attempts: int(row.Attempts),
		Terminal: row.Terminal, InputSeq: orZero(row.InputSeq), SettledSeq: orZero(row.SettledSeq),
		Outcome: journalv1.SettledOutcome(orZero(row.Outcome)), CreatedAt: row.CreatedAt,
		Trace: orZero(row.Traceparent),
	}
	if u.Limited {
		u.Remaining = time.Duration(remainingMs) * time.Millisecond
	}
	return u
}

func orZero[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// Submit admits an input: when it returns without error, the work will be done whoever dies. Called again with the
// same key and payload it gives the same submission; with another payload ErrConflict.
func (s *Store) Submit(ctx context.Context, in Input) (Submission, error) {
	id := in.ID
	if id == uuid.Nil {
		id = NewID()
	}
	crashpoint.Hit("submit.before")
	var made Submission
	err := s.transaction(ctx, func(q *statement.Queries) (err error) {
		made, err = admit(ctx, q, id, in)
		return err
	})
	if err != nil {
		return Submission{}, fmt.Errorf("store: submit to session %s: %w", in.Session, err)
	}
	crashpoint.Hit("submit.after")
	s.notifier.Ready(in.Session)
	return made, nil
}

func admit(ctx context.Context, q *statement.Queries, id uuid.UUID, in Input) (Submission, error) {
	session, err := found(q.LockSession(ctx, statement.LockSessionParams{ID: in.Session, TenantID: in.Tenant}))
	if err != nil {
		return Submission{}, err
	}
	sum := sha256.Sum256(in.Payload)
	switch earlier, err := q.SubmissionByKey(ctx, statement.SubmissionByKeyParams{SessionID: in.Session, IdemKey: in.Key}); {
	case err == nil && bytes.Equal(earlier.PayloadSha, sum[:]):
		return submissionOf(earlier, 0), nil
	case err == nil:
		return Submission{}, ErrConflict
	case !errors.Is(err, pgx.ErrNoRows):
		return Submission{}, err
	}
	if SessionState(session.State) == SessionClosed {
		return Submission{}, ErrClosed
	}
	row, err := insert(ctx, q, id, in, sum[:])
	if err != nil {
		return Submission{}, err
	}
	if in.Policy == PolicyInterrupt {
		if err := q.CancelOpen(ctx, statement.CancelOpenParams{SessionID: in.Session, Before: row.Ordinal}); err != nil {
			return Submission{}, err
		}
	}
	if wakes(in.Policy, session, row) {
		if _, err := q.WakeSession(ctx, statement.WakeSessionParams{ID: in.Session, Now: in.Policy == PolicyInterrupt}); err != nil {
			return Submission{}, err
		}
	}
	return submissionOf(row, 0), nil
}

// wakes says whether there is something to do at once: a parked session goes on waiting for its person when the new
// input only queues.
func wakes(policy Policy, session statement.Session, row statement.Submission) bool {
	return SessionState(session.State) != SessionParked || policy == PolicyInterrupt || row.Joins != nil || row.Answers
}

func insert(ctx context.Context, q *statement.Queries, id uuid.UUID, in Input, sum []byte) (statement.Submission, error) {
	var none statement.Submission
	arg := statement.InsertSubmissionParams{
		ID: id, TenantID: in.Tenant, SessionID: in.Session, IdemKey: in.Key, PayloadSha: sum, Payload: nonNil(in.Payload),
		Answers: in.Policy == PolicyAnswer,
	}
	if in.TimeLimit > 0 {
		ms := in.TimeLimit.Milliseconds()
		arg.TimeLimitMs = &ms
	}
	if in.Trace != "" {
		arg.Traceparent = &in.Trace
	}
	switch in.Policy {
	case PolicyReject:
		if _, err := q.OpenSubmission(ctx, in.Session); err == nil {
			return none, ErrBusy
		} else if !errors.Is(err, pgx.ErrNoRows) {
			return none, err
		}
	case PolicyJoin:
		if host, err := q.JoinableSubmission(ctx, in.Session); err == nil {
			arg.Joins = &host
		} else if !errors.Is(err, pgx.ErrNoRows) {
			return none, err
		}
	}
	row, err := q.InsertSubmission(ctx, arg)
	if err != nil {
		return none, err
	}
	if c := in.Credentials; c != nil {
		arg := statement.InsertCredentialsParams{SubmissionID: id, KeyID: c.KeyID, Sealed: nonNil(c.Data)}
		if c.ExpiresIn > 0 {
			s := c.ExpiresIn.Seconds()
			arg.ExpiresS = &s
		}
		if err := q.InsertCredentials(ctx, arg); err != nil {
			return none, err
		}
	}
	return row, refer(ctx, q, in.Tenant, in.Session, in.Blobs)
}

func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// Submission gives a tenant's submission, or ErrNotFound.
func (s *Store) Submission(ctx context.Context, tenant string, id uuid.UUID) (Submission, error) {
	row, err := found(ask(ctx, s.query.GetSubmission, statement.GetSubmissionParams{ID: id, TenantID: tenant}))
	if err != nil {
		return Submission{}, fmt.Errorf("submission %s: %w", id, err)
	}
	return submissionOf(row.Submission, row.RemainingMs), nil
}

// Submissions lists a session's submissions by Ordinal, those after the given one, at most most.
func (s *Store) Submissions(ctx context.Context, tenant string, session uuid.UUID, after int64, most int) ([]Submission, error) {
	rows, err := ask(ctx, s.query.ListSubmissions, statement.ListSubmissionsParams{SessionID: session, TenantID: tenant, After: after, Most: int32(most)})
	if err != nil {
		return nil, fmt.Errorf("store: submissions: %w", err)
	}
	return each(rows, func(r statement.ListSubmissionsRow) Submission { return submissionOf(r.Submission, r.RemainingMs) }), nil
}

// OpenSubmissions lists those of a session that have not settled, by Ordinal, at most most.
func (s *Store) OpenSubmissions(ctx context.Context, tenant string, session uuid.UUID, most int) ([]Submission, error) {
	rows, err := ask(ctx, s.query.OpenSubmissions, statement.OpenSubmissionsParams{SessionID: session, TenantID: tenant, Most: int32(most)})
	if err != nil {
		return nil, fmt.Errorf("store: submissions: %w", err)
	}
	return each(rows, func(r statement.OpenSubmissionsRow) Submission { return submissionOf(r.Submission, r.RemainingMs) }), nil
}

// Cancel asks for a submission's end. It is a row: whoever owns the session finds it, also after a crash. A queued
// submission is settled when its turn comes, a settled one stays as it is.
func (s *Store) Cancel(ctx context.Context, tenant string, id uuid.UUID) error {
	session, err := found(ask(ctx, s.query.SubmissionSession, statement.SubmissionSessionParams{ID: id, TenantID: tenant}))
	if err != nil {
		return fmt.Errorf("submission %s: %w", id, err)
	}
	err = s.transaction(ctx, func(q *statement.Queries) error {
		if _, err := q.LockSession(ctx, statement.LockSessionParams{ID: session, TenantID: tenant}); err != nil {
			return err
		}
		state, err := q.CancelSubmission(ctx, statement.CancelSubmissionParams{ID: id, SessionID: session})
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // settled
		}
		if err != nil || SubmissionState(state) == SubmissionQueued {
			return err
		}
		_, err = q.WakeSession(ctx, statement.WakeSessionParams{ID: session, Now: true})
		return err
	})
	if err != nil {
		return fmt.Errorf("store: cancel submission %s: %w", id, err)
	}
	s.notifier.Ready(session)
	return nil
}

// Credentials gives the sealed credentials of a submission that the claim works on. ErrNotFound: it came without, or has
// settled. ErrExpired: they are too old.
func (s *Store) Credentials(ctx context.Context, c Claim, submission uuid.UUID) (Sealed, error) {
	if err := s.owned(ctx, c); err != nil {
		return Sealed{}, err
	}
	row, err := found(ask(ctx, s.query.SubmissionCredentials, submission))
	switch {
	case err != nil:
		return Sealed{}, fmt.Errorf("credentials of submission %s: %w", submission, err)
	case row.Expired:
		return Sealed{}, fmt.Errorf("credentials of submission %s: %w", submission, ErrExpired)
	}
	return Sealed{KeyID: row.KeyID, Data: row.Sealed}, nil
}
