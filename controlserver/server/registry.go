package server

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/crashpoint"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/keeper"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/pump"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// registry holds the live execs: those with a process, or with a pipe that is still open. All others
// are read from the spool when somebody asks.
type registry struct {
	spool  *spool.Spool
	keeper keeper.Keeper
	door   *door
	log    *slog.Logger

	mu   sync.Mutex
	live map[string]*exec
	wg   sync.WaitGroup // lives
}

func newRegistry(sp *spool.Spool, d *door, log *slog.Logger) *registry {
	return &registry{spool: sp, door: d, log: log, live: map[string]*exec{}}
}

// find returns an exec that is live or in the spool; spool.ErrUnknown when it is neither.
func (r *registry) find(id string) (*exec, error) {
	r.mu.Lock()
	e := r.live[id]
	r.mu.Unlock()
	if e == nil {
		return r.stored(id)
	}
	<-e.ready
	if e.startErr != nil {
		return nil, spool.ErrUnknown
	}
	return e, nil
}

func (r *registry) stored(id string) (*exec, error) {
	e, err := load(r.spool, id, r.keeper.Epoch())
	if err != nil && !errors.Is(err, spool.ErrUnknown) {
		return nil, fmt.Errorf("exec %s cannot be read from the spool: %w", id, err)
	}
	return e, err
}

// claim takes the place of a new exec. Whoever gets true must call start or abandon; others get the exec
// that has the place, once its start has an outcome.
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
	if err := r.door.enter(); err != nil {
		r.abandon(e, err)
		return nil, err
	}
	e.configure(spec)
	crashpoint.At(crashpoint.BeforeOrder)
	receipt, err := r.keeper.Start(order)
	switch {
	case err != nil:
		err = fmt.Errorf("start: %w", err)
		r.abandon(e, err)
	case receipt.Existed:
		// Another life of the server made it, or died making it.
		if e, err = r.replaced(e); err != nil {
			return nil, err
		}
	case receipt.Failure != nil:
		r.failed(e, receipt)
	default:
		e.started = &wirev1.Started{Pid: int64(receipt.PID), StartedAtMs: receipt.StartedAt, Epoch: r.keeper.Epoch()}
		e.files = receipt.Files
		r.wg.Go(func() { r.life(e) })
		close(e.ready)
		return e, nil
	}
	r.door.leave()
	return e, err
}

// replaced finds the exec that had the id before the claim.
func (r *registry) replaced(claimed *exec) (*exec, error) {
	defer r.door.leave()
	e, err := r.stored(claimed.id)
	if errors.Is(err, spool.ErrUnknown) {
		err = fmt.Errorf("a start of exec %s was cut short before it was recorded: it will never run", claimed.id)
	}
	r.abandon(claimed, err)
	return e, err
}

func (r *registry) failed(e *exec, receipt keeper.Receipt) {
	exit := exitOfFailure(*receipt.Failure, receipt.StartedAt)
	r.record(e, exit)
	e.finish(exit)
	e.out.closed.Store(true)
	e.err.closed.Store(true)
	r.remove(e)
	close(e.ready)
}

func (r *registry) record(e *exec, exit *wirev1.Exit) {
	if err := r.spool.WriteExit(e.id, exit); err != nil {
		r.log.Error("exit is not on record", "exec", e.id, "error", err)
	}
}

// adopt takes over the execs that lived when this server was born, before it answers anybody.
func (r *registry) adopt(lives []keeper.Live) {
	for _, l := range lives {
		e, err := r.revive(l)
		if err != nil {
			r.log.Error("a living exec cannot be taken over", "exec", l.ID, "error", err)
			l.Files.Close()
			continue
		}
		r.live[e.id] = e
		if e.exit == nil {
			r.door.readmit()
		}
		r.wg.Go(func() { r.life(e) })
	}
	r.log.Info("execs taken over", "count", len(r.live))
}

func (r *registry) revive(l keeper.Live) (*exec, error) {
	request, err := r.spool.Spec(l.ID)
	if err != nil {
		return nil, err
	}
	e := newExec(l.ID, request.GetScope(), request.GetDigest(), r.spool)
	e.configure(request.GetSpec())
	for _, s := range []*stream{e.out, e.err} {
		size, err := r.spool.Size(l.ID, filepath.Base(s.path))
		if err != nil {
			return nil, err
		}
		s.end.Store(size)
	}
	// The server before may have told the end already: it stays as it was told.
	if e.exit, err = r.spool.Exit(l.ID); err != nil {
		return nil, err
	}
	e.started = &wirev1.Started{Pid: int64(l.PID), StartedAtMs: l.StartedAt, Epoch: r.keeper.Epoch()}
	e.files = l.Files
	if l.Ended != nil {
		e.ended <- *l.Ended
	}
	close(e.ready)
	return e, nil
}

// life is an exec from its start to the last byte of its last pipe: pump both streams, wait for the end
// of the process, let the output settle, put the end on record, and only then tell of it. Whoever
// holds a pipe longer is pumped on: its bytes lie beyond the ends that Exit names.
func (r *registry) life(e *exec) {
	var pumps sync.WaitGroup
	r.pump(&pumps, e, e.out, e.files.Stdout)
	r.pump(&pumps, e, e.err, e.files.Stderr)
	ended := <-e.ended
	if exit, _ := e.end(); exit == nil {
		exit = e.exitOf(ended, e.settle())
		r.record(e, exit)
		crashpoint.At(crashpoint.ExitRecord)
		e.finish(exit)
		r.door.leave()
	}
	pumps.Wait()
	if err := r.keeper.Release(e.id); err != nil {
		r.log.Error("exec is not released", "exec", e.id, "error", err)
	}
	r.remove(e)
}

func (r *registry) pump(pumps *sync.WaitGroup, e *exec, s *stream, pipe *os.File) {
	if pipe == nil {
		e.shut(s)
		return
	}
	p, err := pump.New(pipe, s.path, e.grow(s))
	if err != nil {
		r.log.Error("output cannot be stored", "exec", e.id, "stream", s.kind.String(), "error", err)
		pipe.Close()
		e.shut(s)
		return
	}
	s.pump = p
	pumps.Go(func() {
		if err := p.Run(); err != nil {
			r.log.Error("output is not stored", "exec", e.id, "stream", s.kind.String(), "error", err)
		}
		e.shut(s)
	})
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
		if exit, _ := e.end(); exit == nil {
			all = append(all, e)
		}
	}
	return all
}
