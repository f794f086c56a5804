package slots_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/ociimage"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/machineinit"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/runnertest"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/slots"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/transport"
)

func TestMain(m *testing.M) {
	machineinit.RunIfInit()
	os.Exit(m.Run())
}

// push makes an image with today's control server and gives its reference.
func (w *world) push() string {
	w.Helper()
	dir := w.TempDir()
	build := exec.CommandContext(w.Context(), "go", "build", "-buildvcs=false", "-o", dir, "github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet-controlserver")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		w.Fatalf("build the control server: %v: %s", err, out)
	}
	server, err := os.ReadFile(filepath.Join(dir, "flyfleet-controlserver"))
	w.ok(err)
	image, err := mutate.Config(runnertest.Image(w, []runnertest.Entry{
		runnertest.Dir("etc", 0o755),
		runnertest.File("etc/passwd", 0o644, "root:x:0:0:root:/root:/bin/sh\ntenant:x:10000:10000:tenant:/workspace:/bin/sh\n"),
		runnertest.File("etc/group", 0o644, "root:x:0:\ntenant:x:10000:\n"),
		runnertest.Dir("data", 0o755), runnertest.Dir("root", 0o700), runnertest.Dir("run", 0o755), runnertest.Dir("tmp", 0o1777),
		runnertest.Link("workspace", "/data/workspace"),
		runnertest.File(ociimage.ControlServerPath[1:], 0o755, string(server)),
	}), v1.Config{Entrypoint: []string{ociimage.ControlServerPath, "serve"}})
	w.ok(err)
	tag, err := name.NewTag(w.p.RegistryHost() + "/tenant:v1")
	w.ok(err)
	w.ok(remote.Write(tag, image, remote.WithAuth(&authn.Basic{Username: "x", Password: w.p.Token()}), remote.WithContext(w.Context())))
	return w.p.RegistryHost() + "/tenant@" + runnertest.Digest(w, image)
}

// A session's road to a real machine: it is cold and wakes, runs a command, refuses the owner before, stays awake under a
// command that nobody follows, and goes cold when that is over.
func TestRoadToARealMachine(t *testing.T) {
	w := newWorld(t, func(o *flylocal.Options) { o.Runner, o.HostTools = "namespace", true })
	image := w.push()
	_, err := w.api.CreateApp(t.Context(), "tenant", w.p.Org(), "tenant-net")
	w.ok(err)
	_, err = w.api.AssignAddress(t.Context(), "tenant", flyapi.AssignRequest{Type: flyapi.AddressPrivateV6, Network: "runtime"})
	w.ok(err)
	volume, err := w.api.CreateVolume(t.Context(), "tenant", flyapi.CreateVolumeRequest{Name: "data", Region: "ams", SizeGB: 1})
	w.ok(err)
	config, err := json.Marshal(map[string]any{
		"image": image, "env": map[string]string{"FLYFLEET_TRUST": w.root.Trust(), "FLYFLEET_GRACE": "2s"},
		"metadata": map[string]string{"flyfleet_fleet": fleet, "flyfleet_tenant": "t"},
		"mounts":   []any{map[string]string{"volume": volume.ID, "path": "/data"}},
		"services": []any{map[string]any{"internal_port": 8080, "protocol": "tcp", "autostart": true, "ports": []any{map[string]any{"port": 8080}}}},
	})
	w.ok(err)
	m, err := w.api.CreateMachine(t.Context(), "tenant", flyapi.CreateRequest{Name: "main", Region: "ams", Config: config})
	w.ok(err)
	w.ok(w.api.WaitMachine(t.Context(), "tenant", m.ID, flyapi.WaitRequest{States: []string{flyapi.StateStarted}}))
	w.ok(w.api.StopMachine(t.Context(), "tenant", m.ID, flyapi.Lease{}))
	w.ok(w.api.WaitMachine(t.Context(), "tenant", m.ID, flyapi.WaitRequest{States: []string{flyapi.StateStopped}}))
	w.dial, err = transport.Parse("socks5://" + w.p.SocksAddr() + "?network=runtime")
	w.ok(err)

	stop := func(o *slots.Options) { o.Cold = slots.ColdStop }
	one := w.replica(stop).begin("t")
	place := one.mustOpen()
	said, err := place.Box.Exec(t.Context(), sandbox.Command{Argv: []string{"sh", "-c", "echo from $PWD"}})
	if err != nil || string(said.Stdout) != "from /data/workspace\n" && string(said.Stdout) != "from /workspace\n" {
		t.Fatalf("it said %q, %v", said.Stdout, err)
	}

	two := one.takeOver(w.replica(stop))
	next := two.mustOpen()
	id, err := two.start(next)
	w.ok(err)
	process, err := next.Box.Start(t.Context(), sandbox.Command{ID: id.String(), Argv: []string{"sleep", "600"}})
	w.ok(err)
	if _, err := place.Box.Exec(t.Context(), sandbox.Command{Argv: []string{"true"}}); !errors.Is(err, sandbox.ErrFenced) {
		t.Errorf("the owner before got %v", err)
	}

	w.sql("UPDATE execs SET state = 2") // as for a command of a person, or one that its session has let go
	two.idle()
	w.elapse()
	if two.rest() != 0 || w.live("tenant", m.ID).State != flyapi.StateStarted {
		t.Error("it rests under a command that nobody follows")
	}
	if _, err := next.Box.Attach(t.Context(), id.String()); err != nil {
		t.Errorf("the command is not there any more: %v", err)
	}
	_, err = process.Signal(t.Context(), 9, sandbox.Tree)
	w.ok(err)
	eventually(t, "the machine is cold", func() bool {
		w.elapse()
		cold, err := two.slots.Rest(t.Context())
		if err != nil && !strings.Contains(err.Error(), "does not say") {
			t.Fatal(err)
		}
		return cold == 1
	})
	if state := w.live("tenant", m.ID).State; state != flyapi.StateStopped {
		t.Errorf("it is %s", state)
	}
	three := two.begin("t")
	said, err = three.mustOpen().Box.Exec(t.Context(), sandbox.Command{Argv: []string{"sh", "-c", "echo again"}, Timeout: time.Minute})
	if err != nil || string(said.Stdout) != "again\n" {
		t.Errorf("it said %q, %v", said.Stdout, err)
	}
}
