package acceptance

import (
	"fmt"
	"net/http"
	"testing"
)

// A swap ends with the state and the cordon it found, but for a suspended machine, which ends stopped: its memory
// cannot outlive its image. Nothing cold is started. flyctl#4707, flyctl#1906.
func TestSwapKeepsStateAndCordon(t *testing.T) {
	states := []string{"started", "stopped", "suspended"}
	p, w := startTenants(t, 2*len(states), "")
	v2 := p.image(t, "v2")

	type prepared struct {
		app, state string
		cordoned   bool
		before     machineView
	}
	var all []prepared
	for i, state := range states {
		for j, cordoned := range []bool{false, true} {
			app := fmt.Sprintf("acc-%d", 2*i+j)
			id := p.machine(t, app).ID
			switch state {
			case "stopped":
				p.must(t, http.MethodPost, "/v1/apps/"+app+"/machines/"+id+"/stop", map[string]any{"timeout": "5s"})
			case "suspended":
				p.must(t, http.MethodPost, "/v1/apps/"+app+"/machines/"+id+"/suspend", nil)
			}
			p.waitState(t, app, id, state)
			if cordoned {
				p.must(t, http.MethodPost, "/v1/apps/"+app+"/machines/"+id+"/cordon", nil)
			}
			all = append(all, prepared{app, state, cordoned, p.machine(t, app)})
		}
	}

	w.setImage(v2)
	wantOnlyImage(t, w.plan(), len(all))
	w.must("apply", "-no-color", "saved.tfplan")

	for _, m := range all {
		t.Run(fmt.Sprintf("%s_cordoned_%v", m.state, m.cordoned), func(t *testing.T) {
			after := p.machine(t, m.app)
			want := m.state
			if want == "suspended" {
				want = "stopped"
			}
			if after.ID != m.before.ID || after.State != want || after.Cordoned != m.cordoned {
				t.Errorf("machine %s is %s, cordoned %v; want %s, %s, %v", after.ID, after.State, after.Cordoned, m.before.ID, want, m.cordoned)
			}
			if after.ImageRef.Digest == m.before.ImageRef.Digest || after.InstanceID == m.before.InstanceID {
				t.Errorf("the image did not move: digest %s, instance %s", after.ImageRef.Digest, after.InstanceID)
			}
			if starts := count(after, "start") - count(m.before, "start"); m.state != "started" && starts != 0 {
				t.Errorf("a cold machine was started %d times by the swap", starts)
			}
		})
	}
}

func count(m machineView, event string) int {
	n := 0
	for _, e := range m.Events {
		if e.Type == event {
			n++
		}
	}
	return n
}
