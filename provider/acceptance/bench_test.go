package acceptance

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

// figure prints one line of `make bench`: a value, the floor that was taken beside it, and their ratio.
func figure(name string, value, floor float64, unit string) {
	fmt.Fprintf(os.Stdout, "\nBENCH %s %.1f %s floor=%.1f ratio=%.2f\n", name, value, unit, floor, value/floor)
}

func milliseconds(work func()) float64 {
	start := time.Now()
	work()
	return float64(time.Since(start).Microseconds()) / 1000
}

const benchMachines = 100

// BenchmarkFleetOf100 prints noop_plan_100 and swap_apply_100: a plan without changes of 100 tenants (400 resources), and
// the apply of an image swap of their machines, each with Terraform's own work on as many built-in resources
// that talk to nobody as its floor.
func BenchmarkFleetOf100(b *testing.B) {
	p := startPlatformOn(b, "none")
	w := newWorkspace(b, p.env())
	w.write("main.tf", tenantsConfig(p, "acc-", benchMachines, ""))
	w.setImage(p.image(b, "v1"))
	w.apply()
	floor := floorWorkspace(b)

	const rounds = 3
	var noop, noopFloor []float64
	for range rounds {
		noopFloor = append(noopFloor, milliseconds(func() { floor.plan() }))
		noop = append(noop, milliseconds(func() {
			if changed := w.plan().changed(); len(changed) != 0 {
				b.Fatalf("%d resources change in a plan that should change nothing", len(changed))
			}
		}))
	}
	figure("noop_plan_100", median(noop), median(noopFloor), "ms")

	var swap, swapFloor []float64
	for round := range rounds {
		version := fmt.Sprintf("v%d", round+2)
		w.setImage(p.image(b, version))
		wantOnlyImage(b, w.plan(), benchMachines)
		floor.setImage(version)
		floor.plan()
		swapFloor = append(swapFloor, milliseconds(func() { floor.must("apply", "-no-color", "saved.tfplan") }))
		swap = append(swap, milliseconds(func() { w.must("apply", "-no-color", "saved.tfplan") }))
	}
	figure("swap_apply_100", median(swap), median(swapFloor), "ms")
}

// floorWorkspace holds as many built-in resources as the fleet has, of which one in four follows the variable.
func floorWorkspace(b *testing.B) *workspace {
	w := newWorkspace(b, nil)
	w.write("main.tf", fmt.Sprintf(`
variable "image" { type = string }

resource "terraform_data" "still" {
  for_each = toset([for i in range(%d) : tostring(i)])
  input    = { name = each.key, region = "fra", network = "network-${each.key}" }
}

resource "terraform_data" "moving" {
  for_each = toset([for i in range(%d) : tostring(i)])
  input    = { name = each.key, image = var.image }
}
`, 3*benchMachines, benchMachines))
	w.setImage("v1")
	w.must("init", "-no-color")
	w.apply()
	return w
}

func median(values []float64) float64 {
	sorted := append([]float64(nil), values...)
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}
