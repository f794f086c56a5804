package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/children"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/control"
)

// defaultPath is the PATH of a process whose environment has none, as container engines set it.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// serveStart boots the machine and stays until its entrypoint has ended.
func (g *guest) serveStart(talk *control.Conversation, s *Start) {
	files, err := g.boot(s)
	if err != nil {
		_ = talk.Send(failure(err))
		return
	}
	err = talk.Send(Reply{PID: g.main.PID}, files...)
	closeFiles(files)
	if err != nil {
		return
	}
	<-g.main.Done()
	sendEnd(talk, g.main)
	close(g.ended)
}

// boot does all that precedes the entrypoint, starts it, and returns the console's read end and the init's pidfd.
func (g *guest) boot(s *Start) ([]*os.File, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.started || s == nil || len(s.Argv) == 0 {
		return nil, errors.New("a machine is started once, with an entrypoint")
	}
	g.started, g.start = true, *s
	if err := bringUpLoopback(s.PrivateIP); err != nil {
		return nil, err
	}
	if err := g.listenEgress(s.Egress); err != nil {
		return nil, err
	}
	if err := writeFiles(s); err != nil {
		return nil, err
	}
	var err error
	if g.user, err = lookUpUser(s.User); err != nil {
		return nil, err
	}
	pidfd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return nil, fmt.Errorf("open a handle of the init: %w", err)
	}
	self := os.NewFile(uintptr(pidfd), "init")
	console, out, err := g.pipe(g.user)
	if err != nil {
		self.Close()
		return nil, err
	}
	defer out.Close()
	null, err := os.Open(os.DevNull)
	if err == nil {
		defer null.Close()
		g.main, err = g.spawn(s.Argv, g.user, null, out, out)
	}
	if err != nil {
		closeFiles([]*os.File{console, self})
		return nil, fmt.Errorf("start the entrypoint %q: %w", s.Argv[0], err)
	}
	return []*os.File{console, self}, nil
}

// pipe makes a pipe whose write end the user may open again by way of /dev/stdout.
func (g *guest) pipe(u user) (r, w *os.File, err error) {
	r, w, err = os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	if g.start.Owners {
		if err := unix.Fchown(int(w.Fd()), int(u.uid), int(u.gid)); err != nil {
			closeFiles([]*os.File{r, w})
			return nil, nil, fmt.Errorf("give the console to the image's user: %w", err)
		}
	}
	return r, w, nil
}

// spawn starts a process of the machine in a session of its own, with the machine's environment and nothing else of
// the init's.
func (g *guest) spawn(argv []string, u user, stdin, stdout, stderr *os.File) (*children.Child, error) {
	env := environment(g.start.Env, u)
	dir := g.start.WorkDir
	if dir == "" {
		dir = "/"
	}
	path, err := lookPath(argv[0], dir, env)
	if err != nil {
		return nil, err
	}
	attr := &syscall.ProcAttr{
		Dir: dir, Env: env,
		Files: []uintptr{stdin.Fd(), stdout.Fd(), stderr.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}
	if g.start.Owners {
		attr.Sys.Credential = &syscall.Credential{Uid: u.uid, Gid: u.gid, Groups: u.groups}
	}
	return g.procs.Start(path, argv, attr)
}

// environment adds what a process may count on and the machine's environment does not say.
func environment(env []string, u user) []string {
	out := slices.Clone(env)
	for _, d := range [][2]string{{"PATH", defaultPath}, {"HOME", u.home}} {
		if !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, d[0]+"=") }) {
			out = append(out, d[0]+"="+d[1])
		}
	}
	return out
}

// lookPath finds a program as execvp would, in the machine's PATH.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, e := range env {
		list, ok := strings.CutPrefix(e, "PATH=")
		if !ok {
			continue
		}
		for _, at := range filepath.SplitList(list) {
			if !filepath.IsAbs(at) {
				at = filepath.Join(dir, at)
			}
			candidate := filepath.Join(at, name)
			if info, err := os.Stat(candidate); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return candidate, nil
			}
		}
	}
	return "", fmt.Errorf("%q is not in the machine's PATH: %w", name, syscall.ENOENT)
}

// writeFiles writes the machine's files, its name table and its working directory. It runs inside the machine, so
// links lead to no other place than its own.
func writeFiles(s *Start) error {
	for _, f := range s.Files {
		if err := writeFile(f); err != nil {
			return fmt.Errorf("write the machine's file %s: %w", f.Path, err)
		}
	}
	if s.WorkDir != "" {
		if err := os.MkdirAll(s.WorkDir, 0o755); err != nil {
			return fmt.Errorf("make the image's working directory: %w", err)
		}
	}
	hosts := "127.0.0.1\tlocalhost\n::1\tlocalhost\n"
	if s.PrivateIP.IsValid() {
		hosts += fmt.Sprintf("%[1]s\tfly-local-6pn\n%[1]s\t%[2]s.vm.%[3]s.internal %[2]s\n", s.PrivateIP, s.Hostname, s.App)
	}
	if err := writeFile(File{Path: "/etc/hosts", Content: []byte(hosts), Mode: 0o644}); err != nil {
		return fmt.Errorf("write /etc/hosts: %w", err)
	}
	return nil
}

func writeFile(f File) error {
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
		return err
	}
	if f.Mode == 0 {
		f.Mode = 0o644
	}
	if err := os.WriteFile(f.Path, f.Content, f.Mode&fs.ModePerm); err != nil {
		return err
	}
	return os.Chmod(f.Path, f.Mode)
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
