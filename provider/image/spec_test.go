package image

import (
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/ociimage"
)

func ptr[T any](v T) *T { return &v }

func TestADeclaredFileOrLinkReplacesThatOfTheTenantsLayout(t *testing.T) {
	spec, err := specOf(model{
		Base: "scratch", ControlServer: ptr("control-server"),
		Files: map[string]file{"/etc/passwd": {Content: ptr("mine")}, "/workspace": {Content: ptr("a file"), Mode: ptr("0640"), UID: ptr(int64(7))}},
		Links: map[string]string{"/etc/group": "/elsewhere"}, Labels: map[string]string{"k": "v"},
	}, "registry.fly.io", "token")
	if err != nil {
		t.Fatal(err)
	}
	var files, links []string
	for _, f := range spec.Files {
		files = append(files, f.Path)
		if f.Path == "/workspace" && (f.Mode != 0o640 || f.UID != 7) {
			t.Errorf("mode %o, uid %d", f.Mode, f.UID)
		}
	}
	for _, l := range spec.Links {
		links = append(links, l.Path)
	}
	slices.Sort(files)
	if want := []string{"/etc/passwd", ociimage.ControlServerPath, "/workspace"}; !slices.Equal(files, want) {
		t.Errorf("files %v", files)
	}
	if slices.Contains(links, "/workspace") || !slices.Contains(links, "/etc/group") {
		t.Errorf("links %v", links)
	}
	if spec.Labels["k"] != "v" || spec.Labels[ociimage.LabelWire] == "" {
		t.Errorf("labels %v", spec.Labels)
	}
	if len(spec.Entrypoint) == 0 || spec.BaseToken != "" {
		t.Errorf("entrypoint %v", spec.Entrypoint)
	}
}

func TestTheAccountsTokenGoesToItsOwnRegistryAlone(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("1", 64)
	for base, want := range map[string]string{"registry.fly.io/a" + digest: "token", "docker.io/library/debian" + digest: "", "registry.fly.io.evil.example/a" + digest: ""} {
		spec, err := specOf(model{Base: base}, "registry.fly.io", "token")
		if err != nil || spec.BaseToken != want {
			t.Errorf("%s gets %q, %v", base, spec.BaseToken, err)
		}
	}
}

func TestAWrongFileIsNamed(t *testing.T) {
	for want, f := range map[string]file{
		`files["/x"]: write either`: {},
		`files["/x"].mode: "999"`:   {Content: ptr(""), Mode: ptr("999")},
	} {
		if _, err := specOf(model{Base: "scratch", Files: map[string]file{"/x": f}}, "r", ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestUnknownPartsAreNamedExactly(t *testing.T) {
	one := tftypes.Object{AttributeTypes: map[string]tftypes.Type{"content": tftypes.String, "source": tftypes.String}}
	files := tftypes.NewValue(tftypes.Map{ElementType: one}, map[string]tftypes.Value{
		"/a": tftypes.NewValue(one, map[string]tftypes.Value{"content": tftypes.NewValue(tftypes.String, tftypes.UnknownValue), "source": tftypes.NewValue(tftypes.String, nil)}),
		"/b": tftypes.NewValue(one, map[string]tftypes.Value{"content": tftypes.NewValue(tftypes.String, "x"), "source": tftypes.NewValue(tftypes.String, nil)}),
	})
	unknown := innermost("files", files)
	if !slices.Equal(unknown, []string{`files["/a"].content`}) {
		t.Errorf("named %v", unknown)
	}
}
