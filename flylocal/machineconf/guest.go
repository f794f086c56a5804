package machineconf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/rawjson"
)

// Guest is a machine's size.
type Guest struct {
	CPUKind  string `json:"cpu_kind"`
	CPUs     int    `json:"cpus"`
	MemoryMB int    `json:"memory_mb"`
}

// DefaultGuest is what a machine gets that asks for nothing.
var DefaultGuest = Guest{CPUKind: "shared", CPUs: 1, MemoryMB: 256}

var (
	sharedCPUs      = []int{1, 2, 4, 6, 8}
	performanceCPUs = []int{1, 2, 4, 6, 8, 10, 12, 14, 16, 32, 64, 128}
)

// ResolvedGuest is the guest with defaults for what the config leaves out.
func (c *Config) ResolvedGuest() (Guest, error) {
	if c.Guest == nil {
		if c.Size == "" {
			return DefaultGuest, nil
		}
		return Preset(c.Size)
	}
	g := *c.Guest
	if g.CPUKind == "" {
		g.CPUKind = DefaultGuest.CPUKind
	}
	if g.CPUs == 0 {
		g.CPUs = 1
	}
	if g.MemoryMB == 0 {
		g.MemoryMB = g.unit() * g.CPUs
	}
	return g, nil
}

func (g Guest) unit() int {
	if g.CPUKind == "performance" {
		return 2048
	}
	return 256
}

// Preset answers the guest behind a size name such as "shared-cpu-2x".
func Preset(size string) (Guest, error) {
	g := Guest{}
	rest, shared := strings.CutPrefix(size, "shared-cpu-")
	if shared {
		g.CPUKind = "shared"
	} else if rest, shared = strings.CutPrefix(size, "performance-"); shared {
		g.CPUKind = "performance"
	}
	digits, x := strings.CutSuffix(rest, "x")
	cpus, err := strconv.Atoi(digits)
	presets := sharedCPUs
	if g.CPUKind == "performance" {
		presets = performanceCPUs[:9]
	}
	if g.CPUKind == "" || !x || err != nil || !slices.Contains(presets, cpus) {
		return Guest{}, fmt.Errorf("config.size %q is unknown", size)
	}
	g.CPUs, g.MemoryMB = cpus, g.unit()*cpus
	return g, nil
}

// Validate checks Fly's table of sizes.
func (g Guest) Validate() error {
	var cpus []int
	step, most := 256, 2048
	switch g.CPUKind {
	case "shared":
		cpus = sharedCPUs
	case "performance":
		cpus, step, most = performanceCPUs, 1024, 8192
	default:
		return fmt.Errorf("config.guest.cpu_kind %q must be shared or performance", g.CPUKind)
	}
	if !slices.Contains(cpus, g.CPUs) {
		return fmt.Errorf("config.guest.cpus %d is not offered for %s CPUs, choose one of %v", g.CPUs, g.CPUKind, cpus)
	}
	low, high := g.unit()*g.CPUs, most*g.CPUs
	if g.MemoryMB < low || g.MemoryMB > high {
		return fmt.Errorf("config.guest.memory_mb %d must be between %d and %d for %d %s CPUs", g.MemoryMB, low, high, g.CPUs, g.CPUKind)
	}
	if g.MemoryMB%step != 0 {
		return fmt.Errorf("config.guest.memory_mb %d must be a multiple of %d", g.MemoryMB, step)
	}
	return nil
}

// FillGuest answers the config's text with a guest in it. A text that has one comes back as it is; otherwise the
// member is added and no other byte changes.
func FillGuest(raw []byte, guest Guest) ([]byte, error) {
	if value, ok := rawjson.Get(raw, "guest"); ok && string(value) != "null" {
		return raw, nil
	}
	text := fmt.Sprintf(`{"cpu_kind":%q,"cpus":%d,"memory_mb":%d}`, guest.CPUKind, guest.CPUs, guest.MemoryMB)
	return rawjson.Set(raw, []byte(text), "guest")
}
