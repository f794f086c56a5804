package provider_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/faults"
)

const tenantHCL = `
resource "flyfleet_app" "a" { name = "tenant-a" }
resource "flyfleet_volume" "v" {
  app                 = flyfleet_app.a.name
  region              = "fra"
  name                = "data"
  size_gb             = 1
  deletion_protection = false
}
resource "flyfleet_machine" "m" {
  app    = flyfleet_app.a.name
  region = "fra"
  image  = "registry.fly.io/images@sha256:0000000000000000000000000000000000000000000000000000000000000001"
  env    = { A = "1" }
  mounts = { "/data" = { volume_id = flyfleet_volume.v.id } }
}
resource "flyfleet_ip" "flycast" {
  app     = flyfleet_app.a.name
  type    = "private_v6"
  network = "runtime"
}
`

// inventory counts what an app holds.
func (p *platform) inventory(t *testing.T, app string) string {
	t.Helper()
	var machines, volumes []struct {
		ID    string `json:"id"`
		State string `json:"state"`
	}
	var ips struct {
		IPs []struct {
			IP string `json:"ip"`
		} `json:"ips"`
	}
	p.get(t, "/v1/apps/"+app+"/machines", &machines)
	p.get(t, "/v1/apps/"+app+"/volumes", &volumes)
	p.get(t, "/v1/apps/"+app+"/ip_assignments", &ips)
	return fmt.Sprintf("%d machines, %d volumes, %d addresses", len(machines), len(volumes), len(ips.IPs))
}

// The answer of each create in turn is lost after the object was made, for good: the provider looks, and the next apply finds
// what is there. Nothing is made twice and nothing is deleted.
func TestACreateWhoseAnswerIsLostMakesNoSecondObject(t *testing.T) {
	t.Parallel()
	for _, lost := range []struct{ name, path string }{
		{"app", "/v1/apps"},
		{"volume", "/v1/apps/*/volumes"},
		{"machine", "/v1/apps/*/machines"},
		{"address", "/v1/apps/*/ip_assignments"},
	} {
		for _, status := range []int{http.StatusInternalServerError, http.StatusBadGateway} {
			t.Run(fmt.Sprint(lost.name, " ", status), func(t *testing.T) {
				t.Parallel()
				p := startPlatform(t)
				w := p.workspace(t)
				w.write(t, tenantHCL)
				if err := p.Faults.Answer(faults.Rule{Method: "POST", Path: lost.path, Status: status, Body: `{"error":"lost"}`, Execute: true}); err != nil {
					t.Fatal(err)
				}
				said, ok := w.terraform(t, "apply", "-auto-approve")
				if status == http.StatusBadGateway && !ok {
					t.Errorf("the provider did not find what it had made:\n%s", said)
				}
				w.must(t, "apply", "-auto-approve")
				if got := p.inventory(t, "tenant-a"); got != "1 machines, 1 volumes, 1 addresses" {
					t.Errorf("the app holds %s", got)
				}
				if n := count(p.writes(0), "DELETE"); n != 0 {
					t.Errorf("%d deletes", n)
				}
				if said := w.must(t, "plan", "-detailed-exitcode"); !strings.Contains(said, "No changes") {
					t.Errorf("the plan after it:\n%s", said)
				}
			})
		}
	}
}

// A killed Terraform may lose the state as well.
func TestWhatAnInterruptedCreateLeftIsFoundAgainAndNothingElse(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	first := p.workspace(t)
	first.write(t, tenantHCL)
	lost := faults.Rule{Method: "POST", Path: "/v1/apps/*/machines", Status: http.StatusInternalServerError, Body: `{"error":"lost"}`, Execute: true}
	if err := p.Faults.Answer(lost); err != nil {
		t.Fatal(err)
	}
	if said, ok := first.terraform(t, "apply", "-auto-approve"); ok {
		t.Fatalf("a lost answer was not noticed:\n%s", said)
	}
	mark := p.mark()
	// The same with another variable is another machine: it is not ours to take.
	other := p.workspace(t)
	other.write(t, strings.Replace(tenantHCL, `A = "1"`, `A = "2"`, 1))
	said, ok := other.terraform(t, "apply", "-auto-approve")
	if ok || !says(`was not adopted.*env.*import \{`).MatchString(said) {
		t.Errorf("a machine with other variables: %s", said)
	}
	second := p.workspace(t)
	second.write(t, tenantHCL)
	said = second.must(t, "apply", "-auto-approve")
	for _, what := range []string{"App adopted", "Volume adopted", "Machine adopted", "Address adopted"} {
		if !strings.Contains(said, what) {
			t.Errorf("%q is not said:\n%s", what, said)
		}
	}
	if got := p.inventory(t, "tenant-a"); got != "1 machines, 1 volumes, 1 addresses" {
		t.Errorf("the app holds %s", got)
	}
	for _, call := range p.writes(mark) {
		if !strings.HasPrefix(call, "POST /v1/apps") || strings.Count(call, "/") > 4 && !strings.HasSuffix(call, "/metadata/flyfleet_create") {
			t.Errorf("%s was written", call)
		}
	}
	// What was finished is somebody's: without its state it is not taken again.
	third := p.workspace(t)
	third.write(t, tenantHCL)
	if said, ok := third.terraform(t, "apply", "-auto-approve"); ok || !says(`create was finished.*import \{`).MatchString(said) {
		t.Errorf("finished objects without a state: %s", said)
	}
}

