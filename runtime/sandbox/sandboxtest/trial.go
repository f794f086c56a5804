package sandboxtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// trial is one run of a case. Its helpers fail the case when a thing that is not its subject goes wrong.
type trial struct {
	testing.TB

	harness Harness
	box     sandbox.Sandbox
	ctx     context.Context
}

// unit is a time that a limit may have: long against the latency, short for who waits.
func (t *trial) unit() time.Duration { return max(time.Second, 10*t.harness.Latency) }

func freshID() string { return uuid.Must(uuid.NewV7()).String() }

func (t *trial) ok(err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("failed: %v", err)
	}
}

// errno holds an error to be the kernel's answer about a name.
func (t *trial) errno(err error, name string, want ...syscall.Errno) {
	t.Helper()
	var pe *fs.PathError
	if !errors.As(err, &pe) {
		t.Fatalf("got %#v (%v), want an *fs.PathError with %v", err, err, want)
	}
	var got syscall.Errno
	if !errors.As(pe.Err, &got) {
		t.Fatalf("the PathError holds %T (%v), not a syscall.Errno", pe.Err, pe.Err)
	}
	for _, w := range want {
		if got == w {
			if pe.Path != name {
				t.Errorf("the error is about %q, not about the name as it was given, %q", pe.Path, name)
			}
			return
		}
	}
	t.Fatalf("got errno %d (%v), want %v", got, got, want)
}

func (t *trial) is(err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

// same compares. No bytes are no bytes, nil or not.
func (t *trial) same(what string, got, want any) {
	t.Helper()
	if g, is := got.([]byte); is {
		got = append([]byte{}, g...)
	}
	if w, is := want.([]byte); is {
		want = append([]byte{}, w...)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: got %s, want %s", what, short(got), short(want))
	}
}

func short(v any) string {
	text := fmt.Sprintf("%+v", v)
	switch v := v.(type) {
	case []byte:
		text = fmt.Sprintf("%q", v[:min(len(v), 200)])
		if len(v) > 200 {
			text = fmt.Sprintf("%d bytes, SHA-256 %x", len(v), sha256.Sum256(v))
		}
	case string:
		text = fmt.Sprintf("%q", v)
	case []string:
		text = fmt.Sprintf("%q", v)
	}
	if len(text) > 600 {
		text = text[:600] + "…"
	}
	return text
}

func (t *trial) put(name, content string) {
	t.Helper()
	if err := t.box.WriteFile(t.ctx, name, []byte(content), sandbox.WriteOptions{}); err != nil {
		t.Fatalf("write %q: %v", name, err)
	}
}

func (t *trial) get(name string) string {
	t.Helper()
	content, err := t.box.ReadFile(t.ctx, name, sandbox.Part{})
	if err != nil {
		t.Fatalf("read %q: %v", name, err)
	}
	return string(content)
}

// holds compares a file's content.
func (t *trial) holds(name, want string) {
	t.Helper()
	if got := t.get(name); got != want {
		t.Fatalf("%q holds %s, want %s", name, short([]byte(got)), short([]byte(want)))
	}
}

func (t *trial) mkdir(name string) {
	t.Helper()
	if err := t.box.Mkdir(t.ctx, name, sandbox.MkdirOptions{Parents: true}); err != nil {
		t.Fatalf("mkdir %q: %v", name, err)
	}
}

func (t *trial) stat(name string) sandbox.Info {
	t.Helper()
	info, err := t.box.Stat(t.ctx, name)
	if err != nil {
		t.Fatalf("stat %q: %v", name, err)
	}
	return info
}

func (t *trial) exists(name string) bool {
	t.Helper()
	there, err := t.box.Exists(t.ctx, name)
	if err != nil {
		t.Fatalf("exists %q: %v", name, err)
	}
	return there
}

func (t *trial) there(name string, want bool) {
	t.Helper()
	if t.exists(name) != want {
		t.Fatalf("exists %q: got %v, want %v", name, !want, want)
	}
}

// list names a directory's entries.
func (t *trial) list(name string) []string {
	t.Helper()
	infos, err := t.box.ReadDir(t.ctx, name)
	if err != nil {
		t.Fatalf("list %q: %v", name, err)
	}
	names := []string{}
	for _, i := range infos {
		names = append(names, i.Name)
	}
	return names
}

// shell is a command for the shell; arguments are $1 and so on.
func shell(script string, args ...string) sandbox.Command {
	return sandbox.Command{Argv: append([]string{"sh", "-c", script, "sh"}, args...)}
}

func (t *trial) exec(c sandbox.Command) sandbox.Result {
	t.Helper()
	r, err := t.box.Exec(t.ctx, c)
	if err != nil {
		t.Fatalf("exec: %v", err)
	}
	return r
}

// sh runs a script that must succeed, and returns its stdout.
func (t *trial) sh(script string, args ...string) string {
	t.Helper()
	r := t.exec(shell(script, args...))
	if r.Code != 0 {
		t.Fatalf("%q ended with %d (%s): %s", script, r.Code, r.Message, r.Stderr)
	}
	return string(r.Stdout)
}

// afterwards runs a script when the case is over, however it ends.
func (t *trial) afterwards(script string) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), time.Minute)
		defer cancel()
		if _, err := t.box.Exec(ctx, shell(script)); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
}

