package guest_test

import (
	"strings"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/provider/guest"
)

func TestSizesThatFlyDoesNotOfferNameTheFieldAndTheRange(t *testing.T) {
	for _, c := range []struct {
		name        string
		size        guest.Size
		field, text string // "" means offered
	}{
		{"smallest", guest.Size{CPUKind: "shared", CPUs: 1, MemoryMB: 256}, "", ""},
		{"largest shared", guest.Size{CPUKind: "shared", CPUs: 8, MemoryMB: 16384}, "", ""},
		{"performance", guest.Size{CPUKind: "performance", CPUs: 2, MemoryMB: 4096}, "", ""},
		{"three shared", guest.Size{CPUKind: "shared", CPUs: 3, MemoryMB: 1024}, "cpus", "1, 2, 4, 6 or 8 shared"},
		{"too little", guest.Size{CPUKind: "shared", CPUs: 8, MemoryMB: 1024}, "memory_mb", "2048 to 16384"},
		{"too much", guest.Size{CPUKind: "shared", CPUs: 1, MemoryMB: 4096}, "memory_mb", "256 to 2048"},
		{"odd memory", guest.Size{CPUKind: "shared", CPUs: 1, MemoryMB: 300}, "memory_mb", "256 and 512"},
		{"performance step", guest.Size{CPUKind: "performance", CPUs: 1, MemoryMB: 2304}, "memory_mb", "multiple of 1024"},
		{"kind", guest.Size{CPUKind: "dedicated", CPUs: 1, MemoryMB: 256}, "cpu_kind", "shared and performance"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := guest.Check(c.size)
			if c.field == "" {
				if len(found) != 0 {
					t.Fatalf("refused: %v", found)
				}
				return
			}
			if len(found) != 1 || found[0].Field != c.field || !strings.Contains(found[0].Text, c.text) {
				t.Fatalf("found %v, want %s with %q", found, c.field, c.text)
			}
		})
	}
}