func TestAForeignObjectOfTheSameNameIsNotTouched(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	id := p.foreignMachine(t)
	mark := p.mark()
	w := p.workspace(t)
	w.write(t, `resource "flyfleet_app" "a" { name = "tenant-a" }`)
	if said, ok := w.terraform(t, "apply", "-auto-approve"); ok || !strings.Contains(said, "import {") {
		t.Errorf("a foreign app: %s", said)
	}
	w.write(t, `resource "flyfleet_machine" "m" {
  app    = "tenant-a"
  region = "fra"
  image  = "`+imageOf(1)+`"
}`)
	said, ok := w.terraform(t, "apply", "-auto-approve")
	if ok || !strings.Contains(said, "import {") || !strings.Contains(said, id) {
		t.Errorf("a foreign machine: %s", said)
	}
	p.Faults.ForeignApp("hidden", true)
	w.write(t, `resource "flyfleet_app" "a" { name = "hidden" }`)
	if said, ok := w.terraform(t, "apply", "-auto-approve"); ok || !strings.Contains(said, "choose another name") {
		t.Errorf("an app of an organization that cannot be seen: %s", said)
	}
	for _, call := range p.writes(mark) {
		if !strings.HasPrefix(call, "POST ") || strings.Count(call, "/") > 4 {
			t.Errorf("%s was written", call)
		}
	}
}

func TestTwoResourcesAreNeverOneObject(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	w := p.workspace(t)
	machine := func(label string) string {
		return fmt.Sprintf("resource \"flyfleet_machine\" %q {\n  app = flyfleet_app.a.name\n  region = \"fra\"\n  image = %q\n}\n", label, imageOf(1))
	}
	app := `resource "flyfleet_app" "a" { name = "tenant-a" }
`
	w.write(t, app+machine("m"))
	w.must(t, "apply", "-auto-approve")
	mark := p.mark()
	w.write(t, app+machine("m")+machine("n"))
	for range 3 { // Terraform plans them in any order
		if said, ok := w.terraform(t, "apply", "-auto-approve"); ok {
			t.Fatalf("two resources were given one machine:\n%s", said)
		}
	}
	if n := count(p.writes(mark), "DELETE"); n != 0 {
		t.Errorf("%d deletes", n)
	}
	w.write(t, app+machine("m"))
	if said := w.must(t, "plan"); !strings.Contains(said, "No changes") {
		t.Errorf("afterwards: %s", said)
	}
}

func TestAnIncompleteCreateCanBeMadeAnError(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	p.Faults.FailPull(digestOf(1), "")
	p.run(t, resource.TestStep{
		Config:      `provider "flyfleet" { incomplete_create = "fail" }` + machineHCL(imageOf(1), `timeouts = { create = "2s" }`),
		ExpectError: says(`Machine not finished.*next apply replaces the machine`),
	})
}

func TestAMachineThatBootsLateIsFinishedInPlace(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	w := p.workspace(t)
	w.write(t, machineHCL(imageOf(1), `timeouts = { create = "1s" }`))
	p.Faults.SlowBoot("*", 6e9)
	if said := w.must(t, "apply", "-auto-approve"); !strings.Contains(said, "Machine not finished") || !strings.Contains(said, "terraform apply") {
		t.Fatalf("a boot that took too long: %s", said)
	}
	id, _ := p.remoteConfig(t, "tenant-a")
	mark := p.mark()
	w.must(t, "apply", "-auto-approve")
	if now, _ := p.remoteConfig(t, "tenant-a"); now != id {
		t.Errorf("machine %s became %s", id, now)
	}
	if writes := p.writes(mark); len(writes) != 0 {
		t.Errorf("a machine that only took its time was written to: %v", writes)
	}
	if said := w.must(t, "plan"); !strings.Contains(said, "No changes") {
		t.Errorf("afterwards: %s", said)
	}
}

func TestPlansOfNewConfigurationNeedNoFlyAndRefreshSaysWhatToStart(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	w := p.workspace(t)
	w.write(t, tenantHCL)
	w.must(t, "apply", "-auto-approve")
	up := p.env["FLY_FLAPS_BASE_URL"]
	p.env["FLY_FLAPS_BASE_URL"], p.env["FLY_API_BASE_URL"] = "http://127.0.0.1:1", "http://127.0.0.1:1"
	fresh := p.workspace(t)
	fresh.write(t, tenantHCL)
	if said := fresh.must(t, "plan"); !strings.Contains(said, "4 to add") {
		t.Errorf("a plan of new configuration: %s", said)
	}
	down := p.workspace(t)
	down.dir = w.dir
	said, ok := down.terraform(t, "plan")
	if ok || !strings.Contains(said, "flyfleet local up") {
		t.Errorf("a refresh without Fly: %s", said)
	}
	p.env["FLY_FLAPS_BASE_URL"], p.env["FLY_API_BASE_URL"] = up, up
}
