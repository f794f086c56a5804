package process

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/rootfs"
)

const (
	// machinePort is the port inside a machine that is translated.
	machinePort = 8080
	// longestTemp is how long a temporary directory's name may be so that a socket below it fits into a socket
	// address (104 bytes on macOS).
	longestTemp = 60
)

// layout says where the parts of a machine are on this computer.
type layout struct {
	root   string
	mounts []runner.Mount
	// data is the volume that FLYFLEET_DATA names, run the directory of FLYFLEET_RUN.
	data, run string
	port      int
	env       []string
}

// newLayout makes the machine's directories.
func newLayout(spec runner.Spec, root string, port int) (*layout, error) {
	l := &layout{root: root, mounts: spec.Mounts, port: port}
	if len(spec.Files) > 0 {
		// Files change the root, so the machine gets one of its own.
		l.root = filepath.Join(spec.Dir, "rootfs")
		if err := copyRoot(root, l.root); err != nil {
			return nil, fmt.Errorf("copy the image's root: %w", err)
		}
	}
	for _, f := range spec.Files {
		if err := l.writeFile(f); err != nil {
			return nil, fmt.Errorf("write the machine's file %s: %w", f.Path, err)
		}
	}
	if err := l.chooseData(spec); err != nil {
		return nil, err
	}
	temp := os.TempDir()
	if len(temp) > longestTemp {
		temp = "/tmp"
	}
	var err error
	if l.run, err = os.MkdirTemp(temp, "ff-"); err != nil {
		return nil, fmt.Errorf("make the machine's run directory: %w", err)
	}
	l.env = l.environment(spec.Env)
	return l, nil
}

func copyRoot(from, to string) error {
	if err := remove(to); err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	return rootfs.Copy(from, to, false)
}

func (l *layout) chooseData(spec runner.Spec) error {
	for _, m := range spec.Mounts {
		if l.data == "" || m.Path == "/data" {
			l.data = m.VolumeDir
		}
	}
	if l.data != "" {
		return nil
	}
	l.data = filepath.Join(spec.Dir, "data")
	return os.MkdirAll(l.data, 0o755)
}

// environment is the machine's, with what is translated here.
func (l *layout) environment(env []string) []string {
	own := []string{
		"FLYFLEET_LISTEN=127.0.0.1:" + strconv.Itoa(l.port),
		"FLYFLEET_DATA=" + l.data,
		"FLYFLEET_RUN=" + l.run,
		"PATH=" + os.Getenv("PATH"),
	}
	if !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "HOME=") }) {
		own = append(own, "HOME="+l.data)
	}
	out := slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.ContainsFunc(own, func(o string) bool { return strings.HasPrefix(o, name+"=") })
	})
	return append(out, own...)
}

// onHost translates a path of the machine: on a volume, in the image, or as it is when the image lacks it.
func (l *layout) onHost(name string) (at string, inside bool) {
	root, err := os.OpenRoot(l.root)
	if err != nil {
		return name, false
	}
	defer root.Close()
	// An image's link may lead onto a volume: /workspace to /data/workspace.
	resolved, err := rootfs.Resolve(root, name)
	if err != nil {
		return name, false
	}
	for _, m := range l.mounts {
		if rest, ok := below("/"+resolved, path.Clean(m.Path)); ok {
			return filepath.Join(m.VolumeDir, rest), true
		}
	}
	if _, err := root.Lstat(resolved); err != nil {
		return name, false
	}
	return filepath.Join(l.root, resolved), true
}

func below(name, dir string) (rest string, ok bool) {
	if name == dir {
		return "", true
	}
	return strings.CutPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}

// program finds what argv[0] means: a path of the image, or a program of this computer.
func (l *layout) program(name string) (string, error) {
	if !strings.Contains(name, "/") {
		at, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("%q is not in this computer's PATH: %w", name, syscall.ENOENT)
		}
		return filepath.Abs(at)
	}
	at, _ := l.onHost(name)
	if _, err := os.Stat(at); err != nil {
		return "", err
	}
	return at, nil
}

// workDir is where the machine's programs start.
func (l *layout) workDir(spec runner.Spec) string {
	if at, inside := l.onHost(spec.WorkDir); inside && spec.WorkDir != "" {
		if info, err := os.Stat(at); err == nil && info.IsDir() {
			return at
		}
	}
	return l.root
}

func (l *layout) writeFile(f runner.File) error {
	root, err := os.OpenRoot(l.root)
	if err != nil {
		return err
	}
	defer root.Close()
	name, err := rootfs.Resolve(root, f.Path)
	if err != nil {
		return err
	}
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	mode := f.Mode
	if mode == 0 {
		mode = 0o644
	}
	if err := root.WriteFile(name, f.Content, mode&fs.ModePerm); err != nil {
		return err
	}
	return root.Chmod(name, mode)
}
