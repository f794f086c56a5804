package flylocal_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal"
)

// The words are Fly's, as far as public reports quote them: clients match on them.
func TestRefusalsSpeakFlysWords(t *testing.T) {
	p := start(t)
	newApp(t, p, "app")
	must(t, p, "POST", "/v1/apps/app/volumes", `{"name":"data","region":"ams","size_gb":3}`)
	var volumes []struct{ ID string }
	must(t, p, "GET", "/v1/apps/app/volumes", nil).decode(t, &volumes)
	vol := volumes[0].ID
	m := newMachine(t, p, "app", `{"name":"main","config":{"image":"`+image+`","mounts":[{"volume":"`+vol+`","path":"/data"}]}}`)
	stopped := newMachine(t, p, "app", `{"name":"cold","skip_launch":true,"config":{"image":"`+image+`"}}`)
	p.Faults.ForeignApp("theirs", true)
	up, down := "/v1/apps/app/machines/"+m.ID, "/v1/apps/app/machines/"+stopped.ID
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/v1/apps/nope", "", 404, `{"error":"app not found"}`},
		{"GET", "/v1/apps/theirs", "", 403, `{"error":"unauthorized"}`},
		{"GET", "/v1/apps/app/machines/00000000000000", "", 404, `{"error":"machine not found"}`},
		{"POST", "/v1/apps", `{"name":"app","org_slug":"flylocal"}`, 422, `{"error":"Validation failed: Name has already been taken","status":"name_taken"}`},
		{"POST", "/v1/apps", `{"name":"theirs","org_slug":"flylocal"}`, 422, `{"error":"Validation failed: Name has already been taken","status":"name_taken"}`},
		{"POST", "/v1/apps", `{"name":"Bad_Name","org_slug":"flylocal"}`, 422, `{"error":"Validation failed: Name under 63 chars using numbers, lowercase letters and dashes"}`},
		{"POST", "/v1/apps", `{"name":"` + strings.Repeat("a", 63) + `","org_slug":"flylocal"}`, 422, `{"error":"Validation failed: Name under 63 chars using numbers, lowercase letters and dashes"}`},
		{"POST", "/v1/apps/app/machines", plain("main"), 409, `{"error":"already_exists: unique machine name violation, machine ID ` + m.ID + ` already exists with name \"main\""}`},
		{"POST", "/v1/apps/app/machines", `{"name":"b","config":{"image":"x","mounts":[{"volume":"` + vol + `","path":"/d"}]}}`, 412, `{"error":"failed_precondition: volume already claimed by machine ` + m.ID + `"}`},
		{"DELETE", "/v1/apps/app/volumes/" + vol, "", 412, `{"error":"failed_precondition: volume is currently bound to machine: ` + m.ID + `"}`},
		{"PUT", "/v1/apps/app/volumes/" + vol + "/extend", `{"size_gb":3}`, 400, `{"error":"invalid_argument: size_gb 3 must be larger than the current 3 and at most 500"}`},
		{"DELETE", up, "", 412, `{"error":"failed_precondition: unable to destroy machine, not currently stopped, suspended, failed or created"}`},
		{"GET", up + "/lease", "", 404, `{"error":"lease not found"}`},
		{"DELETE", up + "/lease", "", 404, `{"error":"lease not found"}`},
		{"GET", up + "/wait?timeout=61", "", 400, `{"error":"invalid_argument: invalid WaitMachineRequest.Timeout: value must be inside range [1s, 1m0s]"}`},
		{"GET", up + "/wait?timeout=0", "", 400, `{"error":"invalid_argument: invalid WaitMachineRequest.Timeout: value must be inside range [1s, 1m0s]"}`},
		{"GET", down + "/wait?state=started&timeout=1", "", 408, `{"error":"deadline_exceeded: machine failed to reach desired state, started, currently stopped"}`},
		{"POST", up, `{"config":{"image":"x"},"min_secrets_version":7}`, 412, `{"error":"failed_precondition: secrets version 7 is not available yet, the current one is 0"}`},
		{"POST", up, `{"config":{"image":"` + image + `","mounts":[{"volume":"` + vol + `","path":"/data"}]},"current_version":"01OLD"}`, 409, `{"error":"aborted: machine version 01OLD is not current, the current one is ` + m.InstanceID + `"}`},
		{"POST", down + "/exec", `{"command":["true"]}`, 412, `{"error":"failed_precondition: unable to exec, machine is not started, currently stopped"}`},
		{"POST", "/v1/apps/app/machines", `{"config":{"image":"x","guest":{"cpu_kind":"shared","cpus":3,"memory_mb":768}}}`, 400, `{"error":"invalid_argument: config.guest.cpus 3 is not offered for shared CPUs, choose one of [1 2 4 6 8]"}`},
		{"POST", "/v1/apps/app/machines", `{"config":{"image":"x","guest":{"cpu_kind":"shared","cpus":1,"memory_mb":4096}}}`, 400, `{"error":"invalid_argument: config.guest.memory_mb 4096 must be between 256 and 2048 for 1 shared CPUs"}`},
		{"POST", "/v1/apps/app/machines", `{"config":{"image":"x","guest":{"cpu_kind":"shared","cpus":1,"memory_mb":300}}}`, 400, `{"error":"invalid_argument: config.guest.memory_mb 300 must be a multiple of 256"}`},
		{"POST", "/v1/apps/app/machines", `{"config":{}}`, 400, `{"error":"invalid_argument: config.image is required"}`},
		{"POST", "/v1/apps/app/machines", `{"region":"xxx","config":{"image":"x"}}`, 400, `{"error":"invalid_argument: region \"xxx\" not found"}`},
		{"GET", "/v1/orgs/others/machines", "", 404, `{"error":"organization not found"}`},
		{"GET", "/v1/orgs/flylocal/machines?limit=1001", "", 400, `{"error":"invalid_argument: limit must be between 1 and 1000"}`},
	} {
		got := call(t, p, c.method, c.path, c.body)
		if got.status != c.status || string(got.body) != c.want {
			t.Errorf("%s %s %s\n got %d %s\nwant %d %s", c.method, c.path, c.body, got.status, got.body, c.status, c.want)
		}
		if got.header.Get("Fly-Request-Id") == "" {
			t.Errorf("%s %s: no fly-request-id", c.method, c.path)
		}
	}
}

