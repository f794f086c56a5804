package server

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/keeper"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/pump"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// exec is one command, live or read back from the spool. Its fields above mu never change once ready
// is closed.
type exec struct {
	id, scope string
	digest    []byte
	argv      [][]byte
	started   *wirev1.Started // nil when no process was made
	drain     time.Duration
	files     keeper.Files
	ready     chan struct{}     // closed when the start has an outcome
	startErr  error             // the outcome, when it left no trace on the disk
	ended     chan keeper.Ended // one value, from the keeper

	out, err *stream
	bell     bell // rings on every growth and on the end
	attached atomic.Int32

	mu   sync.Mutex
	exit *wirev1.Exit
	lost *wirev1.Lost
}

// stream is one output of an exec: a spool file and how far it reaches.
type stream struct {
	kind   wirev1.Stream
	path   string
	end    atomic.Uint64
	closed atomic.Bool // no more bytes can come
	pump   *pump.Pump  // nil when the stream has no pipe
}

func newExec(id, scope string, digest []byte, sp *spool.Spool) *exec {
	return &exec{
		id: id, scope: scope, digest: digest, ready: make(chan struct{}), ended: make(chan keeper.Ended, 1),
		out: &stream{kind: wirev1.Stream_STREAM_STDOUT, path: sp.File(id, "out")},
		err: &stream{kind: wirev1.Stream_STREAM_STDERR, path: sp.File(id, "err")},
	}
}

// defaultDrain is how long a pipe that outlives its leader is waited for, when the spec says nothing.
const defaultDrain = 100 * time.Millisecond

// configure takes what the exec's life needs from its spec.
func (e *exec) configure(spec *wirev1.ExecSpec) {
	e.argv, e.drain = spec.GetArgv(), defaultDrain
	if ms := spec.GetDrainMs(); ms > 0 {
		e.drain = time.Duration(ms) * time.Millisecond
	}
}

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
	exit, lost := e.end()
	switch {
	case exit != nil:
		return wirev1.ExecState_EXEC_STATE_EXITED
	case lost != nil:
		return wirev1.ExecState_EXEC_STATE_LOST
	}
	return wirev1.ExecState_EXEC_STATE_RUNNING
}

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

// settle waits until all that the ended process wrote is in the spool: both pipes at their end, or
// empty and silent for the drain time while somebody else still holds one. It says whether somebody
// does. Silence alone would not do, because under load the pump may be late; nor would emptiness,
// because whoever holds the pipe may never stop writing: after ten drain times a stream has settled
// once it was empty for a moment, or has moved all that its pipe could hold.
func (e *exec) settle() (orphans bool) {
	quiet, limit := time.NewTimer(e.drain), time.NewTimer(10*e.drain)
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
			quiet.Reset(e.drain)
		case <-limit.C:
			over = true
		case <-quiet.C:
			if !e.out.pending() && !e.err.pending() {
				return true
			}
			quiet.Reset(e.drain)
		}
	}
}

// settling is a stream whose writer has ended.
type settling struct {
	*stream
	from uint64 // its end when the writer ended
}

func (s *settling) settled() bool {
	return s.closed.Load() || s.end.Load()-s.from >= pump.MostPiped || !s.pending()
}

func (s *stream) pending() bool { return s.pump != nil && !s.closed.Load() && s.pump.Pending() }

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

// load reads an exec that does not live in this server back from the spool. spool.ErrUnknown when it is
// not there.
func load(sp *spool.Spool, id, epoch string) (*exec, error) {
	request, err := sp.Spec(id)
	if err != nil {
		return nil, err
	}
	st, err := sp.State(id)
	if err != nil {
		return nil, err
	}
	e := newExec(id, request.GetScope(), request.GetDigest(), sp)
	close(e.ready)
	e.argv = request.GetSpec().GetArgv()
	for _, s := range []struct {
		to   *stream
		name string
	}{{e.out, "out"}, {e.err, "err"}} {
		size, err := sp.Size(id, s.name)
		if err != nil {
			return nil, err
		}
		s.to.end.Store(size)
		s.to.closed.Store(true)
	}
	if st.PID != 0 {
		e.started = &wirev1.Started{Pid: st.PID, StartedAtMs: st.StartedAt, AlreadyStarted: true, Epoch: st.Epoch}
	}
	if e.exit, err = sp.Exit(id); err != nil {
		return nil, err
	}
	switch {
	case e.exit != nil:
	case st.Failure != nil:
		e.exit = exitOfFailure(*st.Failure, st.StartedAt)
	default:
		reason := wirev1.LostReason_LOST_REASON_MACHINE_RESTARTED
		if request.GetIfEpoch() == epoch {
			reason = wirev1.LostReason_LOST_REASON_KEEPER_DIED
		}
		e.lost = &wirev1.Lost{Reason: reason, StdoutEnd: e.out.end.Load(), StderrEnd: e.err.end.Load()}
	}
	return e, nil
}
