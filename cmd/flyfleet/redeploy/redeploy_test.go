package redeploy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/command"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/rollout"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/swap"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/none"
)

func image(digit string) string {
	return "registry.fly.io/fleet@sha256:" + strings.Repeat(digit, 64)
}

var (
	oldImage  = image("a")
	busyImage = image("b")
	newImage  = image("c")
)

// platform is a local platform without processes, and a client of it.
type platform struct {
	*flylocal.Platform
	api *flyapi.Client
}

func start(t *testing.T) *platform {
	t.Helper()
	p, err := flylocal.Start(t.Context(), flylocal.Options{Dir: t.TempDir(), Runner: "none", SettleDelay: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("closing the platform: %v", err)
		}
	})
	for name, value := range map[string]string{
		"FLY_API_TOKEN": p.Token(), "FLY_ORG": p.Org(), "FLY_FLAPS_BASE_URL": p.URL(), "FLY_API_BASE_URL": p.URL(),
		"FLY_REGISTRY_HOST": p.RegistryHost(), "FLYFLEET_SIGNING_KEY": "", "FLYFLEET_TRANSPORT": "",
	} {
		t.Setenv(name, value)
	}
	api, err := flyapi.New(flyapi.Config{FlapsURL: p.URL(), GraphQLURL: p.URL(), Token: p.Token(), Org: p.Org(), Pace: flyapi.PaceOff})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	return &platform{p, api}
}

// machine makes an app with one machine and returns the machine's id once it has settled.
func (p *platform) machine(t *testing.T, app, image, fleet, owner string) string {
	t.Helper()
	if _, err := p.api.CreateApp(t.Context(), app, p.Org(), app); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`{"image":%q,"env":{"KEPT":"1"},"metadata":{"flyfleet_fleet":%q,"flyfleet_image_owner":%q}}`, image, fleet, owner)
	m, err := p.api.CreateMachine(t.Context(), app, flyapi.CreateRequest{Name: "main", Region: "ams", Config: json.RawMessage(config)})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.api.WaitMachine(t.Context(), app, m.ID, flyapi.WaitRequest{States: []string{flyapi.StateStarted}}); err != nil {
		t.Fatal(err)
	}
	return m.ID
}

// flyfleet runs the program in this process.
func flyfleet(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = command.Main(t.Context(), args, strings.NewReader(""), &out, &errOut)
	return code, out.String(), errOut.String()
}

func report(t *testing.T, stdout string) map[string]swap.Outcome {
	t.Helper()
	var r rollout.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatalf("%v in %q", err, stdout)
	}
	out := map[string]swap.Outcome{}
	for _, o := range r.Machines {
		out[o.App] = o
	}
	return out
}

// written lists the machines that an update was sent to, by id.
func (p *platform) written() map[string]int {
	out := map[string]int{}
	for _, r := range p.Faults.Requests(0) {
		parts := strings.Split(r.Path, "/") // /v1/apps/<app>/machines/<id>
		if r.Method == http.MethodPost && len(parts) == 6 && parts[4] == "machines" {
			out[parts[5]]++
		}
	}
	return out
}

func (p *platform) busy(t *testing.T, image string) {
	t.Helper()
	const probe = `{"wire":{"min":1,"max":1},"build":"0.1.0","state":"serving","epoch":"e","spool":"durable","running":1,"quiesce":"busy","quiesced_until":""}`
	if err := p.Faults.ScriptExec(flyapi.DigestOf(image), none.Answer{Stdout: probe + "\n"}); err != nil {
		t.Fatal(err)
	}
}

