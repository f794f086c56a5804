package flylocal_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal"
)

func TestAnUpdateEndsInTheStateThatItFound(t *testing.T) {
	p := start(t)
	newApp(t, p, "app")
	for _, c := range []struct {
		name, before, body, want string
	}{
		{"running", "", `{"config":{"image":"registry.fly.io/base:v2"}}`, "started"},
		{"running-skip", "", `{"skip_launch":true,"config":{"image":"registry.fly.io/base:v2"}}`, "stopped"},
		{"stopped", "stop", `{"skip_launch":true,"config":{"image":"registry.fly.io/base:v2"}}`, "stopped"},
		{"stopped-start", "stop", `{"config":{"image":"registry.fly.io/base:v2"}}`, "started"},
		{"suspended", "suspend", `{"skip_launch":true,"config":{"image":"registry.fly.io/base:v2"}}`, "stopped"},
	} {
		m := newMachine(t, p, "app", plain(c.name))
		path := "/v1/apps/app/machines/" + m.ID
		if c.before != "" {
			must(t, p, "POST", path+"/"+c.before, nil)
			settled(t, p, "app", m.ID)
		}
		var answered machine
		must(t, p, "POST", path, c.body).decode(t, &answered)
		if answered.State != "replacing" || answered.InstanceID == m.InstanceID || answered.ID != m.ID {
			t.Errorf("%s: the update answered %+v", c.name, answered)
		}
		now := settled(t, p, "app", m.ID)
		if now.State != c.want || now.ImageRef.Tag != "v2" || now.InstanceID != answered.InstanceID {
			t.Errorf("%s: %s %s %+v, want %s", c.name, now.State, now.InstanceID, now.ImageRef, c.want)
		}
		var versions []struct {
			Version    string
			UserConfig json.RawMessage `json:"user_config"`
		}
		must(t, p, "GET", path+"/versions", nil).decode(t, &versions)
		if len(versions) != 2 || versions[0].Version != now.InstanceID || versions[1].Version != m.InstanceID {
			t.Errorf("%s: versions %+v", c.name, versions)
		}
		got := call(t, p, "GET", path+"/wait?state=started&timeout=5&version="+m.InstanceID, nil)
		if got.status != 408 || !strings.Contains(string(got.body), "currently replaced") {
			t.Errorf("%s: a wait for the old version: %d %s", c.name, got.status, got.body)
		}
	}
}

func TestAnUpdateSetsTheCordonAnew(t *testing.T) {
	p := start(t)
	newApp(t, p, "app")
	m := newMachine(t, p, "app", `{"skip_service_registration":true,"config":{"image":"`+image+`"}}`)
	if !m.Cordoned {
		t.Error("skip_service_registration made no cordon")
	}
	path := "/v1/apps/app/machines/" + m.ID
	must(t, p, "POST", path, `{"skip_service_registration":true,"config":{"image":"`+image+`"}}`)
	if m = settled(t, p, "app", m.ID); !m.Cordoned {
		t.Error("an update that skips the registration uncordoned")
	}
	must(t, p, "POST", path, plain(""))
	if m = settled(t, p, "app", m.ID); m.Cordoned {
		t.Error("an update without it left the cordon")
	}
}

// flyctl#4921: a failed pull leaves the old version running, and nothing says so.
func TestAFailedPullOnUpdateRevertsInSilence(t *testing.T) {
	p := start(t)
	newApp(t, p, "app")
	p.Faults.FailPull("base:bad", "manifest unknown")
	for _, before := range []string{"", "stop", "suspend"} {
		m := newMachine(t, p, "app", plain("m-"+before))
		path := "/v1/apps/app/machines/" + m.ID
		if before != "" {
			must(t, p, "POST", path+"/"+before, nil)
			m = settled(t, p, "app", m.ID)
		}
		must(t, p, "POST", path+"/cordon", nil)
		var answered machine
		must(t, p, "POST", path, `{"config":{"image":"registry.fly.io/base:bad","env":{"NEW":"1"}}}`).decode(t, &answered)
		if answered.ImageRef.Tag != "bad" {
			t.Errorf("answered %+v", answered)
		}
		// The wait for the new version succeeds; only instance and digest tell.
		must(t, p, "GET", path+"/wait?state=settled&timeout=20&version="+answered.InstanceID, nil)
		now := get(t, p, "app", m.ID)
		if now.State != m.State || string(now.Config) != string(m.Config) || now.InstanceID != m.InstanceID || now.ImageRef != m.ImageRef || !now.Cordoned {
			t.Errorf("after %q: %+v\nwant %+v", before, now, m)
		}
		if slices.ContainsFunc(now.Events, func(e event) bool {
			return e.Status == "failed"
		}) {
			t.Errorf("an event tells: %+v", now.Events)
		}
	}
	m := newMachine(t, p, "app", `{"name":"fresh","config":{"image":"registry.fly.io/base:bad"}}`)
	if m.State != "failed" {
		t.Errorf("a create whose pull fails is %s", m.State)
	}
	p.Faults.Clear()
	must(t, p, "POST", "/v1/apps/app/machines/"+m.ID+"/start", nil)
	if m = settled(t, p, "app", m.ID); m.State != "started" {
		t.Errorf("a start after the failure: %s", m.State)
	}
}

