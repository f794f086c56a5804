package runnertest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/procs"
)

// Conformance is what every runner with processes keeps.
func Conformance(t *testing.T, maker Maker) {
	for _, c := range []struct {
		invariant string
		check     func(*testing.T, *Lab)
	}{
		{"ExitCodeAndSignalAreTold", exitIsTold},
		{"StopAsksThenKills", stopAsksThenKills},
		{"EntrypointSeesItsEnvironment", environment},
		{"ExecGivesCodeOutputAndInput", execResult},
		{"ExecOutputIsBounded", execBounded},
		{"ExecEndsAtItsTimeout", execTimeout},
		{"ExecEndsWithItsCaller", execCancelled},
		{"DialReachesOnlyListeners", dial},
		{"TwoMachinesListenOnOnePort", twoMachines},
		{"SuspendFreezesEveryProcess", suspend},
		{"SuspendedMachineStopsAtOnce", stopSuspended},
		{"DownMachineAnswersErrDown", down},
		{"FailedStartLeavesNothing", failedStart},
		{"VolumeOutlivesItsMachine", volume},
		{"FilesAreThereBeforeTheEntrypoint", files},
		{"StopLeavesNoBackgroundProcess", background},
	} {
		t.Run(c.invariant, func(t *testing.T) { c.check(t, NewLab(t, maker)) })
	}
}

func exitIsTold(t *testing.T, l *Lab) {
	if exit := l.Boot(l.Spec("exit", "3")).Wait(); exit.Code != 3 || exit.Signal != 0 || exit.Requested || exit.At.IsZero() {
		t.Errorf("exit 3 was told as %+v", exit)
	}
	i := l.Serving(l.Spec("stubborn", "[::]:8080"))
	// The signal's end is the entrypoint's own affair: nobody asked the machine to stop.
	if err := i.Signal("SIGKILL"); err != nil {
		t.Fatal(err)
	}
	if exit := i.Wait(); exit.Code != 128+int(syscall.SIGKILL) || exit.Signal != int(syscall.SIGKILL) || exit.Requested {
		t.Errorf("an end by a signal was told as %+v", exit)
	}
}

