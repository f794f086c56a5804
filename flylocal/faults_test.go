package flylocal_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/faults"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/none"
)

func TestTheNextCallsAreAnsweredByTheRule(t *testing.T) {
	p := start(t)
	newApp(t, p, "app")
	must(t, p, "POST", "/_flylocal/faults/answer", `{"method":"GET","path":"/v1/apps/*","times":2,"status":500,"body":"{\"error\":\"boom\"}"}`)
	if got := call(t, p, "GET", "/v1/apps/app/machines", nil); got.status != 200 {
		t.Errorf("a star crossed a slash: %d", got.status)
	}
	for range 2 {
		if got := call(t, p, "GET", "/v1/apps/app", nil); got.status != 500 || string(got.body) != `{"error":"boom"}` {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	must(t, p, "GET", "/v1/apps/app", nil)
	must(t, p, "POST", "/_flylocal/faults/answer", `{"path":"/v1/**","times":-1,"status":429}`)
	if got := call(t, p, "DELETE", "/v1/apps/app", nil); got.status != 429 {
		t.Errorf("%d", got.status)
	}
	must(t, p, "DELETE", "/_flylocal/faults", nil)
	must(t, p, "GET", "/v1/apps/app", nil)
	if got := call(t, p, "POST", "/_flylocal/faults/nonsense", `{}`); got.status != 400 {
		t.Errorf("an unknown fault: %d", got.status)
	}
	if got := call(t, p, "GET", "/_flylocal/requests", nil, "Authorization", "none"); got.status != 401 {
		t.Errorf("the private paths are open: %d", got.status)
	}
}

// fly-go retries a POST on 502: an answer that is lost after its effect is what makes two machines out of one create.
func TestALostAnswerHasItsEffect(t *testing.T) {
	p := start(t)
	newApp(t, p, "app")
	if err := p.Faults.Answer(faults.Rule{Method: "POST", Path: "/v1/apps/app/machines", Status: 502, Execute: true}); err != nil {
		t.Fatal(err)
	}
	if got := call(t, p, "POST", "/v1/apps/app/machines", plain("main")); got.status != 502 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := call(t, p, "POST", "/v1/apps/app/machines", plain("main")); got.status != 409 {
		t.Errorf("the first create had no effect: %d %s", got.status, got.body)
	}
	if err := p.Faults.Answer(faults.Rule{Method: "GET", Path: "/v1/apps/app", Drop: true}); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL()+"/v1/apps/app", nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if resp, err := client.Do(req); err == nil {
		t.Errorf("a dropped connection answered %s", resp.Status)
	}
}

func TestEachCallIsInTheLog(t *testing.T) {
	p := start(t)
	newApp(t, p, "app")
	p.Faults.ClearRequests()
	mark := 0
	must(t, p, "GET", "/v1/apps/app/machines?state=started", nil)
	call(t, p, "POST", "/v1/apps/app/machines", `{"config":{}}`, "fly-machine-lease-nonce", "n")
	var log []faults.Request
	must(t, p, "GET", "/_flylocal/requests", nil).decode(t, &log)
	if len(log) != 2 {
		t.Fatalf("%+v", log)
	}
	if a, b := log[0], log[1]; a.Method != http.MethodGet || a.Path != "/v1/apps/app/machines" || a.Query != "state=started" || a.Status != 200 ||
		b.Method != http.MethodPost || b.Body != `{"config":{}}` || b.Status != 400 || !b.Nonce || b.Seq != a.Seq+1 {
		t.Errorf("%+v", log)
	}
	mark = log[1].Seq
	must(t, p, "GET", "/v1/apps/app", nil)
	if since := p.Faults.Requests(mark); len(since) != 1 || since[0].Path != "/v1/apps/app" {
		t.Errorf("since %d: %+v", mark, since)
	}
}

func TestAMachineOnALostHostShowsNoConfig(t *testing.T) {
	p := start(t)
	newApp(t, p, "app")
	m := newMachine(t, p, "app", `{"name":"main","config":{"image":"`+image+`","env":{"A":"1"},"metadata":{"k":"v"}}}`)
	must(t, p, "POST", "/_flylocal/faults/host", `{"machine":"`+m.ID+`","host_status":"unreachable"}`)
	lost := get(t, p, "app", m.ID)
	if lost.HostStatus != "unreachable" || lost.Config != nil || !strings.Contains(string(lost.Incomplete), `"metadata":{"k":"v"}`) ||
		strings.Contains(string(lost.Incomplete), `"env"`) {
		t.Errorf("%+v %s", lost, lost.Incomplete)
	}
	var listed []machine
	must(t, p, "GET", "/v1/apps/app/machines", nil).decode(t, &listed)
	var org struct{ Machines []machine }
	must(t, p, "GET", "/v1/orgs/flylocal/machines", nil).decode(t, &org)
	if listed[0].HostStatus != "unreachable" || listed[0].Config != nil || org.Machines[0].HostStatus != "unreachable" || org.Machines[0].Config != nil {
		t.Errorf("%+v %+v", listed, org)
	}
	if got := call(t, p, "POST", "/v1/apps/app/machines/"+m.ID, plain("main")); got.status != 412 {
		t.Errorf("an update on a lost host: %d %s", got.status, got.body)
	}
	must(t, p, "DELETE", "/_flylocal/faults", nil)
	if back := get(t, p, "app", m.ID); back.HostStatus != "ok" || string(back.Config) != string(m.Config) || back.InstanceID != m.InstanceID {
		t.Errorf("%+v", back)
	}
}

func TestASlowBootTimesOutItsWaitAndCanBeGivenUp(t *testing.T) {
	p := start(t)
	newApp(t, p, "app")
	must(t, p, "POST", "/_flylocal/faults/boot", `{"target":"app","delay_ms":3600000}`)
	var m machine
	must(t, p, "POST", "/v1/apps/app/machines", plain("main")).decode(t, &m)
	path := "/v1/apps/app/machines/" + m.ID
	eventually(t, "it is starting", func() bool { return get(t, p, "app", m.ID).State == "starting" })
	got := call(t, p, "GET", path+"/wait?timeout=1", nil)
	if got.status != 408 || string(got.body) != `{"error":"deadline_exceeded: machine failed to reach desired state, started, currently starting"}` {
		t.Errorf("%d %s", got.status, got.body)
	}
	must(t, p, "POST", path+"/stop", nil)
	if now := settled(t, p, "app", m.ID); now.State != "stopped" {
		t.Errorf("after the stop: %s", now.State)
	}
	must(t, p, "POST", path+"/start", nil)
	must(t, p, "DELETE", path+"?force=true", nil)
	must(t, p, "GET", path+"/wait?state=destroyed&timeout=20", nil)
}

func TestQuotaAndCapacityRefuseCreates(t *testing.T) {
	p := start(t)
	newApp(t, p, "app")
	newMachine(t, p, "app", plain("main"))
	p.Faults.Quota(1, 0)
	if got := call(t, p, "POST", "/v1/apps/app/machines", plain("second")); got.status != 422 {
		t.Errorf("machine quota: %d %s", got.status, got.body)
	}
	if got := call(t, p, "POST", "/v1/apps/app/volumes", `{"name":"data"}`); got.status != 422 {
		t.Errorf("volume quota: %d %s", got.status, got.body)
	}
	p.Faults.Quota(-1, -1)
	p.Faults.NoCapacity("ams")
	got := call(t, p, "POST", "/v1/apps/app/machines", plain("second"))
	if got.status != 422 || string(got.body) != `{"error":"could not find a candidate host","status":"insufficient_capacity"}` {
		t.Errorf("%d %s", got.status, got.body)
	}
	if m := newMachine(t, p, "app", `{"region":"ams,fra","config":{"image":"`+image+`"}}`); m.Region != "fra" {
		t.Errorf("the second choice was not taken: %s", m.Region)
	}
}

func TestRateLimitsAreFlysWhenSwitchedOn(t *testing.T) {
	p := start(t)
	newApp(t, p, "app")
	m := newMachine(t, p, "app", plain("main"))
	path := "/v1/apps/app/machines/" + m.ID
	p.Faults.RateLimits(true)
	refused := 0
	for range 8 {
		got := call(t, p, "POST", path+"/cordon", nil)
		if got.status == 429 {
			refused++
			if string(got.body) != `{"error":"rate limit exceeded"}` {
				t.Errorf("%s", got.body)
			}
		}
	}
	if refused == 0 {
		t.Error("eight calls at once passed")
	}
	if got := call(t, p, "POST", path+"/uncordon", nil); got.status != 200 {
		t.Errorf("another action is limited too: %d", got.status)
	}
	p.Faults.Clear()
	for range 8 {
		must(t, p, "POST", path+"/cordon", nil)
	}
}

func TestCommandsAnswerFromTheImagesScript(t *testing.T) {
	p := start(t)
	newApp(t, p, "app")
	m := newMachine(t, p, "app", plain("main"))
	probe := func(args string) (code int, line map[string]any, stdout string) {
		t.Helper()
		var got struct {
			Code   int `json:"exit_code"`
			Stdout string
		}
		must(t, p, "POST", "/v1/apps/app/machines/"+m.ID+"/exec", `{"command":["/opt/flyfleet/bin/flyfleet-controlserver","probe","--json"`+args+`]}`).decode(t, &got)
		_ = json.Unmarshal([]byte(got.Stdout), &line) // A scripted answer is no JSON.
		return got.Code, line, got.Stdout
	}
	if code, line, _ := probe(""); code != 0 || line["state"] != "serving" || line["running"] != 0.0 || line["epoch"] == "" {
		t.Errorf("%d %v", code, line)
	}
	if _, line, _ := probe(`,"--quiesce","60s"`); line["quiesce"] != "closed" || line["state"] != "quiesced" || line["quiesced_until"] == "" {
		t.Errorf("%v", line)
	}
	if _, line, _ := probe(""); line["state"] != "quiesced" || line["quiesce"] != "" {
		t.Errorf("the door did not stay closed: %v", line)
	}
	if _, line, _ := probe(`,"--resume"`); line["quiesce"] != "resumed" || line["state"] != "serving" {
		t.Errorf("%v", line)
	}
	if err := p.Faults.ScriptExec(m.ImageRef.Digest, none.Answer{Match: "--resume", Stdout: "x"}, none.Answer{ExitCode: 1, Stderr: "broken"}); err != nil {
		t.Fatal(err)
	}
	if code, _, _ := probe(""); code != 1 {
		t.Errorf("the script was not asked: %d", code)
	}
	if code, _, out := probe(`,"--resume"`); code != 0 || out != "x" {
		t.Errorf("%d %q", code, out)
	}
	if err := p.Faults.ScriptExec(m.ImageRef.Digest); err != nil {
		t.Fatal(err)
	}
	if code, line, _ := probe(""); code != 0 || line["state"] != "serving" {
		t.Errorf("%d %v", code, line)
	}
}

func TestDelaysOfZeroAreTaken(t *testing.T) {
	p := start(t)
	must(t, p, "POST", "/_flylocal/faults/delays", `{"settle_ms":0,"unbind_ms":0}`)
	newApp(t, p, "app")
	if m := newMachine(t, p, "app", plain("main")); m.State != "started" {
		t.Errorf("%s", m.State)
	}
	p.Faults.Delays(time.Hour, time.Hour)
	p.Faults.Clear()
	if m := newMachine(t, p, "app", plain("second")); m.State != "started" {
		t.Errorf("%s", m.State)
	}
}
