package namespace

import (
	"os"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/machineinit"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/runnertest"
)

func TestMain(m *testing.M) {
	machineinit.RunIfInit()
	runnertest.App()
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) { runnertest.Conformance(t, New) }

func TestPlatformDeathTakesMachinesAlong(t *testing.T) { runnertest.Death(t, New) }
