package provider_test

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
)

func TestAppLives(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	p.run(t,
		resource.TestStep{
			Config: `resource "flyfleet_app" "a" { name = "tenant-a" }`,
			Check: resource.ComposeTestCheckFunc(
				resource.TestCheckResourceAttr("flyfleet_app.a", "network", "tenant-a"),
				resource.TestCheckResourceAttr("flyfleet_app.a", "org", p.Org()),
				resource.TestCheckResourceAttrSet("flyfleet_app.a", "id"),
			),
		},
		resource.TestStep{ResourceName: "flyfleet_app.a", ImportState: true, ImportStateId: "tenant-a", ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "name"},
	)
}
