// Package pglocal runs a Postgres of its own on this computer, from the installed binaries, for demos and tests. Its data is
// gone when the process is, however that ends: a watcher waits for the end of a pipe that the process holds. Postgres
// refuses to run as root, so under root it runs as the user postgres, or nobody.
package pglocal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Settings are lines of postgresql.conf.
type Settings map[string]string

// Server is a throw-away cluster.
type Server struct {
	bin, dir, password string
	port               int
	as                 *syscall.Credential
	watcher            *exec.Cmd
	// life is the pipe whose end ends the cluster.
	life io.Closer
}

// Start makes and starts a cluster. It listens on loopback and on a socket in its own directory; Stop, or the end of this
// process, removes it.
func Start(ctx context.Context, settings Settings) (*Server, error) {
	s := &Server{password: rand.Text()}
	var err error
	if s.bin, err = binaries(); err != nil {
		return nil, err
	}
	if s.as, err = unprivileged(); err != nil {
		return nil, err
	}
	// A socket's path may have 108 bytes, so not in the directory of the test.
	if s.dir, err = os.MkdirTemp("/tmp", "ffpg"); err != nil {
		return nil, fmt.Errorf("pglocal: %w", err)
	}
	if s.as != nil {
		err = os.Chown(s.dir, int(s.as.Uid), int(s.as.Gid))
	}
	if err == nil {
		err = s.watch(context.WithoutCancel(ctx))
	}
	if err == nil {
		err = s.initialize(ctx, settings)
	}
	if err == nil {
		err = s.control(ctx, "start")
	}
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		s.Stop()
		return nil, fmt.Errorf("pglocal: %w\n%s", err, log)
	}
	return s, nil
}

// binaries finds the folder of initdb, pg_ctl and postgres: in PATH, or where packages put them, the newest first.
func binaries() (string, error) {
	var folders []string
	if path, err := exec.LookPath("initdb"); err == nil {
		folders = append(folders, filepath.Dir(path))
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin"} {
		some, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		slices.Reverse(some)
		folders = append(folders, some...)
	}
	for _, folder := range folders {
		if slices.IndexFunc([]string{"initdb", "pg_ctl", "postgres"}, func(name string) bool {
			_, err := os.Stat(filepath.Join(folder, name))
			return err != nil
		}) < 0 {
			return folder, nil
		}
	}
	get := "apt-get install postgresql"
	if runtime.GOOS == "darwin" {
		get = "brew install postgresql@15"
	}
	return "", fmt.Errorf("pglocal: Postgres is not installed; run: %s", get)
}

// unprivileged is whom Postgres runs as under root; nil is this process's own user.
func unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, fmt.Errorf("pglocal: user %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("pglocal: Postgres does not run as root, and there is no user postgres or nobody")
}

// command runs as the cluster's user, in a group of its own, so that a Ctrl-C meant for the test does not end the cluster
// in the middle of a statement.
func (s *Server) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Setpgid: true}
	return cmd
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// watch starts what ends the cluster. It has none of this process's outputs: go test would wait for it.
func (s *Server) watch(ctx context.Context) error {
	script := `cat >/dev/null; "$1/pg_ctl" -D "$2/data" -m immediate -w stop; cd /; rm -rf "$2"`
	s.watcher = s.command(ctx, "/bin/sh", "-c", script, "sh", s.bin, s.dir)
	life, err := s.watcher.StdinPipe()
	if err != nil {
		return err
	}
	s.life = life
	return s.watcher.Start()
}

func (s *Server) initialize(ctx context.Context, settings Settings) error {
	secret := filepath.Join(s.dir, "password")
	if err := os.WriteFile(secret, []byte(s.password), 0o600); err != nil {
		return err
	}
	if s.as != nil {
		if err := os.Chown(secret, int(s.as.Uid), int(s.as.Gid)); err != nil {
			return err
		}
	}
	// md5, because a test opens many connections and SCRAM makes each of them slow on purpose.
	out, err := s.command(ctx, filepath.Join(s.bin, "initdb"), "-D", s.data(), "-U", "flyfleet", "-A", "md5", "--pwfile", secret,
		"-E", "UTF8", "--locale", "C", "--no-sync").CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if s.port, err = freePort(ctx); err != nil {
		return err
	}
	return s.configure(settings)
}

func (s *Server) configure(settings Settings) error {
	all := Settings{
		"listen_addresses": "'127.0.0.1'", "port": strconv.Itoa(s.port), "unix_socket_directories": "'" + s.dir + "'",
		"max_connections": "100", "shared_buffers": "64MB", "log_min_messages": "warning",
	}
	for name, value := range settings {
		all[name] = value
	}
	var lines strings.Builder
	for name, value := range all {
		fmt.Fprintf(&lines, "%s = %s\n", name, value)
	}
	file, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(lines.String())
	return errors.Join(err, file.Close())
}

func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

func (s *Server) control(ctx context.Context, args ...string) error {
	args = append([]string{"-D", s.data(), "-l", filepath.Join(s.dir, "log"), "-w", "-t", "60", "-s"}, args...)
	if out, err := s.command(ctx, filepath.Join(s.bin, "pg_ctl"), args...).CombinedOutput(); err != nil {
		return fmt.Errorf("pg_ctl: %w\n%s", err, out)
	}
	return nil
}

// Crash restarts the cluster as after a crash of the computer that kept its disk: nothing is flushed, every connection
// breaks.
func (s *Server) Crash(ctx context.Context) error {
	return s.control(ctx, "-m", "immediate", "restart")
}

// Halt stops the cluster; Resume starts it again.
func (s *Server) Halt(ctx context.Context) error { return s.control(ctx, "-m", "immediate", "stop") }

// Resume starts a cluster that Halt has stopped.
func (s *Server) Resume(ctx context.Context) error { return s.control(ctx, "start") }

// URL reaches a database of the cluster over its socket.
func (s *Server) URL(database string) string {
	query := url.Values{"host": {s.dir}, "port": {strconv.Itoa(s.port)}}
	return "postgres://flyfleet:" + s.password + "@/" + database + "?" + query.Encode()
}

// Stop ends the cluster and removes its files.
func (s *Server) Stop() {
	if s.life == nil {
		_ = os.RemoveAll(s.dir)
		return
	}
	_ = s.life.Close()
	_ = s.watcher.Wait()
}
