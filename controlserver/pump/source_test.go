//go:build linux

package pump

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// calmed is a calm source and its pipe's write end.
func calmed(t *testing.T) (*source, int) {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	s := newSource(os.NewFile(uintptr(fds[0]), "pipe"))
	t.Cleanup(s.close)
	if err := s.calm(); err != nil {
		t.Fatal(err)
	}
	return s, fds[1]
}

func put(t *testing.T, pipe int, text string) {
	if _, err := unix.Write(pipe, []byte(text)); err != nil {
		t.Error(err)
	}
}

// take reads what there is; false when there is nothing.
func take(n *int) func(int) bool {
	var buf [64]byte
	return func(fd int) bool {
		var err error
		*n, err = unix.Read(fd, buf[:])
		return !errors.Is(err, unix.EAGAIN)
	}
}

// TestCalmSourceMissesNoByte writes at every moment of a wait: before it, while it begins, and after.
func TestCalmSourceMissesNoByte(t *testing.T) {
	const rounds = 3000
	s, w := calmed(t)
	turn := make(chan struct{})
	go func() {
		for i := range rounds {
			<-turn
			for range i % 5 {
				runtime.Gosched() // so that the reader comes to its wait first, or does not
			}
			put(t, w, "a")
		}
		_ = unix.Close(w)
	}()
	for range rounds {
		turn <- struct{}{}
		got := 0
		if err := s.wait(take(&got)); err != nil || got != 1 {
			t.Fatalf("%d bytes, %v", got, err)
		}
	}
	got := -1
	if err := s.wait(take(&got)); err != nil || got != 0 {
		t.Fatalf("instead of the end %d bytes, %v", got, err)
	}
}

func TestNobodyIsWokenByWritesToACalmSourceThatIsNotWaitedFor(t *testing.T) {
	s, w := calmed(t)
	defer func() { _ = unix.Close(w) }()
	told := func() bool {
		raw, err := s.file.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		ready := false
		if err := raw.Control(func(fd uintptr) { ready, _ = readable(int(fd)) }); err != nil {
			t.Fatal(err)
		}
		return ready
	}
	done := make(chan error)
	got := 0
	waits := make(chan struct{}, 100)
	go func() {
		do := take(&got)
		done <- s.wait(func(fd int) bool { over := do(fd); waits <- struct{}{}; return over })
	}()
	<-waits // it found nothing, and waits
	put(t, w, "a")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	put(t, w, "b")
	if told() {
		t.Fatal("a write is told while nobody waits")
	}
	if err := s.wait(take(&got)); err != nil || got != 1 {
		t.Fatalf("%d bytes, %v", got, err)
	}
}

func TestInterruptEndsTheWaitOfACalmSource(t *testing.T) {
	s, w := calmed(t)
	defer func() { _ = unix.Close(w) }()
	begun := make(chan struct{}, 100)
	done := make(chan error)
	go func() {
		done <- s.wait(func(int) bool { begun <- struct{}{}; return false })
	}()
	<-begun
	s.interrupt()
	if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	if err := s.resume(); err != nil {
		t.Fatal(err)
	}
	put(t, w, "a")
	got := 0
	if err := s.wait(take(&got)); err != nil || got != 1 {
		t.Fatalf("%d bytes, %v", got, err)
	}
}
