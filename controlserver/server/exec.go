//go:build linux

package server

import (
	"bytes"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/keeper"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/pump"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// exec is one command, live or read back. Its fields above mu never change once ready is closed.
type exec struct {
	id, scope string
	digest    []byte
	spec      *wirev1.ExecSpec // as recorded; nil for what was collected
	started   *wirev1.Started  // nil when no process was made
	files     keeper.Files
	stdin     *stdin            // nil without a piped stdin
	limits    *limits           // nil without time limits
	fresh     bool              // started by this very server: no output is stored before its pumps begin
	ready     chan struct{}     // closed when the start has an outcome
	startErr  error             // the outcome, when it left no trace on the disk
	ended     chan keeper.Ended // one value, from the keeper

	out, err *stream
	bell     bell // rings on every growth and on the end
	attached atomic.Int32
	counted  atomic.Int64 // bytes that the vault knows of

	mu        sync.Mutex
	exit      *wirev1.Exit
	lost      *wirev1.Lost
	forbidden bool
	forgotten bool
}

// stream is one output of an exec: a spool file, how far it reaches, and what of it is not stored.
type stream struct {
	kind   wirev1.Stream
	name   string // of the file
	path   string
	book   *spool.Book
	end    atomic.Uint64
	closed atomic.Bool // no more bytes can come
	pump   *pump.Pump  // nil when the stream has no pipe
	feed   *pump.Conduit
}

func newExec(id, scope string, digest []byte, sp *spool.Spool) *exec {
	e := &exec{
		id: id, scope: scope, digest: digest, ready: make(chan struct{}), ended: make(chan keeper.Ended, 1),
		out: &stream{kind: wirev1.Stream_STREAM_STDOUT, name: "out"},
		err: &stream{kind: wirev1.Stream_STREAM_STDERR, name: "err"},
	}
	e.place(sp, spool.State{})
	return e
}

// place finds an exec's files, once it is known on which disk they are.
func (e *exec) place(sp *spool.Spool, st spool.State) {
	dir := sp.Dir(e.id)
	for _, s := range e.streams() {
		s.path = filepath.Join(dir, s.name)
		s.book = spool.NewBook(sp, e.id, s.name, st)
	}
}

func (e *exec) streams() [2]*stream { return [2]*stream{e.out, e.err} }

// same says whether a request asks for this very exec.
func (e *exec) same(scope string, digest []byte) bool {
	return e.scope == scope && bytes.Equal(e.digest, digest)
}

// end is how the exec ended; both nil while it runs.
func (e *exec) end() (*wirev1.Exit, *wirev1.Lost) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.exit, e.lost
}

func (e *exec) finish(exit *wirev1.Exit) {
	e.mu.Lock()
	e.exit = exit
	e.mu.Unlock()
	e.bell.ring()
}

func (e *exec) state() wirev1.ExecState {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.forbidden:
		return wirev1.ExecState_EXEC_STATE_FORBIDDEN
	case e.exit != nil:
		return wirev1.ExecState_EXEC_STATE_EXITED
	case e.lost != nil:
		return wirev1.ExecState_EXEC_STATE_LOST
	}
	return wirev1.ExecState_EXEC_STATE_RUNNING
}

// running says whether the exec has a process, as far as it was told.
func (e *exec) running() bool { return e.state() == wirev1.ExecState_EXEC_STATE_RUNNING }

// grow is told by a pump how far a stream reaches.
func (e *exec) grow(s *stream) func(uint64) {
	return func(end uint64) {
		s.end.Store(end)
		e.bell.ring()
	}
}

// shut marks a stream that gets no more bytes.
func (e *exec) shut(s *stream) {
	s.closed.Store(true)
	e.bell.ring()
}

// defaultDrain is how long a pipe that outlives its leader is waited for, when the spec says nothing.
const defaultDrain = 100 * time.Millisecond

func (e *exec) drain() time.Duration {
	if ms := e.spec.GetDrainMs(); ms > 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return defaultDrain
}

// settle waits until all that the ended process wrote is in the spool: both pipes at their end, or
// empty and silent for the drain time while somebody else still holds one. It says whether somebody
// does. Silence alone would not do, because under load the pump may be late; nor would emptiness,
// because whoever holds the pipe may never stop writing: after ten drain times a stream has settled
// once it was empty for a moment, or has moved all that its pipes could hold.
func (e *exec) settle() (orphans bool) {
	drain := e.drain()
	quiet, limit := time.NewTimer(drain), time.NewTimer(10*drain)
	defer quiet.Stop()
	defer limit.Stop()
	streams := []*settling{{stream: e.out, from: e.out.end.Load()}, {stream: e.err, from: e.err.end.Load()}}
	for over := false; ; {
		again := e.bell.C()
		if e.out.closed.Load() && e.err.closed.Load() {
			return false
		}
		if over && streams[0].settled() && streams[1].settled() {
			return true
		}
		select {
		case <-again:
			quiet.Reset(drain)
		case <-limit.C:
			over = true
		case <-quiet.C:
			if !e.out.pending() && !e.err.pending() {
				return true
			}
			quiet.Reset(drain)
		}
	}
}

// settling is a stream whose writer has ended.
type settling struct {
	*stream
	from uint64 // its end when the writer ended
}

func (s *settling) settled() bool {
	return s.closed.Load() || s.end.Load()-s.from >= 2*pump.MostPiped || !s.pending()
}

func (s *stream) pending() bool {
	if s.pump == nil || s.closed.Load() {
		return false
	}
	return s.feed != nil && s.feed.Pending() || s.pump.Pending()
}

// exitOf makes the final record of a process that was reaped and whose output has settled.
func (e *exec) exitOf(ended keeper.Ended, orphans bool) *wirev1.Exit {
	return &wirev1.Exit{
		Code: int32(ended.Code), Signal: int32(ended.Signal), Cause: ended.Cause, CoreDumped: ended.Core,
		StdoutEnd: e.out.end.Load(), StderrEnd: e.err.end.Load(), Orphans: orphans,
		Rusage:    &wirev1.Rusage{UserUs: ended.UserUS, SystemUs: ended.SystemUS, MaxRssBytes: ended.MaxRSS},
		EndedAtMs: ended.At,
	}
}

// codes of start failures, as a shell would say them; 125 is env's and docker's for "not even tried".
var failureCodes = map[wirev1.StartFailure]int32{
	wirev1.StartFailure_START_FAILURE_NOT_FOUND:          127,
	wirev1.StartFailure_START_FAILURE_NOT_EXECUTABLE:     126,
	wirev1.StartFailure_START_FAILURE_ARGUMENTS_TOO_LONG: 126,
	wirev1.StartFailure_START_FAILURE_CWD:                125,
	wirev1.StartFailure_START_FAILURE_USER:               125,
	wirev1.StartFailure_START_FAILURE_RESOURCES:          125,
}

func exitOfFailure(f spool.Failure, at int64) *wirev1.Exit {
	code, ok := failureCodes[f.Step]
	if !ok {
		code = 125
	}
	return &wirev1.Exit{
		Code: code, Cause: wirev1.ExitCause_EXIT_CAUSE_START_FAILED, StartFailure: f.Step,
		Message: f.Text, EndedAtMs: at,
	}
}