func stopAsksThenKills(t *testing.T, l *Lab) {
	kind := l.Serving(l.Spec("serve", "[::]:8080"))
	if err := kind.Stop(t.Context(), "SIGTERM", Patience); err != nil {
		t.Fatal(err)
	}
	if exit := kind.Wait(); exit.Code != 7 || exit.Signal != 0 || !exit.Requested {
		t.Errorf("the entrypoint's own end was told as %+v", exit)
	}
	stubborn := l.Serving(l.Spec("stubborn", "[::]:8080"))
	if err := stubborn.Stop(t.Context(), "SIGTERM", time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if exit := stubborn.Wait(); exit.Signal != int(syscall.SIGKILL) || !exit.Requested {
		t.Errorf("a killed machine was told as %+v", exit)
	}
}

func environment(t *testing.T, l *Lab) {
	spec := l.Spec("env")
	spec.Env = []string{"FLY_APP_NAME=app", "SECRET=a b\"c\nd", "EMPTY="}
	t.Setenv("OF_THE_PLATFORM", "must not be seen")
	if exit := l.Boot(spec).Wait(); exit.Code != 0 {
		t.Fatalf("the entrypoint ended with %+v", exit)
	}
	console, err := os.ReadFile(filepath.Join(spec.Dir, "console.log"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := json.Unmarshal(console, &got); err != nil {
		t.Fatalf("%v: %q", err, console)
	}
	for _, want := range spec.Env {
		if !slices.Contains(got, want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
	allowed := []string{"FLY_APP_NAME", "SECRET", "EMPTY", "PATH", "HOME", "FLYFLEET_LISTEN", "FLYFLEET_DATA", "FLYFLEET_RUN"}
	for _, e := range got {
		if name, _, _ := strings.Cut(e, "="); !slices.Contains(allowed, name) {
			t.Errorf("the entrypoint sees %q, which is not its own", e)
		}
	}
}

func execResult(t *testing.T, l *Lab) {
	i := l.Serving(l.Spec("serve", "[::]:8080"))
	r, err := i.Exec(t.Context(), runner.ExecRequest{
		Argv: []string{"sh", "-c", "cat; echo problem >&2; exit 5"}, Stdin: []byte("given"),
	})
	if err != nil || r.Code != 5 || string(r.Stdout) != "given" || string(r.Stderr) != "problem\n" || r.TimedOut {
		t.Errorf("got %+v, %v", r, err)
	}
	r, err = i.Exec(t.Context(), runner.ExecRequest{Argv: []string{"sh", "-c", "kill -9 $$"}})
	if err != nil || r.Code != 137 || r.Signal != 9 {
		t.Errorf("a killed command gave %+v, %v", r, err)
	}
	if _, err := i.Exec(t.Context(), runner.ExecRequest{Argv: []string{"no-such-program"}}); err == nil || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("a missing program gave %v", err)
	}
	// The image's own programs are found by their paths in the image.
	r, err = i.Exec(t.Context(), runner.ExecRequest{Argv: []string{AppPath, AppArg, "exit", "4"}})
	if err != nil || r.Code != 4 {
		t.Errorf("a program of the image gave %+v, %v", r, err)
	}
}

func execBounded(t *testing.T, l *Lab) {
	i := l.Serving(l.Spec("serve", "[::]:8080"))
	r, err := i.Exec(t.Context(), runner.ExecRequest{Argv: []string{"sh", "-c", "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; exit 6"}})
	if err != nil || r.Code != 6 || len(r.Stdout) != runner.MaxExecOutput || len(r.Stderr) != runner.MaxExecOutput {
		t.Errorf("code %d, %d and %d bytes, %v", r.Code, len(r.Stdout), len(r.Stderr), err)
	}
}

func execTimeout(t *testing.T, l *Lab) {
	i := l.Serving(l.Spec("serve", "[::]:8080"))
	r, err := i.Exec(t.Context(), runner.ExecRequest{
		Argv: []string{"sh", "-c", "echo begun; " + sleeper() + "; echo never"}, Timeout: 200 * time.Millisecond,
	})
	if err != nil || !r.TimedOut || string(r.Stdout) != "begun\n" {
		t.Errorf("got %+v, %v", r, err)
	}
	noneSleeps(t, i)
}

func execCancelled(t *testing.T, l *Lab) {
	i := l.Serving(l.Spec("serve", "[::]:8080"))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		Eventually(t, "the command runs", func() bool { return sleeps(t, i) > 0 })
	}()
	if _, err := i.Exec(ctx, runner.ExecRequest{Argv: []string{"sh", "-c", sleeper() + "; true"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled command gave %v", err)
	}
	noneSleeps(t, i)
}

// sleeper is a command that only this test process runs.
func sleeper() string { return "sleep 1" + strconv.Itoa(os.Getpid()) }

func sleeps(t testing.TB, i runner.Instance) (n int) {
	list, err := i.Ps(t.Context())
	if err != nil {
		t.Error(err)
	}
	for _, p := range list {
		if p.Command == sleeper() {
			n++
		}
	}
	return n
}

func noneSleeps(t *testing.T, i runner.Instance) {
	t.Helper()
	Eventually(t, "the command's processes are gone", func() bool {
		list, err := procs.Descendants(os.Getpid())
		return err == nil && sleeps(t, i) == 0 &&
			!slices.ContainsFunc(list, func(p procs.Process) bool { return p.Command == sleeper() })
	})
}

func dial(t *testing.T, l *Lab) {
	i := l.Serving(l.Spec("serve", "[::]:8080"))
	conn, err := i.Dial(t.Context(), 8080)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if answer, err := Say(conn, "hello"); err != nil || answer != "HELLO" {
		t.Errorf("answer %q, %v", answer, err)
	}
	if _, err := i.Dial(t.Context(), 8081); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a port without a listener gave %v", err)
	}
	list, err := i.Ps(t.Context())
	if err != nil || !slices.ContainsFunc(list, func(p runner.Process) bool { return len(p.Listen) > 0 && p.RSS > 0 }) {
		t.Errorf("no process is listed as listening: %+v, %v", list, err)
	}
}

func twoMachines(t *testing.T, l *Lab) {
	for _, i := range []runner.Instance{l.Serving(l.Spec("serve", "[::]:8080")), l.Serving(l.Spec("serve", "[::]:8080"))} {
		conn := Connect(t, i)
		if answer, err := Say(conn, "both"); err != nil || answer != "BOTH" {
			t.Errorf("answer %q, %v", answer, err)
		}
		conn.Close()
	}
}

// states are the states of the processes that a machine has put below this one.
func states(t testing.TB, command string) (out string) {
	list, err := procs.Descendants(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		if strings.Contains(p.Command, command) {
			out += string(p.State)
		}
	}
	return out
}

func suspend(t *testing.T, l *Lab) {
	i := l.Serving(l.Spec("serve", "[::]:8080"))
	conn := Connect(t, i)
	defer conn.Close()
	for range 2 {
		if err := i.Suspend(); err != nil {
			t.Fatal(err)
		}
	}
	Eventually(t, "the app is stopped", func() bool { return strings.Trim(states(t, AppArg), "T") == "" })
	if _, err := i.Exec(t.Context(), runner.ExecRequest{Argv: []string{"true"}}); err == nil || errors.Is(err, runner.ErrDown) {
		t.Errorf("a command in a suspended machine gave %v", err)
	}
	for range 2 {
		if err := i.Resume(); err != nil {
			t.Fatal(err)
		}
	}
	if answer, err := Say(conn, "awake"); err != nil || answer != "AWAKE" {
		t.Errorf("the open connection answered %q, %v", answer, err)
	}
}

func stopSuspended(t *testing.T, l *Lab) {
	i := l.Serving(l.Spec("stubborn", "[::]:8080"))
	if err := i.Suspend(); err != nil {
		t.Fatal(err)
	}
	// The timeout is longer than the test's patience: waiting for it would fail.
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	if err := i.Stop(ctx, "SIGTERM", 100*Patience); err != nil {
		t.Fatal(err)
	}
	if exit := i.Wait(); !exit.Requested {
		t.Errorf("told as %+v", exit)
	}
}

func down(t *testing.T, l *Lab) {
	i := l.Boot(l.Spec("exit", "0"))
	i.Wait()
	_, execErr := i.Exec(t.Context(), runner.ExecRequest{Argv: []string{"true"}})
	_, psErr := i.Ps(t.Context())
	_, dialErr := i.Dial(t.Context(), 8080)
	for name, err := range map[string]error{
		"exec": execErr, "ps": psErr, "dial": dialErr, "signal": i.Signal("SIGTERM"), "kill": i.Kill(),
		"suspend": i.Suspend(), "resume": i.Resume(),
	} {
		if !errors.Is(err, runner.ErrDown) {
			t.Errorf("%s answered %v", name, err)
		}
	}
}

func failedStart(t *testing.T, l *Lab) {
	spec := l.Spec("serve", "[::]:8080")
	good := spec.Argv
	spec.Argv = []string{"/no/such/program"}
	if _, err := l.Runner.Start(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Fatalf("a missing entrypoint gave %v", err)
	}
	if list, err := procs.Descendants(os.Getpid()); err != nil || len(list) > 0 {
		t.Errorf("left behind: %+v, %v", list, err)
	}
	spec.Argv = good
	l.Serving(spec)
}

func volume(t *testing.T, l *Lab) {
	spec := l.Spec("serve", "[::]:8080")
	spec.Mounts = []runner.Mount{l.Volume("v1")}
	first := l.Serving(spec)
	r, err := first.Exec(t.Context(), runner.ExecRequest{Argv: []string{"sh", "-c", "cat > ${FLYFLEET_DATA:-/data}/kept"}, Stdin: []byte("kept")})
	if err != nil || r.Code != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	first.Wait()
	second := l.Serving(spec)
	if got := Shell(t, second, "cat ${FLYFLEET_DATA:-/data}/kept"); got != "kept" {
		t.Errorf("the volume holds %q", got)
	}
	if b, err := os.ReadFile(filepath.Join(spec.Mounts[0].VolumeDir, "kept")); os.Geteuid() == 0 && (err != nil || string(b) != "kept") {
		t.Errorf("on the host the volume holds %q, %v", b, err)
	}
}

func files(t *testing.T, l *Lab) {
	spec := l.Spec("exit", "0")
	spec.Files = []runner.File{{Path: "/opt/deep/run", Content: []byte("#!/bin/sh\nexit 11\n"), Mode: 0o755}}
	spec.Argv = []string{"/opt/deep/run"}
	if exit := l.Boot(spec).Wait(); exit.Code != 11 {
		t.Errorf("the file ran as %+v", exit)
	}
	// The image itself is not changed by it.
	other := l.Spec("exit", "0")
	other.Argv = spec.Argv
	if _, err := l.Runner.Start(t.Context(), other); err == nil {
		t.Error("another machine has the file too")
	}
}

func background(t *testing.T, l *Lab) {
	spec := l.Spec("exit", "0")
	// A process in a session of its own, whose parent has gone, and the entrypoint after it.
	spec.Argv = []string{"sh", "-c", "setsid sh -c '" + sleeper() + " & exit 0'; sleep 1001"}
	i := l.Boot(spec)
	Eventually(t, "the background process runs", func() bool { return sleeps(t, i) > 0 })
	if err := i.Stop(t.Context(), "SIGTERM", Patience); err != nil {
		t.Fatal(err)
	}
	list, err := procs.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		if p.Command == sleeper() {
			t.Errorf("process %d is left", p.PID)
		}
	}
}