func (t *trial) start(c sandbox.Command) sandbox.Process {
	t.Helper()
	p, err := t.box.Start(t.ctx, c)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	// Whatever a case leaves running must not outlive it; a command that has ended is past that.
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), time.Minute)
		defer cancel()
		_, _ = p.Signal(ctx, int(syscall.SIGKILL), sandbox.Tree)
	})
	return p
}

// followed is all of a Follow.
type followed struct {
	stdout, stderr []byte
	pieces         []sandbox.Output
	exit           sandbox.Exit
}

// follow follows to the end and holds the pieces to be in order and without overlap.
func (t *trial) follow(p sandbox.Process, from sandbox.Offsets) followed {
	t.Helper()
	var f followed
	at := map[sandbox.Stream]int64{sandbox.Stdout: from.Stdout, sandbox.Stderr: from.Stderr}
	exit, err := p.Follow(t.ctx, from, func(o sandbox.Output) error {
		if o.Offset != at[o.Stream] {
			return fmt.Errorf("a piece of stream %d begins at %d, not at %d", o.Stream, o.Offset, at[o.Stream])
		}
		if o.Missing > 0 && len(o.Data) > 0 {
			return errors.New("a piece has data and is missing")
		}
		at[o.Stream] += int64(len(o.Data)) + o.Missing
		switch o.Stream {
		case sandbox.Stdout:
			f.stdout = append(f.stdout, o.Data...)
		case sandbox.Stderr:
			f.stderr = append(f.stderr, o.Data...)
		default:
			return fmt.Errorf("there is no stream %d", o.Stream)
		}
		o.Data = bytes.Clone(o.Data)
		f.pieces = append(f.pieces, o)
		return nil
	})
	if err != nil {
		t.Fatalf("follow: %v", err)
	}
	f.exit = exit
	t.same("where the pieces end", sandbox.Offsets{Stdout: at[sandbox.Stdout], Stderr: at[sandbox.Stderr]}, exit.Ends)
	return f
}

var offsets0 = sandbox.Offsets{}

// fifo makes a pipe with a name: `cat NAME` waits in a command until release. No clock is needed.
func (t *trial) fifo(name string) {
	t.Helper()
	t.sh(`mkfifo -- "$1"`, name)
}

func (t *trial) release(fifo string) {
	t.Helper()
	t.sh(`echo go > "$1"`, fifo)
}

// soon polls until something holds, at most as long as the case may take.
func (t *trial) soon(what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-t.ctx.Done():
			t.Fatalf("waited for %s: %v", what, context.Cause(t.ctx))
		case <-tick.C:
		}
	}
}

// await receives what a goroutine of the case sends.
func await[V any](t *trial, what string, from <-chan V) (v V) {
	t.Helper()
	select {
	case v = <-from:
	case <-t.ctx.Done():
		t.Fatalf("waited for %s: %v", what, context.Cause(t.ctx))
	}
	return v
}

// numbered is text of n bytes in which no place looks like another.
func numbered(n int) string {
	var b strings.Builder
	b.Grow(n + 16)
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%09d\n", i)
	}
	return b.String()[:n]
}
