//go:build linux

package server

import (
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// load reads an exec that does not live in this server back from the spool. spool.ErrUnknown when it is
// not there.
func load(sp *spool.Spool, id, epoch string) (*exec, error) {
	st, err := sp.State(id)
	if err != nil {
		return nil, err
	}
	if st.Forbidden {
		e := newExec(id, st.Scope, nil, sp)
		e.forbidden = true
		return e.settled(), nil
	}
	request, err := st.Request()
	if err != nil {
		return nil, err
	}
	e := newExec(id, request.GetScope(), request.GetDigest(), sp)
	e.place(sp, st)
	e.spec = request.GetSpec()
	for _, s := range e.streams() {
		size, err := sp.Size(id, s.name)
		if err != nil {
			return nil, err
		}
		s.end.Store(size)
	}
	if st.PID != 0 {
		e.started = &wirev1.Started{
			Pid: st.PID, StartedAtMs: st.StartedAt, AlreadyStarted: true, Epoch: st.Epoch, Volatile: sp.IsAside(id),
		}
	}
	if e.exit, err = st.Exit(); err != nil {
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
	e.forgotten = st.Forgotten
	return e.settled(), nil
}

// settled closes what never changes again.
func (e *exec) settled() *exec {
	e.out.closed.Store(true)
	e.err.closed.Store(true)
	close(e.ready)
	return e
}

// entombed is an exec of which only the end is left.
func entombed(sp *spool.Spool, t *spool.Tomb) *exec {
	e := newExec(t.ID, t.Scope, t.Digest, sp)
	e.forbidden, e.exit, e.lost, e.forgotten = t.Forbidden, t.Exit, t.Lost, true
	e.out.book, e.err.book = spool.Collected(), spool.Collected()
	e.out.end.Store(max(t.Exit.GetStdoutEnd(), t.Lost.GetStdoutEnd()))
	e.err.end.Store(max(t.Exit.GetStderrEnd(), t.Lost.GetStderrEnd()))
	return e.settled()
}

// tomb is what an exec that has ended leaves.
func (e *exec) tomb() spool.Tomb {
	exit, lost := e.end()
	return spool.Tomb{ID: e.id, Scope: e.scope, Digest: e.digest, Exit: exit, Lost: lost, Forbidden: e.forbidden}
}

// stored finds an exec on the disk: its tomb, or its files. What is buried counts as gone, though a
// crash may have left some of its files.
func (r *registry) stored(id string) (*exec, error) {
	t, err := r.graves.Find(id)
	if err != nil {
		return nil, err
	}
	if t != nil {
		return entombed(r.spool, t), nil
	}
	return load(r.spool, id, r.keeper.Epoch())
}
