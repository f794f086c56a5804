package acceptance

import (
	"bytes"
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// hashicorp/nomad#17424: a machine that died in the middle of a command and came back says that the command
// is lost. It never runs it again, whoever asks, and signals nobody in its stead.
func TestMachineRestartedInMidExecLosesItAndRunsNothingAgain(t *testing.T) {
	p := startPlatform(t)
	const app = "lost"
	p.must(t, http.MethodPost, "/v1/apps", map[string]any{"name": app, "org_slug": p.local.Org(), "network": app})
	p.must(t, http.MethodPost, "/v1/apps/"+app+"/ip_assignments", map[string]any{"type": "private_v6", "network": "runtime"})
	volume := field(t, p.must(t, http.MethodPost, "/v1/apps/"+app+"/volumes", map[string]any{"name": "data", "region": "fra", "size_gb": 1}), "id")
	p.must(t, http.MethodPost, "/v1/apps/"+app+"/machines", map[string]any{"name": "main", "region": "fra", "config": map[string]any{
		"image": p.image(t, "v1"), "env": map[string]string{"FLYFLEET_TRUST": p.root.Trust()},
		"mounts":   []any{map[string]any{"volume": volume, "path": "/data"}},
		"services": []any{map[string]any{"internal_port": 8080, "protocol": "tcp", "ports": []any{map[string]any{"port": 8080}}}},
	}})
	machine := p.machine(t, app)
	p.waitState(t, app, machine.ID, "started")
	c := p.wire(t, app)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	before, err := c.Hello(ctx)
	if err != nil {
		t.Fatal(err)
	}

	const marked = `echo ran >>ran; trap 'echo told >>told' TERM INT HUP; echo ready; while :; do sleep 0.05; done`
	running := startCommand(t, c, marked)
	for running.output() == "" {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the command printed nothing")
		}
	}
	p.must(t, http.MethodPost, "/v1/apps/"+app+"/machines/"+machine.ID+"/stop", map[string]any{"signal": "SIGKILL", "timeout": "5s"})
	// Whoever dials its address wakes it up, the follower too.
	for after, err := c.Hello(ctx); err != nil || after.GetEpoch() == before.GetEpoch(); after, err = c.Hello(ctx) {
		if ctx.Err() != nil {
			t.Fatalf("the machine did not come back: %v", err)
		}
	}

	lost := func(what string, got client.Result, err error) {
		t.Helper()
		if err != nil || got.Lost.GetReason() != wirev1.LostReason_LOST_REASON_MACHINE_RESTARTED {
			t.Fatalf("%s: %v, %v", what, got, err)
		}
	}
	got, err := running.wait()
	lost("whoever followed", got, err)
	if running.output() != "ready\n" {
		t.Fatalf("got %q", running.output())
	}
	var again bytes.Buffer
	got, err = c.Run(ctx, client.Command{ID: got.ID, Spec: shell(marked), IfEpoch: before.GetEpoch()}, client.Writers(&again, nil))
	lost("whoever asks again", got, err)
	if again.String() != "ready\n" {
		t.Fatalf("got %q", again.String())
	}
	never, err := wire.NewID()
	if err != nil {
		t.Fatal(err)
	}
	got, err = c.Run(ctx, client.Command{ID: never, Spec: shell("echo ran >>ran"), IfEpoch: before.GetEpoch()}, client.Writers(nil, nil))
	lost("an intent that the machine never heard of", got, err)

	// The number of the lost process belongs to somebody else soon.
	beside := withPID(t, c, running.pid)
	hit, err := c.Signal(ctx, running.id, 9, wirev1.SignalTarget_SIGNAL_TARGET_TREE)
	if err != nil || hit.GetDelivered() || hit.GetState() != wirev1.ExecState_EXEC_STATE_LOST {
		t.Fatalf("a signal to the lost: %v, %v", hit, err)
	}
	check := startCommand(t, c, `touch go; cat ran; cat told 2>/dev/null; true`)
	if got, err := check.wait(); err != nil || got.Exit.GetCode() != 0 || check.output() != "ran\n" {
		t.Fatalf("got %q, %v, %v", check.output(), got, err)
	}
	if got, err := beside.wait(); err != nil || got.Exit.GetCode() != 3 || got.Exit.GetSignal() != 0 {
		t.Fatalf("who has the lost one's number now ended with %v, %v", got, err)
	}
}

// withPID starts commands until one of them has this process id, or a higher one where it was passed by.
func withPID(t *testing.T, c *client.Client, pid int64) *command {
	t.Helper()
	for range 2000 {
		run := startCommand(t, c, `while [ ! -e go ]; do sleep 0.1; done; exit 3`)
		if run.pid >= pid {
			return run
		}
		if _, err := c.Signal(t.Context(), run.id, 9, wirev1.SignalTarget_SIGNAL_TARGET_TREE); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("no command came to the process id %d", pid)
	return nil
}
