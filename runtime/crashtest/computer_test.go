//go:build linux

package crashtest

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	registry "github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/ociimage"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/runnertest"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/remote"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/transport"
)

// computer is where commands run.
type computer struct {
	app, id, address, dir string
	key                   token.SigningKey
	dial                  transport.DialFunc
	// env is how a replica finds it.
	env []string
}

// box is the computer as whoever has that scope and fence sees it.
func (c *computer) box(t testing.TB, scope string, fence uint64) *remote.Sandbox {
	t.Helper()
	box, err := remote.New(remote.Options{
		Machine: client.Options{
			Address: c.address, Dial: c.dial, Scope: scope, Fence: fence, Tokens: client.SignWith(c.key, c.app, c.id, "crashtest", scope),
		},
		Dir: c.dir,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(box.Close)
	return box
}

// bare is a control server by itself, which replicas are told of.
func bare(m *machinetest.Machine) *computer {
	dir := m.Data + "/workspace"
	return &computer{
		app: machinetest.App, id: machinetest.ID, address: m.Address, dir: dir, key: m.Key,
		env: []string{
			"FLYFLEET_SIGNING_KEY=" + m.Key.String(), "FLYFLEET_MACHINE=" + machinetest.App + "/" + machinetest.ID + "@" + m.Address + dir,
			"FLYFLEET_TRANSPORT=direct",
		},
	}
}

// startBare starts one.
func startBare(t *testing.T) *computer {
	t.Helper()
	return bare(machinetest.Start(t, machinetest.Options{}))
}

// fleet is a platform with machines in namespaces of their own, among which replicas find a tenant's by themselves.
type fleet struct {
	t     *testing.T
	p     *flylocal.Platform
	api   *flyapi.Client
	root  token.Root
	key   token.SigningKey
	image string
}

const fleetName = "crash"

func startFleet(t *testing.T) *fleet {
	t.Helper()
	return startFleetWith(t, nil)
}

// startFleetWith starts one whose machines reach those addresses, and have those files besides.
func startFleetWith(t *testing.T, egress []runner.Egress, files ...runnertest.Entry) *fleet {
	t.Helper()
	p, err := flylocal.Start(t.Context(), flylocal.Options{
		Dir: t.TempDir(), Runner: "namespace", HostTools: true, Egress: egress, SettleDelay: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, p: p}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if f.api != nil {
			f.api.Close()
		}
		if err := p.Close(ctx); err != nil {
			t.Errorf("close the platform: %v", err)
		}
		// Its files belong to ids that only the platform can remove.
		if err := flylocal.Remove(ctx, p.Dir, nil); err != nil {
			t.Error(err)
		}
	})
	f.api, err = flyapi.New(flyapi.Config{
		FlapsURL: p.URL(), GraphQLURL: p.URL(), Token: p.Token(), Org: p.Org(), Transport: &http.Transport{}, Pace: flyapi.PaceOff,
	})
	f.ok(err)
	f.root, err = token.NewRoot(fleetName)
	f.ok(err)
	f.key, err = f.root.Delegate("rt-test", []string{"*"}, time.Hour, time.Now())
	f.ok(err)
	f.image = f.push(files)
	return f
}

func (f *fleet) ok(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// push makes an image with today's control server.
func (f *fleet) push(files []runnertest.Entry) string {
	f.t.Helper()
	dir := f.t.TempDir()
	build := exec.CommandContext(f.t.Context(), "go", "build", "-buildvcs=false", "-o", dir, "github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet-controlserver")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		f.t.Fatalf("build the control server: %v: %s", err, out)
	}
	server, err := os.ReadFile(filepath.Join(dir, "flyfleet-controlserver"))
	f.ok(err)
	image, err := mutate.Config(runnertest.Image(f.t, []runnertest.Entry{
		runnertest.Dir("etc", 0o755),
		runnertest.File("etc/passwd", 0o644, "root:x:0:0:root:/root:/bin/sh\ntenant:x:10000:10000:tenant:/workspace:/bin/sh\n"),
		runnertest.File("etc/group", 0o644, "root:x:0:\ntenant:x:10000:\n"),
		runnertest.Dir("data", 0o755), runnertest.Dir("root", 0o700), runnertest.Dir("run", 0o755), runnertest.Dir("tmp", 0o1777),
		runnertest.Link("workspace", "/data/workspace"),
		runnertest.File(ociimage.ControlServerPath[1:], 0o755, string(server)),
	}, files), v1.Config{Entrypoint: []string{ociimage.ControlServerPath, "serve"}})
	f.ok(err)
	tag, err := name.NewTag(f.p.RegistryHost() + "/tenant:v1")
	f.ok(err)
	f.ok(registry.Write(tag, image, registry.WithAuth(&authn.Basic{Username: "x", Password: f.p.Token()}), registry.WithContext(f.t.Context())))
	return f.p.RegistryHost() + "/tenant@" + runnertest.Digest(f.t, image)
}

// machine makes the tenant a machine in an app of its own.
func (f *fleet) machine(app string) *computer {
	f.t.Helper()
	ctx := f.t.Context()
	_, err := f.api.CreateApp(ctx, app, f.p.Org(), app+"-net")
	f.ok(err)
	_, err = f.api.AssignAddress(ctx, app, flyapi.AssignRequest{Type: flyapi.AddressPrivateV6, Network: "runtime"})
	f.ok(err)
	volume, err := f.api.CreateVolume(ctx, app, flyapi.CreateVolumeRequest{Name: "data", Region: "ams", SizeGB: 1})
	f.ok(err)
	config, err := json.Marshal(map[string]any{
		"image": f.image, "env": map[string]string{"FLYFLEET_TRUST": f.root.Trust(), "FLYFLEET_GRACE": "2s"},
		"metadata": map[string]string{"flyfleet_fleet": fleetName, "flyfleet_tenant": tenant},
		"mounts":   []any{map[string]string{"volume": volume.ID, "path": "/data"}},
		"services": []any{map[string]any{"internal_port": 8080, "protocol": "tcp", "autostart": true, "ports": []any{map[string]any{"port": 8080}}}},
	})
	f.ok(err)
	m, err := f.api.CreateMachine(ctx, app, flyapi.CreateRequest{Name: "main", Region: "ams", Config: config})
	f.ok(err)
	f.ok(f.api.WaitMachine(ctx, app, m.ID, flyapi.WaitRequest{States: []string{flyapi.StateStarted}}))
	road := "socks5://" + f.p.SocksAddr() + "?network=runtime"
	dial, err := transport.Parse(road)
	f.ok(err)
	return &computer{
		app: app, id: m.ID, address: net.JoinHostPort(app+".flycast", "8080"), key: f.key, dial: dial,
		env: []string{
			"FLYFLEET_SIGNING_KEY=" + f.key.String(), "FLYFLEET_TRANSPORT=" + road, "FLYFLEET_FLEET=" + fleetName, "FLYFLEET_IDLE_AFTER=0",
			"FLY_API_TOKEN=" + f.p.Token(), "FLY_ORG=" + f.p.Org(), "FLY_FLAPS_BASE_URL=" + f.p.URL(), "FLY_API_BASE_URL=" + f.p.URL(),
		},
	}
}

// destroy ends a machine for good.
func (f *fleet) destroy(c *computer) {
	f.t.Helper()
	f.ok(f.api.DestroyMachine(f.t.Context(), c.app, c.id, true, flyapi.Lease{}))
	f.ok(f.api.WaitMachine(f.t.Context(), c.app, c.id, flyapi.WaitRequest{States: []string{flyapi.StateDestroyed}}))
}

// write puts a file of the trial on the machine.
func (x *trial) put(name, text string) {
	x.t.Helper()
	if err := x.box.WriteFile(x.t.Context(), x.dir+"/"+name, []byte(text), sandbox.WriteOptions{}); err != nil {
		x.t.Fatal(err)
	}
}

// read gives a file of the trial on the machine; "" is none.
func (x *trial) read(name string) string {
	x.t.Helper()
	content, err := x.box.ReadFile(x.t.Context(), x.dir+"/"+name, sandbox.Part{})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		x.t.Fatal(err)
	}
	return string(content)
}