func TestAVolumeStaysBoundUntilItsMachineIsGone(t *testing.T) {
	p := start(t)
	newApp(t, p, "app")
	var v struct {
		ID       string
		Attached *string `json:"attached_machine_id"`
		State    string
	}
	must(t, p, "POST", "/v1/apps/app/volumes", `{"name":"data","size_gb":1}`).decode(t, &v)
	m := newMachine(t, p, "app", `{"config":{"image":"`+image+`","mounts":[{"volume":"`+v.ID+`","path":"/data"}]}}`)
	p.Faults.Delays(time.Millisecond, deadline)
	must(t, p, "DELETE", "/v1/apps/app/machines/"+m.ID+"?force=true", nil)
	must(t, p, "GET", "/v1/apps/app/machines/"+m.ID+"/wait?state=destroyed&timeout=20", nil)
	want := `{"error":"failed_precondition: volume is currently bound to machine: ` + m.ID + `"}`
	if got := call(t, p, "DELETE", "/v1/apps/app/volumes/"+v.ID, nil); got.status != 412 || string(got.body) != want {
		t.Errorf("%d %s, want %s", got.status, got.body, want)
	}
	if gone := get(t, p, "app", m.ID); gone.State != "destroyed" {
		t.Errorf("a destroyed machine reads %s", gone.State)
	}
	var left []machine
	must(t, p, "GET", "/v1/apps/app/machines", nil).decode(t, &left)
	if len(left) != 0 {
		t.Errorf("still listed: %+v", left)
	}
	must(t, p, "GET", "/v1/apps/app/machines?include_deleted=true", nil).decode(t, &left)
	if len(left) != 1 {
		t.Errorf("include_deleted lists %+v", left)
	}
	if got := call(t, p, "POST", "/v1/apps/app/machines/"+m.ID+"/start", nil); got.status != 404 {
		t.Errorf("start of a destroyed machine: %d %s", got.status, got.body)
	}
}

func TestExitFollowsTheRestartPolicy(t *testing.T) {
	p := start(t)
	newApp(t, p, "app")
	for _, c := range []struct{ policy, want string }{
		{`"restart":{"policy":"no"}`, "stopped"},
		{`"restart":{"policy":"no"},"auto_destroy":true`, "destroyed"},
		{`"restart":{"policy":"always"}`, "started"},
		{`"restart":{"policy":"on-failure"}`, "started"},
		{`"future":1`, "started"},
	} {
		m := newMachine(t, p, "app", `{"config":{"image":"`+image+`",`+c.policy+`}}`)
		path := "/v1/apps/app/machines/" + m.ID
		must(t, p, "POST", path+"/signal", `{"signal":9}`)
		var now machine
		eventually(t, c.policy+" ends in "+c.want, func() bool {
			now = get(t, p, "app", m.ID)
			exited := slices.ContainsFunc(now.Events, func(e event) bool {
				x := e.Request
				return e.Type == "exit" && x != nil && x.ExitEvent != nil && x.ExitEvent.ExitCode == 137 && !x.ExitEvent.RequestedStop &&
					x.ExitEvent.Restarting == (c.want == "started")
			})
			return exited && now.State == c.want
		})
		if now.InstanceID != m.InstanceID {
			t.Errorf("%s: a restart made another version", c.policy)
		}
	}
}

