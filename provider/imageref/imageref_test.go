package imageref_test

import (
	"strings"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/provider/imageref"
)

func TestSpellingsOfOneDigestAreTheSame(t *testing.T) {
	one, two := "sha256:"+strings.Repeat("1", 64), "sha256:"+strings.Repeat("2", 64)
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"registry.fly.io/a@" + one, "registry.fly.io/a@" + one, true},
		{"registry.fly.io/a:v1@" + one, "registry.fly.io/a@" + one, true},
		{"registry.fly.io/a:v1@" + one, "registry.fly.io/a:v2@" + one, true},
		{"127.0.0.1:5000/a:v1@" + one, "127.0.0.1:5000/a@" + one, true},
		{"registry.fly.io/a@" + one, "registry.fly.io/a@" + two, false},
		{"registry.fly.io/a@" + one, "127.0.0.1:5000/b@" + one, true},
		{"registry.fly.io/a:v1", "registry.fly.io/a:v1@" + one, false},
		{"nginx", "docker.io/library/nginx:latest", true},
		{"nginx:1", "docker.io/library/nginx:latest", false},
		{"", "nginx", false},
		{"not a reference!", "nginx", false},
	} {
		if got := imageref.Same(c.a, c.b); got != c.same {
			t.Errorf("Same(%q, %q) = %v", c.a, c.b, got)
		}
		if got := imageref.Same(c.b, c.a); got != c.same {
			t.Errorf("Same(%q, %q) = %v", c.b, c.a, got)
		}
	}
}
