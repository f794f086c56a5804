package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/local"
)

func TestCloseEndsWhatRunsAndLeavesNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	dir := t.TempDir()
	box, err := local.Open(local.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	const stubborn = `trap '' TERM; echo $$; sleep 1000 & echo $!; head -c 1000000 /dev/zero >&2; echo ready; while :; do sleep 1000; done`
	p, err := box.Start(t.Context(), sandbox.Command{Argv: []string{"sh", "-c", stubborn}})
	if err != nil {
		t.Fatal(err)
	}
	ready := errors.New("ready")
	var said strings.Builder
	_, err = p.Follow(t.Context(), sandbox.Offsets{}, func(o sandbox.Output) error {
		if o.Stream == sandbox.Stdout {
			said.Write(o.Data)
		}
		if strings.Contains(said.String(), "ready") {
			return ready
		}
		return nil
	})
	if !errors.Is(err, ready) {
		t.Fatal(err)
	}
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
	exit, err := p.Follow(t.Context(), sandbox.Offsets{Stdout: 1 << 30, Stderr: 1 << 30}, func(sandbox.Output) error { return nil })
	if err != nil || exit.Code != 137 || exit.Cause != sandbox.CauseStopping {
		t.Errorf("the command ended with %+v, error %v", exit, err)
	}
	for _, pid := range strings.Fields(said.String())[:2] {
		ends(t, pid)
	}
	if left, err := filepath.Glob(filepath.Join(tmp, "flyfleet-sandbox-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}

func TestClosedSandboxIsUnavailableAndDoesNothing(t *testing.T) {
	dir := t.TempDir()
	box, err := local.Open(local.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
	_, execErr := box.Exec(t.Context(), sandbox.Command{Argv: []string{"touch", "made"}})
	_, forbidErr := box.Forbid(t.Context(), "01890a5d-ac96-774b-bcce-b302099a8057")
	for verb, err := range map[string]error{
		"WriteFile": box.WriteFile(t.Context(), "made", nil, sandbox.WriteOptions{}), "Exec": execErr, "Forbid": forbidErr,
		"Mkdir under an id": box.Once("01890a5d-ac96-774b-bcce-b302099a8057").Mkdir(t.Context(), "made", sandbox.MkdirOptions{}),
	} {
		var unavailable *sandbox.UnavailableError
		if !errors.As(err, &unavailable) || !unavailable.Refused {
			t.Errorf("%s: got error %v", verb, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("made: %v, error %v", entries, err)
	}
}

func TestOpenNeedsADirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(t.TempDir(), "missing")} {
		if box, err := local.Open(local.Options{Dir: dir}); err == nil {
			t.Errorf("%s was opened as %s", dir, box.Dir())
		}
	}
}

func TestRemoveKnowsTheWorkingDirectoryByWhateverName(t *testing.T) {
	dir := t.TempDir()
	box := openAt(t, dir)
	if err := box.WriteFile(t.Context(), "a/b/f", []byte("x"), sandbox.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, filepath.Join(dir, "self")); err != nil {
		t.Fatal(err)
	}
	inner := box.In("a/b")
	for _, name := range []string{"../../self/a/b", "../../self/a", dir + "/self/self/a/b/.", "../../a/b/../../self/a"} {
		if err := inner.Remove(t.Context(), name, sandbox.RemoveOptions{Recursive: true}); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("%s: got error %v", name, err)
		}
	}
	if err := box.Remove(t.Context(), "self/a", sandbox.RemoveOptions{Recursive: true}); err != nil {
		t.Error(err)
	}
}

// e2b-dev/E2B#1034
func TestWhatHeedsNoTermIsEndedWithItsProgram(t *testing.T) {
	box := openAt(t, t.TempDir())
	const script = `sh -c "trap '' TERM; echo \$\$; echo ready >&2; while :; do sleep 1000; done" & trap 'exit 3' TERM; wait; wait`
	p, err := box.Start(t.Context(), sandbox.Command{Argv: []string{"sh", "-c", script}, Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Hold(t.Context(), "until it is ready", time.Hour); err != nil {
		t.Fatal(err)
	}
	pid := ""
	exit, err := p.Follow(t.Context(), sandbox.Offsets{}, func(o sandbox.Output) error {
		if o.Stream == sandbox.Stdout {
			pid += string(o.Data)
			return nil
		}
		return p.Hold(t.Context(), "until it is ready", 0)
	})
	if err != nil || exit.Code != 3 || exit.Cause != sandbox.CauseTimeout {
		t.Fatalf("the program ended with %+v, error %v", exit, err)
	}
	ends(t, strings.TrimSpace(pid))
}

// ends waits until a process is over: it was killed, and dies as soon as it has a processor.
func ends(t *testing.T, pid string) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for {
		if b, err := os.ReadFile("/proc/" + pid + "/stat"); err != nil || strings.Contains(string(b), ") Z ") {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("process %s still runs", pid)
		}
	}
}
