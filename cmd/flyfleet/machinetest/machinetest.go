// Package machinetest gives tests of the command a real machine: the platform of this computer, with a tenant's app on it.
package machinetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/command"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/local"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/settings"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/runnertest"
)

// Start gives app tenant a real machine with a real control server, and this process the local environment. The machine has this
// computer's programs.
func Start(t *testing.T) { start(t, machine{hostTools: true}) }

// StartBusybox is Start with an image that has busybox, and nothing else.
func StartBusybox(t *testing.T) {
	start(t, machine{base: runnertest.Image(t, runnertest.Busybox(t))})
}

// StartSmall is Start with a volume of 24 MiB. Only root can make one.
func StartSmall(t *testing.T) {
	start(t, machine{hostTools: true, volume: "size=24m"})
}

// machine is what a test's machine is like.
type machine struct {
	hostTools bool
	base      v1.Image // nil: none
	volume    string   // options of a tmpfs that is the volume; empty: a directory of the disk
}

func start(t *testing.T, m machine) {
	t.Helper()
	server := filepath.Join(t.TempDir(), "flyfleet-controlserver")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", server, "./cmd/flyfleet-controlserver")
	build.Dir, build.Env = "../../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the control server: %v\n%s", err, out)
	}
	dir := t.TempDir()
	var api *flyapi.Client
	p, err := local.Start(t.Context(), local.Options{Dir: dir, Addr: "127.0.0.1:0", Runner: "namespace", HostTools: m.hostTools})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if api != nil {
			// Its files may belong to ids that only the platform can remove.
			if err := api.DeleteApp(context.WithoutCancel(t.Context()), "tenant"); err != nil {
				t.Error(err)
			}
			api.Close()
		}
		if err := p.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	variables, err := local.Environment(dir, filepath.Dir(server), p.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	trust := ""
	for _, v := range variables {
		t.Setenv(v.Name, v.Value)
		if v.Name == "TF_VAR_flyfleet_trust" {
			trust = v.Value
		}
	}
	api = client(t)
	args := []string{"--json", "setup-fly-app", "tenant", "--control-server", server}
	if m.base != nil {
		args = append(args, "--base", push(t, m.base))
	}
	code, stdout, stderr := Flyfleet(t.Context(), args...)
	var app struct{ Image string }
	if err := json.Unmarshal([]byte(stdout), &app); code != 0 || err != nil {
		t.Fatalf("setup-fly-app: %d %v %s", code, err, stderr)
	}
	createMachine(t, api, app.Image, trust, m.volume, dir)
}

// push puts an image into the platform's registry and returns its name by digest.
func push(t *testing.T, image v1.Image) string {
	t.Helper()
	tag, err := name.NewTag(os.Getenv(settings.Registry) + "/base:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, image, remote.WithContext(t.Context()), remote.WithAuth(&authn.Basic{Username: "x", Password: os.Getenv("FLY_API_TOKEN")})); err != nil {
		t.Fatal(err)
	}
	return tag.Context().Name() + "@" + runnertest.Digest(t, image)
}

func client(t *testing.T) *flyapi.Client {
	t.Helper()
	cfg := flyapi.ConfigFromEnv(os.Getenv)
	cfg.Pace = flyapi.PaceOff
	api, err := flyapi.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func createMachine(t *testing.T, api *flyapi.Client, image, trust, volume, dir string) {
	t.Helper()
	vol, err := api.CreateVolume(t.Context(), "tenant", flyapi.CreateVolumeRequest{Name: "data", Region: "ams", SizeGB: 1})
	if err != nil {
		t.Fatal(err)
	}
	if volume != "" {
		mountVolume(t, filepath.Join(dir, "data", "volumes", vol.ID), volume)
	}
	config := fmt.Sprintf(`{"image":%q,"env":{"FLYFLEET_TRUST":%q},"mounts":[{"volume":%q,"path":"/data"}],`+
		`"services":[{"internal_port":8080,"protocol":"tcp","autostart":true,"autostop":"off","ports":[{"port":8080}]}]}`, image, trust, vol.ID)
	m, err := api.CreateMachine(t.Context(), "tenant", flyapi.CreateRequest{Name: "main", Region: "ams", Config: json.RawMessage(config)})
	if err != nil {
		t.Fatal(err)
	}
	if err := api.WaitMachine(t.Context(), "tenant", m.ID, flyapi.WaitRequest{States: []string{flyapi.StateStarted}}); err != nil {
		t.Fatal(err)
	}
}

// mountVolume puts a file system in a volume's place.
func mountVolume(t *testing.T, at, options string) {
	t.Helper()
	if _, err := os.Stat(at); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// Flyfleet runs the program in this process.
func Flyfleet(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errOut bytes.Buffer
	code = command.Main(ctx, args, strings.NewReader(""), &out, &errOut)
	return code, out.String(), errOut.String()
}
