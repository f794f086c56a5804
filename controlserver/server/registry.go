//go:build linux

package server

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/crashpoint"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/keeper"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// registry holds the live execs: those with a process, or with a pipe that is still open. All others
// are read from the spool when somebody asks.
type registry struct {
	spool  *spool.Spool
	graves *spool.Graveyard
	keeper keeper.Keeper
	door   *door
	vault  *vault
	rush   rush
	log    *slog.Logger

	mu   sync.Mutex
	live map[string]*exec
	wg   sync.WaitGroup // lives
}

func newRegistry(sp *spool.Spool, graves *spool.Graveyard, d *door, log *slog.Logger) *registry {
	return &registry{spool: sp, graves: graves, door: d, vault: &vault{spool: sp}, log: log, live: map[string]*exec{}}
}

// errMoved says that an id changed its place meanwhile: look again.
var errMoved = errors.New("exec moved")

// errCutShort says that a start was begun, and nothing of it is on record: no process came of it, and none
// ever will.
var errCutShort = errors.New("the start was cut short before it was recorded: it never runs")

// find returns an exec that is live or in the spool; spool.ErrUnknown when it is neither.
func (r *registry) find(id string) (*exec, error) {
	for {
		r.mu.Lock()
		e := r.live[id]
		r.mu.Unlock()
		if e == nil {
			e, err := r.stored(id)
			if err != nil && !errors.Is(err, spool.ErrUnknown) {
				return nil, fmt.Errorf("exec %s cannot be read from the spool: %w", id, err)
			}
			return e, err
		}
		<-e.ready
		switch {
		case errors.Is(e.startErr, errMoved):
		case e.startErr != nil:
			return nil, spool.ErrUnknown
		default:
			return e, nil
		}
	}
}

// claim takes the place of an id that does not live. Whoever gets true must call start, or abandon;
// others get the exec that has the place, once its start has an outcome.
func (r *registry) claim(id, scope string, digest []byte) (*exec, bool) {
	r.mu.Lock()
	e := r.live[id]
	if e == nil {
		e = newExec(id, scope, digest, r.spool)
		r.live[id] = e
		r.mu.Unlock()
		return e, true
	}
	r.mu.Unlock()
	<-e.ready
	return e, false
}

// abandon gives a place back that came to nothing.
func (r *registry) abandon(e *exec, err error) {
	r.remove(e)
	e.startErr = err
	close(e.ready)
}

func (r *registry) remove(e *exec) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.live, e.id)
}

// start gives a claimed exec to the keeper, through the door. It returns the exec to follow: the claimed
// one, or that of the spool when the id was taken there.
func (r *registry) start(e *exec, spec *wirev1.ExecSpec, order keeper.Order) (*exec, error) {
	// Between the look that found nothing and the claim, the id may have lived and been collected.
	if t, err := r.graves.Find(e.id); err != nil || t != nil {
		r.abandon(e, errMoved)
		return nil, errors.Join(err, errMoved)
	}
	if err := r.door.enter(); err != nil {
		r.abandon(e, err)
		return nil, err
	}
	e.spec = spec
	crashpoint.At(crashpoint.BeforeOrder)
	receipt, err := r.keeper.Start(order)
	switch {
	case err != nil:
		err = fmt.Errorf("start: %w", err)
		r.abandon(e, err)
	case receipt.Existed:
		// Another life of the server made it, or died making it.
		r.door.leave()
		return r.replaced(e)
	case receipt.Failure != nil:
		r.failed(e, receipt)
	default:
		e.started = &wirev1.Started{
			Pid: int64(receipt.PID), StartedAtMs: receipt.StartedAt, Epoch: r.keeper.Epoch(), Volatile: receipt.Volatile,
		}
		if receipt.Volatile {
			r.spool.NoteAside(e.id)
			e.place(r.spool, spool.State{})
		}
		e.files, e.fresh = receipt.Files, true
		r.begin(e)
		close(e.ready)
		return e, nil
	}
	r.door.leave()
	return e, err
}

// replaced finds the exec that had the id before the claim.
func (r *registry) replaced(claimed *exec) (*exec, error) {
	e, err := r.stored(claimed.id)
	if errors.Is(err, spool.ErrUnknown) {
		err = errCutShort
	}
	if err == nil {
		r.abandon(claimed, errMoved)
	} else {
		r.abandon(claimed, err)
	}
	return e, err
}

func (r *registry) failed(e *exec, receipt keeper.Receipt) {
	if receipt.Volatile {
		r.spool.NoteAside(e.id)
		e.place(r.spool, spool.State{})
	}
	exit := exitOfFailure(*receipt.Failure, receipt.StartedAt)
	r.record(e, exit)
	e.finish(exit)
	e.out.closed.Store(true)
	e.err.closed.Store(true)
	r.count(e)
	r.remove(e)
	close(e.ready)
}

func (r *registry) record(e *exec, exit *wirev1.Exit) {
	if err := r.spool.AppendExit(e.id, exit); err != nil {
		r.log.Error("exit is not on record", "exec", e.id, "error", err)
	}
}

// onEnded is the keeper's notice that an exec's process was reaped.
func (r *registry) onEnded(ended keeper.Ended) {
	r.mu.Lock()
	e := r.live[ended.ID]
	r.mu.Unlock()
	if e == nil {
		r.log.Error("a process ended that belongs to no exec", "exec", ended.ID)
		return
	}
	select {
	case e.ended <- ended:
	default:
		// Told twice: in the greeting and by itself.
	}
}

// running are the execs that have a process.
func (r *registry) running() []*exec {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*exec
	for _, e := range r.live {
		if e.running() {
			all = append(all, e)
		}
	}
	return all
}
