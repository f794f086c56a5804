package killtest

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// readersStalled has eight readers that take one event and no more, four of them on the connection of
// the one that reads, while servers die under all of them.
func readersStalled(t *testing.T, sum *tally) {
	const stalled, lines = 8, 4_000_000
	m, book := start(t, machinetest.Options{}), newLedger()
	reader, other := m.Client(machinetest.ClientOptions{}), m.Client(machinetest.ClientOptions{})
	id := book.ask()
	ctx := limited(t, patient.Patience)
	rest, stop := context.WithCancel(ctx)
	defer stop()

	var all sync.WaitGroup
	var ready sync.WaitGroup
	failed := make(chan error, stalled+1)
	ready.Add(stalled)
	started := make(chan struct{})
	for i := range stalled {
		c := reader
		if i%2 == 0 {
			c = other
		}
		all.Go(func() {
			<-started
			failed <- stall(rest, m, c, id, sync.OnceFunc(ready.Done))
		})
	}
	k := newKiller(m)
	all.Go(func() {
		<-started
		ready.Wait()
		failed <- k.run(rest)
	})
	sink := &numberedSink{numbered: numbered{"\n"}}
	first := sync.OnceFunc(func() { close(started) })
	sink.seen = func(uint64) {
		first()
		// No byte more until all eight have their first event and stand.
		ready.Wait()
	}
	spec := script(id, `exec seq 10000000 "$1"`, strconv.Itoa(firstLine+lines-1))
	got, err := reader.Run(ctx, client.Command{ID: id, Spec: spec, Follow: patient}, sink)
	stop()
	all.Wait()
	close(failed)
	for e := range failed {
		err = errors.Join(err, e)
	}
	if err == nil {
		err = right(got, 0)
	}
	if err != nil || sink.end != sink.lines(lines) {
		t.Fatalf("%d bytes of %d: %v", sink.end, sink.lines(lines), err)
	}
	book.right(id, int64(sink.end))
	kills, _ := k.sum(0)
	sum.add(1, kills, book.exact(t, m.Data))
}

// stall opens a stream, takes one event and stands; when its server dies it does so at the next.
func stall(ctx context.Context, m *machine, c *client.Client, id string, stands func()) error {
	for ctx.Err() == nil {
		server := m.ServerPID()
		stream, cancel := context.WithCancel(ctx)
		events, err := c.RPC().Attach(stream, connect.NewRequest(&wirev1.AttachRequest{ExecId: id, Scope: machinetest.Scope, Follow: true}))
		if err == nil && events.Receive() {
			stands()
			_, _ = m.nextServer(ctx, server)
		} else if !unknown(err) {
			pause(ctx, whim()/4)
		}
		cancel()
		if err == nil {
			_ = events.Close()
		}
	}
	return nil
}
