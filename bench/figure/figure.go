// Package figure prints what benchmarks measured, one line a figure, beside the load of the computer.
package figure

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// Main runs benchmarks between two lines that tell the load average, and returns the exit code.
func Main(m *testing.M) int {
	loadAverage("before")
	code := m.Run()
	loadAverage("after")
	return code
}

func loadAverage(when string) {
	b, err := os.ReadFile("/proc/loadavg")
	if err == nil && slices.ContainsFunc(os.Args, func(a string) bool { return strings.HasPrefix(a, "-test.bench=") }) {
		fmt.Fprintf(os.Stdout, "\nLOAD %s %s\n", when, strings.Join(strings.Fields(string(b))[:3], " "))
	}
}

// Report prints a figure and its ratio to the floor.
func Report(name string, value float64, unit string, floor float64) {
	fmt.Fprintf(os.Stdout, "\nBENCH %s %.3f %s floor=%.3f ratio=%.3f\n", name, value, unit, floor, value/floor)
}

// Median of values, which are sorted by it.
func Median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// Milliseconds of a duration.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
