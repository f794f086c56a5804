package slots

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
)

const (
	// listAge is how old a list may be for what the database confirms anyway.
	listAge = 10 * time.Second
	// listFailure is how long a failed list is not asked for again: sessions that wait come back every second or so.
	listFailure = 5 * time.Second
	listTime    = time.Minute
)

// directory is the organization's list of machines. Whoever asks while it is fetched waits for that fetch.
type directory struct {
	fetch func(context.Context) (flyapi.MachineList, error)

	mu      sync.Mutex
	last    listing
	flight  *flight
	closed  bool
	fetches sync.WaitGroup
	life    context.Context //nolint:containedctx // a fetch is shared: it lives under no single caller
	end     context.CancelFunc
}

// listing is what a fetch gave. began is when it was asked for: changes before that are in it.
type listing struct {
	flyapi.MachineList
	began, ended time.Time
	err          error
}

type flight struct {
	began time.Time
	done  chan struct{}
}

func newDirectory(fetch func(context.Context) (flyapi.MachineList, error)) *directory {
	d := &directory{fetch: fetch}
	d.life, d.end = context.WithCancel(context.Background())
	return d
}

func (d *directory) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.end()
	d.fetches.Wait()
}

// recent gives a list of the last seconds.
func (d *directory) recent(ctx context.Context) (flyapi.MachineList, error) {
	return d.since(ctx, time.Now().Add(-listAge))
}

// fresh gives a list that holds all that was there at the call.
func (d *directory) fresh(ctx context.Context) (flyapi.MachineList, error) {
	return d.since(ctx, time.Now())
}

// forget makes the next question ask anew: this process has changed what a list says.
func (d *directory) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = listing{}
}

// since gives a list that was asked for at or after a moment.
func (d *directory) since(ctx context.Context, moment time.Time) (flyapi.MachineList, error) {
	for {
		d.mu.Lock()
		last := d.last
		switch {
		case last.err != nil && time.Since(last.ended) < listFailure:
			d.mu.Unlock()
			return flyapi.MachineList{}, fmt.Errorf("the list of machines failed moments ago: %w", last.err)
		case last.err == nil && !last.began.IsZero() && !last.began.Before(moment):
			d.mu.Unlock()
			return last.MachineList, nil
		case d.closed:
			d.mu.Unlock()
			return flyapi.MachineList{}, context.Canceled
		}
		if d.flight == nil {
			d.depart() //nolint:contextcheck // shared by all who wait: it lives under the directory
		}
		done := d.flight.done
		d.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
			return flyapi.MachineList{}, context.Cause(ctx)
		}
	}
}

// depart begins a fetch, under the lock.
func (d *directory) depart() {
	f := &flight{began: time.Now(), done: make(chan struct{})}
	d.flight = f
	d.fetches.Go(func() {
		ctx, cancel := context.WithTimeout(d.life, listTime)
		defer cancel()
		list, err := d.fetch(ctx)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.last, d.flight = listing{MachineList: list, began: f.began, ended: time.Now(), err: err}, nil
		close(f.done)
	})
}
