package killtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/crashpoint"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// machine is a control server whose server can be killed at its crash points.
type machine struct {
	*machinetest.Machine
	points string
}

// start starts a machine, whose first server dies at the points given.
func start(t *testing.T, o machinetest.Options, at ...crashpoint.Point) *machine {
	t.Helper()
	m := &machine{points: t.TempDir()}
	for _, p := range at {
		if err := m.arm(p); err != nil {
			t.Fatal(err)
		}
	}
	if o.Program == nil {
		o.Program = []string{binary(t), "serve"}
	}
	o.Env = append(o.Env, "FLYFLEET_CRASHPOINTS="+m.points)
	m.Machine = machinetest.Start(t, o)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the machine's last words:\n%s", tail(m.Log(), 4000))
		}
	})
	return m
}

func tail(text string, most int) string { return text[max(0, len(text)-most):] }

// arm makes the server die when it next passes a point.
func (m *machine) arm(p crashpoint.Point) error {
	return os.WriteFile(filepath.Join(m.points, string(p)), nil, 0o600)
}

func (m *machine) armed(p crashpoint.Point) bool {
	_, err := os.Stat(filepath.Join(m.points, string(p)))
	return err == nil
}

// disarm takes it back; false when the server died of it already.
func (m *machine) disarm(p crashpoint.Point) bool {
	return os.Remove(filepath.Join(m.points, string(p))) == nil
}

// kill ends the server with this pid.
func (m *machine) kill(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill server %d: %w", pid, err)
	}
	return nil
}

// nextServer waits until another server than the one given answers callers.
func (m *machine) nextServer(ctx context.Context, than int) (int, error) {
	err := until(ctx, func() bool { return m.ServerPID() != than })
	return m.ServerPID(), err
}

// fell kills the server and returns once there is another.
func (m *machine) fell(ctx context.Context, t *testing.T) {
	t.Helper()
	server := m.ServerPID()
	err := m.kill(server)
	if err == nil {
		_, err = m.nextServer(ctx, server)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// whim is how long a server may live: 40 to 160 ms.
func whim() time.Duration { return 40*time.Millisecond + rand.N(120*time.Millisecond) }

// pause waits; false when ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// until waits for a condition.
func until(ctx context.Context, holds func() bool) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// eventually is until for a test; a minute is for machines under load.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := until(ctx, holds); err != nil {
		t.Fatalf("waited for %s: %v", what, err)
	}
}

func limited(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// script is a shell script that first adds a line with its exec's id, its $0, to the file "count".
func script(id, body string, args ...string) *wirev1.ExecSpec {
	argv := [][]byte{[]byte("sh"), []byte("-c"), []byte(`echo "$0" >>"$WORKSPACE/count"; ` + body), []byte(id)}
	for _, a := range args {
		argv = append(argv, []byte(a))
	}
	return &wirev1.ExecSpec{Argv: argv}
}

func newID() string {
	id, err := wire.NewID()
	if err != nil {
		// The kernel has no random bytes: nothing can go on.
		panic(err) //nolint:forbidigo // in a test
	}
	return id
}

// patient follows through any number of deaths; only silence for minutes makes it give up.
var patient = client.Follow{Patience: 3 * time.Minute}

// right is an error unless the exec ended by itself with the code, and nothing was left out.
func right(got client.Result, code int32) error {
	exit := got.Exit
	switch {
	case got.Lost != nil:
		return fmt.Errorf("lost: %v", got.Lost)
	case exit.GetCode() != code || exit.GetSignal() != 0 || exit.GetCause() != wirev1.ExitCause_EXIT_CAUSE_EXITED:
		return fmt.Errorf("ended with %v, want code %d", exit, code)
	case len(got.Gaps) > 0:
		return fmt.Errorf("gaps where nothing was capped: %v", got.Gaps)
	}
	return nil
}
