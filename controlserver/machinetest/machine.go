//go:build linux

// Package machinetest runs a control server as a process of its own for tests: the test binary again,
// on a free port, in a temporary directory. Call Main from TestMain.
package machinetest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/transport"
)

const serveEnv = "FLYFLEET_TEST_SERVE"

// BodyTimeEnv in Options.Env shortens the time that a body may take.
const BodyTimeEnv = "FLYFLEET_TEST_BODY_TIME"

// TmpfsEnv in Options.Env mounts a tmpfs with that size on the data directory first: for a server in a
// mount namespace of its own.
const TmpfsEnv = "FLYFLEET_TEST_TMPFS"

// ProcEnv in Options.Env, set to "true", mounts a /proc of the server's own first: for a server in a PID
// namespace of its own.
const ProcEnv = "FLYFLEET_TEST_PROC"

// Names of the machine that every test server claims to be.
const (
	App   = "tenant-a"
	ID    = "d8901234567890"
	Fleet = "test-fleet"
	Scope = "s/one"
)

// Main runs the tests, or the control server when this process was started as one.
func Main(m *testing.M) {
	if os.Getenv(serveEnv) != "" {
		os.Exit(serveMain())
	}
	os.Exit(m.Run())
}

// serveMain is the server process. It ends when its standard input does, so that no server outlives the
// test that started it.
func serveMain() int {
	unheeded := make(chan os.Signal, 1)
	signal.Notify(unheeded, syscall.SIGHUP, syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if os.Getenv(serveEnv) != "calls" {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			stop()
		}()
	}
	if os.Getenv(ProcEnv) == "true" && os.Getenv(serveEnv) != "calls" {
		if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			fmt.Fprintln(os.Stderr, "mount /proc:", err)
			return 1
		}
	}
	if size := os.Getenv(TmpfsEnv); size != "" && os.Getenv(serveEnv) != "calls" {
		data := os.Getenv("FLYFLEET_DATA")
		err := os.MkdirAll(data, 0o755)
		if err == nil {
			err = syscall.Mount("tmpfs", data, "tmpfs", 0, "mode=0755,size="+size)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "mount a tmpfs:", err)
			return 1
		}
	}
	controlserver.Tune()
	grace, _ := time.ParseDuration(os.Getenv("FLYFLEET_GRACE"))
	bodyTime, _ := time.ParseDuration(os.Getenv(BodyTimeEnv))
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	c := controlserver.Config{
		Trust: os.Getenv("FLYFLEET_TRUST"), Listen: os.Getenv("FLYFLEET_LISTEN"), Data: os.Getenv("FLYFLEET_DATA"),
		Run: os.Getenv("FLYFLEET_RUN"), App: os.Getenv("FLY_APP_NAME"), Machine: os.Getenv("FLY_MACHINE_ID"), Grace: grace,
		BodyTime: bodyTime,
	}
	run := func() error { return controlserver.Serve(ctx, c, []string{"/proc/self/exe"}, log) }
	if os.Getenv(serveEnv) == "calls" {
		run = func() error { return controlserver.ServeCalls(ctx, c, log) }
	} else if err := os.Setenv(serveEnv, "calls"); err != nil {
		run = func() error { return err }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Machine is a running control server.
type Machine struct {
	Address string
	Data    string
	Run     string
	Root    token.Root
	Key     token.SigningKey

	t       testing.TB
	program []string
	cmd     *exec.Cmd
	stdin   io.Closer
	log     *logWatch
	done    chan struct{}
	err     error
}

// Options change how Start starts a machine.
type Options struct {
	// Data and Root are kept from an earlier machine, as by a restart; zero values are fresh.
	Data string
	Root *token.Root
	// Env is added to the server's environment.
	Env []string
	// Attr is the server process's.
	Attr *syscall.SysProcAttr
	// Program is another control server to run, with its arguments; none is the test binary. It is
	// told everything by environment, and stopped by a signal.
	Program []string
}

// Start runs a server and waits until it serves. It is stopped, and its files removed, with the test.
func Start(t testing.TB, o Options) *Machine {
	t.Helper()
	m, err := Launch(t, o)
	if err != nil {
		t.Fatalf("start a control server: %v", err)
	}
	return m
}

// Launch is Start that returns the error of a server that does not come up, with its last log lines.
func Launch(t testing.TB, o Options) (*Machine, error) {
	t.Helper()
	m := &Machine{t: t, Data: o.Data, done: make(chan struct{})}
	if m.Data == "" {
		m.Data = filepath.Join(scratch(t), "data")
	}
	m.Run = filepath.Join(scratch(t), "run")
	if err := m.keys(o.Root); err != nil {
		return nil, err
	}
	m.program = o.Program
	if len(o.Program) == 0 {
		o.Program = []string{"/proc/self/exe"}
	}
	m.cmd = exec.CommandContext(context.Background(), o.Program[0], o.Program[1:]...)
	m.cmd.Env = append(append(os.Environ(), serveEnv+"=1", "FLYFLEET_LISTEN=127.0.0.1:0", "FLYFLEET_DATA="+m.Data,
		"FLYFLEET_RUN="+m.Run, "FLYFLEET_TRUST="+m.Root.Trust(), "FLY_APP_NAME="+App, "FLY_MACHINE_ID="+ID,
		"FLYFLEET_GRACE=5s"), o.Env...)
	m.cmd.SysProcAttr = o.Attr
	stdin, err := m.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	m.stdin = stdin
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	m.log = newLogWatch(t)
	m.cmd.Stderr = w
	if err := m.cmd.Start(); err != nil {
		r.Close()
		w.Close()
		return nil, err
	}
	w.Close()
	go m.log.read(r)
	go func() {
		m.err = m.cmd.Wait()
		close(m.done)
	}()
	t.Cleanup(m.Close)
	select {
	case line := <-m.log.serving:
		m.Address, _ = line["address"].(string)
		return m, nil
	case <-m.done:
		<-m.log.done
		return nil, fmt.Errorf("%w: %s", m.err, strings.Join(m.log.tail(), "\n"))
	case <-time.After(30 * time.Second):
		return nil, errors.New("the control server says nothing")
	}
}

// scratch is a temporary directory that other users may enter, as the exec user must.
func scratch(t testing.TB) string {
	dir := t.TempDir()
	for d := dir; strings.HasPrefix(d, os.TempDir()+"/"); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func (m *Machine) keys(root *token.Root) error {
	var err error
	if root != nil {
		m.Root = *root
	} else if m.Root, err = token.NewRoot(Fleet); err != nil {
		return err
	}
	m.Key, err = m.Root.Delegate("rt-test", []string{"tenant-*"}, time.Hour, time.Now())
	return err
}

// Close stops the server as the platform would and waits for it; after 30 s it is killed.
func (m *Machine) Close() {
	m.stdin.Close()
	if len(m.program) > 0 {
		_ = m.cmd.Process.Signal(syscall.SIGTERM)
	}
	if !m.wait(30 * time.Second) {
		m.t.Errorf("the control server did not stop")
		_ = m.cmd.Process.Kill()
		<-m.done
	}
	<-m.log.done
}

func (m *Machine) wait(d time.Duration) bool {
	select {
	case <-m.done:
		return true
	case <-time.After(d):
		return false
	}
}

// Signal sends a signal to the entrypoint, as the platform would.
func (m *Machine) Signal(s syscall.Signal) {
	m.t.Helper()
	if err := m.cmd.Process.Signal(s); err != nil {
		m.t.Fatalf("signal the server: %v", err)
	}
}

// Wait waits for the server's end and returns its exit error.
func (m *Machine) Wait() error {
	m.t.Helper()
	if !m.wait(60 * time.Second) {
		m.t.Fatal("the control server did not end")
	}
	return m.err
}

// PID is the keeper's process id: the machine's entrypoint.
func (m *Machine) PID() int { return m.cmd.Process.Pid }

// ServerPID is the process id of the server that answers callers now, by its own account.
func (m *Machine) ServerPID() int {
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	return m.log.server
}

// KillServer kills the server that answers now, as a crash would, and returns at once: the keeper
// starts another.
func (m *Machine) KillServer() {
	m.t.Helper()
	if err := syscall.Kill(m.ServerPID(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		m.t.Fatalf("kill the server: %v", err)
	}
}

// PeakMemory is the most memory the server has ever had in use (VmHWM), in bytes.
func (m *Machine) PeakMemory() int {
	m.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.ServerPID()))
	if err != nil {
		m.t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
			kib, err := strconv.Atoi(f[1])
			if err != nil {
				m.t.Fatal(err)
			}
			return kib << 10
		}
	}
	m.t.Fatal("the kernel does not tell VmHWM")
	return 0
}

