package sandboxtest

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// recorder stands in for a test: what fails on it is noted, and fails nothing.
type recorder struct {
	testing.TB // for what is not overridden

	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	failed   bool
	said     []string
	cleanups []func()
}

// Judge runs a case on a harness and says whether it failed and what it said; nothing of that fails t. It is for who holds
// the suite to see a backend that is broken on purpose.
func Judge(t testing.TB, h Harness, c Case) (failed bool, said string) {
	t.Helper()
	r := &recorder{TB: t}
	r.ctx, r.cancel = context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer r.finish()
		h.RunCase(r, c)
	}()
	<-done
	return r.Failed(), r.words()
}

// finish is what a test does at its end: its context first, then the last of the cleanups.
func (r *recorder) finish() {
	r.cancel()
	for {
		r.mu.Lock()
		if len(r.cleanups) == 0 {
			r.mu.Unlock()
			return
		}
		last := r.cleanups[len(r.cleanups)-1]
		r.cleanups = r.cleanups[:len(r.cleanups)-1]
		r.mu.Unlock()
		// A cleanup that fails for good ends its goroutine, not the others.
		done := make(chan struct{})
		go func() {
			defer close(done)
			last()
		}()
		<-done
	}
}

func (r *recorder) note(fails bool, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || fails
	r.said = append(r.said, text)
}

func (r *recorder) words() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(slices.Clone(r.said), "; ")
}

func (r *recorder) Helper()                   {}
func (r *recorder) Context() context.Context  { return r.ctx }
func (r *recorder) Log(args ...any)           { r.note(false, fmt.Sprint(args...)) }
func (r *recorder) Logf(f string, a ...any)   { r.note(false, fmt.Sprintf(f, a...)) }
func (r *recorder) Error(args ...any)         { r.note(true, fmt.Sprint(args...)) }
func (r *recorder) Errorf(f string, a ...any) { r.note(true, fmt.Sprintf(f, a...)) }
func (r *recorder) Fail()                     { r.note(true, "failed") }
func (r *recorder) FailNow()                  { r.note(true, "failed now"); runtime.Goexit() }
func (r *recorder) Fatal(args ...any)         { r.note(true, fmt.Sprint(args...)); runtime.Goexit() }

func (r *recorder) Fatalf(f string, a ...any) { r.note(true, fmt.Sprintf(f, a...)); runtime.Goexit() }

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) TempDir() string {
	dir, err := os.MkdirTemp("", "recorded-")
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			r.Error(err)
		}
	})
	return dir
}
