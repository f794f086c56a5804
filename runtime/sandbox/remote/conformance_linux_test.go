package remote_test

import (
	"net"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/remote"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/sandboxtest"
)

// harness is the suite's way to a machine; wrap may put something between.
func harness(name string, m *machine, wrap func(net.Conn) net.Conn) sandboxtest.Harness {
	open := func(t testing.TB, below string) sandbox.Sandbox {
		return m.box(t, remote.Options{Machine: m.options(wrap), Dir: m.fresh(t, below)})
	}
	atHome := func(t testing.TB) sandbox.Sandbox { return open(t, "/workspace") }
	return sandboxtest.Harness{
		Name: name, Open: atHome, Denied: atHome, Latency: 20 * time.Millisecond,
		Full: func(t testing.TB) sandbox.Sandbox { return open(t, "/small") },
		Again: func(t testing.TB, box sandbox.Sandbox) sandbox.Sandbox {
			return m.box(t, remote.Options{Machine: m.options(wrap), Dir: box.Dir()})
		},
	}
}

func TestConformance(t *testing.T) {
	for _, u := range []userland{coreutils, busybox} {
		t.Run(string(u), func(t *testing.T) {
			m := boot(t, u)
			sandboxtest.Run(t, harness("remote on "+string(u), m, nil))
		})
	}
}
