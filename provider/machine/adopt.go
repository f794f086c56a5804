package machine

import (
	"fmt"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/mark"
)

// unlike says why a machine is not what an interrupted create of this very plan left behind; "" when it is. Only
// metadata of flyfleet tell ours from another's, and only an equal configuration makes it safe to take: adopting by name
// alone would put the plan into the state of a machine that runs something else.
func unlike(m *flyapi.Machine, plan model) string {
	remote, err := readRemote(m.Config())
	if err != nil {
		return err.Error()
	}
	has := full(remote)
	if why := mark.Finished(has.Metadata); why != "" {
		return why
	}
	want := plan.Metadata[mark.OwnerKey]
	if want == "" {
		want = mark.Terraform
	}
	if has.Metadata[mark.OwnerKey] != want {
		return fmt.Sprintf("its metadata %s is %q, not %q, so this configuration did not make it", mark.OwnerKey, has.Metadata[mark.OwnerKey], want)
	}
	if m.Region != plan.Region {
		return fmt.Sprintf("it is in region %s, not %s", m.Region, plan.Region)
	}
	if diff := differences(plan, has); len(diff) > 0 {
		return "it differs from the plan in " + strings.Join(diff, ", ")
	}
	return ""
}

// differences names the parts in which a machine is not what the plan would have sent. What Fly fills in by itself (the
// size, when none is planned, and its own metadata) does not count.
func differences(plan, has model) []string {
	want := tree(plan)
	seen := tree(has)
	var out []string
	for _, part := range []string{"image", "env", "metadata", "guest", "mounts", "services", "checks", "stop_config"} {
		w, s := want[part], seen[part]
		switch part {
		case "guest":
			if w == nil {
				continue
			}
		case "metadata":
			s = withoutOwn(s, w)
			w = withoutOwn(w, w)
		}
		if empty(w) && empty(s) {
			continue
		}
		if !covers([]string{part}, s, w) || extra(s, w) {
			out = append(out, part)
		}
	}
	return out
}

// withoutOwn leaves out Fly's own keys and the provider's, which are compared by themselves.
func withoutOwn(v, declared any) any {
	object, ok := v.(map[string]any)
	if !ok {
		return v
	}
	keep, _ := declared.(map[string]any)
	out := map[string]any{}
	for k, value := range object {
		if _, mine := keep[k]; k != mark.OwnerKey && k != mark.CreateKey && (mine || !strings.HasPrefix(k, "fly_")) {
			out[k] = value
		}
	}
	return out
}

func empty(v any) bool {
	object, ok := v.(map[string]any)
	return v == nil || ok && len(object) == 0
}

// extra reports that has holds elements that want does not: a variable, a mount, a service, a check.
func extra(has, want any) bool {
	h, _ := has.(map[string]any)
	w, _ := want.(map[string]any)
	for k := range h {
		if _, ok := w[k]; !ok {
			return true
		}
	}
	return false
}

func importBlock(app, id string) string {
	return fmt.Sprintf("\n\nimport {\n  to = flyfleet_machine.NAME\n  id = \"%s/%s\"\n}\n", app, id)
}
