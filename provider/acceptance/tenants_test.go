package acceptance

import (
	"fmt"
	"strings"
	"testing"
)

// tenantsConfig is the configuration of n tenants: app, volume, flycast address and machine each. Machine
// arguments of the caller's are added to every machine.
func tenantsConfig(p *platform, prefix string, n int, machineArguments string) string {
	return fmt.Sprintf(`
terraform {
  required_providers {
    flyfleet = { source = "flyfleet/flyfleet" }
  }
}

variable "image" { type = string }

locals {
  tenants = toset([for i in range(%d) : format("%s%%d", i)])
}

resource "flyfleet_app" "tenant" {
  for_each = local.tenants
  name     = each.key
  network  = each.key
}

resource "flyfleet_volume" "data" {
  for_each            = local.tenants
  app                 = flyfleet_app.tenant[each.key].name
  region              = "fra"
  name                = "data"
  size_gb             = 1
  deletion_protection = false
}

resource "flyfleet_ip" "flycast" {
  for_each = local.tenants
  app      = flyfleet_app.tenant[each.key].name
  type     = "private_v6"
  network  = "runtime"
}

resource "flyfleet_machine" "main" {
  for_each = local.tenants
  app      = flyfleet_app.tenant[each.key].name
  region   = "fra"
  image    = var.image
  env      = { FLYFLEET_TRUST = %q, GREETING = "hello" }
  metadata = { flyfleet_fleet = "acceptance", flyfleet_tenant = each.key, flyfleet_wire = "1" }
  mounts   = { "/data" = { volume_id = flyfleet_volume.data[each.key].id } }
  services = [{ internal_port = 8080, ports = [{ port = 8080 }] }]
  checks = {
    health = { type = "http", port = 8080, path = "/healthz", interval = "1s", timeout = "2s", grace_period = "10s" }
  }
  stop_config = { signal = "SIGTERM", timeout = "30s" }
  %s
}
`, n, prefix, p.root.Trust(), machineArguments)
}

// startTenants applies n tenants on a fresh platform with the image v1.
func startTenants(t testing.TB, n int, machineArguments string) (*platform, *workspace) {
	t.Helper()
	p := startPlatform(t)
	w := newWorkspace(t, p.env())
	w.write("main.tf", tenantsConfig(p, "acc-", n, machineArguments))
	w.setImage(p.image(t, "v1"))
	w.apply()
	return p, w
}

// setImage changes the one variable that the configuration has.
func (w *workspace) setImage(ref string) {
	w.t.Helper()
	w.write("image.auto.tfvars", fmt.Sprintf("image = %q\n", ref))
}

// wantOnlyImage fails unless the plan changes just the image of n machines, with nothing known only after apply.
func wantOnlyImage(t testing.TB, p planned, n int) {
	t.Helper()
	changed := p.changed()
	if len(changed) != n {
		t.Errorf("%d resources change, want %d machines", len(changed), n)
	}
	for _, c := range changed {
		if got := c.attributes(); c.Type != "flyfleet_machine" || strings.Join(c.Change.Actions, ",") != "update" || len(got) != 1 || got[0] != "image" {
			t.Errorf("%s: %v of %v, want an update of [image]", c.Address, c.Change.Actions, got)
		}
		if anyTrue(c.Change.AfterUnknown) {
			t.Errorf("%s: something is known only after apply: %v", c.Address, c.Change.AfterUnknown)
		}
	}
}
