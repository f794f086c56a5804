//go:build linux

package server

import (
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/crashpoint"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/keeper"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/pump"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

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
		r.begin(e)
		close(e.ready)
	}
	if len(lives) > 0 {
		r.log.Info("execs taken over", "count", len(r.live))
	}
}

func (r *registry) revive(l keeper.Live) (*exec, error) {
	st, err := r.spool.State(l.ID)
	if err != nil {
		return nil, err
	}
	request, err := st.Request()
	if err != nil {
		return nil, err
	}
	e := newExec(l.ID, request.GetScope(), request.GetDigest(), r.spool)
	e.place(r.spool, st)
	e.spec, e.forgotten = request.GetSpec(), st.Forgotten
	for _, s := range e.streams() {
		size, err := r.spool.Size(l.ID, s.name)
		if err != nil {
			return nil, err
		}
		s.end.Store(size)
	}
	// The server before may have told the end already: it stays as it was told.
	if e.exit, err = st.Exit(); err != nil {
		return nil, err
	}
	e.started = &wirev1.Started{
		Pid: int64(l.PID), StartedAtMs: l.StartedAt, Epoch: r.keeper.Epoch(), Volatile: r.spool.IsAside(l.ID),
	}
	e.files = l.Files
	if l.Ended != nil {
		e.ended <- *l.Ended
	}
	r.count(e)
	return e, nil
}

// count brings the vault up to what the exec takes on the disk.
func (r *registry) count(e *exec) {
	now := int64(r.spool.Stored(e.id))
	r.vault.stored(now - e.counted.Swap(now))
}

// begin starts an exec's life in this server.
func (r *registry) begin(e *exec) {
	if e.files.Stdin != nil {
		e.stdin = newStdin(e, r.keeper, r.log)
	}
	if spec := e.spec; spec.GetWallTimeoutMs() > 0 || spec.GetUnattendedTimeoutMs() > 0 {
		e.limits = newLimits(e, r.keeper, r.spool, r.log)
	}
	r.wg.Go(func() { r.life(e) })
}

// life is an exec from its start to the last byte of its last pipe: pump both streams, wait for the end
// of the process, let the output settle, put the end on record, and only then tell of it. Whoever
// holds a pipe longer is pumped on: its bytes lie beyond the ends that Exit names.
func (r *registry) life(e *exec) {
	var pumps, helpers sync.WaitGroup
	over := make(chan struct{})
	r.pump(&pumps, e, e.out, e.files.Stdout)
	r.pump(&pumps, e, e.err, e.files.Stderr)
	if e.stdin != nil {
		helpers.Go(func() { e.stdin.run(over) })
	}
	if e.limits != nil {
		helpers.Go(func() { e.limits.run(over) })
	}
	ended := <-e.ended
	close(over)
	helpers.Wait()
	if exit, _ := e.end(); exit == nil {
		exit = e.exitOf(ended, e.settle())
		if e.spec.GetSyncOnExit() {
			r.sync(e)
		}
		r.record(e, exit)
		if e.spec.GetSyncOnExit() {
			r.sync(e)
		}
		crashpoint.At(crashpoint.ExitRecord)
		e.finish(exit)
		r.door.leave()
	}
	pumps.Wait()
	e.files.Close()
	if err := r.keeper.Release(e.id); err != nil {
		r.log.Error("exec is not released", "exec", e.id, "error", err)
	}
	r.count(e)
	r.remove(e)
	if e.unwanted() {
		r.collect(e.id)
	}
}

// unwanted says whether nobody will ask for the output any more.
func (e *exec) unwanted() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.forgotten
}

// sync puts an exec's files and their names on the disk, for callers that act on the result after a loss
// of the machine.
func (r *registry) sync(e *exec) {
	for _, name := range []string{"out", "err", "state", ".", ".."} {
		f, err := os.Open(filepath.Join(r.spool.Dir(e.id), name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = f.Sync()
			f.Close()
		}
		if err != nil {
			r.log.Error("exec is not synced", "exec", e.id, "error", err)
		}
	}
}

// Caps of one stream, in bytes.
const (
	defaultCap = 64 << 20
	maxCap     = 4 << 30
	// asideCap bounds what an exec may write that is kept beside the volume.
	asideCap = 1 << 20
)

func (r *registry) pump(pumps *sync.WaitGroup, e *exec, s *stream, pipe *os.File) {
	if pipe == nil {
		e.shut(s)
		return
	}
	p, err := pump.New(pump.Options{
		Pipe: pipe, Path: s.path, Fresh: e.fresh, Book: s.book, Cap: e.capOf(s), Policy: e.spec.GetCapPolicy(),
		Room:   func() wirev1.GapReason { return r.vault.room(e.id) },
		Stored: func(delta int64) { e.counted.Add(delta); r.vault.stored(delta) },
		Grown:  e.grow(s), Hurry: r.rush.hurry, Full: func() { go r.terminate(e, wirev1.ExitCause_EXIT_CAUSE_CAP) },
	})
	if err != nil {
		r.log.Error("output cannot be stored", "exec", e.id, "stream", s.name, "error", err)
		pipe.Close()
		e.shut(s)
		return
	}
	s.pump = p
	if e.unwanted() {
		p.Discard()
	}
	if e.files.Terminal != nil {
		s.feed = pump.NewConduit(e.files.Terminal, e.files.Feed)
		pumps.Go(func() {
			if err := s.feed.Run(); err != nil {
				r.log.Error("terminal is not read", "exec", e.id, "error", err)
			}
			p.Finish()
		})
	}
	pumps.Go(func() {
		if err := p.Run(); err != nil {
			r.log.Error("output is not stored", "exec", e.id, "stream", s.name, "error", err)
		}
		e.shut(s)
	})
}

func (e *exec) capOf(s *stream) uint64 {
	asked := e.spec.GetStdoutCapBytes()
	if s == e.err {
		asked = e.spec.GetStderrCapBytes()
	}
	if asked == 0 {
		asked = defaultCap
	}
	if e.started.GetVolatile() {
		return min(asked, asideCap)
	}
	return min(asked, maxCap)
}

// terminate ends an exec for a cause of the machine's: TERM to its whole tree, and KILL after the grace.
func (r *registry) terminate(e *exec, cause wirev1.ExitCause) { terminate(e, r.keeper, cause, r.log) }
