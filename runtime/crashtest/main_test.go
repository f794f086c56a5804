//go:build linux

package crashtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/machineinit"
)

// Runs and kills of this process, for its last line.
var runs, kills, violations atomic.Int64

func TestMain(m *testing.M) {
	machineinit.RunIfInit()
	if len(os.Args) == 3 && os.Args[1] == callerArg {
		callBack(os.Args[2]) // a program on a machine: it does not come back
	}
	if os.Getenv("FLYFLEET_TEST_SERVE") != "" {
		machinetest.Main(m) // a control server: it does not come back
	}
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	verdict := "ok"
	if code != 0 {
		verdict = "failed"
	}
	if runs.Load() > 0 {
		fmt.Fprintf(os.Stdout, "crash suite: %s runs=%d kills=%d violations=%d\n", verdict, runs.Load(), kills.Load(), violations.Load())
	}
	os.Exit(code)
}

// long says whether the long forms are wanted.
func long() bool { return os.Getenv("FLYFLEET_TEST_LONG") != "" }

var built struct {
	once sync.Once
	dir  string
	err  error
}

// program is the runtime, built once a run with its crash points.
func program(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "crashtest-"); built.err != nil {
			return
		}
		build := exec.Command("go", "build", "-buildvcs=false", "-tags", "crashpoints", "-o", built.dir, "github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet-runtime")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	if built.err != nil {
		t.Fatalf("build the runtime: %v", built.err)
	}
	return filepath.Join(built.dir, "flyfleet-runtime")
}
