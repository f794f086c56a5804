package stage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/rootfs"
)

// boot prepares the machine's file systems; next becomes bubblewrap.
func (s *stage) boot(b Boot) (copied bool, next func() error, err error) {
	rootDir, copied, err := s.root(b)
	if err != nil {
		return false, nil, err
	}
	root, err := os.OpenRoot(rootDir)
	if err != nil {
		return false, nil, err
	}
	defer root.Close()
	args := []string{"--bind", rootDir, "/", "--proc", "/proc", "--dev", "/dev"}
	if b.HostTools {
		tools, err := lendHostTools(root)
		if err != nil {
			return false, nil, err
		}
		args = append(args, tools...)
	}
	if err := makePlaces(root); err != nil {
		return false, nil, err
	}
	for i, m := range b.Mounts {
		dir, err := s.attach(m.Source, "volume"+strconv.Itoa(i))
		if err == nil {
			err = mountPoint(root, m.Path, true)
		}
		if err != nil {
			return false, nil, fmt.Errorf("mount at %s: %w", m.Path, err)
		}
		args = append(args, "--bind", dir, m.Path)
	}
	initFile, err := s.attach(b.Init, "init")
	if err == nil {
		err = mountPoint(root, InitPath, false)
	}
	if err != nil {
		return false, nil, fmt.Errorf("lend the machine its init: %w", err)
	}
	args = append(args, "--ro-bind", initFile, InitPath, "--hostname", b.Hostname)
	bubblewrap, err := s.file(b.Bubblewrap)
	if err != nil {
		return false, nil, fmt.Errorf("bubblewrap: %w", err)
	}
	return copied, func() error { return becomeBubblewrap(bubblewrap, append(args, isolation...)) }, nil
}

// isolation is what every machine gets. CAP_SYS_ADMIN is dropped because whoever has it may make the init's mount
// writable again, and under an ordinary user's ids that file could then be replaced.
var isolation = []string{
	"--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
	"--as-pid-1", "--die-with-parent", "--new-session", "--cap-drop", "CAP_SYS_ADMIN", "--chdir", "/",
}

// root gives the machine a writable root: an overlay over the image where the kernel has it for user namespaces
// (Linux 5.11), a copy elsewhere.
func (s *stage) root(b Boot) (dir string, copied bool, err error) {
	image, err := s.attach(b.Image, "image")
	if err != nil {
		return "", false, err
	}
	writable, err := s.attach(b.Writable, "writable")
	if err != nil {
		return "", false, err
	}
	if err := rootfs.Empty(writable); err != nil {
		return "", false, fmt.Errorf("remove what the last boot wrote: %w", err)
	}
	dir = filepath.Join(s.bench, "root")
	upper, work := filepath.Join(writable, "upper"), filepath.Join(writable, "work")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Mkdir(upper, 0o755), os.Mkdir(work, 0o700)); err != nil {
		return "", false, err
	}
	overlayErr := errors.New("not wanted")
	if !b.CopyRoot {
		options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,userxattr", image, upper, work)
		overlayErr = unix.Mount("overlay", dir, "overlay", 0, options)
	}
	if overlayErr == nil {
		return dir, false, nil
	}
	if err := rootfs.Copy(image, upper, b.Owners); err != nil {
		return "", true, fmt.Errorf("no overlay (%w), and the image cannot be copied either: %w", overlayErr, err)
	}
	return upper, true, nil
}

// makePlaces makes what every machine has, even one from an empty image.
func makePlaces(root *os.Root) error {
	for _, dir := range []string{"/proc", "/dev"} {
		if err := mountPoint(root, dir, true); err != nil {
			return err
		}
	}
	if _, err := root.Lstat("tmp"); err == nil {
		return nil
	}
	if err := root.Mkdir("tmp", 0o700); err != nil {
		return err
	}
	return root.Chmod("tmp", 0o777|os.ModeSticky)
}

// mountPoint makes sure that something can be mounted at path, and that no link of the image is on the way there:
// bubblewrap would follow it.
func mountPoint(root *os.Root, path string, dir bool) error {
	name := filepath.Clean("/" + path)[1:]
	if name == "" {
		return errors.New("the root itself cannot be mounted over")
	}
	resolved, err := rootfs.Resolve(root, name)
	if err != nil {
		return err
	}
	if resolved != name {
		return fmt.Errorf("the image has a link on the way to /%s (it leads to /%s)", name, resolved)
	}
	if _, err := root.Lstat(name); err == nil {
		return nil
	}
	if dir {
		return root.MkdirAll(name, 0o755)
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return root.WriteFile(name, nil, 0o755)
}

// becomeBubblewrap replaces the process. Arguments go by descriptor; the environment is the init's own, nothing of it
// reaches the entrypoint.
func becomeBubblewrap(executable *os.File, args []string) error {
	fd, err := unix.MemfdCreate("bwrap-args", 0)
	if err != nil {
		return fmt.Errorf("hand over bubblewrap's arguments: %w", err)
	}
	f := os.NewFile(uintptr(fd), "bwrap-args")
	for _, a := range args {
		if _, err := f.WriteString(a + "\x00"); err != nil {
			return fmt.Errorf("hand over bubblewrap's arguments: %w", err)
		}
	}
	if _, err := f.Seek(0, 0); err != nil {
		return fmt.Errorf("hand over bubblewrap's arguments: %w", err)
	}
	path := "/proc/self/fd/" + strconv.Itoa(int(executable.Fd()))
	err = syscall.Exec(path, []string{"bwrap", "--args", strconv.Itoa(fd), "--", InitPath}, initEnv)
	return fmt.Errorf("start bubblewrap: %w", err)
}

// initEnv keeps the init small: it waits nearly all the time.
var initEnv = []string{"GOMAXPROCS=1", "GOGC=50"}
