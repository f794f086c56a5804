//go:build linux

package keeper

import (
	"errors"
	"fmt"
	"sync"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Remote is the keeper as a server sees it: the other end of the link.
type Remote struct {
	link  *link
	epoch string
	tree  wirev1.TreeKill

	mu      sync.Mutex
	seq     uint64
	waiting map[uint64]chan answer
	dead    error
	done    chan struct{}
}

type answer struct {
	m   *message
	fds []int
}

// Dial takes the server's end of a link, by its descriptor, and returns the keeper and all execs that
// live: their files and ends are the caller's. Notify is called for each that ends from then on, from
// one goroutine; it may be called before Dial returns. It must not block.
func Dial(fd int, notify func(Ended)) (*Remote, []Live, error) {
	r := &Remote{link: newLink(fd), waiting: map[uint64]chan answer{}, done: make(chan struct{})}
	if err := r.link.watch(); err != nil {
		return nil, nil, err
	}
	var lives []Live
	for {
		m, fds, err := r.link.read()
		if err != nil {
			return nil, nil, fmt.Errorf("greeting of the keeper: %w", err)
		}
		switch m.kind {
		case kindLive:
			if err := m.live.Files.adopt(fds); err != nil {
				return nil, nil, fmt.Errorf("greeting of the keeper: %w", err)
			}
			lives = append(lives, *m.live)
			continue
		case kindEpoch:
			r.epoch, r.tree = m.text, wirev1.TreeKill(m.signal)
			go r.listen(notify)
			return r, lives, nil
		case kindEnded:
			notify(*m.ended)
		}
		closeAll(fds)
	}
}

// Done closes when the keeper is gone. There is nothing left to do then but to end.
func (r *Remote) Done() <-chan struct{} { return r.done }

// Epoch names the keeper's life.
func (r *Remote) Epoch() string { return r.epoch }

// TreeKill says how whole trees are reached here.
func (r *Remote) TreeKill() wirev1.TreeKill { return r.tree }

// Serving tells the keeper that callers are answered.
func (r *Remote) Serving() error { return r.link.write(&message{kind: kindServing}, nil) }

func (r *Remote) listen(notify func(Ended)) {
	defer close(r.done)
	for {
		m, fds, err := r.link.read()
		if err != nil {
			r.fail(fmt.Errorf("the keeper is gone: %w", err))
			return
		}
		if m.kind == kindEnded {
			closeAll(fds)
			notify(*m.ended)
			continue
		}
		r.mu.Lock()
		to := r.waiting[m.seq]
		delete(r.waiting, m.seq)
		r.mu.Unlock()
		if to == nil {
			closeAll(fds)
			continue
		}
		to <- answer{m, fds}
	}
}

func (r *Remote) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead = err
	for seq, to := range r.waiting {
		close(to)
		delete(r.waiting, seq)
	}
}

// ask sends a question and waits for its answer; the keeper answers at once or is gone.
func (r *Remote) ask(m *message, want kind) (*message, []int, error) {
	to := make(chan answer, 1)
	r.mu.Lock()
	if r.dead != nil {
		defer r.mu.Unlock()
		return nil, nil, r.dead
	}
	r.seq++
	m.seq = r.seq
	r.waiting[m.seq] = to
	r.mu.Unlock()
	if err := r.link.write(m, nil); err != nil {
		r.mu.Lock()
		delete(r.waiting, m.seq)
		r.mu.Unlock()
		return nil, nil, err
	}
	a, ok := <-to
	switch {
	case !ok:
		return nil, nil, errors.New("the keeper died before it answered")
	case a.m.kind != want:
		closeAll(a.fds)
		return nil, nil, errMessage
	case a.m.text != "":
		closeAll(a.fds)
		return nil, nil, errors.New(a.m.text)
	}
	return a.m, a.fds, nil
}

// Start asks for the start of an exec.
func (r *Remote) Start(o Order) (Receipt, error) {
	m, fds, err := r.ask(&message{kind: kindStart, order: &o}, kindStarted)
	if err != nil {
		return Receipt{}, err
	}
	if err := m.receipt.Files.adopt(fds); err != nil {
		return Receipt{}, fmt.Errorf("files of a started exec: %w", err)
	}
	return *m.receipt, nil
}

// Signal asks for a signal.
func (r *Remote) Signal(s Shot) (Hit, error) {
	m, fds, err := r.ask(&message{kind: kindSignal, shot: &s}, kindHit)
	if err != nil {
		return Hit{}, err
	}
	closeAll(fds)
	return *m.hit, nil
}

// CloseStdin asks the keeper to give its copies of a stdin up.
func (r *Remote) CloseStdin(id string) error { return r.tell(&message{kind: kindCloseStdin, id: id}) }

// Release has the keeper give an exec up. There is nothing to answer: what is asked later is done later.
func (r *Remote) Release(id string) error {
	return r.link.write(&message{kind: kindRelease, id: id}, nil)
}

// Sweep asks for a signal to every process that is left.
func (r *Remote) Sweep(signal int) error {
	return r.tell(&message{kind: kindSweep, signal: int64(signal)})
}

func (r *Remote) tell(m *message) error {
	_, fds, err := r.ask(m, kindDone)
	closeAll(fds)
	return err
}