func TestCallsWithoutTheTokenAreRefused(t *testing.T) {
	p := start(t)
	for _, authorization := range []string{"", "Bearer wrong", "Basic " + p.Token(), p.Token()} {
		got := call(t, p, "GET", "/v1/apps?org_slug=flylocal", nil, "Authorization", authorization)
		if got.status != http.StatusUnauthorized || string(got.body) != `{"error":"Authenticate: token validation error"}` {
			t.Errorf("%q: %d %s", authorization, got.status, got.body)
		}
	}
	for _, authorization := range []string{"Bearer " + p.Token(), "FlyV1 fm2_x," + p.Token()} {
		if got := call(t, p, "GET", "/v1/apps?org_slug=flylocal", nil, "Authorization", authorization); got.status != 200 {
			t.Errorf("%q: %d %s", authorization, got.status, got.body)
		}
	}
}

func TestStartIsRefusedWhileAMachineIsOnItsWay(t *testing.T) {
	p := start(t)
	newApp(t, p, "app")
	p.Faults.Delays(deadline, 0)
	var m machine
	must(t, p, "POST", "/v1/apps/app/machines", plain("main")).decode(t, &m)
	path := "/v1/apps/app/machines/" + m.ID
	got := call(t, p, "POST", path+"/start", nil)
	if got.status != 412 || string(got.body) != `{"error":"failed_precondition: unable to start machine from current state: 'created'"}` {
		t.Errorf("created: %d %s", got.status, got.body)
	}
	p.Faults.Delays(0, 0)
	must(t, p, "DELETE", path+"?force=true", nil)
	m = newMachine(t, p, "app", plain("second"))
	path = "/v1/apps/app/machines/" + m.ID
	p.Faults.Delays(deadline, 0)
	must(t, p, "POST", path, plain("second"))
	got = call(t, p, "POST", path+"/start", nil)
	if got.status != 412 || string(got.body) != `{"error":"failed_precondition: machine getting replaced, refusing to start"}` {
		t.Errorf("replacing: %d %s", got.status, got.body)
	}
	got = call(t, p, "POST", path, plain("second"))
	if got.status != 409 || string(got.body) != `{"error":"aborted: machine update failed due to concurrent update"}` {
		t.Errorf("second update: %d %s", got.status, got.body)
	}
	p.Faults.Delays(0, 0)
}

