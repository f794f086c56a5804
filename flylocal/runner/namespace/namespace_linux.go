package namespace

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/imagecache"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/machineinit"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/stage"
)

// Options are what only this runner knows; the zero value is right for most.
type Options struct {
	// Level asks for one level; "" takes the best that works.
	Level Level
	// CopyRoots gives machines a copy of their image as root, as on kernels whose user namespaces have no overlay.
	CopyRoots bool
}

// Runner is the namespace runner.
type Runner struct {
	cfg     runner.Config
	options Options
	mapping mapping
	forker  *forker
	images  *imagecache.Cache
	// dir is the runner's own directory.
	dir string
	// executable is this program, and bubblewrap the other; both opened once, so that a rebuilt program does not
	// meet an older platform.
	executable, bubblewrap *os.File
	executablePath         string
}

// New makes the runner at the best level that works here, which it finds out by starting a machine.
func New(ctx context.Context, cfg runner.Config) (runner.Runner, error) {
	return NewWith(ctx, cfg, Options{})
}

// NewWith is New with options.
func NewWith(ctx context.Context, cfg runner.Config, o Options) (*Runner, error) {
	if err := machineinit.Check(); err != nil {
		return nil, err
	}
	for _, e := range cfg.Egress {
		if _, err := netip.ParseAddrPort(e.Inside); err != nil {
			return nil, fmt.Errorf("egress address inside the machines: %w", err)
		}
	}
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return nil, errors.New("the namespace runner needs bubblewrap, which is not in PATH: apt-get install bubblewrap; or use the process runner, which gives no isolation")
	}
	if cfg.HostTools {
		if _, err := os.Stat("/usr/bin/sh"); err != nil {
			return nil, fmt.Errorf("this computer has no tools to lend to machines: %w", err)
		}
	}
	r := &Runner{cfg: cfg, options: o, dir: filepath.Join(cfg.StateDir, "runner")}
	if r.bubblewrap, err = openPath(path); err != nil {
		return nil, err
	}
	r.forker = newForker()
	if err := r.choose(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// choose tries the levels in turn by a machine without an image.
func (r *Runner) choose(ctx context.Context) error {
	candidates, err := mappings()
	if err != nil {
		return err
	}
	var failures []error
	for _, m := range candidates {
		if r.options.Level != "" && m.level != r.options.Level {
			continue
		}
		r.mapping = m
		err := r.prepare(ctx)
		if err == nil {
			err = r.probe(ctx)
		}
		if err == nil {
			r.cfg.Log.Info("namespace runner", "level", r.Level(), "bubblewrap", r.bubblewrap.Name())
			return nil
		}
		failures = append(failures, fmt.Errorf("level %s: %w", m.level, err))
	}
	if len(failures) == 0 {
		return fmt.Errorf("level %s is not to be had here (it needs newuidmap and ranges in /etc/subuid and /etc/subgid, or for single-id an ordinary user)", r.options.Level)
	}
	if err := errors.Join(failures...); len(failures) == len(candidates) || r.options.Level != "" {
		return fmt.Errorf("the namespace runner does not work here: %w%s", err, appArmorHint())
	}
	return nil
}

// appArmorHint explains a kernel that makes user namespaces and then gives them no rights, as Ubuntu's since 23.10.
func appArmorHint() string {
	b, err := os.ReadFile("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
	if err != nil || os.Geteuid() == 0 || strings.TrimSpace(string(b)) != "1" {
		return ""
	}
	return "; AppArmor restricts user namespaces here: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 allows them, or use the process runner, which gives no isolation"
}

// prepare makes the runner's directories for the chosen mapping.
func (r *Runner) prepare(ctx context.Context) error {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return fmt.Errorf("make the runner's directory: %w", err)
	}
	if err := r.installExecutable(); err != nil {
		return fmt.Errorf("install the machines' init: %w", err)
	}
	name := string(r.mapping.level)
	if r.mapping.byRoot {
		name = fmt.Sprintf("%s-%d", name, r.mapping.base)
	}
	var err error
	r.images, err = imagecache.Open(filepath.Join(r.cfg.CacheDir, name), func(dir string) error {
		return r.empty(context.WithoutCancel(ctx), dir)
	})
	return err
}

// installExecutable puts this program where every level can execute it: a link where the file's mode and place allow
// one, else a copy.
func (r *Runner) installExecutable() error {
	if r.executable != nil {
		return nil
	}
	r.executablePath = filepath.Join(r.dir, "init")
	if err := os.Remove(r.executablePath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	own, err := os.Executable()
	if err != nil {
		return err
	}
	if err := checkStatic("/proc/self/exe"); err != nil {
		return err
	}
	if !executableByAll(own) || os.Link(own, r.executablePath) != nil {
		if err := copyFile("/proc/self/exe", r.executablePath); err != nil {
			return err
		}
	}
	r.executable, err = openPath(r.executablePath)
	return err
}

// executableByAll says whether the file at path is this very program still, and every id may execute it.
func executableByAll(path string) bool {
	info, err := os.Stat(path)
	running, rerr := os.Stat("/proc/self/exe")
	return err == nil && rerr == nil && os.SameFile(info, running) && info.Mode()&0o005 == 0o005
}

// checkStatic fails for a program that needs a loader, which an image need not have.
func checkStatic(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("look at this program: %w", err)
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("this program is linked dynamically and cannot be a machine's init: build it with CGO_ENABLED=0")
		}
	}
	return nil
}

