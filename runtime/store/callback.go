package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/crashpoint"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/statement"
)

// CallbackState is how far a call is that a command asks for.
type CallbackState int16

// The states of a callback. They are columns of the database: numbers never change.
const (
	// CallbackAsked: the session's owner has not seen it yet.
	CallbackAsked CallbackState = 1
	// CallbackTaken: it is in the journal.
	CallbackTaken    CallbackState = 2
	CallbackAnswered CallbackState = 3
)

func (s CallbackState) String() string { return name(s, "asked", "taken", "answered") }

// Callback is a call that a command asks for, and what it asks in its bytes. CallbackAnswer has what came of it.
type Callback struct {
	Session uuid.UUID
	Exec    uuid.UUID
	// Call is its id in the journal: the command's id, a slash, and a name.
	Call string
	Tool string
	// Args are what a policy, a person and the digest of an approval look at; Body comes beside them.
	Args, Body []byte
	State      CallbackState
}

func callbackOf(row statement.GetCallbackRow) Callback {
	return Callback{
		Session: row.SessionID, Exec: row.ExecID, Call: row.CallID, Tool: row.Tool, Args: row.Args, Body: row.Body, State: CallbackState(row.State),
	}
}

// Ask is a command's request for a call.
type Ask struct {
	Tenant  string
	Session uuid.UUID
	Exec    uuid.UUID
	// Name of the call within the command, at most 200 bytes: the same name is the same call. Without one, equal requests are
	// one call until CallbackTold; the next one after that is another.
	Name       string
	Tool       string
	Args, Body []byte
	// MostOpen and Most bound the command's calls: those without an answer, and all.
	MostOpen, Most int
}

// digest is what makes two requests equal.
func (a Ask) digest() []byte {
	h := sha256.New()
	body := sha256.Sum256(a.Body)
	fmt.Fprintf(h, "%d %s %d ", len(a.Tool), a.Tool, len(a.Args))
	h.Write(a.Args)
	h.Write(body[:])
	return h.Sum(nil)
}

// named is the id of a call with a name; a name may hold anything, so its digest stands for it.
func (a Ask) named() string {
	sum := sha256.Sum256([]byte(a.Name))
	return a.Exec.String() + "/k" + hex.EncodeToString(sum[:16])
}

// AskCall makes a call that a command asks for, or finds it, and wakes its session: the session's owner takes it up
// (Asked, Step.Take). What it gives has no Args and no Body: who waits for an answer does not hold on to them. Who asks is for the
// caller to prove. ErrConflict: the name is another request's. ErrNotFound: the command
// does not run. ErrBusy: it has asked for too much.
func (s *Store) AskCall(ctx context.Context, a Ask) (Callback, error) {
	crashpoint.Hit("ask.before")
	var made Callback
	err := s.transaction(ctx, func(q *statement.Queries) (err error) {
		if _, err = found(q.LockSession(ctx, statement.LockSessionParams{ID: a.Session, TenantID: a.Tenant})); err != nil {
			return err
		}
		made, err = askCall(ctx, q, a)
		return err
	})
	if err != nil {
		return Callback{}, fmt.Errorf("call of command %s: %w", a.Exec, err)
	}
	crashpoint.Hit("ask.after")
	if made.State == CallbackAsked {
		s.notifier.Ready(a.Session)
	}
	return made, nil
}

// askCall runs under the session's lock: the command's end is committed before, or after.
func askCall(ctx context.Context, q *statement.Queries, a Ask) (Callback, error) {
	sha := a.digest()
	there, err := sameCall(ctx, q, a, sha)
	switch {
	case err == nil && !bytes.Equal(there.Sha, sha):
		return Callback{}, ErrConflict
	case err == nil:
		return Callback{Session: a.Session, Exec: a.Exec, Call: there.CallID, Tool: a.Tool, State: CallbackState(there.State)}, nil
	case !errors.Is(err, pgx.ErrNoRows):
		return Callback{}, err
	}
	runs, err := q.ExecRuns(ctx, statement.ExecRunsParams{ID: a.Exec, SessionID: a.Session})
	if err != nil {
		return Callback{}, err
	}
	if !runs {
		return Callback{}, ErrNotFound
	}
	count, err := q.CountCallbacks(ctx, statement.CountCallbacksParams{Sha: sha, ExecID: a.Exec})
	if err != nil {
		return Callback{}, err
	}
	if count.Open >= int64(a.MostOpen) || count.Made >= int64(a.Most) {
		return Callback{}, ErrBusy
	}
	made := Callback{Session: a.Session, Exec: a.Exec, Call: a.named(), Tool: a.Tool, State: CallbackAsked}
	if a.Name == "" {
		made.Call = fmt.Sprintf("%s/d%s.%d", a.Exec, hex.EncodeToString(sha[:16]), count.Equal+1)
	}
	if err := q.InsertCallback(ctx, statement.InsertCallbackParams{
		SessionID: a.Session, CallID: made.Call, ExecID: a.Exec, Named: a.Name != "", Tool: a.Tool, Args: nonNil(a.Args), Body: nonNil(a.Body), Sha: sha,
	}); err != nil {
		return Callback{}, err
	}
	_, err = q.WakeSession(ctx, statement.WakeSessionParams{ID: a.Session, Now: true})
	return made, err
}

