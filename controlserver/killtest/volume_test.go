package killtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
)

// volumeEnv tells volumeMain what to mount: type, source, options and directory, separated by blanks.
const volumeEnv = "FLYFLEET_KILLTEST_VOLUME"

// volumeMain gives the control server a small file system of its own, in a mount namespace that only it
// is in, and becomes it.
func volumeMain() int {
	err := mountVolume(strings.Fields(os.Getenv(volumeEnv)))
	if err == nil {
		env := append(os.Environ(), modeEnv+"=", volumeEnv+"=")
		err = syscall.Exec(os.Args[1], os.Args[1:], env)
	}
	fmt.Fprintln(os.Stderr, "volume:", err)
	return 1
}

func mountVolume(f []string) error {
	if len(f) != 4 {
		return errors.New("not told what to mount")
	}
	kind, source, options, dir := f[0], f[1], f[2], f[3]
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("close the namespace: %w", err)
	}
	if kind == "tmpfs" {
		if err := unix.Mount(source, dir, kind, 0, options); err != nil {
			return fmt.Errorf("mount a tmpfs: %w", err)
		}
		return os.Chmod(dir, 0o755)
	}
	// mount(8) finds a loop device, which goes with the last mount of it.
	if out, err := exec.Command("mount", "-t", kind, "-o", options, source, dir).CombinedOutput(); err != nil {
		return fmt.Errorf("mount (of the package \"mount\"): %w: %s", err, out)
	}
	return os.Chmod(dir, 0o755)
}

// volume is a kind of small file system.
type volume struct {
	name string
	// tell makes what is to be mounted, and says it for volumeEnv without the directory.
	tell func(t *testing.T) string
}

func volumes() []volume {
	all := []volume{{"tmpfs", func(*testing.T) string { return "tmpfs tmpfs size=32m,mode=755" }}}
	if mayUseLoops() {
		all = append(all, volume{"ext4", makeExt4})
	}
	return all
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

// mayUseLoops says whether this is the machine's own root, and not a container's.
func mayUseLoops() bool {
	b, err := os.ReadFile("/proc/self/uid_map")
	if err != nil || !mayMount() {
		return false
	}
	f := strings.Fields(string(b))
	_, err = os.Stat("/dev/loop-control")
	return err == nil && len(f) == 3 && f[0] == "0" && f[1] == "0" && f[2] == "4294967295"
}

func makeExt4(t *testing.T) string {
	t.Helper()
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 48<<20); err != nil {
		t.Fatal(err)
	}
	// No blocks are kept for root: full is to mean full.
	if out, err := exec.Command("mkfs.ext4", "-q", "-m", "0", image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4 (apt-get install e2fsprogs): %v: %s", err, out)
	}
	return "ext4 " + image + " loop"
}

// startOn starts a machine whose data lie on a volume of their own.
func startOn(t *testing.T, v volume) *machine {
	t.Helper()
	data := filepath.Join(shared(t), "data")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if uid := os.Geteuid(); !mayMount() {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	return start(t, machinetest.Options{
		Data: data, Attr: attr, Program: []string{"/proc/self/exe", binary(t), "serve"},
		Env: []string{modeEnv + "=volume", volumeEnv + "=" + v.tell(t) + " " + data},
	})
}

// shared is a temporary directory that other users may enter.
func shared(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; strings.HasPrefix(d, os.TempDir()+"/"); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
