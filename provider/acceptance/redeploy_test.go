package acceptance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/rollout"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/swap"
)

// addMachine makes one app with a machine of the fleet by the API, as another tool would.
func (p *platform) addMachine(t *testing.T, app, image, owner string) {
	t.Helper()
	p.must(t, http.MethodPost, "/v1/apps", map[string]any{"name": app, "org_slug": p.local.Org(), "network": app})
	p.must(t, http.MethodPost, "/v1/apps/"+app+"/ip_assignments", map[string]any{"type": "private_v6", "network": "runtime"})
	p.must(t, http.MethodPost, "/v1/apps/"+app+"/machines", map[string]any{"name": "main", "region": "fra", "config": map[string]any{
		"image":    image,
		"env":      map[string]string{"FLYFLEET_TRUST": p.root.Trust()},
		"metadata": map[string]string{"flyfleet_fleet": "acceptance", "flyfleet_tenant": app, "flyfleet_wire": "1", "flyfleet_image_owner": owner},
		"services": []any{map[string]any{"internal_port": 8080, "protocol": "tcp", "ports": []any{map[string]any{"port": 8080}}}},
	}})
}

// redeploy runs the command and returns its report and exit code.
func (p *platform) redeploy(t *testing.T, arguments ...string) (rollout.Report, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary(t, "flyfleet"), append([]string{"redeploy-fleet", "--json"}, arguments...)...)
	cmd.Env = cleanEnv(p.env())
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var report rollout.Report
	if stdout.Len() > 0 {
		if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
			t.Fatalf("%v in %s\n%s", err, stdout.String(), stderr.String())
		}
	}
	return report, cmd.ProcessState.ExitCode()
}

// Of twenty machines one is unreachable, one leased by somebody else, one busy, one has an environment of its own: the
// first three are listed with their reason and untouched, the rest run the new image, the fourth with its
// environment. flyctl PR#3732, flyctl PR#3034.
func TestRedeployFleetSwapsWhatItCanAndListsTheRest(t *testing.T) {
	p := startPlatform(t)
	v1, v2 := p.image(t, "v1"), p.image(t, "v2")
	app := func(i int) string { return fmt.Sprintf("fleet-%02d", i) }
	for i := range 20 {
		p.addMachine(t, app(i), v1, "rollout")
	}
	for i := range 20 {
		p.waitState(t, app(i), p.machine(t, app(i)).ID, "started")
	}
	id := func(i int) string { return p.machine(t, app(i)).ID }
	const unreachable, leased, busy, foreignEnv = 3, 7, 11, 15
	p.must(t, http.MethodPost, "/v1/apps/"+app(leased)+"/machines/"+id(leased)+"/lease?ttl=600", nil)
	running := startCommand(t, p.wire(t, app(busy)), "trap 'exit 0' TERM; while :; do sleep 0.1; done")
	config := p.machine(t, app(foreignEnv)).Config
	config = []byte(replaceOnce(t, string(config), `"env":{`, `"env":{"FOREIGN":"kept",`))
	p.must(t, http.MethodPost, "/v1/apps/"+app(foreignEnv)+"/machines/"+id(foreignEnv), []byte(`{"config":`+string(config)+`}`))
	p.waitState(t, app(foreignEnv), id(foreignEnv), "started")
	before := map[int]machineView{}
	for _, i := range []int{unreachable, leased, busy} {
		before[i] = p.machine(t, app(i))
	}
	p.host(t, before[unreachable].ID, "unreachable")

	report, code := p.redeploy(t, "--image", v2, "--drain-timeout", "2s")
	if code != 3 || len(report.Machines) != 20 {
		t.Fatalf("exit code %d with %d machines listed, want 3 and 20: %+v", code, len(report.Machines), report)
	}
	reasons := map[int]string{unreachable: "host", leased: "lease", busy: "running"}
	p.host(t, before[unreachable].ID, "ok")
	for i := range 20 {
		outcome := outcomeOf(t, report, app(i))
		now := p.machine(t, app(i))
		if reason, odd := reasons[i]; odd {
			if outcome.Status != swap.Skipped || !strings.Contains(outcome.Reason, reason) {
				t.Errorf("%s: %s because %q, want skipped because of %s", app(i), outcome.Status, outcome.Reason, reason)
			}
			if now.InstanceID != before[i].InstanceID {
				t.Errorf("%s was listed as skipped and yet written", app(i))
			}
			continue
		}
		if outcome.Status != swap.Swapped || now.State != "started" || !strings.Contains(v2, now.ImageRef.Digest) {
			t.Errorf("%s: %s (%s), now %s on %s", app(i), outcome.Status, outcome.Reason, now.State, now.ImageRef.Digest)
		}
	}
	if now := p.machine(t, app(foreignEnv)); !bytes.Contains(now.Config, []byte(`"FOREIGN":"kept"`)) {
		t.Errorf("the swap lost the foreign environment: %s", now.Config)
	}
	select {
	case <-running.done:
		t.Errorf("the running command was ended: %v %v", running.result.Exit, running.err)
	default:
	}
}

func outcomeOf(t *testing.T, report rollout.Report, app string) swap.Outcome {
	t.Helper()
	for _, o := range report.Machines {
		if o.App == app {
			return o
		}
	}
	t.Fatalf("%s is not in the report", app)
	return swap.Outcome{}
}

// What Terraform owns is not swapped behind its back, unless forced.
func TestRedeployFleetLeavesTerraformsImagesAlone(t *testing.T) {
	p := startPlatform(t)
	v1, v2 := p.image(t, "v1"), p.image(t, "v2")
	p.addMachine(t, "owned", v1, "terraform")
	before := p.machine(t, "owned")
	p.waitState(t, "owned", before.ID, "started")
	report, code := p.redeploy(t, "--image", v2)
	if o := outcomeOf(t, report, "owned"); code != 3 || o.Status != swap.Skipped || !strings.Contains(o.Reason, "erraform") {
		t.Errorf("exit code %d, %s because %q", code, o.Status, o.Reason)
	}
	if now := p.machine(t, "owned"); now.InstanceID != before.InstanceID {
		t.Error("the machine was written")
	}
	report, code = p.redeploy(t, "--image", v2, "--force")
	if o := outcomeOf(t, report, "owned"); code != 0 || o.Status != swap.Swapped {
		t.Errorf("forced: exit code %d, %s because %q", code, o.Status, o.Reason)
	}
}
