package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// objects are the remote objects of one app, by kind.
type objects struct{ App, Machines, Volumes, Addresses []string }

func (p *platform) objects(t *testing.T, app string) objects {
	t.Helper()
	var o objects
	if status, body := p.call(t, http.MethodGet, "/v1/apps/"+app, nil); status == http.StatusOK {
		o.App = append(o.App, field(t, body, "id"))
	} else {
		return o
	}
	for _, m := range p.machines(t, app) {
		o.Machines = append(o.Machines, m.ID)
	}
	var volumes []struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(p.must(t, http.MethodGet, "/v1/apps/"+app+"/volumes", nil), &volumes); err != nil {
		t.Fatal(err)
	}
	for _, v := range volumes {
		o.Volumes = append(o.Volumes, v.ID)
	}
	var addresses struct {
		IPs []struct {
			IP string `json:"ip"`
		} `json:"ips"`
	}
	if err := json.Unmarshal(p.must(t, http.MethodGet, "/v1/apps/"+app+"/ip_assignments", nil), &addresses); err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses.IPs {
		o.Addresses = append(o.Addresses, a.IP)
	}
	return o
}

func field(t *testing.T, body []byte, name string) string {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal(body, &object); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return fmt.Sprint(object[name])
}

// A create whose answer never reached Terraform is found again by its key and finished in place: the same ids, no
// second object, no DELETE. enricai/leerie#66, kenforthewin/atomic#48: a killed run leaks volumes for ever.
func TestKilledCreateIsFinishedByTheNextApply(t *testing.T) {
	posts := map[string]struct{ suffix, id string }{
		"app":             {"/v1/apps", "name"},
		"volume":          {"/volumes", "id"},
		"machine":         {"/machines", "id"},
		"flycast_address": {"/ip_assignments", "ip"},
	}
	for name, post := range posts {
		t.Run(name, func(t *testing.T) {
			p := startPlatform(t)
			w := newWorkspace(t, p.env())
			w.write("main.tf", tenantsConfig(p, "acc-", 1, ""))
			w.setImage(p.image(t, "v1"))
			created := make(chan string, 1)
			p.recorder.onAnswer(func(e exchange) {
				if e.Method != http.MethodPost || !strings.HasSuffix(e.Path, post.suffix) || e.Status > 299 || len(created) > 0 {
					return
				}
				created <- field(t, e.Answer, post.id)
				w.killProvider()
			})
			if result := w.run("apply", "-auto-approve", "-input=false", "-no-color"); result.Err == nil {
				t.Fatalf("the apply succeeded although its provider was killed:\n%s", result.Output)
			}
			p.recorder.onAnswer(nil)
			if len(created) == 0 {
				t.Fatal("no such POST was seen")
			}
			id := <-created

			w.apply()
			o := p.objects(t, "acc-0")
			if len(o.App) != 1 || len(o.Volumes) != 1 || len(o.Machines) != 1 || len(o.Addresses) != 1 {
				t.Errorf("after the second apply there are %+v", o)
			}
			if !strings.Contains(fmt.Sprintf("acc-0 %+v", o), id) {
				t.Errorf("%s %s of the killed apply is not among %+v", name, id, o)
			}
			if deletes := p.recorder.find(http.MethodDelete, "/v1/"); len(notLeases(deletes)) != 0 {
				t.Errorf("something was deleted: %v", notLeases(deletes)[0].Path)
			}
			if again := w.plan().changed(); len(again) != 0 {
				t.Errorf("after the second apply %s still changes", again[0].Address)
			}
		})
	}
}

func notLeases(all []exchange) []exchange {
	var rest []exchange
	for _, e := range all {
		if !strings.HasSuffix(e.Path, "/lease") {
			rest = append(rest, e)
		}
	}
	return rest
}

// killProvider kills the provider process that terraform started last.
func (w *workspace) killProvider() {
	text, err := os.ReadFile(w.pidFile)
	if err != nil {
		w.t.Errorf("no provider to kill: %v", err)
		return
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || syscall.Kill(pid, syscall.SIGKILL) != nil {
		w.t.Errorf("the provider %q could not be killed", text)
	}
}

// A machine that boots slowly outlives the patience of its create: a warning that names it, no taint; the next apply
// finishes in place.
func TestCreateThatTimesOutIsFinishedInPlace(t *testing.T) {
	p := startPlatform(t)
	w := newWorkspace(t, p.env())
	w.write("main.tf", tenantsConfig(p, "acc-", 1, `timeouts = { create = "2s" }`))
	w.setImage(p.image(t, "v1"))
	p.local.Faults.SlowBoot("*", 6*time.Second)
	output := w.apply()
	first := p.machine(t, "acc-0")
	mentions(t, output, "Warning", first.ID)
	p.local.Faults.SlowBoot("*", 0)
	p.waitState(t, "acc-0", first.ID, "started")

	for _, c := range w.plan().changed() {
		if fmt.Sprint(c.Change.Actions) != "[update]" {
			t.Errorf("the next plan wants %v of %s, want an update in place", c.Change.Actions, c.Address)
		}
	}
	w.apply()
	if after := p.machine(t, "acc-0"); after.ID != first.ID {
		t.Errorf("the machine is %s, was %s", after.ID, first.ID)
	}
	if again := w.plan().changed(); len(again) != 0 {
		t.Errorf("after the second apply %s still changes: %v", again[0].Address, again[0].attributes())
	}
	if deletes := notLeases(p.recorder.find(http.MethodDelete, "/v1/")); len(deletes) != 0 {
		t.Errorf("something was deleted: %s", deletes[0].Path)
	}
}

// What is not ours is never adopted: the error names it and how to import it.
func TestForeignMachineOfTheSameNameIsNotTouched(t *testing.T) {
	p := startPlatform(t)
	w := newWorkspace(t, p.env())
	image := p.image(t, "v1")
	w.write("main.tf", tenantsConfig(p, "acc-", 1, ""))
	w.setImage(image)
	w.apply("-target=flyfleet_app.tenant")
	body := p.must(t, http.MethodPost, "/v1/apps/acc-0/machines", map[string]any{
		"name": "main", "region": "fra", "skip_launch": true, "config": map[string]any{"image": image, "env": map[string]string{"OWNER": "somebody else"}},
	})
	id := field(t, body, "id")
	p.waitState(t, "acc-0", id, "stopped")
	before := p.machine(t, "acc-0")
	p.recorder.reset()
	result := w.run("apply", "-auto-approve", "-input=false", "-no-color")
	if result.Err == nil {
		t.Fatalf("a foreign machine was adopted:\n%s", result.Output)
	}
	mentions(t, result.Output, id, "import")
	after := p.machine(t, "acc-0")
	if string(after.Config) != string(before.Config) || after.InstanceID != before.InstanceID || after.State != before.State {
		t.Errorf("the foreign machine was touched: %s", after.Config)
	}
	for _, e := range p.recorder.all() {
		if e.writes() && strings.Contains(e.Path, id) {
			t.Errorf("%s %s", e.Method, e.Path)
		}
	}
}
