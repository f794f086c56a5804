package provider_test

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
)

func TestTheDataSourceShowsWhatChangesByItself(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	data := `
data "flyfleet_machine" "m" {
  app        = flyfleet_app.a.name
  depends_on = [flyfleet_machine.m]
}
data "flyfleet_machine" "by_id" {
  app = flyfleet_app.a.name
  id  = flyfleet_machine.m.id
}
`
	p.run(t,
		resource.TestStep{Config: machineHCL(imageOf(1), everything) + data, Check: resource.ComposeTestCheckFunc(
			resource.TestCheckResourceAttr("data.flyfleet_machine.m", "state", "started"),
			resource.TestCheckResourceAttr("data.flyfleet_machine.m", "digest", digestOf(1)),
			resource.TestCheckResourceAttr("data.flyfleet_machine.m", "host_status", "ok"),
			resource.TestCheckResourceAttr("data.flyfleet_machine.m", "cordoned", "false"),
			resource.TestCheckResourceAttr("data.flyfleet_machine.m", "metadata.flyfleet_image_owner", "terraform"),
			resource.TestCheckResourceAttrSet("data.flyfleet_machine.m", "instance_id"),
			resource.TestCheckResourceAttrSet("data.flyfleet_machine.m", "private_ip"),
			resource.TestCheckResourceAttrPair("data.flyfleet_machine.m", "id", "data.flyfleet_machine.by_id", "id"),
		)},
		resource.TestStep{Config: machineHCL(imageOf(1), everything) + `
data "flyfleet_machine" "other" {
  app  = flyfleet_app.a.name
  name = "other"
}`, ExpectError: says(`app tenant-a has no machine named "other" among its 1`)},
	)
}
