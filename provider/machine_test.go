package provider_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	tfjson "github.com/hashicorp/terraform-json"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
)

// machineHCL is an app with one machine; more goes into the machine.
func machineHCL(image string, more ...string) string {
	return fmt.Sprintf(`
resource "flyfleet_app" "a" { name = "tenant-a" }
resource "flyfleet_machine" "m" {
  app    = flyfleet_app.a.name
  region = "fra"
  image  = %q
  %s
}
`, image, strings.Join(more, "\n"))
}

const everything = `
  env      = { A = "1" }
  metadata = { flyfleet_fleet = "f" }
  guest    = { cpu_kind = "shared", cpus = 1, memory_mb = 512 }
  services = [{ internal_port = 8080, ports = [{ port = 8080 }] }]
  checks   = { control = { type = "http", port = 8080, path = "/healthz", interval = "5s", timeout = "2s" } }
  stop_config = { signal = "SIGTERM", timeout = "30s" }
`

// says matches a diagnostic, which Terraform breaks into lines where it likes.
func says(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`(?s)` + strings.ReplaceAll(strings.TrimPrefix(pattern, `(?s)`), " ", `\s+`))
}

// changes is a plan check that lists the attributes in which each resource of the plan differs, and those that are not
// known, as terraform show -json has them.
type changes struct {
	want map[string][]string
}

// CheckPlan implements plancheck.PlanCheck.
func (c changes) CheckPlan(_ context.Context, req plancheck.CheckPlanRequest, resp *plancheck.CheckPlanResponse) {
	got := map[string][]string{}
	for _, rc := range req.Plan.ResourceChanges {
		if rc.Change.Actions.NoOp() {
			continue
		}
		got[rc.Address] = changedAttributes(rc.Change)
	}
	if g, w := fmt.Sprint(got), fmt.Sprint(c.want); g != w {
		resp.Error = fmt.Errorf("the plan changes %s, want %s", g, w)
	}
}

func changedAttributes(c *tfjson.Change) []string {
	before, _ := c.Before.(map[string]any)
	after, _ := c.After.(map[string]any)
	unknown, _ := c.AfterUnknown.(map[string]any)
	out := []string{}
	for k := range after {
		if fmt.Sprint(before[k]) != fmt.Sprint(after[k]) {
			out = append(out, k)
		}
	}
	for k, v := range unknown {
		if text, _ := json.Marshal(v); strings.Contains(string(text), "true") {
			out = append(out, k+" (not known)")
		}
	}
	slices.Sort(out)
	return out
}

func before(c ...plancheck.PlanCheck) resource.ConfigPlanChecks {
	return resource.ConfigPlanChecks{PreApply: c}
}

// remoteConfig is the configuration of the only machine of an app, as the platform holds it.
func (p *platform) remoteConfig(t *testing.T, app string) (id string, config map[string]any) {
	t.Helper()
	var list []struct {
		ID     string         `json:"id"`
		Config map[string]any `json:"config"`
	}
	p.get(t, "/v1/apps/"+app+"/machines", &list)
	if len(list) != 1 {
		t.Fatalf("app %s has %d machines", app, len(list))
	}
	return list[0].ID, list[0].Config
}

// outside changes the machine's configuration as another tool does: read, modify, write.
func (p *platform) outside(t *testing.T, app string, edit func(config map[string]any)) {
	t.Helper()
	id, config := p.remoteConfig(t, app)
	edit(config)
	p.post(t, "/v1/apps/"+app+"/machines/"+id, map[string]any{"config": config})
	p.get(t, "/v1/apps/"+app+"/machines/"+id+"/wait?state=started&timeout=20", nil)
}

