//go:build linux

package server

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// The tests below run this server's connection and streams, and the real client, in a bubble whose clock
// jumps: what takes minutes or hours is over at once, and exact.

// cloudflare/sandbox-sdk#911, sandbox0-ai/sandbox0#263, diggerhq/opencomputer#382, hashicorp/nomad#8727:
// a command that printed nothing for 100 to 310 s lost its stream, and was taken for ended.
func TestMinutesOfSilenceEndNoStream(t *testing.T) {
	l := newLab(t)
	synctest.Test(t, func(t *testing.T) {
		l.open(t)
		defer l.close()
		time.AfterFunc(310*time.Second, func() {
			l.print(t, "ok\n")
			l.exec.finish(&wirev1.Exit{StdoutEnd: 3})
		})
		begin := time.Now()
		got, text, err := l.run(t)
		if err != nil || text != "ok\n" || got.Exit == nil || time.Since(begin) != 310*time.Second {
			t.Fatalf("after %s: %q, %v, %v", time.Since(begin), text, got.Exit, err)
		}
		if starts, attachs := l.streams(); got.Reattached != 0 || starts != 1 || attachs != 0 || len(l.links) != 1 {
			t.Fatalf("%d starts, %d attachments, %d connections", starts, attachs, len(l.links))
		}
	})
}

// modal-labs/modal-client#4121, opensandbox-group/OpenSandbox#1306: a NAT forgot a connection after a
// minute without a packet, and the next call waited for minutes.
func TestIdleConnectionOutlivesANATsMemory(t *testing.T) {
	l := newLab(t)
	synctest.Test(t, func(t *testing.T) {
		l.memory = time.Minute
		l.open(t)
		defer l.close()
		for range 3 {
			begin := time.Now()
			if _, err := l.client.Hello(t.Context()); err != nil || time.Since(begin) != 0 || len(l.links) != 1 {
				t.Fatalf("after %s on connection %d: %v", time.Since(begin), len(l.links), err)
			}
			time.Sleep(90 * time.Second)
		}
	})
}

// The same reports: a connection cut without a word is noticed by both ends' pings, and the client goes on
// on a new one where it stood.
func TestConnectionCutWithoutAWordIsNoticedByBothEnds(t *testing.T) {
	l := newLab(t)
	synctest.Test(t, func(t *testing.T) {
		l.open(t)
		defer l.close()
		const noticed = 25 * time.Second // a ping after 15 s, 10 s for its answer
		time.AfterFunc(time.Second, func() { l.print(t, "before\n") })
		// In the middle between two beats.
		time.AfterFunc(7*time.Second, func() { l.links[0].cut() })
		time.AfterFunc(8*time.Second, func() { l.print(t, "meanwhile\n") })
		time.AfterFunc(8*time.Second+noticed, func() {
			if n := l.exec.attached.Load(); n != 1 || len(l.links) != 2 {
				t.Errorf("%d streams on %d connections: an end has not noticed", n, len(l.links))
			}
			l.exec.finish(&wirev1.Exit{StdoutEnd: 17})
		})
		got, text, err := l.run(t)
		if err != nil || got.Exit == nil || text != "before\nmeanwhile\n" || got.Reattached != 1 {
			t.Fatalf("%q, %v, attached again %d times, %v", text, got.Exit, got.Reattached, err)
		}
		if starts, attachs := l.streams(); starts != 1 || attachs != 1 || l.from[0].GetStdout() != 7 {
			t.Fatalf("%d starts, %d attachments, the first from %v", starts, attachs, l.from)
		}
	})
}

// modal-labs/modal-client#4128, langchain-ai/langsmith-sdk#3301: the retries of hours were counted together,
// and a re-attachment that brought no output did not count as success.
func TestTwentyOutagesInThreeHoursEndNothing(t *testing.T) {
	l := newLab(t)
	synctest.Test(t, func(t *testing.T) {
		l.open(t)
		defer l.close()
		const outages, every = 20, 9 * time.Minute
		want := ""
		for i := range outages {
			time.AfterFunc(time.Duration(i+1)*every, func() {
				l.down(30 * time.Second) // noticed after 10 to 25 s, then dialled in vain
				if i%2 == 0 {
					l.print(t, "line\n")
				}
			})
			if i%2 == 0 {
				want += "line\n"
			}
		}
		time.AfterFunc((outages+1)*every, func() { l.exec.finish(&wirev1.Exit{StdoutEnd: uint64(len(want))}) })
		got, text, err := l.run(t)
		if err != nil || got.Exit == nil || text != want || got.Reattached < outages {
			t.Fatalf("%q, %v, attached again %d times, %v", text, got.Exit, got.Reattached, err)
		}
	})
}

// e2b-dev/infra#3292, e2b-dev/infra#3362: a subscriber that took nothing more was waited for until the
// kernel gave up on it, after a quarter of an hour.
func TestPeerThatTakesNothingIsCut(t *testing.T) {
	l := newLab(t)
	synctest.Test(t, func(t *testing.T) {
		l.open(t)
		defer l.close()
		ctx, cancel := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() { _, _ = l.client.Run(ctx, l.command(), client.Writers(nil, nil)) })
		synctest.Wait()
		l.links[0].deafen()
		l.print(t, "something\n")
		time.Sleep(40 * time.Second)
		// The client has come back on a new connection, and the machine knows that the old one is dead.
		if n := l.exec.attached.Load(); n != 1 || len(l.links) != 2 {
			t.Errorf("%d streams on %d connections", n, len(l.links))
		}
		cancel()
		ended.Wait()
	})
}

// e2b-dev/E2B#1590: a stream that its client had left lived on in the machine. It ends at once, not when the
// next beat finds nobody.
func TestAbandonedStreamEndsAtOnce(t *testing.T) {
	l := newLab(t)
	synctest.Test(t, func(t *testing.T) {
		l.open(t)
		defer l.close()
		ctx, leave := context.WithCancel(t.Context())
		var left sync.WaitGroup
		left.Go(func() { _, _ = l.client.Run(ctx, l.command(), client.Writers(nil, nil)) })
		synctest.Wait()
		if n := l.exec.attached.Load(); n != 1 {
			t.Fatalf("%d streams are attached", n)
		}
		begin := time.Now()
		leave()
		left.Wait()
		synctest.Wait()
		if n := l.exec.attached.Load(); n != 0 || time.Since(begin) != 0 {
			t.Fatalf("after %s %d streams are attached", time.Since(begin), n)
		}
		if _, err := l.client.Hello(t.Context()); err != nil || len(l.links) != 1 {
			t.Fatalf("%v, %d connections", err, len(l.links))
		}
	})
}