func sameCall(ctx context.Context, q *statement.Queries, a Ask, sha []byte) (statement.NamedCallbackRow, error) {
	if a.Name == "" {
		row, err := q.UntoldCallback(ctx, statement.UntoldCallbackParams{ExecID: a.Exec, Sha: sha})
		return statement.NamedCallbackRow(row), err
	}
	return q.NamedCallback(ctx, statement.NamedCallbackParams{SessionID: a.Session, CallID: a.named()})
}

// Callback gives a call that a command asked for, or ErrNotFound.
func (s *Store) Callback(ctx context.Context, session uuid.UUID, call string) (Callback, error) {
	row, err := found(ask(ctx, s.query.GetCallback, statement.GetCallbackParams{SessionID: session, CallID: call}))
	if err != nil {
		return Callback{}, fmt.Errorf("call %s: %w", call, err)
	}
	return callbackOf(row), nil
}

// CallbackState is Callback's, without the bytes.
func (s *Store) CallbackState(ctx context.Context, session uuid.UUID, call string) (CallbackState, error) {
	state, err := found(ask(ctx, s.query.CallbackState, statement.CallbackStateParams{SessionID: session, CallID: call}))
	if err != nil {
		return 0, fmt.Errorf("call %s: %w", call, err)
	}
	return CallbackState(state), nil
}

// CallbackAnswer gives what came of a call that a command asked for: Content is the text of its result, Data what the tool gave for
// the command alone. Before the answer all is empty.
func (s *Store) CallbackAnswer(ctx context.Context, session uuid.UUID, call string) (journalv1.ToolOutcome, Answer, error) {
	row, err := found(ask(ctx, s.query.CallbackAnswer, statement.CallbackAnswerParams{SessionID: session, CallID: call}))
	if err != nil {
		return 0, Answer{}, fmt.Errorf("call %s: %w", call, err)
	}
	return journalv1.ToolOutcome(orZero(row.Outcome)), Answer{Content: row.Content, Data: row.Answer}, nil
}

// CallbackTold says that the command has its answer: an equal request without a name is another call from now on.
func (s *Store) CallbackTold(ctx context.Context, session uuid.UUID, call string) error {
	crashpoint.Hit("told.before")
	if err := tell(ctx, s.query.CallbackTold, statement.CallbackToldParams{SessionID: session, CallID: call}); err != nil {
		return fmt.Errorf("store: call %s: %w", call, err)
	}
	crashpoint.Hit("told.after")
	return nil
}

// Asked lists the calls that the session's commands ask for and that no entry tells of, the oldest first, at most most.
func (s *Store) Asked(ctx context.Context, c Claim, most int) ([]Callback, error) {
	rows, err := ask(ctx, s.query.AskedCallbacks, statement.AskedCallbacksParams{SessionID: c.Session, Most: int32(most)})
	if err != nil {
		return nil, fmt.Errorf("store: calls of session %s: %w", c.Session, err)
	}
	return each(rows, func(row statement.AskedCallbacksRow) Callback { return callbackOf(statement.GetCallbackRow(row)) }), nil
}

// WakeWaiting wakes parked sessions that wait inside a command that runs, and that nobody has looked at for the given time:
// the command's clock is to be held on, and it may have ended. It gives how many. Any replica may call it at any time.
func (s *Store) WakeWaiting(ctx context.Context, every time.Duration, most int) (int, error) {
	woken, err := ask(ctx, s.query.WakeWaiting, statement.WakeWaitingParams{EveryS: every.Seconds(), Most: int32(most)})
	if err != nil {
		return 0, fmt.Errorf("store: wake sessions that wait inside a command: %w", err)
	}
	for _, id := range woken {
		s.notifier.Ready(id)
	}
	return len(woken), nil
}