func TestTriesOfARestartEnd(t *testing.T) {
	p := start(t)
	newApp(t, p, "app")
	m := newMachine(t, p, "app", `{"config":{"image":"`+image+`","restart":{"policy":"on-failure","max_retries":2}}}`)
	path := "/v1/apps/app/machines/" + m.ID
	for range 3 {
		must(t, p, "GET", path+"/wait?state=started&timeout=20", nil)
		must(t, p, "POST", path+"/signal", `{"signal":"SIGKILL"}`)
		eventually(t, "the exit is seen", func() bool { s := get(t, p, "app", m.ID); return s.State == "started" || s.State == "stopped" })
	}
	eventually(t, "it stays down", func() bool { return get(t, p, "app", m.ID).State == "stopped" })
}

func TestMachinesOfANetworkShareItsPrefix(t *testing.T) {
	p := start(t)
	prefix := map[string]string{}
	for _, app := range []string{"one", "two"} {
		newApp(t, p, app)
		seen := map[string]bool{}
		for i := range 3 {
			m := newMachine(t, p, app, plain(fmt.Sprintf("m%d", i)))
			parts := strings.SplitN(m.PrivateIP, ":", 4)
			if parts[0] != "fdaa" || seen[m.PrivateIP] {
				t.Errorf("address %s", m.PrivateIP)
			}
			seen[m.PrivateIP] = true
			head := strings.Join(parts[:3], ":")
			if prefix[app] != "" && prefix[app] != head {
				t.Errorf("%s: %s and %s", app, prefix[app], head)
			}
			prefix[app] = head
		}
	}
	if prefix["one"] == prefix["two"] {
		t.Errorf("two networks share %s", prefix["one"])
	}
}

func TestAddressesAreDistinctAndOneStoreServesBothAPIs(t *testing.T) {
	p := start(t)
	seen := map[string]bool{}
	for _, app := range []string{"one", "two"} {
		newApp(t, p, app)
		for _, kind := range []string{"v4", "v6", "private_v6"} {
			var ip struct{ IP string }
			must(t, p, "POST", "/v1/apps/"+app+"/ip_assignments", `{"type":"`+kind+`","network":"runtime"}`).decode(t, &ip)
			if seen[ip.IP] || strings.HasPrefix(ip.IP, "fdaa:") != (kind == "private_v6") {
				t.Errorf("%s %s: %s", app, kind, ip.IP)
			}
			seen[ip.IP] = true
		}
	}
	if got := call(t, p, "POST", "/v1/apps/one/ip_assignments", `{"type":"private_v6","network":"runtime"}`); got.status != 422 {
		t.Errorf("a second address on one network: %d %s", got.status, got.body)
	}
	must(t, p, "POST", "/v1/apps/one/ip_assignments", `{"type":"private_v6","network":"other"}`)
	must(t, p, "POST", "/v1/apps/one/ip_assignments", `{"type":"shared_v4"}`)
}

func TestOrgListsComeInPagesByTimeOfChange(t *testing.T) {
	p := start(t)
	const apps, perPage = 7, 3
	for i := range apps {
		app := fmt.Sprintf("app-%d", i)
		newApp(t, p, app)
		newMachine(t, p, app, `{"name":"main","config":{"image":"`+image+`","env":{"A":"1"},"metadata":{"flyfleet_fleet":"f"}}}`)
		must(t, p, "POST", "/v1/apps/"+app+"/volumes", `{"name":"data"}`)
	}
	type page struct {
		Machines []machine
		Volumes  []struct {
			ID      string
			AppName string `json:"app_name"`
		}
		Next        string `json:"next_cursor"`
		LastUpdated string `json:"last_updated_at"`
	}
	seen, last, cursor := map[string]bool{}, "", ""
	for pages := 1; ; pages++ {
		var got page
		must(t, p, "GET", fmt.Sprintf("/v1/orgs/%s/machines?limit=%d&cursor=%s", p.Org(), perPage, cursor), nil).decode(t, &got)
		for _, m := range got.Machines {
			if seen[m.ID] || m.UpdatedAt < last || m.AppName == "" || m.HostStatus != "ok" {
				t.Errorf("row %+v after %s", m, last)
			}
			if strings.Contains(string(m.Config), `"env"`) || !strings.Contains(string(m.Config), `"flyfleet_fleet"`) {
				t.Errorf("row's config %s", m.Config)
			}
			seen[m.ID], last = true, m.UpdatedAt
		}
		if cursor = got.Next; cursor == "" {
			if pages != 3 {
				t.Errorf("%d pages", pages)
			}
			break
		}
	}
	if len(seen) != apps {
		t.Errorf("listed %d machines of %d", len(seen), apps)
	}
	var none, volumes page
	must(t, p, "GET", "/v1/orgs/personal/machines?updated_after="+last, nil).decode(t, &none)
	if len(none.Machines) != 0 || none.Machines == nil {
		t.Errorf("updated_after lists %+v", none)
	}
	must(t, p, "GET", "/v1/orgs/"+p.Org()+"/volumes", nil).decode(t, &volumes)
	if len(volumes.Volumes) != apps || volumes.Volumes[0].AppName == "" {
		t.Errorf("volumes %+v", volumes)
	}
	var filtered, summary []map[string]any
	must(t, p, "GET", "/v1/apps/app-1/machines?metadata.flyfleet_fleet=other", nil).decode(t, &filtered)
	must(t, p, "GET", "/v1/apps/app-1/machines?summary=true&state=started,stopped&metadata.flyfleet_fleet=f", nil).decode(t, &summary)
	if len(filtered) != 0 || len(summary) != 1 {
		t.Fatalf("filters: %v, %v", filtered, summary)
	}
	for _, key := range []string{"config", "checks", "events", "host_status", "nonce"} {
		if _, there := summary[0][key]; there {
			t.Errorf("summary shows %s", key)
		}
	}
}

