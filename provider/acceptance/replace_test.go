package acceptance

import (
	"net/http"
	"strings"
	"testing"
)

// With create_before_destroy Terraform creates the successor while the old object still has the name. What the create
// finds under its key is then the very object that is to be replaced: whatever comes of it, the apply must not end
// with a state that names an object which the same apply destroyed.
func TestReplacementNeverDestroysWhatItAdopted(t *testing.T) {
	for _, address := range []string{"flyfleet_volume.data", "flyfleet_machine.main", "flyfleet_ip.flycast", "flyfleet_app.tenant"} {
		t.Run(strings.TrimPrefix(address, "flyfleet_"), func(t *testing.T) {
			p := startPlatformOn(t, "none")
			w := newWorkspace(t, p.env())
			config := strings.ReplaceAll(tenantsConfig(p, "acc-", 1, ""), "for_each ", "lifecycle { create_before_destroy = true }\n  for_each ")
			config = strings.Replace(config, `volume_id = flyfleet_volume.data[each.key].id`, `volume_id = flyfleet_volume.data[each.key].id, replace_with_volume = true`, 1)
			w.write("main.tf", config)
			w.setImage(p.image(t, "v1"))
			w.apply()
			result := w.run("apply", "-auto-approve", "-input=false", "-no-color", `-replace=`+address+`["acc-0"]`)
			t.Logf("replacing: %v", result.Err)

			for _, c := range w.plan().changed() {
				t.Errorf("after the replacement the state names what is gone: %s %v\n%s", c.Address, c.Change.Actions, result.Output)
			}
			if status, _ := p.call(t, http.MethodGet, "/v1/apps/acc-0", nil); status != http.StatusOK {
				t.Errorf("the app is gone")
			}
		})
	}
}