func (p *platform) lease(t *testing.T, app, id string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL()+"/v1/apps/"+app+"/machines/"+id+"/lease", strings.NewReader(`{"ttl":600,"description":"somebody else"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.Token())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode > 299 {
		t.Fatalf("lease: %s", resp.Status)
	}
}

func TestAFleetIsSwappedAndEachExceptionIsListedWithItsReason(t *testing.T) {
	p := start(t)
	ids := map[string]string{}
	for i := range 20 {
		app, img := fmt.Sprintf("acme-%02d", i), oldImage
		if i == 3 {
			img = busyImage
		}
		ids[app] = p.machine(t, app, img, "acme", "rollout")
	}
	const away, leased, busy, foreignEnv = "acme-01", "acme-02", "acme-03", "acme-04"
	other := p.machine(t, "other", oldImage, "other-fleet", "rollout")
	if err := p.Faults.Host(ids[away], "unreachable"); err != nil {
		t.Fatal(err)
	}
	p.lease(t, leased, ids[leased])
	p.busy(t, busyImage)
	p.setEnv(t, foreignEnv, ids[foreignEnv])
	p.Faults.ClearRequests()

	code, stdout, stderr := flyfleet(t, "--json", "redeploy-fleet", "--fleet", "acme", "--image", newImage, "--drain-timeout", "1ms", "--concurrency", "4")
	if code != 3 {
		t.Errorf("exit code %d, want 3: some were skipped\n%s", code, stderr)
	}
	got, written := report(t, stdout), p.written()
	if len(got) != 20 {
		t.Fatalf("%d machines in the report, want 20: %s", len(got), stdout)
	}
	reasons := map[string]swap.Code{away: swap.CodeUnreachable, leased: swap.CodeLeased, busy: swap.CodeBusy}
	for app, id := range ids {
		o := got[app]
		want := swap.Swapped
		if reasons[app] != "" {
			want = swap.Skipped
		}
		if o.Status != want || o.Code != reasons[app] || (want == swap.Skipped && o.Reason == "") {
			t.Errorf("%s: %+v, want %s %s with a reason", app, o, want, reasons[app])
		}
		if (written[id] > 0) != (want == swap.Swapped) {
			t.Errorf("%s: %d updates were sent", app, written[id])
		}
	}
	if written[other] > 0 {
		t.Error("a machine of another fleet was written")
	}
	m, err := p.api.GetMachine(t.Context(), foreignEnv, ids[foreignEnv])
	if err != nil {
		t.Fatal(err)
	}
	if c := string(m.Config()); !strings.Contains(c, `"FOREIGN"`) || !strings.Contains(c, "9007199254740993") || m.Image() != newImage {
		t.Errorf("foreign settings did not survive: %s", c)
	}
	code, stdout, _ = flyfleet(t, "--json", "redeploy-fleet", "--fleet", "acme", "--image", newImage, "--machine", ids["acme-07"])
	if o := report(t, stdout)["acme-07"]; code != 0 || o.Status != swap.Unchanged {
		t.Errorf("again: exit code %d, %+v", code, o)
	}
}

// setEnv sets from outside what neither Terraform nor a rollout knows.
func (p *platform) setEnv(t *testing.T, app, id string) {
	t.Helper()
	m, err := p.api.GetMachine(t.Context(), app, id)
	if err != nil {
		t.Fatal(err)
	}
	config := bytes.Replace(m.Config(), []byte(`"KEPT":"1"`), []byte(`"KEPT":"1","FOREIGN":"yes"`), 1)
	config = append(bytes.TrimSuffix(config, []byte("}")), []byte(`,"metrics":{"port":9091,"path":"/m","seen":9007199254740993}}`)...)
	if _, err := p.api.UpdateMachine(t.Context(), app, id, flyapi.UpdateRequest{Config: config, CurrentVersion: m.InstanceID}); err != nil {
		t.Fatal(err)
	}
	if err := p.api.WaitMachine(t.Context(), app, id, flyapi.WaitRequest{States: []string{flyapi.StateStarted}}); err != nil {
		t.Fatal(err)
	}
}

func TestWhatTerraformOwnsIsSwappedOnlyByForce(t *testing.T) {
	p := start(t)
	id := p.machine(t, "owned", oldImage, "acme", "terraform")
	p.Faults.ClearRequests()
	code, stdout, _ := flyfleet(t, "--json", "redeploy-fleet", "--image", newImage)
	if o := report(t, stdout)["owned"]; code != 3 || o.Code != swap.CodeOwned || len(p.written()) != 0 {
		t.Errorf("exit code %d, %+v, written %v", code, o, p.written())
	}
	code, stdout, _ = flyfleet(t, "--json", "redeploy-fleet", "--image", newImage, "--machine", id, "--force")
	if o := report(t, stdout)["owned"]; code != 0 || o.Status != swap.Swapped {
		t.Errorf("exit code %d, %+v", code, o)
	}
}

func TestAPullThatFailsIsAFailureWithItsReason(t *testing.T) {
	p := start(t)
	p.machine(t, "acme-a", oldImage, "acme", "rollout")
	p.Faults.FailPull(flyapi.DigestOf(newImage), "manifest unknown")
	code, stdout, stderr := flyfleet(t, "redeploy-fleet", "--image", newImage)
	if code != 1 || !strings.Contains(stdout, "failed") {
		t.Errorf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
}

func TestTheFleetIsFoundOrAskedFor(t *testing.T) {
	p := start(t)
	id := p.machine(t, "one", oldImage, "blue", "rollout")
	p.machine(t, "two", oldImage, "green", "rollout")
	code, _, stderr := flyfleet(t, "redeploy-fleet", "--image", newImage)
	if code != 1 || !strings.Contains(stderr, "choose one with --fleet: blue, green") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	code, stdout, _ := flyfleet(t, "redeploy-fleet", "--image", newImage, "--machine", id)
	if code != 0 || !strings.Contains(stdout, "one") || strings.Contains(stdout, "two") {
		t.Errorf("exit code %d, %s", code, stdout)
	}
	code, stdout, _ = flyfleet(t, "machines")
	if code != 0 || !strings.Contains(stdout, "cccccccccccc") || !strings.Contains(stdout, "aaaaaaaaaaaa") {
		t.Errorf("exit code %d, %s", code, stdout)
	}
	code, stdout, _ = flyfleet(t, "--json", "machines", "--fleet", "green")
	if code != 0 || strings.Contains(stdout, `"blue"`) || !strings.Contains(stdout, `"app": "two"`) {
		t.Errorf("exit code %d, %s", code, stdout)
	}
}
