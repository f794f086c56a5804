package wire_test

import (
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
)

func TestADerivedIDHasTheAgeOfItsOriginAndIsAlwaysTheSame(t *testing.T) {
	const want = "018cc251-f400-7"
	seen := map[string]string{goodID: "itself"}
	for _, label := range []string{"", "1", "2", "10", "1\x00"} {
		id, err := wire.DeriveID(goodID, label)
		if err != nil {
			t.Fatal(err)
		}
		again, err := wire.DeriveID(goodID, label)
		if err != nil || again != id {
			t.Errorf("label %q: %s, then %s (%v)", label, id, again, err)
		}
		made, err := wire.IDTime(id)
		origin, _ := wire.IDTime(goodID)
		if err != nil || !made.Equal(origin) || id[:len(want)] != want {
			t.Errorf("label %q: %s is of %v, not of %v (%v)", label, id, made, origin, err)
		}
		if other, taken := seen[id]; taken {
			t.Errorf("labels %q and %q have one id", label, other)
		}
		seen[id] = label
	}
	// Another program must derive the same after an upgrade: the value is pinned.
	if id, _ := wire.DeriveID(goodID, "1"); id != pinnedDerived {
		t.Errorf("the derivation changed: %s", id)
	}
	if _, err := wire.DeriveID("f47ac10b-58cc-4372-a567-0e02b2c3d479", "1"); err == nil {
		t.Error("an id that is no UUIDv7 has descendants")
	}
}

const pinnedDerived = "018cc251-f400-7e52-b0b8-e6c60189e063"
