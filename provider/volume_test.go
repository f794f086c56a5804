package provider_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
)

func sizedVolume(gb int, more string) string {
	return fmt.Sprintf(`
resource "flyfleet_app" "a" { name = "tenant-a" }
resource "flyfleet_volume" "v" {
  app     = flyfleet_app.a.name
  region  = "fra"
  name    = "data"
  size_gb = %d
  deletion_protection = false
  %s
}
`, gb, more)
}

func TestVolumeLives(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	var id string
	p.run(t,
		resource.TestStep{Config: sizedVolume(1, ""), Check: resource.ComposeTestCheckFunc(
			resource.TestCheckResourceAttr("flyfleet_volume.v", "encrypted", "true"),
			func(s *terraform.State) error {
				id = s.RootModule().Resources["flyfleet_volume.v"].Primary.Attributes["id"]
				return nil
			},
		)},
		// It grows in place, and the other change of the same plan is not lost.
		resource.TestStep{
			Config: sizedVolume(3, "snapshot_retention = 7"), ConfigPlanChecks: before(changes{map[string][]string{"flyfleet_volume.v": {"size_gb", "snapshot_retention"}}}),
			Check: func(*terraform.State) error {
				var v struct {
					Size int `json:"size_gb"`
					Days int `json:"snapshot_retention"`
				}
				p.get(t, "/v1/apps/tenant-a/volumes/"+id, &v)
				if v.Size != 3 || v.Days != 7 {
					return fmt.Errorf("%+v", v)
				}
				return nil
			},
		},
		resource.TestStep{Config: sizedVolume(2, "snapshot_retention = 7"), PlanOnly: true, ExpectError: says(`size_gb: volume vol_.* has 3 GB, and Fly only extends volumes: write 3 or more`)},
		// A volume that has grown by itself is no drift, and asking for less than that costs no call.
		resource.TestStep{
			PreConfig: func() {
				p.request(t, "PUT", "/v1/apps/tenant-a/volumes/"+id+"/extend", map[string]any{"size_gb": 9}, nil)
			},
			Config: sizedVolume(3, "snapshot_retention = 7"), ConfigPlanChecks: before(plancheck.ExpectEmptyPlan()),
		},
		resource.TestStep{Config: sizedVolume(5, "snapshot_retention = 7"), Check: func(*terraform.State) error {
			if n := count(p.writes(0), "PUT /v1/apps/tenant-a/volumes/"+id+"/extend"); n != 2 { // ours to 3, the outside one to 9
				return fmt.Errorf("%d extensions", n)
			}
			return nil
		}},
		resource.TestStep{
			ResourceName: "flyfleet_volume.v", ImportState: true, ImportStateVerify: true,
			ImportStateIdFunc:       func(*terraform.State) (string, error) { return "tenant-a/" + id, nil },
			ImportStateVerifyIgnore: []string{"deletion_protection", "size_gb"},
		},
		resource.TestStep{ResourceName: "flyfleet_volume.v", ImportState: true, ImportStateId: "tenant-a", ExpectError: says(`imported as app/id`)},
		// Gone outside is planned for creation.
		resource.TestStep{
			PreConfig:        func() { p.request(t, "DELETE", "/v1/apps/tenant-a/volumes/"+id, nil, nil) },
			Config:           sizedVolume(5, "snapshot_retention = 7"),
			ConfigPlanChecks: before(plancheck.ExpectResourceAction("flyfleet_volume.v", plancheck.ResourceActionCreate)),
		},
	)
}

// fly-apps/terraform-provider-fly#218, #154: a volume stays bound for a while after its machine is gone.
func TestAVolumeIsDeletedOnceItsMachineHasLetGo(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	p.Faults.Delays(5e6, 1500e6)
	p.run(t, resource.TestStep{Config: tenantHCL}, resource.TestStep{Config: tenantHCL, Destroy: true})
	if n := count(p.writes(0), "DELETE /v1/apps/tenant-a/volumes/"); n < 2 {
		t.Errorf("the volume was asked to go %d times: nothing was waited for", n)
	}
}

func TestAnotherVolumeReplacesTheMachineOnlyWhereTheMountAllowsIt(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	config := func(name, more string) string {
		return strings.NewReplacer(`"data"`, fmt.Sprintf("%q", name), `flyfleet_volume.v.id }`, `flyfleet_volume.v.id`+more+` }`).Replace(tenantHCL)
	}
	p.run(t,
		resource.TestStep{Config: config("data", "")},
		resource.TestStep{Config: config("other", ""), ExpectError: says(`mounts volume vol_`)},
		resource.TestStep{Config: config("data", ", replace_with_volume = true")},
		resource.TestStep{
			Config:           config("other", ", replace_with_volume = true"),
			ConfigPlanChecks: before(plancheck.ExpectResourceAction("flyfleet_machine.m", plancheck.ResourceActionDestroyBeforeCreate)),
		},
	)
}
