package namespace

import (
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/runnertest"
)

// BenchmarkBoot is one boot from an unpacked image until the machine accepts connections.
func BenchmarkBoot(b *testing.B) {
	l := runnertest.NewLab(b, New)
	spec := l.Spec("serve", "[::]:8080")
	l.Serving(spec)
	for b.Loop() {
		b.StopTimer()
		spec := l.Spec("serve", "[::]:8080")
		b.StartTimer()
		l.Serving(spec)
	}
}
