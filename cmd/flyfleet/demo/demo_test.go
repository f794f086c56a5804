package demo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/console"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/machineinit"
)

// programs is where the tests' programs are built, once.
var programs string

func TestMain(m *testing.M) {
	machineinit.RunIfInit()
	os.Exit(func() int {
		var err error
		if programs, err = os.MkdirTemp("", "flyfleet-demo"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(programs) //nolint:errcheck // nothing can be done about it
		return m.Run()
	}())
}

var build = sync.OnceValue(func() error {
	cmd := exec.Command("go", "build", "-o", programs+"/", "./cmd/flyfleet", "./cmd/flyfleet-controlserver", "./cmd/terraform-provider-flyfleet")
	cmd.Dir, cmd.Env = "../../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the programs: %w\n%s", err, out)
	}
	return nil
})

// checkout is a copy of what the demo reads.
type checkout struct{ source, binaries string }

func newCheckout(t *testing.T) checkout {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	c := checkout{source: t.TempDir(), binaries: programs}
	for _, part := range []string{"examples/local-fleet", "terraform/modules/tenant"} {
		if err := copyConfig(filepath.Join(root, part), filepath.Join(c.source, part)); err != nil {
			t.Fatal(err)
		}
	}
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return c
}

// left lists what is in the checkout that was not there before.
func (c checkout) left(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(c.source, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(c.source, path)
		if rel == ".demo" {
			return filepath.SkipDir
		}
		if !d.IsDir() && filepath.Ext(path) != ".tf" {
			out = append(out, rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (c checkout) run(ctx context.Context) (string, error) {
	var out bytes.Buffer
	d := &Command{Runner: "auto", Source: c.source, binaries: c.binaries}
	err := d.Run(ctx, &console.Console{Out: &out, Err: io.Discard})
	return out.String(), err
}

// TestInterruptedDemoStopsEverything interrupts a demo of its own process, as Ctrl-C does, in the middle of several steps.
func TestInterruptedDemoStopsEverything(t *testing.T) {
	c := newCheckout(t)
	watch := watchProcesses(t)
	for _, step := range []string{"1.", "2.", "3."} {
		cmd := exec.Command(filepath.Join(c.binaries, "flyfleet"), "demo", "--source", c.source)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var errOut bytes.Buffer
		cmd.Stderr = &errOut
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		seen := await(out, step)
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		rest, _ := io.ReadAll(out)
		if err := cmd.Wait(); err == nil || !seen {
			t.Errorf("step %s seen: %v; ended with %v\n%s%s", step, seen, err, rest, errOut.String())
		}
		if !strings.Contains(errOut.String(), "demo: interrupted") {
			t.Errorf("step %s: stderr %q", step, errOut.String())
		}
		if left := c.left(t); len(left) > 0 {
			t.Errorf("step %s leaves %v", step, left)
		}
		watch.none(t)
	}
	if out, err := c.run(t.Context()); err != nil {
		t.Errorf("the next run: %v\n%s", err, out)
	}
	watch.none(t)
}

// await reads until a line starts with prefix.
func await(r io.Reader, prefix string) bool {
	var line []byte
	one := make([]byte, 1)
	for {
		if _, err := r.Read(one); err != nil {
			return false
		}
		if one[0] != '\n' {
			line = append(line, one[0])
			continue
		}
		if bytes.HasPrefix(line, []byte(prefix)) {
			return true
		}
		line = line[:0]
	}
}

// settleLimit bounds how long a child that was told to end may still be there.
const settleLimit = 20 * time.Second