func copyFile(src, dst string) error {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(0o755), out.Close())
}

// openPath opens a file to be executed or mounted, not read.
func openPath(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Name is "namespace".
func (r *Runner) Name() string { return "namespace" }

// Level is "namespace/mapped" or "namespace/single-id".
func (r *Runner) Level() string { return r.Name() + "/" + string(r.mapping.level) }

// Cleanup removes a machine's directory.
func (r *Runner) Cleanup(ctx context.Context, dir string) error {
	writable := filepath.Join(dir, writableName)
	if _, err := os.Lstat(writable); err == nil {
		if err := r.empty(ctx, writable); err != nil {
			return fmt.Errorf("remove the machine's root: %w", err)
		}
	}
	return os.RemoveAll(dir)
}

// RemoveVolume removes a volume's directory.
func (r *Runner) RemoveVolume(ctx context.Context, dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := r.own(dir); err != nil {
		return err
	}
	if err := r.empty(ctx, dir); err != nil {
		return fmt.Errorf("remove the volume: %w", err)
	}
	return os.RemoveAll(dir)
}

// Close removes the runner's own files.
func (r *Runner) Close() error {
	r.forker.close()
	for _, f := range []*os.File{r.executable, r.bubblewrap} {
		if f != nil {
			f.Close()
		}
	}
	return os.RemoveAll(r.dir)
}

// own gives a directory of the host to the machines' root, with all that is in it, unless it has it already: a
// new volume was made by real root, an older one perhaps by another level.
func (r *Runner) own(dir string) error {
	if !r.mapping.byRoot {
		return nil
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if ok && int(st.Uid) >= r.mapping.base && int(st.Uid) < r.mapping.base+r.mapping.count {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return root.Lchown(name, r.mapping.base, r.mapping.base)
	})
	if err != nil {
		return fmt.Errorf("give %s to the machines' root: %w", dir, err)
	}
	return nil
}

// files collects what goes beside a request.
type files struct {
	all []*os.File
	// owned are closed after the request was sent.
	owned []*os.File
}

func (f *files) add(file *os.File) int {
	f.all = append(f.all, file)
	return len(f.all) - 1
}

// source names a path for the stage: as it is for an ordinary user, as a detached mount when real root hands it to
// ids that may not be able to walk there.
func (r *Runner) source(f *files, path string) (stage.Source, error) {
	if !r.mapping.byRoot {
		return stage.Source{File: -1, Path: path}, nil
	}
	tree, err := stage.OpenTree(path)
	if err != nil {
		return stage.Source{}, err
	}
	f.owned = append(f.owned, tree)
	return stage.Source{File: f.add(tree)}, nil
}

func (f *files) close() {
	for _, o := range f.owned {
		o.Close()
	}
}

// ask sends a stage its request and reads the answer.
func (c *child) ask(ctx context.Context, req stage.Request, f *files) (stage.Reply, error) {
	var reply stage.Reply
	talk, err := c.line.Open()
	if err != nil {
		return reply, err
	}
	defer talk.Close()
	defer bound(ctx, talk)()
	if err := talk.Send(req, f.all...); err != nil {
		return reply, c.failure(ctx, err)
	}
	if _, err := talk.Receive(&reply); err != nil {
		return reply, c.failure(ctx, err)
	}
	if reply.Error != "" {
		return reply, errors.New(reply.Error)
	}
	return reply, nil
}

// failure adds to an error of the line what the other side said before it went.
func (c *child) failure(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	c.destroy()
	if said := c.complaints.String(); said != "" {
		return errors.New(strings.ReplaceAll(said, "\n", "; "))
	}
	return fmt.Errorf("it ended without a word: %w", err)
}

// empty removes the content of a directory from inside a namespace.
func (r *Runner) empty(ctx context.Context, dir string) error {
	var f files
	defer f.close()
	src, err := r.source(&f, dir)
	if err != nil {
		return err
	}
	c, err := r.launch(ctx)
	if err != nil {
		return err
	}
	defer c.destroy()
	_, err = c.ask(ctx, stage.Request{Op: stage.OpEmpty, Empty: &src}, &f)
	return err
}

var _ runner.Runner = (*Runner)(nil)