// Log is what the server has logged so far.
func (m *Machine) Log() string { return strings.Join(m.log.all(), "\n") }

// Token signs a token for this machine.
func (m *Machine) Token(scope string) string {
	m.t.Helper()
	text, err := m.Key.Sign(App, ID, "test", scope, time.Minute, time.Now())
	if err != nil {
		m.t.Fatal(err)
	}
	return text
}

// ClientOptions change what Client makes.
type ClientOptions struct {
	Scope string
	Fence uint64
	Dial  transport.DialFunc
}

// Client makes a client of this machine.
func (m *Machine) Client(o ClientOptions) *client.Client {
	m.t.Helper()
	if o.Scope == "" {
		o.Scope = Scope
	}
	c, err := client.New(client.Options{
		Address: m.Address, Dial: o.Dial, Scope: o.Scope, Fence: o.Fence,
		Tokens: client.SignWith(m.Key, App, ID, "test", o.Scope),
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(c.Close)
	return c
}

// Dial opens a plain connection to the control port.
func (m *Machine) Dial() net.Conn {
	m.t.Helper()
	conn, err := new(net.Dialer).DialContext(m.t.Context(), "tcp", m.Address)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { conn.Close() })
	return conn
}

// logWatch reads the server's log.
type logWatch struct {
	t       testing.TB
	serving chan map[string]any
	done    chan struct{}
	mu      sync.Mutex
	lines   []string
	server  int
}

func newLogWatch(t testing.TB) *logWatch {
	return &logWatch{t: t, serving: make(chan map[string]any, 1), done: make(chan struct{})}
}

func (l *logWatch) read(r *os.File) {
	defer close(l.done)
	defer r.Close()
	for lines := bufio.NewScanner(r); lines.Scan(); {
		text := lines.Text()
		l.mu.Lock()
		l.lines = append(l.lines, text)
		l.mu.Unlock()
		var event map[string]any
		if json.Unmarshal([]byte(text), &event) == nil && event["msg"] == "serving" {
			l.mu.Lock()
			if pid, ok := event["pid"].(float64); ok {
				l.server = int(pid)
			}
			l.mu.Unlock()
			select {
			case l.serving <- event:
			default:
			}
		}
	}
}

func (l *logWatch) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines...)
}

func (l *logWatch) tail() []string {
	all := l.all()
	return all[max(0, len(all)-5):]
}