func TestSecretsReachMachinesAtCreateAndUpdateOnly(t *testing.T) {
	p := start(t)
	newApp(t, p, "app")
	var v struct{ Version int }
	must(t, p, "POST", "/v1/apps/app/secrets/A", `{"value":"1"}`).decode(t, &v)
	if v.Version != 1 {
		t.Errorf("version %d", v.Version)
	}
	listed := must(t, p, "GET", "/v1/apps/app/secrets", nil)
	if strings.Contains(string(listed.body), `"value"`) {
		t.Errorf("a list shows values: %s", listed.body)
	}
	if got := call(t, p, "GET", "/v1/apps/app/secrets?version=2", nil); got.status != 412 {
		t.Errorf("a version to come: %d %s", got.status, got.body)
	}
	must(t, p, "DELETE", "/v1/apps/app/secrets/NEVER", nil).decode(t, &v)
	if v.Version != 2 {
		t.Errorf("an unset of nothing gave version %d", v.Version)
	}
	must(t, p, "POST", "/v1/apps/app/machines", `{"min_secrets_version":2,"config":{"image":"`+image+`"}}`)
}

func TestDeletingAnAppTakesEverythingWithIt(t *testing.T) {
	p := start(t)
	newApp(t, p, "app")
	m := newMachine(t, p, "app", plain("main"))
	must(t, p, "POST", "/v1/apps/app/volumes", `{"name":"data"}`)
	if got := must(t, p, "DELETE", "/v1/apps/app", nil); got.status != 202 {
		t.Errorf("status %d", got.status)
	}
	newApp(t, p, "app")
	if got := call(t, p, "GET", "/v1/apps/app/machines/"+m.ID, nil); got.status != 404 {
		t.Errorf("the machine is still there: %d %s", got.status, got.body)
	}
	for _, list := range []string{"machines?include_deleted=true", "volumes"} {
		if got := must(t, p, "GET", "/v1/apps/app/"+list, nil); string(got.body) != "[]" {
			t.Errorf("%s: %s", list, got.body)
		}
	}
}

func TestStateSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	first := start(t, func(o *flylocal.Options) { o.Dir = dir })
	newApp(t, first, "app")
	var v struct{ ID string }
	must(t, first, "POST", "/v1/apps/app/volumes", `{"name":"data"}`).decode(t, &v)
	config := `{"image":"` + image + `", "n":9007199254740993,"mounts":[{"volume":"` + v.ID + `","path":"/data"}],"guest":{"cpus":1}}`
	up := newMachine(t, first, "app", `{"name":"up","config":`+config+`}`)
	down := newMachine(t, first, "app", `{"name":"down","skip_launch":true,"config":{"image":"`+image+`"}}`)
	frozen := newMachine(t, first, "app", plain("frozen"))
	must(t, first, "POST", "/v1/apps/app/machines/"+frozen.ID+"/suspend", nil)
	settled(t, first, "app", frozen.ID)
	must(t, first, "POST", "/v1/apps/app/machines/"+up.ID+"/lease?ttl=600", nil)
	must(t, first, "POST", "/v1/apps/app/secrets/A", `{"value":"1"}`)
	must(t, first, "POST", "/v1/apps/app/ip_assignments", `{"type":"private_v6","network":"runtime"}`)
	first.Faults.Delays(deadline, 0)
	var creating machine
	must(t, first, "POST", "/v1/apps/app/machines", plain("creating")).decode(t, &creating)
	must(t, first, "DELETE", "/v1/apps/app/machines/"+down.ID, nil)
	before := must(t, first, "GET", "/v1/apps/app/ip_assignments", nil)
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := start(t, func(o *flylocal.Options) { o.Dir = dir })
	if second.Token() != first.Token() {
		t.Error("the token changed")
	}
	got := get(t, second, "app", up.ID)
	if string(got.Config) != config || got.InstanceID != up.InstanceID || got.State != "started" || got.PrivateIP != up.PrivateIP {
		t.Errorf("after the restart: %+v %s", got, got.Config)
	}
	if refused := call(t, second, "POST", "/v1/apps/app/machines/"+up.ID+"/stop", nil); refused.status != 409 {
		t.Errorf("the lease is gone: %d", refused.status)
	}
	if got := settled(t, second, "app", creating.ID); got.State != "started" {
		t.Errorf("a boot in progress ended as %s", got.State)
	}
	if got := get(t, second, "app", frozen.ID); got.State != "suspended" {
		t.Errorf("the suspended machine is %s", got.State)
	}
	must(t, second, "GET", "/v1/apps/app/machines/"+down.ID+"/wait?state=destroyed&timeout=20", nil)
	if after := must(t, second, "GET", "/v1/apps/app/ip_assignments", nil); string(after.body) != string(before.body) {
		t.Errorf("addresses %s, were %s", after.body, before.body)
	}
	given := map[string]bool{up.PrivateIP: true, frozen.PrivateIP: true, creating.PrivateIP: true}
	for i := range 8 {
		m := newMachine(t, second, "app", plain(fmt.Sprintf("more-%d", i)))
		if given[m.PrivateIP] {
			t.Errorf("%s was given twice", m.PrivateIP)
		}
		given[m.PrivateIP] = true
	}
}

func TestAnUpdateGoesOnAfterARestart(t *testing.T) {
	dir := t.TempDir()
	first := start(t, func(o *flylocal.Options) { o.Dir = dir })
	newApp(t, first, "app")
	good, bad := newMachine(t, first, "app", plain("good")), newMachine(t, first, "app", plain("bad"))
	first.Faults.Delays(deadline, 0)
	must(t, first, "POST", "/v1/apps/app/machines/"+good.ID, `{"config":{"image":"registry.fly.io/base:v2"}}`)
	// The platform's own registry holds no such image, so this pull fails whenever it is tried.
	must(t, first, "POST", "/v1/apps/app/machines/"+bad.ID, `{"config":{"image":"`+first.RegistryHost()+`/base:none"}}`)
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := start(t, func(o *flylocal.Options) { o.Dir, o.Addr = dir, first.RegistryHost() })
	if m := settled(t, second, "app", good.ID); m.State != "started" || m.ImageRef.Tag != "v2" {
		t.Errorf("%s %+v", m.State, m.ImageRef)
	}
	if m := settled(t, second, "app", bad.ID); m.State != "started" || m.ImageRef.Tag != "v1" || m.InstanceID != bad.InstanceID {
		t.Errorf("%s %+v", m.State, m.ImageRef)
	}
}

func TestASecondPlatformOnTheSameStateIsRefused(t *testing.T) {
	p := start(t)
	_, err := flylocal.Start(t.Context(), flylocal.Options{Dir: p.Dir, Runner: "none"})
	if err == nil || !strings.Contains(err.Error(), p.URL()) || !strings.Contains(err.Error(), p.Dir) {
		t.Errorf("the second start says %v", err)
	}
	if e, err := flylocal.ReadEndpoint(p.Dir); err != nil || e.URL != p.URL() || e.Token != p.Token() {
		t.Errorf("endpoint %+v, %v", e, err)
	}
	must(t, p, "GET", "/v1/platform/regions", nil)
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := flylocal.ReadEndpoint(p.Dir); err == nil {
		t.Error("a closed platform has an endpoint")
	}
}
