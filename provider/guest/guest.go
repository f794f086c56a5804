// Package guest is Fly's table of machine sizes, so that a plan refuses a size which Fly would refuse or, worse, change
// (fly-apps/terraform-provider-fly#74: 8 shared CPUs came back as 1).
package guest

import (
	"fmt"
	"slices"
	"strings"
)

// Size is a machine's share of a host.
type Size struct {
	CPUKind  string
	CPUs     int64
	MemoryMB int64
}

type kind struct {
	cpus               []int64
	step               int64 // memory is a multiple of it
	minPerCPU, maxEach int64 // MiB for one CPU
}

// Source: flyctl's internal/machine/update.go and fly-go's machine_types.go.
var kinds = map[string]kind{
	"shared":      {cpus: []int64{1, 2, 4, 6, 8}, step: 256, minPerCPU: 256, maxEach: 2048},
	"performance": {cpus: []int64{1, 2, 4, 6, 8, 10, 12, 14, 16, 32, 64, 128}, step: 1024, minPerCPU: 2048, maxEach: 8192},
}

// Kinds are the values of Size.CPUKind.
var Kinds = []string{"shared", "performance"}

// Problem is one wrong field of a size.
type Problem struct {
	// Field is cpu_kind, cpus or memory_mb.
	Field string
	// Text says what is wrong and what would be right.
	Text string
}

// Check finds what Fly does not offer in s, nothing for a size it does.
func Check(s Size) []Problem {
	k, ok := kinds[s.CPUKind]
	if !ok {
		return []Problem{{"cpu_kind", fmt.Sprintf("Fly offers the CPU kinds %s; got %q", strings.Join(Kinds, " and "), s.CPUKind)}}
	}
	if !slices.Contains(k.cpus, s.CPUs) {
		return []Problem{{"cpus", fmt.Sprintf("Fly offers %s %s CPUs; got %d", list(k.cpus), s.CPUKind, s.CPUs)}}
	}
	low, high := k.minPerCPU*s.CPUs, k.maxEach*s.CPUs
	switch {
	case s.MemoryMB < low || s.MemoryMB > high:
		return []Problem{{"memory_mb", fmt.Sprintf("with %d %s CPUs Fly offers %d to %d MB; got %d", s.CPUs, s.CPUKind, low, high, s.MemoryMB)}}
	case s.MemoryMB%k.step != 0:
		down := s.MemoryMB / k.step * k.step
		return []Problem{{"memory_mb", fmt.Sprintf("memory of a %s machine is a multiple of %d MB; got %d, near it are %d and %d",
			s.CPUKind, k.step, s.MemoryMB, max(down, low), min(down+k.step, high))}}
	}
	return nil
}

func list(n []int64) string {
	parts := make([]string, len(n))
	for i, v := range n {
		parts[i] = fmt.Sprint(v)
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " or " + parts[len(parts)-1]
}
