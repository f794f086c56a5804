package provider_test

import (
	"fmt"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
)

const addressesHCL = `
resource "flyfleet_app" "a" { name = "tenant-a" }
resource "flyfleet_ip" "six" {
  count = 2
  app   = flyfleet_app.a.name
  type  = "v6"
}
resource "flyfleet_ip" "flycast" {
  app     = flyfleet_app.a.name
  type    = "private_v6"
  network = "runtime"
}
resource "flyfleet_ip" "own" {
  app  = flyfleet_app.a.name
  type = "private_v6"
}
`

func TestAddressesLive(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	at := map[string]string{}
	imported := func(name string) resource.TestStep {
		return resource.TestStep{
			ResourceName: "flyfleet_ip." + name, ImportState: true, ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "address",
			ImportStateIdFunc: func(*terraform.State) (string, error) { return "tenant-a/" + at[name], nil },
		}
	}
	p.run(t,
		// A peer took the newest of the list for both.
		resource.TestStep{Config: addressesHCL, Check: func(s *terraform.State) error {
			for name, r := range s.RootModule().Resources {
				if r.Type == "flyfleet_ip" {
					at[name[len("flyfleet_ip."):]] = r.Primary.Attributes["address"]
				}
			}
			if at["six.0"] == at["six.1"] || at["flycast"] == at["own"] || at["six.0"] == "" || at["flycast"] == "" {
				return fmt.Errorf("addresses %v", at)
			}
			return nil
		}},
		imported("flycast"),
		imported("own"),
		// fly-apps/terraform-provider-fly#250: an address that another tool made can be imported.
		resource.TestStep{
			ResourceName: "flyfleet_ip.six[0]", ImportState: true, ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "address",
			ImportStateIdFunc: func(*terraform.State) (string, error) { return "tenant-a/" + at["six.0"], nil },
		},
		resource.TestStep{
			PreConfig:        func() { p.request(t, "DELETE", "/v1/apps/tenant-a/ip_assignments/"+at["flycast"], nil, nil) },
			Config:           addressesHCL,
			ConfigPlanChecks: before(plancheck.ExpectResourceAction("flyfleet_ip.flycast", plancheck.ResourceActionCreate)),
		},
	)
}
