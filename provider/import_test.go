package provider_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
)

// forgotten is the app without the machine, which stays on the platform.
const forgotten = `
resource "flyfleet_app" "a" { name = "tenant-a" }
removed {
  from = flyfleet_machine.m
  lifecycle { destroy = false }
}
`

func importing(id string) string {
	return fmt.Sprintf("import {\n  to = flyfleet_machine.m\n  id = \"tenant-a/%s\"\n}\n", id)
}

func TestAnImportedMachinePlansEmptyAndWhatIsNotDeclaredIsNeverRemoved(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	id := p.foreignMachine(t)
	unchanged := func(want string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			now, config := p.remoteConfig(t, "tenant-a")
			if raw, _ := json.Marshal(config); now != id || string(raw) != want {
				return fmt.Errorf("the machine is now %s: %s", now, raw)
			}
			return nil
		}
	}
	_, config := p.remoteConfig(t, "tenant-a")
	raw, _ := json.Marshal(config)
	asItWas := string(raw)
	app := "import {\n  to = flyfleet_app.a\n  id = \"tenant-a\"\n}\n"
	whole := `
  env         = { A = "1", B = "2" }
  metadata    = { team = "x" }
  guest       = { cpu_kind = "shared", cpus = 1, memory_mb = 512 }
  services    = [{ internal_port = 8080, autostop = "suspend", ports = [{ port = 443, handlers = ["tls"] }] }]
  checks      = { up = { type = "tcp", port = 8080, interval = "15s", grace_period = "1m" } }
  stop_config = { signal = "SIGTERM" }
`
	steps := []resource.TestStep{}
	for i, more := range []string{whole, "", `env = { A = "1" }`, `checks = { up = { type = "tcp", port = 8080 } }`} {
		config := machineHCL(imageOf(1), more) + importing(id)
		if i == 0 {
			config += app
		}
		steps = append(steps,
			resource.TestStep{Config: config, ConfigPlanChecks: before(plancheck.ExpectEmptyPlan()), Check: unchanged(asItWas)},
			resource.TestStep{Config: forgotten},
		)
	}
	steps = append(steps,
		resource.TestStep{Config: machineHCL(imageOf(1), `env = { A = "1" }`) + importing(id)},
		// A swap moves the image alone, also where half of the machine is not declared.
		resource.TestStep{
			Config: machineHCL(imageOf(2), `env = { A = "1" }`), ConfigPlanChecks: before(changes{map[string][]string{"flyfleet_machine.m": {"image"}}}),
			Check: unchanged(strings.Replace(asItWas, digestOf(1), digestOf(2), 1)),
		},
		// B came by import and was never declared: it is released. A was declared: it goes.
		resource.TestStep{Config: machineHCL(imageOf(2), `env = { C = "3" }`), Check: func(*terraform.State) error {
			if _, config := p.remoteConfig(t, "tenant-a"); fmt.Sprint(config["env"]) != "map[B:2 C:3]" {
				return fmt.Errorf("env %v", config["env"])
			}
			return nil
		}},
	)
	p.run(t, steps...)
}

// foreignMachine is a machine that another tool made.
func (p *platform) foreignMachine(t *testing.T) (id string) {
	t.Helper()
	p.post(t, "/v1/apps", map[string]any{"app_name": "tenant-a", "org_slug": p.Org()})
	p.post(t, "/v1/apps/tenant-a/machines", map[string]any{"name": "main", "region": "fra", "config": map[string]any{
		"image": imageOf(1), "env": map[string]any{"A": "1", "B": "2"}, "metadata": map[string]any{"team": "x"},
		"guest":       map[string]any{"cpu_kind": "shared", "cpus": 1, "memory_mb": 512},
		"services":    []any{map[string]any{"internal_port": 8080, "protocol": "tcp", "autostop": "suspend", "ports": []any{map[string]any{"port": 443, "handlers": []any{"tls"}}}}},
		"checks":      map[string]any{"up": map[string]any{"type": "tcp", "port": 8080, "interval": "15s", "grace_period": "1m0s"}},
		"stop_config": map[string]any{"signal": "SIGTERM"}, "init": map[string]any{"swap_size_mb": 256},
	}})
	id, _ = p.remoteConfig(t, "tenant-a")
	p.get(t, "/v1/apps/tenant-a/machines/"+id+"/wait?state=started&timeout=20", nil)
	return id
}
