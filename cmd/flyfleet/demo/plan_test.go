package demo

import (
	"fmt"
	"strings"
	"testing"
)

func document(changes ...string) []byte {
	return fmt.Appendf(nil, `{"resource_changes":[%s]}`, strings.Join(changes, ","))
}

func change(kind, address, actions, before, after, unknown string) string {
	return fmt.Sprintf(`{"type":%q,"address":%q,"change":{"actions":[%s],"before":%s,"after":%s,"after_unknown":%s}}`, kind, address, actions, before, after, unknown)
}

func TestAPlanOfTheImageAloneIsOneLine(t *testing.T) {
	doc := document(
		change("flyfleet_app", "a", `"no-op"`, `{"name":"a"}`, `{"name":"a"}`, `{}`),
		change("flyfleet_image", "i", `"update"`, `{"digest":"1"}`, `{"digest":"2"}`, `{}`),
		change("flyfleet_machine", "m", `"update"`, `{"id":"1","image":"x@1","env":{"A":"1"}}`, `{"id":"1","image":"x@2","env":{"A":"1"}}`, `{"env":{}}`),
	)
	got, err := machineChanges(doc)
	if err != nil {
		t.Fatal(err)
	}
	if err := onlyTheImage(got, 1); err != nil {
		t.Fatal(err)
	}
	if got[0].From != "x@1" || got[0].To != "x@2" {
		t.Errorf("%+v", got[0])
	}
}

func TestASecondChangeIsSeen(t *testing.T) {
	const before = `{"id":"1","image":"x@1","env":{"A":"1"},"stop_config":{"timeout":"30s"}}`
	for name, c := range map[string]struct{ kind, actions, after, unknown, want string }{
		"env":         {"flyfleet_machine", `"update"`, `{"id":"1","image":"x@2","env":{"A":"2"},"stop_config":{"timeout":"30s"}}`, `{}`, "2 lines of m, want the image alone: env, image"},
		"nested":      {"flyfleet_machine", `"update"`, `{"id":"1","image":"x@2","env":{"A":"1"},"stop_config":{"timeout":"29s"}}`, `{}`, "image, stop_config"},
		"removed":     {"flyfleet_machine", `"update"`, `{"id":"1","image":"x@2","env":{"A":"1"}}`, `{}`, "image, stop_config"},
		"unknown":     {"flyfleet_machine", `"update"`, `{"id":"1","image":"x@2","env":{"A":"1"},"stop_config":{"timeout":"30s"}}`, `{"state":true}`, "image, state"},
		"unknown in":  {"flyfleet_machine", `"update"`, `{"id":"1","image":"x@2","env":{"A":"1"},"stop_config":{"timeout":"30s"}}`, `{"env":{"B":true}}`, "env, image"},
		"not the one": {"flyfleet_machine", `"update"`, `{"id":"1","image":"x@1","env":{"A":"2"},"stop_config":{"timeout":"30s"}}`, `{}`, "want the image alone: env"},
		"replacement": {"flyfleet_machine", `"delete","create"`, `{"image":"x@2"}`, `{}`, "the plan would delete+create m"},
		"volume":      {"flyfleet_volume", `"update"`, `{}`, `{}`, "the plan would update m"},
		"nothing":     {"flyfleet_machine", `"no-op"`, before, `{}`, "changes 0 machines, want 1"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := machineChanges(document(change(c.kind, "m", c.actions, before, c.after, c.unknown)))
			if err == nil {
				err = onlyTheImage(got, 1)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one with %q", err, c.want)
			}
		})
	}
}
