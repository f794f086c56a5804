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

// Fly deletes machines and volumes with their app.
func TestAnAppIsNotDeletedWhileOthersMachinesLiveInIt(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	w := p.workspace(t)
	w.write(t, `resource "flyfleet_app" "a" { name = "tenant-a" }`)
	w.must(t, "apply", "-auto-approve")
	p.post(t, "/v1/apps/tenant-a/machines", map[string]any{"name": "other", "region": "fra", "config": map[string]any{"image": imageOf(1)}})
	id, _ := p.remoteConfig(t, "tenant-a")
	said, ok := w.terraform(t, "apply", "-destroy", "-auto-approve")
	if ok || !says("App tenant-a still holds machine "+id+`.*protect = false`).MatchString(said) {
		t.Fatalf("the destroy said: %s", said)
	}
	if n := count(p.writes(0), "DELETE"); n != 0 {
		t.Fatalf("%d deletes", n)
	}
	w.write(t, `resource "flyfleet_app" "a" { 
  name    = "tenant-a"
  protect = false
}`)
	w.must(t, "apply", "-auto-approve")
	w.must(t, "apply", "-destroy", "-auto-approve")
}
