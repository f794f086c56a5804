package store

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// pair is a connection as the pool dials it, and its other end.
func pair(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ours, err = promptDial(new(net.Dialer).DialContext)(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if theirs, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
	return ours, theirs
}

// An answer arrives whenever it comes: at once, after the thread has given up waiting, after several looks at the context.
func TestExpectedAnswerArrivesWheneverItComes(t *testing.T) {
	for name, late := range map[string]time.Duration{"at once": 0, "after the thread": 20 * promptly, "after a look": heedEvery + 100*time.Millisecond} {
		for kind, thread := range map[string]bool{"thread": true, "poller": false} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				ours, theirs := pair(t)
				statement, over := expect(t.Context(), ours, time.Minute, thread)
				defer over()
				if statement.Done() != nil {
					t.Error("the statement's context can end, so pgx would watch it")
				}
				time.AfterFunc(late, func() { _, _ = theirs.Write([]byte("answer")) })
				got := make([]byte, len("answer"))
				if _, err := io.ReadFull(ours, got); err != nil || string(got) != "answer" {
					t.Errorf("read %q, %v", got, err)
				}
			})
		}
	}
}

// Nobody answers: the read ends when nobody wants it any more, or when its patience does, and does not say that nothing was
// carried out.
func TestExpectedAnswerIsNotAwaitedForEver(t *testing.T) {
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(ErrLapsed)
	for name, wait := range map[string]struct {
		ctx      context.Context
		patience time.Duration
	}{"context": {ended, time.Hour}, "patience": {t.Context(), time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, _ := pair(t)
			_, over := expect(wait.ctx, ours, wait.patience, true)
			defer over()
			_, err := ours.Read(make([]byte, 1))
			if diff := cmp.Diff([]bool{true, false, true}, []bool{os.IsTimeout(err), certain(err), passing(err)}); diff != "" {
				t.Errorf("%v: a timeout, certain, passing (-want +got):\n%s", err, diff)
			}
		})
	}
}

// What comes after the statement waits as all reads do: hints are waited for far longer than any statement.
func TestReadAfterTheStatementIsNotHurried(t *testing.T) {
	ours, theirs := pair(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, over := expect(ended, ours, 0, true)
	if _, err := ours.Read(make([]byte, 1)); !os.IsTimeout(err) {
		t.Fatalf("read: %v", err)
	}
	over()
	time.AfterFunc(heedEvery+100*time.Millisecond, func() { _, _ = theirs.Write([]byte("x")) })
	if n, err := ours.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("read %d, %v", n, err)
	}
}

// While one step is under way no other one's thread waits, whichever of them is over first.
func TestOnlyOneThreadWaits(t *testing.T) {
	w := newWriter(nil, nil, 2, nil)
	enter := func(want bool) *lane {
		t.Helper()
		l, sole, err := w.enter(new(pending))
		if err != nil || l == nil || sole != want {
			t.Fatalf("lane %v, sole %v, %v, want %v", l, sole, err, want)
		}
		return l
	}
	first, second := enter(true), enter(false)
	w.leave(t.Context(), first)
	third := enter(false)
	w.leave(t.Context(), second)
	w.leave(t.Context(), third)
	enter(true)
}

// Under TLS the expectation is the inner connection's.
func TestExpectationReachesUnderTLS(t *testing.T) {
	ours, _ := pair(t)
	statement, over := expect(t.Context(), tls.Client(ours, &tls.Config{ServerName: "localhost"}), time.Minute, true)
	defer over()
	if statement.Done() != nil || ours.(*promptConn).expects.Load() == nil {
		t.Error("the connection under TLS expects nothing")
	}
}
