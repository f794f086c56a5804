// Package terminal lends the caller's terminal to a command on a machine: raw while it lasts, restored
// whichever way the program ends.
package terminal

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/term"
)

// Default size of a terminal where the caller has none.
const (
	DefaultCols = 80
	DefaultRows = 24
)

// Of is the terminal behind a reader or writer, nil when it is none.
func Of(stream any) *os.File {
	f, ok := stream.(*os.File)
	if !ok || f == nil || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return f
}

// Name is what TERM says of the caller's terminal.
func Name() string { return os.Getenv("TERM") }

// Size is a terminal's size in characters; the default for nil, and for a terminal that does not know.
func Size(f *os.File) (cols, rows uint32) {
	if f != nil {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 && w <= 65535 && h <= 65535 {
			return uint32(w), uint32(h)
		}
	}
	return DefaultCols, DefaultRows
}

// Raw is a terminal in raw mode: each byte goes to the command as it is typed, Ctrl-C too.
type Raw struct {
	file    *os.File
	before  *term.State
	signals chan os.Signal
	done    chan struct{}
	restore sync.Once
	wait    sync.WaitGroup
}

// MakeRaw puts a terminal into raw mode until Restore. A second signal that ends the program, or a
// QUIT, restores it first: nobody else would.
func MakeRaw(f *os.File) (*Raw, error) {
	before, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return nil, fmt.Errorf("put the terminal into raw mode: %w", err)
	}
	r := &Raw{file: f, before: before, signals: make(chan os.Signal, 4), done: make(chan struct{})}
	signal.Notify(r.signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	r.wait.Go(r.guard)
	return r, nil
}

// guard ends the program at the second signal. The first cancels the verb, which then ends by itself.
func (r *Raw) guard() {
	for seen := 0; ; seen++ {
		select {
		case <-r.done:
			return
		case s := <-r.signals:
			if seen == 0 && s != syscall.SIGQUIT {
				continue
			}
			r.back()
			signal.Reset(s)
			if number, ok := s.(syscall.Signal); ok {
				_ = syscall.Kill(syscall.Getpid(), number)
			}
			return
		}
	}
}

func (r *Raw) back() {
	r.restore.Do(func() { _ = term.Restore(int(r.file.Fd()), r.before) })
}

// Restore gives the terminal back as it was. It may be called more than once.
func (r *Raw) Restore() {
	r.back()
	signal.Stop(r.signals)
	select {
	case <-r.done:
	default:
		close(r.done)
	}
	r.wait.Wait()
}

// Resized calls tell with the terminal's size now and after each change, one call at a time, until stop
// is called, which waits for the last. A nil terminal never changes.
func Resized(f *os.File, tell func(cols, rows uint32)) (stop func()) {
	changed, done, over := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(changed, syscall.SIGWINCH)
	go func() {
		defer close(over)
		for {
			tell(Size(f))
			select {
			case <-done:
				return
			case <-changed:
			}
		}
	}()
	return func() {
		signal.Stop(changed)
		close(done)
		<-over
	}
}

// ErrNone says that the caller has no terminal to lend.
var ErrNone = errors.New("stdin is not a terminal")
