package confine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const unconfined = "the tests were not started by confine.Main"

// The stages: the process that go test started makes a place that is removed after the tests; "mount" mounts the
// file system there, in a mount namespace of its own, and becomes "test".
func stage(name string, m *testing.M) (int, error) {
	switch name {
	case "":
		return outside()
	case "mount":
		return mount()
	default:
		return m.Run(), nil
	}
}

func outside() (code int, err error) {
	dir, err := os.MkdirTemp("", "flyfleet-confine-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if !mayMount() {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	return again(attr, stageEnv+"=mount", smallEnv+"="+filepath.Join(dir, "small"), "TMPDIR="+dir)
}

func mount() (int, error) {
	small := os.Getenv(smallEnv)
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return 1, fmt.Errorf("close the mount namespace: %w", err)
	}
	if err := os.Mkdir(small, 0o755); err != nil {
		return 1, err
	}
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=16m,mode=1777"); err != nil {
		return 1, fmt.Errorf("mount a small file system: %w", err)
	}
	return 1, becomeOrdinary()
}

// becomeOrdinary gives up every capability, for good, and begins anew as a user whom permissions hold. The user id
// stays, so that files of the go command, such as a coverage profile, can be written.
func becomeOrdinary() error {
	// The bounding set is the thread's, and exec goes by the calling one's.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		// EINVAL: a capability that this kernel does not know.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("give up capabilities: %w", err)
		}
	}
	if err := os.Setenv(stageEnv, "test"); err != nil {
		return err
	}
	return fmt.Errorf("begin anew: %w", syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
}

// again runs this binary once more, with the same arguments, and returns how it ended.
func again(attr *syscall.SysProcAttr, env ...string) (int, error) {
	// Signals of a terminal reach the child by themselves; others are passed on.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGQUIT)
	defer signal.Stop(signals)
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...) //nolint:noctx // it lives as long as this process
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	attr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr = attr
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("run the tests in namespaces of their own (kernel.unprivileged_userns_clone?): %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = cmd.Process.Signal(s)
		case err := <-ended:
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return 1, err
			}
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
				return 128 + int(status.Signal()), nil
			}
			return cmd.ProcessState.ExitCode(), nil
		}
	}
}

// mayMount says whether this process may mount without a user namespace of its own.
func mayMount() bool {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			return err == nil && caps&(1<<unix.CAP_SYS_ADMIN) != 0
		}
	}
	return false
}
