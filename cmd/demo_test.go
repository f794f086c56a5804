package cmd_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The demos' last lines.
const (
	demoOK        = "demo: ok tenants=3 changed_lines_per_machine=1 workspace_survived=yes"
	demoRuntimeOK = "demo-runtime: ok gap_bytes=0 duplicate_bytes=0 process_starts=1"
)

// demoClone is a clean clone as its own git repository, with its binaries built.
func demoClone(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "clone")
	cloneTree(t, dir)
	run(t, dir, "git", "init", "-q")
	run(t, dir, "git", "add", "-A")
	run(t, dir, "make", "build")
	return dir
}

// A second change is injected behind this line of the example's tenants: an environment variable that follows the image.
const (
	injectionPoint = "  trust               = var.flyfleet_trust\n"
	injected       = "  env                 = { SECOND_CHANGE = var.image_version }\n"
)

type demoRun struct {
	output string
	err    error
}

func (r demoRun) lastLine() string {
	lines := strings.Split(strings.TrimSpace(r.output), "\n")
	return lines[len(lines)-1]
}

// demo runs `make demo`.
func demo(t *testing.T, dir, interruptAt string, flags ...string) demoRun {
	t.Helper()
	return show(t, dir, interruptAt, append([]string{"demo"}, flags...)...)
}

// show runs make in a process group of its own, as a shell does; interruptAt, when not empty, sends Ctrl-C to the group once
// a line of output holds it.
func show(t *testing.T, dir, interruptAt string, args ...string) demoRun {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "make", args...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	interrupted := interruptAt == ""
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		output.WriteString(lines.Text() + "\n")
		if !interrupted && strings.Contains(lines.Text(), interruptAt) {
			interrupted = true
			if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
				t.Error(err)
			}
		}
	}
	err = cmd.Wait()
	if !interrupted {
		t.Errorf("no line of the demo held %q, nothing was interrupted:\n%s", interruptAt, output.String())
	}
	return demoRun{output: output.String(), err: err}
}

// nothingLeft fails when the demo left a process or a file outside .demo, bin and what deps made.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	for line := range strings.Lines(run(t, dir, "git", "status", "--porcelain", "--ignored")) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "A ") { // the clone itself, staged
			continue
		}
		if line != "!! .demo/" && line != "!! bin/" {
			t.Errorf("the demo left %s", line)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, ".demo", "platform")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the demo left its platform's state, which an ordinary user cannot remove: %v", err)
	}
	for _, process := range processesUnder(t, dir) {
		t.Errorf("the demo left a process: %s", process)
	}
}

// processesUnder lists processes that run a program of dir, stand in it, or name it on their command line.
func processesUnder(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(entries) == 0 {
		t.Fatalf("no processes in /proc: %v", err)
	}
	var found []string
	for _, entry := range entries {
		exe, _ := os.Readlink(filepath.Join(entry, "exe"))
		cwd, _ := os.Readlink(filepath.Join(entry, "cwd"))
		command, err := os.ReadFile(filepath.Join(entry, "cmdline"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if strings.HasPrefix(exe, dir+"/") || cwd == dir || strings.HasPrefix(cwd, dir+"/") || bytes.Contains(command, []byte(dir+"/")) {
			found = append(found, filepath.Base(entry)+" "+exe+" "+string(bytes.ReplaceAll(command, []byte{0}, []byte(" "))))
		}
	}
	return found
}

func TestDemo(t *testing.T) {
	dir := demoClone(t)
	other := startOtherFlylocal(t, dir)

	t.Run("twice_in_a_row_beside_another_flylocal", func(t *testing.T) {
		for range 2 {
			if r := demo(t, dir, ""); r.err != nil || r.lastLine() != demoOK {
				t.Fatalf("make demo: %v\n%s", r.err, r.output)
			}
		}
		if err := other.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("the other flylocal is gone: %v", err)
		}
	})
	t.Run("without_isolation", func(t *testing.T) {
		if r := demo(t, dir, "", "DEMO_FLAGS=--runner=process"); r.err != nil || r.lastLine() != demoOK {
			t.Fatalf("make demo on the process runner: %v\n%s", r.err, r.output)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		for _, at := range []string{"terraform apply", "terraform plan"} {
			if r := demo(t, dir, at); r.err == nil || strings.Contains(r.output, demoOK) {
				t.Errorf("a demo interrupted at %q ended well:\n%s", at, r.output)
			}
		}
	})
	stopOtherFlylocal(t, other)
	nothingLeft(t, dir)
}

// The runtime finds a tenant's machine, is killed in the middle of a command, and another one goes on.
func TestDemoRuntime(t *testing.T) {
	dir := demoClone(t)
	if r := show(t, dir, "", "demo-runtime"); r.err != nil || r.lastLine() != demoRuntimeOK {
		t.Fatalf("make demo-runtime: %v\n%s", r.err, r.output)
	}
	if r := show(t, dir, "kill -9", "demo-runtime"); r.err == nil || strings.Contains(r.output, demoRuntimeOK) {
		t.Errorf("a demo interrupted in the middle ended well:\n%s", r.output)
	}
	nothingLeft(t, dir)
}

// A demo that cannot fail proves nothing: a second change beside the image makes it red.
func TestDemoSeesASecondChange(t *testing.T) {
	dir := demoClone(t)
	main := filepath.Join(dir, "examples", "local-fleet", "main.tf")
	source, err := os.ReadFile(main)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(source), injectionPoint, injectionPoint+injected, 1)
	if changed == string(source) {
		t.Fatalf("%s holds no %q: the injection has no place", main, injectionPoint)
	}
	if err := os.WriteFile(main, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	r := demo(t, dir, "")
	if r.err == nil || strings.Contains(r.output, demoOK) {
		t.Errorf("the demo passed although env changes with the image:\n%s", r.output)
	}
	if !strings.Contains(r.output, "env") {
		t.Errorf("the demo does not name what changed besides the image:\n%s", r.output)
	}
}

func startOtherFlylocal(t *testing.T, clone string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(filepath.Join(clone, "bin", "flyfleet"), "local", "up", "--runner=none", "--addr=127.0.0.1:0", "--dir", t.TempDir())
	cmd.Dir = os.TempDir()
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
	})
	if lines := bufio.NewScanner(pipe); !lines.Scan() {
		t.Fatal("the other flylocal said nothing")
	}
	return cmd
}

func stopOtherFlylocal(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the other flylocal did not stop cleanly: %v", err)
	}
}
