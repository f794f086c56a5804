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

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/command"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/local"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
)

// Start gives app tenant a real machine with a real control server, and this process the local environment.
func Start(t *testing.T) {
	t.Helper()
	server := filepath.Join(t.TempDir(), "flyfleet-controlserver")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", server, "./cmd/flyfleet-controlserver")
	build.Dir, build.Env = "../../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the control server: %v\n%s", err, out)
	}
	dir := t.TempDir()
	var api *flyapi.Client
	p, err := local.Start(t.Context(), local.Options{Dir: dir, Addr: "127.0.0.1:0", Runner: "namespace", HostTools: true})
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
	code, stdout, stderr := Flyfleet(t.Context(), "--json", "setup-fly-app", "tenant", "--control-server", server)
	var app struct{ Image string }
	if err := json.Unmarshal([]byte(stdout), &app); code != 0 || err != nil {
		t.Fatalf("setup-fly-app: %d %v %s", code, err, stderr)
	}
	createMachine(t, api, app.Image, trust)
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

func createMachine(t *testing.T, api *flyapi.Client, image, trust string) {
	t.Helper()
	vol, err := api.CreateVolume(t.Context(), "tenant", flyapi.CreateVolumeRequest{Name: "data", Region: "ams", SizeGB: 1})
	if err != nil {
		t.Fatal(err)
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

// Flyfleet runs the program in this process.
func Flyfleet(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errOut bytes.Buffer
	code = command.Main(ctx, args, strings.NewReader(""), &out, &errOut)
	return code, out.String(), errOut.String()
}