func TestALeaseGuardsEachVerbThatChanges(t *testing.T) {
	p := start(t)
	newApp(t, p, "app")
	m := newMachine(t, p, "app", plain("main"))
	path := "/v1/apps/app/machines/" + m.ID
	var lease struct {
		Status string
		Data   struct {
			Nonce, Owner, Version string
			ExpiresAt             int64 `json:"expires_at"`
		}
	}
	got := must(t, p, "POST", path+"/lease", `{"ttl":120,"description":"test"}`)
	got.decode(t, &lease)
	if got.status != 201 || lease.Status != "success" || lease.Data.Nonce == "" || lease.Data.Version != m.InstanceID {
		t.Fatalf("%d %s", got.status, got.body)
	}
	held := `{"status":"error","message":"machine ID ` + m.ID + ` lease currently held by ` + lease.Data.Owner + `, expires at ` +
		time.Unix(lease.Data.ExpiresAt, 0).UTC().Format(time.RFC3339) + `","code":"invalid"}`
	guarded := []struct{ method, path, body string }{
		{"POST", path, plain("main")},
		{"POST", path + "/start", ""},
		{"POST", path + "/stop", ""},
		{"POST", path + "/restart", ""},
		{"POST", path + "/suspend", ""},
		{"POST", path + "/cordon", ""},
		{"POST", path + "/uncordon", ""},
		{"DELETE", path + "?force=true", ""},
		{"POST", path + "/lease?ttl=5", ""},
		{"DELETE", path + "/lease", ""},
	}
	for _, g := range guarded {
		for _, nonce := range []string{"", "wrong"} {
			got := call(t, p, g.method, g.path, g.body, "fly-machine-lease-nonce", nonce)
			if got.status != 409 || string(got.body) != held {
				t.Errorf("%s %s nonce %q: %d %s, want %s", g.method, g.path, nonce, got.status, got.body, held)
			}
		}
	}
	if now := get(t, p, "app", m.ID); now.State != "started" || now.InstanceID != m.InstanceID || now.Cordoned || now.Nonce != "" {
		t.Errorf("a refused verb changed the machine: %+v", now)
	}
	for _, open := range []struct{ method, path, body string }{
		{"POST", path + "/metadata/k", `{"value":"v"}`},
		{"POST", path + "/exec", `{"command":["true"]}`},
		{"GET", path + "/ps", ""},
		{"GET", path + "/wait?state=started&timeout=5", ""},
	} {
		must(t, p, open.method, open.path, open.body)
	}
	must(t, p, "POST", path+"/cordon", nil, "fly-machine-lease-nonce", lease.Data.Nonce)
	must(t, p, "POST", path+"/lease?ttl=60", nil, "fly-machine-lease-nonce", lease.Data.Nonce)
	with := must(t, p, "GET", path+"?include_leases=true", nil)
	if !bytes.Contains(with.body, []byte(`"nonce":"`+lease.Data.Nonce+`"`)) {
		t.Errorf("include_leases shows no nonce: %s", with.body)
	}
	must(t, p, "DELETE", path+"/lease", nil, "fly-machine-lease-nonce", lease.Data.Nonce)
	must(t, p, "POST", path+"/uncordon", nil)
}

func TestOnlyLoopbackIsServed(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "192.168.1.1:80", "example.org:0", "nonsense"} {
		_, err := flylocal.Start(t.Context(), flylocal.Options{Dir: t.TempDir(), Runner: "none", Addr: addr})
		if err == nil {
			t.Errorf("%s was taken", addr)
		}
	}
}
