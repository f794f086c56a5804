package killtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
)

// A machine that was suspended wakes up with its clock far ahead; that is no time that its commands had.
func TestSuspendedTimeDoesNotCountAgainstALimit(t *testing.T) {
	t.Parallel()
	limit, sleep := 10*time.Second, 12*time.Second
	if long() {
		limit, sleep = 5*time.Second, time.Minute
	}
	m := start(t, machinetest.Options{})
	ctx := limited(t, 3*time.Minute)
	c := m.Client(machinetest.ClientOptions{})
	id := newID()
	spec := script(id, `while [ ! -e "$WORKSPACE/go-$0" ]; do sleep 0.05; done; echo alive; exit 4`)
	spec.WallTimeoutMs, spec.TermGraceMs = limit.Milliseconds(), 100
	exec := begin(ctx, t, c, id, spec)

	all := append([]int{m.PID(), m.ServerPID()}, below(t, m.PID())...)
	for _, pid := range all {
		signal(t, pid, syscall.SIGSTOP)
	}
	pause(ctx, sleep)
	for i := range all {
		signal(t, all[len(all)-1-i], syscall.SIGCONT)
	}
	letGo(t, m, id)
	<-exec.done
	if err := errors.Join(exec.err, right(exec.got, 4)); err != nil || exec.out.String() != "alive\n" {
		t.Fatalf("got %q, %v", exec.out.String(), err)
	}

	// The same limit does end a command that runs for so long.
	id = newID()
	spec = script(id, "sleep 600")
	spec.WallTimeoutMs, spec.TermGraceMs = 1000, 100
	got, err := c.Run(ctx, client.Command{ID: id, Spec: spec}, client.Writers(nil, nil))
	if err != nil || got.Exit.GetCause().String() != "EXIT_CAUSE_WALL_TIMEOUT" {
		t.Fatalf("got %v, %v", got.Exit, err)
	}
}

func signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatalf("signal %d: %v", pid, err)
	}
}

// below are the descendants of a process.
func below(t *testing.T, root int) []int {
	t.Helper()
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(root) + "/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var all []int
	for _, path := range tasks {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for _, word := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(word); err == nil {
				all = append(append(all, pid), below(t, pid)...)
			}
		}
	}
	return all
}

// e2b-dev/E2B#1074, mastra-ai/mastra#24349, rivet-dev/sandbox-agent#152: a background command was ended with
// the stream that had started it.
func TestDetachedCommandIsNotStoppedByAnything(t *testing.T) {
	t.Parallel()
	seconds := 15
	if long() {
		seconds = 600
	}
	m := start(t, machinetest.Options{})
	ctx := limited(t, time.Duration(seconds)*time.Second+2*time.Minute)
	away, leave := context.WithCancel(ctx)
	starter := m.Client(machinetest.ClientOptions{})
	id := newID()
	exec := begin(away, t, starter, id, script(id, `i=0; while [ $i -lt "$1" ]; do sleep 1; i=$((i+1)); echo $i; done; exit 5`, strconv.Itoa(seconds)))
	leave()
	<-exec.done
	starter.Close()
	// Nobody asks for anything meanwhile.
	record := filepath.Join(m.Data, "spool", "execs", id, "state")
	if err := until(ctx, func() bool {
		text, err := os.ReadFile(record)
		return err == nil && strings.Contains(string(text), "\nexit ")
	}); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	got, err := m.Client(machinetest.ClientOptions{}).Attach(ctx, id, patient, client.Writers(&out, nil))
	if err == nil {
		err = right(got, 5)
	}
	if lines := strings.Count(out.String(), "\n"); err != nil || lines != seconds {
		t.Fatalf("%d lines, %v", lines, err)
	}
}
