package naming_test

import (
	"strings"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/provider/naming"
)

func TestNamesAreRefusedWithWhatWouldBeRight(t *testing.T) {
	long := strings.Repeat("a", 64)
	for _, c := range []struct {
		name  string
		check func(string) error
		in    string
		want  string // "" means accepted
	}{
		{"app", naming.App, "tenant-a1", ""},
		{"app of 63", naming.App, long[:63], ""},
		{"app of 64", naming.App, long, "at most 63"},
		{"app upper case", naming.App, "Tenant", "lowercase letters"},
		{"app trailing dash", naming.App, "tenant-", "at both ends"},
		{"app empty", naming.App, "", "is empty"},
		{"machine", naming.Machine, "main", ""},
		{"machine generated", naming.Machine, "misty-sun-1234", ""},
		{"machine of 64", naming.Machine, long, "at most 63"},
		{"machine with dot", naming.Machine, "a.b", "dashes and underscores"},
		{"volume", naming.Volume, "data_1", ""},
		{"volume with dash", naming.Volume, "data-1", "a dash is not allowed"},
		{"network", naming.Network, "Tenant-a", ""},
		{"network digit first", naming.Network, "1a", "beginning with a letter"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.check(c.in)
			if c.want == "" && err != nil {
				t.Fatalf("refused: %v", err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Fatalf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestUnknownRegionIsNotAnErrorButNoCodeIs(t *testing.T) {
	if known, err := naming.Region("fra"); !known || err != nil {
		t.Fatalf("fra: known=%v err=%v", known, err)
	}
	if known, err := naming.Region("xyz"); known || err != nil {
		t.Fatalf("xyz: known=%v err=%v", known, err)
	}
	if _, err := naming.Region("eu,any"); err == nil {
		t.Fatal("a list of regions was accepted: a machine has one")
	}
}
