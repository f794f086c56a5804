//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
)

// TestMain is the command itself when this process was started as one.
func TestMain(m *testing.M) {
	if os.Getenv("FLYFLEET_TEST_MAIN") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func command(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	c.Env = append([]string{"FLYFLEET_TEST_MAIN=1", "PATH=" + os.Getenv("PATH")}, env...)
	return c
}

func TestVersionIsOneLine(t *testing.T) {
	out, err := command(t, nil, "version").Output()
	if err != nil || string(out) != "flyfleet-controlserver dev wire 1\n" {
		t.Fatalf("got %q, %v", out, err)
	}
}

func TestProbeWithoutAServerExitsOneWithOneLine(t *testing.T) {
	c := command(t, []string{"FLYFLEET_RUN=" + filepath.Join(t.TempDir(), "none")}, "probe", "--json")
	var out, complaint bytes.Buffer
	c.Stdout, c.Stderr = &out, &complaint
	err := c.Run()
	if c.ProcessState.ExitCode() != 1 || out.Len() != 0 || strings.Count(complaint.String(), "\n") != 1 {
		t.Fatalf("got %q, %q, %v", out.String(), complaint.String(), err)
	}
}

func TestQuiesceAndResumeExcludeEachOther(t *testing.T) {
	if out, err := command(t, nil, "probe", "--quiesce", "1s", "--resume").CombinedOutput(); err == nil {
		t.Fatalf("got %s", out)
	}
}

func TestServeAnswersTheProbeAndStopsByTERM(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := token.NewRoot("test")
	if err != nil {
		t.Fatal(err)
	}
	env := []string{
		"FLYFLEET_TRUST=" + root.Trust(), "FLYFLEET_LISTEN=127.0.0.1:0", "FLYFLEET_DATA=" + filepath.Join(dir, "data"),
		"FLYFLEET_RUN=" + filepath.Join(dir, "run"), "FLY_APP_NAME=a", "FLY_MACHINE_ID=m",
	}
	server := command(t, env, "serve")
	server.Cancel = func() error { return server.Process.Signal(os.Interrupt) }
	var log bytes.Buffer
	server.Stderr = &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	var answer map[string]any
	for {
		out, err := command(t, env, "probe", "--json").Output()
		if err == nil {
			if err := json.Unmarshal(out, &answer); err != nil || bytes.Count(out, []byte("\n")) != 1 {
				t.Fatalf("got %q, %v", out, err)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no answer: %v\n%s", err, log.String())
		}
	}
	for key, want := range map[string]any{"state": "serving", "running": 0.0, "spool": "durable", "quiesce": "", "quiesced_until": "", "build": "dev"} {
		if answer[key] != want {
			t.Errorf("%s is %v, want %v", key, answer[key], want)
		}
	}
	if err := server.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Fatalf("got %v\n%s", err, log.String())
	}
}