func TestMachineLives(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	var mark int
	p.run(t,
		resource.TestStep{
			Config: machineHCL(imageOf(1), everything),
			Check: resource.ComposeTestCheckFunc(
				resource.TestCheckResourceAttr("flyfleet_machine.m", "name", "main"),
				resource.TestCheckResourceAttrSet("flyfleet_machine.m", "id"),
				func(*terraform.State) error {
					_, config := p.remoteConfig(t, "tenant-a")
					if owner := config["metadata"].(map[string]any)["flyfleet_image_owner"]; owner != "terraform" {
						return fmt.Errorf("image owner %v", owner)
					}
					mark = p.mark()
					return nil
				},
			),
		},
		// Another spelling of the same digest is no change, and nothing is written for it.
		resource.TestStep{
			Config:           machineHCL("registry.fly.io/images:v1@"+digestOf(1), everything),
			ConfigPlanChecks: before(plancheck.ExpectEmptyPlan()),
			Check: func(*terraform.State) error {
				if w := p.writes(mark); len(w) != 0 {
					return fmt.Errorf("wrote %v", w)
				}
				return nil
			},
		},
		// What others set is not shown, and survives the swap.
		resource.TestStep{
			PreConfig: func() {
				p.outside(t, "tenant-a", func(c map[string]any) {
					c["env"].(map[string]any)["FOREIGN"] = "x"
					c["init"] = map[string]any{"swap_size_mb": 512}
				})
				mark = p.mark()
			},
			Config:           machineHCL(imageOf(2), everything),
			ConfigPlanChecks: before(changes{map[string][]string{"flyfleet_machine.m": {"image"}}}),
			Check: func(*terraform.State) error {
				_, config := p.remoteConfig(t, "tenant-a")
				if config["env"].(map[string]any)["FOREIGN"] != "x" || config["init"].(map[string]any)["swap_size_mb"] != 512.0 || config["image"] != imageOf(2) {
					return fmt.Errorf("after the swap: %v", config)
				}
				if w := p.writes(mark); len(w) != 1 {
					return fmt.Errorf("a swap is one write, got %v", w)
				}
				return nil
			},
		},
		// A key that is taken out of the configuration goes; a foreign one stays.
		resource.TestStep{
			Config:           machineHCL(imageOf(2), strings.Replace(everything, `{ A = "1" }`, `{ B = "2" }`, 1)),
			ConfigPlanChecks: before(changes{map[string][]string{"flyfleet_machine.m": {"env"}}}),
			Check: func(*terraform.State) error {
				_, config := p.remoteConfig(t, "tenant-a")
				if got := fmt.Sprint(config["env"]); got != "map[B:2 FOREIGN:x]" {
					return fmt.Errorf("env %s", got)
				}
				mark = p.mark()
				return nil
			},
		},
		// Image and more go in one write.
		resource.TestStep{
			Config: machineHCL(imageOf(3), strings.Replace(everything, `memory_mb = 512`, `memory_mb = 1024`, 1)),
			Check: func(*terraform.State) error {
				if w := p.writes(mark); len(w) != 1 {
					return fmt.Errorf("image and size are one write, got %v", w)
				}
				_, config := p.remoteConfig(t, "tenant-a")
				if config["image"] != imageOf(3) || config["guest"].(map[string]any)["memory_mb"] != 1024.0 {
					return fmt.Errorf("config %v", config)
				}
				mark = p.mark()
				return nil
			},
		},
		// Metadata alone goes straight through: no new version, no restart.
		resource.TestStep{
			Config: machineHCL(imageOf(3), strings.NewReplacer(`memory_mb = 512`, `memory_mb = 1024`, `flyfleet_fleet = "f"`, `flyfleet_fleet = "g"`).Replace(everything)),
			Check: func(*terraform.State) error {
				if w := p.writes(mark); len(w) != 1 || !strings.HasSuffix(w[0], "/metadata/flyfleet_fleet") {
					return fmt.Errorf("wrote %v", w)
				}
				mark = p.mark()
				return nil
			},
		},
		// What only Terraform reads costs no write.
		resource.TestStep{
			Config: machineHCL(imageOf(3), `busy = "interrupt"`, strings.NewReplacer(`memory_mb = 512`, `memory_mb = 1024`, `flyfleet_fleet = "f"`, `flyfleet_fleet = "g"`).Replace(everything)),
			Check: func(*terraform.State) error {
				if w := p.writes(mark); len(w) != 0 {
					return fmt.Errorf("wrote %v", w)
				}
				return nil
			},
		},
	)
}

func TestAQuietMachineIsRefreshedWithoutACallOfItsOwn(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	var mark int
	p.run(t,
		resource.TestStep{Config: machineHCL(imageOf(1), everything)},
		resource.TestStep{
			PreConfig: func() { mark = p.mark() },
			Config:    machineHCL(imageOf(1), everything), PlanOnly: true,
		},
		resource.TestStep{
			Config: machineHCL(imageOf(1), everything), PlanOnly: true,
			PreConfig: func() {
				for _, r := range p.Faults.Requests(mark) {
					if strings.Contains(r.Path, "/machines/") || strings.HasPrefix(r.Path, "/v1/apps/") {
						t.Errorf("refreshing called %s %s", r.Method, r.Path)
					}
				}
			},
		},
	)
}

func TestDriftOfManagedValuesIsPlannedBack(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	p.run(t,
		resource.TestStep{Config: machineHCL(imageOf(1), everything)},
		resource.TestStep{
			PreConfig: func() {
				p.outside(t, "tenant-a", func(c map[string]any) { c["env"].(map[string]any)["A"] = "999" })
			},
			Config:           machineHCL(imageOf(1), everything),
			ConfigPlanChecks: before(changes{map[string][]string{"flyfleet_machine.m": {"env"}}}),
		},
	)
}

// A machine that was destroyed is answered with its state for a while, not with a 404 (flyctl#1177, #2852).
func TestAMachineDestroyedOutsideIsPlannedForCreation(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	p.run(t,
		resource.TestStep{Config: machineHCL(imageOf(1))},
		resource.TestStep{
			PreConfig: func() {
				id, _ := p.remoteConfig(t, "tenant-a")
				p.request(t, "DELETE", "/v1/apps/tenant-a/machines/"+id+"?force=true", nil, nil)
				p.get(t, "/v1/apps/tenant-a/machines/"+id+"/wait?state=destroyed&timeout=20", nil)
			},
			Config:           machineHCL(imageOf(1)),
			ConfigPlanChecks: before(plancheck.ExpectResourceAction("flyfleet_machine.m", plancheck.ResourceActionCreate)),
		},
	)
}

