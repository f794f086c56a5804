package provider_test

import (
	"fmt"
	"strings"
	"testing"
)

// volumeHCL is an app with a volume and, with mounted, a machine on it. more goes into the volume.
func volumeHCL(mounted bool, region, more string) string {
	config := fmt.Sprintf(`
resource "terraform_data" "trigger" { input = "x" }
resource "flyfleet_app" "a" { name = "tenant-a" }
resource "flyfleet_volume" "v" {
  app     = flyfleet_app.a.name
  region  = %q
  name    = "data"
  size_gb = 1
  %s
}
`, region, more)
	if mounted {
		config += fmt.Sprintf(`
resource "flyfleet_machine" "m" {
  app    = flyfleet_app.a.name
  region = %q
  image  = %q
  mounts = { "/data" = { volume_id = flyfleet_volume.v.id } }
}
`, region, imageOf(1))
	}
	return config
}

// Terraform destroys dependents first, so a volume that is to be replaced would take its machine with it before the volume
// itself can refuse.
func TestNoDeleteOfAProtectedVolumeOrItsMachineReachesFly(t *testing.T) {
	t.Parallel()
	trigger := `lifecycle { replace_triggered_by = [terraform_data.trigger] }`
	for _, mounted := range []bool{false, true} {
		t.Run(map[bool]string{false: "alone", true: "mounted"}[mounted], func(t *testing.T) {
			t.Parallel()
			p := startPlatform(t)
			w := p.workspace(t)
			normal := volumeHCL(mounted, "fra", trigger)
			w.write(t, normal)
			w.must(t, "apply", "-auto-approve")
			mark := p.mark()
			for _, c := range []struct {
				name   string
				config string
				args   []string
				after  []string
			}{
				{"destroy", normal, []string{"apply", "-destroy", "-auto-approve"}, nil},
				{"removal", `resource "flyfleet_app" "a" { name = "tenant-a" }`, []string{"apply", "-auto-approve"}, nil},
				{"region", volumeHCL(mounted, "ams", trigger), []string{"apply", "-auto-approve"}, nil},
				{"-replace", normal, []string{"apply", "-auto-approve", "-replace=flyfleet_volume.v"}, nil},
				{"replace_triggered_by", normal, []string{"apply", "-auto-approve", "-replace=terraform_data.trigger"}, nil},
				{"taint", normal, []string{"apply", "-auto-approve"}, []string{"untaint", "flyfleet_volume.v"}},
			} {
				w.write(t, c.config)
				if c.name == "taint" {
					w.must(t, "taint", "flyfleet_volume.v")
				}
				said, ok := w.terraform(t, c.args...)
				if ok {
					t.Errorf("%s was applied:\n%s", c.name, said)
				}
				if !strings.Contains(said, "Volume is protected") && !strings.Contains(said, "The machine's volume would change") {
					t.Errorf("%s: refused for another reason:\n%s", c.name, said)
				}
				if c.after != nil {
					w.must(t, c.after...)
				}
				for _, call := range p.writes(mark) {
					if strings.HasPrefix(call, "DELETE") {
						t.Fatalf("%s: %s reached Fly", c.name, call)
					}
				}
			}
			w.write(t, volumeHCL(mounted, "fra", trigger+"\ndeletion_protection = false"))
			w.must(t, "apply", "-auto-approve")
			w.must(t, "apply", "-destroy", "-auto-approve")
			if n := count(p.writes(mark), "DELETE /v1/apps/tenant-a/volumes/"); n < 1 {
				t.Error("an unprotected volume was not deleted")
			}
		})
	}
}

// What creates first finds what it is to replace, and must not destroy it afterwards.
func TestAReplacementThatCreatesFirstDoesNotDestroyWhatItTookOver(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	w := p.workspace(t)
	first := `lifecycle { create_before_destroy = true }`
	w.write(t, strings.Replace(volumeHCL(false, "fra", "deletion_protection = false\n"+first), `{ name = "tenant-a" }`, "{\n  name = \"tenant-a\"\n"+first+"\n}", 1))
	w.must(t, "apply", "-auto-approve")
	mark := p.mark()
	said := w.must(t, "apply", "-auto-approve", "-replace=flyfleet_volume.v", "-replace=flyfleet_app.a")
	for _, call := range p.writes(mark) {
		if strings.HasPrefix(call, "DELETE") {
			t.Errorf("%s", call)
		}
	}
	if !strings.Contains(said, "Volume kept") || !strings.Contains(said, "App kept") {
		t.Errorf("the apply said: %s", said)
	}
	if said := w.must(t, "plan"); !strings.Contains(said, "No changes") {
		t.Errorf("afterwards: %s", said)
	}
}
