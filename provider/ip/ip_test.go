package ip

import (
	"strings"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
)

func TestOnlyAYoungFlycastAddressOfTheNetworkIsTaken(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	flycast := func(network string, age time.Duration) flyapi.Address {
		return flyapi.Address{App: "a", IP: "fdaa::3", Type: flyapi.AddressPrivateV6, Network: network, CreatedAt: now.Add(-age)}
	}
	for _, c := range []struct {
		name string
		all  []flyapi.Address
		took bool
		err  string
	}{
		{"none", nil, false, ""},
		{"young", []flyapi.Address{flycast("runtime", time.Hour)}, true, ""},
		{"old", []flyapi.Address{flycast("runtime", 48*time.Hour)}, false, "import {"},
		{"other network", []flyapi.Address{flycast("other", time.Hour)}, false, ""},
		{"public", []flyapi.Address{{App: "a", IP: "2a09::1", Type: flyapi.AddressV6, Network: "runtime", CreatedAt: now}}, false, ""},
	} {
		a, err := leftBehind(c.all, "runtime", now)
		if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: error %v", c.name, err)
		}
		if err == nil && (a.IP != "") != c.took {
			t.Errorf("%s: took %q", c.name, a.IP)
		}
	}
}

func TestAnImportLeavesOutWhatIsTheDefault(t *testing.T) {
	flycast := flyapi.Address{IP: "fdaa::3", Type: flyapi.AddressPrivateV6, Network: "a", Region: "global"}
	if m := imported("a", flycast, "a"); !m.Network.IsNull() || !m.Region.IsNull() {
		t.Fatalf("%+v", m)
	}
	if m := imported("a", flycast, "other"); m.Network.ValueString() != "a" {
		t.Fatalf("%+v", m)
	}
	if m := imported("a", flyapi.Address{IP: "1.2.3.4", Type: flyapi.AddressV4, Region: "fra"}, "a"); m.Region.ValueString() != "fra" {
		t.Fatalf("%+v", m)
	}
}