func TestAValueChangedBetweenPlanAndApplyStopsTheApply(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	change := func() {
		p.outside(t, "tenant-a", func(c map[string]any) { c["env"].(map[string]any)["A"] = "999" })
	}
	var mark int
	p.run(t,
		resource.TestStep{Config: machineHCL(imageOf(1), `env = { A = "1" }`)},
		resource.TestStep{
			Config:           machineHCL(imageOf(1), `env = { A = "2" }`),
			ConfigPlanChecks: before(meanwhile(func() { change(); mark = p.mark() })),
			ExpectError:      says(`changed by somebody else.*env\.A`),
		},
		resource.TestStep{
			PreConfig: func() {
				if w := p.writes(mark); len(w) != 0 {
					t.Errorf("wrote %v", w)
				}
			},
			Config:           machineHCL(imageOf(1), `env = { A = "3" }`, `conflict = "overwrite"`),
			ConfigPlanChecks: before(meanwhile(func() { p.outside(t, "tenant-a", func(c map[string]any) { c["env"].(map[string]any)["A"] = "5" }) })),
		},
	)
}

// meanwhile does something between plan and apply.
type meanwhile func()

// CheckPlan implements plancheck.PlanCheck.
func (m meanwhile) CheckPlan(context.Context, plancheck.CheckPlanRequest, *plancheck.CheckPlanResponse) {
	m()
}

// flyctl PR#4878, PR#4921: Fly reverts a failed pull in silence, and the old version's checks pass.
func TestAFailedPullIsAnErrorAndTheNextPlanSaysSo(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	p.run(t,
		resource.TestStep{Config: machineHCL(imageOf(1))},
		resource.TestStep{
			PreConfig:   func() { p.Faults.FailPull(digestOf(2), "") },
			Config:      machineHCL(imageOf(2)),
			ExpectError: says(`Image not swapped.*went back`),
		},
		resource.TestStep{
			PreConfig:        p.Faults.Clear,
			Config:           machineHCL(imageOf(2)),
			ConfigPlanChecks: before(changes{map[string][]string{"flyfleet_machine.m": {"image"}}}),
		},
	)
}

func TestTheRolloutsImageIsNotUndoneUnasked(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	p.run(t,
		resource.TestStep{Config: machineHCL(imageOf(1))},
		resource.TestStep{
			PreConfig: func() {
				p.outside(t, "tenant-a", func(c map[string]any) {
					c["image"] = imageOf(2)
					c["metadata"].(map[string]any)["flyfleet_image_owner"] = "rollout"
				})
			},
			Config:      machineHCL(imageOf(1)),
			ExpectError: says(`belongs to the rollout`),
		},
		resource.TestStep{
			Config: machineHCL(imageOf(3), `metadata = { flyfleet_image_owner = "terraform" }`),
			Check: func(*terraform.State) error {
				_, config := p.remoteConfig(t, "tenant-a")
				if config["image"] != imageOf(3) || config["metadata"].(map[string]any)["flyfleet_image_owner"] != "terraform" {
					return fmt.Errorf("%v", config)
				}
				return nil
			},
		},
		// Given to the rollout, its swaps are no drift, and a change of the image here is refused.
		resource.TestStep{Config: machineHCL(imageOf(3), `metadata = { flyfleet_image_owner = "rollout" }`)},
		resource.TestStep{
			PreConfig: func() {
				p.outside(t, "tenant-a", func(c map[string]any) { c["image"] = imageOf(4) })
			},
			Config: machineHCL(imageOf(3), `metadata = { flyfleet_image_owner = "rollout" }`), PlanOnly: true,
		},
		resource.TestStep{
			Config:      machineHCL(imageOf(5), `metadata = { flyfleet_image_owner = "rollout" }`),
			ExpectError: says(`belongs to the rollout`),
		},
	)
}

func TestAMachineWhoseBootTakesTooLongIsFinishedInPlace(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	var id string
	p.run(t,
		resource.TestStep{
			PreConfig:          func() { p.Faults.FailPull(digestOf(1), "") },
			Config:             machineHCL(imageOf(1), `timeouts = { create = "2s" }`),
			ExpectNonEmptyPlan: true,
			Check: func(*terraform.State) error {
				id, _ = p.remoteConfig(t, "tenant-a")
				return nil
			},
		},
		resource.TestStep{
			PreConfig:        p.Faults.Clear,
			Config:           machineHCL(imageOf(1), `timeouts = { create = "2s" }`),
			ConfigPlanChecks: before(plancheck.ExpectResourceAction("flyfleet_machine.m", plancheck.ResourceActionUpdate), changes{map[string][]string{"flyfleet_machine.m": {"image"}}}),
			Check: func(*terraform.State) error {
				now, _ := p.remoteConfig(t, "tenant-a")
				if now != id {
					return fmt.Errorf("machine %s became %s", id, now)
				}
				if n := count(p.writes(0), "DELETE"); n != 0 {
					return fmt.Errorf("%d deletes", n)
				}
				return nil
			},
		},
	)
}
