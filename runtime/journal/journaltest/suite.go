// Package journaltest is the conformance suite of a journal's store: what runtime/store promises, as cases that any
// implementation must pass. Each runs on a database of its own.
package journaltest

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// Store is one replica's store, as package store documents it.
type Store interface {
	CreateSession(ctx context.Context, tenant, agent string, id uuid.UUID) (store.Session, error)
	Session(ctx context.Context, tenant string, id uuid.UUID) (store.Session, error)
	CloseSession(ctx context.Context, tenant string, id uuid.UUID) error
	Submit(ctx context.Context, in store.Input) (store.Submission, error)
	Submission(ctx context.Context, tenant string, id uuid.UUID) (store.Submission, error)
	Submissions(ctx context.Context, tenant string, session uuid.UUID, after int64, most int) ([]store.Submission, error)
	Cancel(ctx context.Context, tenant string, id uuid.UUID) error
	Credentials(ctx context.Context, c store.Claim, submission uuid.UUID) (store.Sealed, error)

	Register(ctx context.Context, address, version string) (*store.Executor, error)
	Beat(ctx context.Context, e *store.Executor) error
	Claim(ctx context.Context, e *store.Executor, most int) ([]store.Claim, error)
	Begin(ctx context.Context, c store.Claim) (store.Claim, error)
	Look(ctx context.Context, c store.Claim) (store.News, error)
	Park(ctx context.Context, c store.Claim) (bool, error)
	Release(ctx context.Context, c store.Claim, after time.Duration) error

	Commit(ctx context.Context, c store.Claim, step store.Step) (store.Committed, error)
	Load(ctx context.Context, tenant string, id uuid.UUID, after int64, most int) ([]journal.Entry, error)
	Decide(ctx context.Context, d store.Decision) (store.Approval, error)
	Approval(ctx context.Context, tenant string, id uuid.UUID) (store.Approval, error)
	Pending(ctx context.Context, tenant string, after uuid.UUID, most int) ([]store.Approval, error)
	ExpireApprovals(ctx context.Context, most int) (int, error)

	AppendOutput(ctx context.Context, c store.Claim, list []store.Chunk) error
	OutputEnds(ctx context.Context, exec uuid.UUID) (store.Ends, error)
	ReadOutput(ctx context.Context, tenant string, exec uuid.UUID, stream store.Stream, from int64, most int) ([]store.Chunk, error)
	Exec(ctx context.Context, tenant string, id uuid.UUID) (store.ExecRow, error)
	DropOutput(ctx context.Context, age time.Duration, most int) (int, error)

	AskCall(ctx context.Context, a store.Ask) (store.Callback, error)
	Callback(ctx context.Context, session uuid.UUID, call string) (store.Callback, error)
	CallbackAnswer(ctx context.Context, session uuid.UUID, call string) (journalv1.ToolOutcome, store.Answer, error)
	CallbackTold(ctx context.Context, session uuid.UUID, call string) error
	Asked(ctx context.Context, c store.Claim, most int) ([]store.Callback, error)
	WakeWaiting(ctx context.Context, every time.Duration, most int) (int, error)

	Fork(ctx context.Context, tenant string, parent uuid.UUID, seq int64, id uuid.UUID) (store.Session, error)
	Index(ctx context.Context, most int) (int, error)
	Search(ctx context.Context, tenant, query string, most int) ([]store.Hit, error)
	Turn(ctx context.Context, chore string, every time.Duration) (bool, error)
	Retain(ctx context.Context, age time.Duration, most int) (int, error)
	Erase(ctx context.Context, tenant string, session uuid.UUID, seq int64, reason string) error
	Tidy(ctx context.Context) error
	PutBlob(ctx context.Context, tenant, mediaType string, data []byte) ([]byte, error)
	Blob(ctx context.Context, tenant string, sha []byte) ([]byte, error)

	PutMachine(ctx context.Context, m store.Machine, slots int) error
	Machine(ctx context.Context, id string) (store.Machine, error)
	ClaimFromPool(ctx context.Context, pool, tenant string) (store.Machine, error)
	Retire(ctx context.Context, id string) error
	UseMachine(ctx context.Context, id string) (store.Machine, error)
	TenantMachines(ctx context.Context, tenant string) ([]store.Machine, error)
	FreeSlots(ctx context.Context, id string) (int, error)
	RetiredAmong(ctx context.Context, ids []string) ([]string, error)
	BeginRest(ctx context.Context, id string, idle time.Duration) (bool, error)
	EndRest(ctx context.Context, id string) error
	RunningExecs(ctx context.Context, session uuid.UUID) ([]store.ExecRow, error)
	ExecSlot(ctx context.Context, exec uuid.UUID) (store.ExecSlot, error)
	IdleMachines(ctx context.Context, idle time.Duration, most int) ([]store.Machine, error)
	SlotOf(ctx context.Context, session uuid.UUID) (store.Held, bool, error)
	ReleaseSlot(ctx context.Context, c store.Claim) error
	ReleaseIdleSlots(ctx context.Context, idle time.Duration) (int, error)

	Notifier() *store.Notifier
}

// Database is where the stores of several replicas meet.
type Database interface {
	// Open is one more replica's store. It is closed at the end of the test.
	Open(t testing.TB, o store.Options) Store
	// Elapse makes the database believe that its clock has gone on by d: every point in time that it holds is that
	// much longer ago.
	Elapse(t testing.TB, d time.Duration)
}

// Run runs every case, each on a database that fresh has made.
func Run(t *testing.T, fresh func(t testing.TB) Database) {
	for _, group := range []struct {
		name  string
		cases []testCase
	}{
		{"admission", admissionCases},
		{"claims", claimCases},
		{"append", appendCases},
		{"effects", effectCases},
		{"approvals", approvalCases},
		{"parking", parkingCases},
		{"output", outputCases},
		{"lineage", lineageCases},
		{"search", searchCases},
		{"retention", retentionCases},
		{"machines", machineCases},
		{"callbacks", callbackCases},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, c := range group.cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					db := fresh(t)
					c.run(&world{T: t, db: db, Store: db.Open(t, c.options)})
				})
			}
		})
	}
}

type testCase struct {
	name    string
	options store.Options
	run     func(w *world)
}
