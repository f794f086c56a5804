package runnertest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/procs"
)

// deathEnv tells the test binary that it is the platform which will be killed.
const deathEnv = "FLYLOCAL_TEST_PLATFORM_TO_KILL"

// Death checks that machines, running or suspended, do not outlive a platform that is killed. The test's name is how
// it starts itself again as that platform.
func Death(t *testing.T, maker Maker) {
	if os.Getenv(deathEnv) != "" {
		dyingPlatform(t, maker)
		return
	}
	l := NewLab(t, maker)
	temp := l.Volume("of-the-killed").VolumeDir // removed with whatever ids are in it
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), self, "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), deathEnv+"=1", "TMPDIR="+temp)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "up" {
		t.Log(lines.Text())
	}
	list, err := procs.Descendants(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 6 {
		t.Fatalf("two machines are only %d processes: %+v", len(list), list)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	Eventually(t, "no process of the killed platform's machines is left", func() bool {
		now, err := procs.List()
		return err == nil && !slices.ContainsFunc(now, func(p procs.Process) bool {
			return p.State != 'Z' && slices.ContainsFunc(list, func(old procs.Process) bool {
				return old.PID == p.PID && old.Command == p.Command
			})
		})
	})
}

// dyingPlatform boots one machine with a background process, another that is suspended, and waits for its end.
func dyingPlatform(t *testing.T, maker Maker) {
	l := NewLab(t, maker)
	running := l.Spec("exit", "0")
	running.Argv = []string{"sh", "-c", "setsid sh -c '" + sleeper() + " & exit 0'; " + sleeper()}
	i := l.Boot(running)
	Eventually(t, "both processes run", func() bool { return sleeps(t, i) == 2 })
	suspended := l.Serving(l.Spec("stubborn", "[::]:8080"))
	if err := suspended.Suspend(); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(os.Stdout, "up"); err != nil {
		t.Fatal(err)
	}
	select {}
}
