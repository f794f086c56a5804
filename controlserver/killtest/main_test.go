package killtest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// modeEnv makes the test binary something else than the tests.
const modeEnv = "FLYFLEET_KILLTEST_MODE"

// verdict is the last line of a run, set by the kill matrix when it held.
var verdict string

func TestMain(m *testing.M) {
	switch os.Getenv(modeEnv) {
	case "client":
		os.Exit(clientMain())
	case "volume":
		os.Exit(volumeMain())
	}
	// Most tests wait for silence or for a suspended machine: let them wait at the same time.
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	if code == 0 && verdict != "" {
		fmt.Fprintln(os.Stdout, verdict)
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

// binary is the control server, built once a run with its crash points.
func binary(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "killtest-"); built.err != nil {
			return
		}
		build := exec.Command("go", "build", "-buildvcs=false", "-tags", "crashpoints", "-o", built.dir, "github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet-controlserver")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	if built.err != nil {
		t.Fatalf("build the control server: %v", built.err)
	}
	return filepath.Join(built.dir, "flyfleet-controlserver")
}
