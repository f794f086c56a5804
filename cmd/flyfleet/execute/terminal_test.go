package execute_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// seat is a pseudo terminal with a flyfleet on it, as a window has.
type seat struct {
	t      *testing.T
	master *os.File
	slave  *os.File
	before unix.Termios
	cmd    *exec.Cmd
	done   chan struct{}

	mu     sync.Mutex
	screen bytes.Buffer
}

// sit runs flyfleet on a new terminal of 100 by 30.
func sit(t *testing.T, args ...string) *seat {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &seat{t: t, master: master, done: make(chan struct{})}
	number := 0
	s.control(func(fd int) error {
		if number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN); err != nil {
			return err
		}
		return unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	})
	if s.slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	s.resize(100, 30)
	s.before = s.mode()
	s.cmd = exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	s.cmd.Env = append(os.Environ(), selfEnv+"=1", "TERM=vt220")
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = s.slave, s.slave, s.slave
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = s.cmd.Wait()
		close(s.done)
	}()
	go s.watch()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.done
		s.slave.Close()
		s.master.Close()
	})
	return s
}

// control uses the master's descriptor and leaves it interruptible, so that Close ends a Read.
func (s *seat) control(do func(fd int) error) {
	s.t.Helper()
	raw, err := s.master.SyscallConn()
	if err == nil {
		var failed error
		err = raw.Control(func(fd uintptr) { failed = do(int(fd)) })
		err = errors.Join(err, failed)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *seat) watch() {
	b := make([]byte, 4096)
	for {
		n, err := s.master.Read(b)
		s.mu.Lock()
		s.screen.Write(b[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *seat) mode() unix.Termios {
	s.t.Helper()
	mode, err := unix.IoctlGetTermios(int(s.slave.Fd()), unix.TCGETS)
	if err != nil {
		s.t.Fatal(err)
	}
	return *mode
}

func (s *seat) resize(cols, rows uint16) {
	s.t.Helper()
	s.control(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: cols, Row: rows})
	})
}

func (s *seat) enter(text string) {
	s.t.Helper()
	if _, err := s.master.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

func (s *seat) shown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.screen.String()
}

func (s *seat) await(text string) {
	s.t.Helper()
	defer func() {
		if s.t.Failed() {
			s.t.Logf("on the screen: %q", s.shown())
		}
	}()
	until(s.t, "the screen to show "+text, func() bool { return strings.Contains(s.shown(), text) })
}

// end waits for flyfleet's end, and proves that the terminal is as it was.
func (s *seat) end() *os.ProcessState {
	s.t.Helper()
	until(s.t, "flyfleet's end", func() bool {
		select {
		case <-s.done:
			return true
		default:
			return false
		}
	})
	if s.mode() != s.before {
		s.t.Errorf("the terminal was left changed: %+v, before %+v", s.mode(), s.before)
	}
	return s.cmd.ProcessState
}

func onTerminal(t *testing.T) {
	s := sit(t, "exec", "tenant", "-i", "-t", "--", "sh", "-c",
		`echo "term $TERM"; test -t 0 && test -t 1 && test -t 2 && echo 'all terminal'; stty size
		while [ "$(stty size)" != '40 120' ]; do sleep 0.05; done; echo resized
		read line; echo "got <$line>"
		trap 'echo interrupted; exit 5' INT; echo ready; while :; do sleep 0.05; done`)
	s.await("term vt220")
	s.await("all terminal")
	s.await("30 100")
	if mode := s.mode(); mode.Lflag&(unix.ECHO|unix.ICANON|unix.ISIG) != 0 {
		t.Errorf("the terminal is not raw: %+v", mode)
	}
	s.resize(120, 40)
	s.await("resized")
	s.enter("hello é\r")
	s.await("got <hello é>")
	s.await("ready")
	s.enter("\x03")
	s.await("interrupted")
	if code := s.end().ExitCode(); code != 5 {
		t.Errorf("exit code %d", code)
	}
	if n := strings.Count(s.shown(), "hello"); n != 2 {
		t.Errorf("%d times hello on the screen: one echo by the machine's terminal, and one answer, were due", n)
	}
}

// endedOnTerminal ends flyfleet from outside, while its command heeds nothing.
func endedOnTerminal(t *testing.T) {
	s := sit(t, "exec", "tenant", "-i", "-t", "--", "sh", "-c", "trap '' HUP TERM; echo ready; exec sleep 600")
	s.await("ready")
	// Two signals in quick succession can be one to the kernel or to Go's own queue, so the second is sent until it has ended flyfleet.
	until(t, "a second signal to end flyfleet", func() bool {
		if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		select {
		case <-s.done:
			return true
		default:
			return false
		}
	})
	if status, ok := s.end().Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("ended as %v, not by the second signal", s.cmd.ProcessState)
	}
	code, stdout, _ := flyfleet(t.Context(), "ps", "tenant", "--running")
	if code != 0 || strings.Count(stdout, "sleep 600") != 1 {
		t.Fatalf("ps: %d %q", code, stdout)
	}
	for line := range strings.Lines(stdout) {
		if id, rest, _ := strings.Cut(line, " "); strings.Contains(rest, "sleep 600") {
			if code, _, stderr := flyfleet(t.Context(), "kill", "tenant", id, "--signal", "KILL"); code != 0 {
				t.Error(stderr)
			}
		}
	}
}

// windowClosed takes the terminal away under a command.
func windowClosed(t *testing.T) {
	s := sit(t, "exec", "tenant", "-i", "-t", "--", "sh", "-c", "trap 'touch hung-up; exit' HUP; echo ready; while :; do sleep 0.05; done")
	s.await("ready")
	s.slave.Close()
	s.master.Close()
	until(t, "the command to be told", func() bool {
		code, _, _ := flyfleet(t.Context(), "exec", "tenant", "--", "test", "-e", "hung-up")
		return code == 0
	})
	<-s.done
}

// readerGone pipes a command's output into a program that reads one line.
func readerGone(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "exec", "tenant", "--", "sh", "-c", "trap 'touch told; exit' TERM; while :; do echo line; done")
	cmd.Env = append(os.Environ(), selfEnv+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Error(err)
	}
	out.Close()
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 125 {
		t.Errorf("ended with %v", err)
	}
	until(t, "the command to be told", func() bool {
		code, _, _ := flyfleet(t.Context(), "exec", "tenant", "--", "test", "-e", "told")
		return code == 0
	})
}

// takenOver leaves a command on its terminal, and goes on from another one.
func takenOver(t *testing.T) {
	code, stdout, stderr := flyfleet(t.Context(), "exec", "tenant", "--detach", "-i", "-t", "--", "sh", "-c",
		`stty size; echo ready; read a; echo "one <$a>"; read b; echo "two <$b>"; stty size; exit 4`)
	id := strings.TrimSpace(stdout)
	if code != 0 {
		t.Fatal(stderr)
	}
	first := sit(t, "exec", "tenant", "--attach", id, "-i", "-t")
	first.await("ready")
	first.enter("x\r")
	first.await("one <x>")
	if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	first.end()
	first.await("--attach")
	if !strings.Contains(first.shown(), "left; the command runs on: flyfleet exec tenant --attach "+id) || first.cmd.ProcessState.ExitCode() != 125 {
		t.Errorf("left as %v, %q", first.cmd.ProcessState, first.shown())
	}
	second := sit(t, "exec", "tenant", "--attach", id, "-i", "-t")
	second.await("one <x>")
	second.enter("y\r")
	second.await("two <y>")
	if code := second.end().ExitCode(); code != 4 {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(second.shown(), "30 100") {
		t.Errorf("the machine's terminal does not have the size of the caller's: %q", second.shown())
	}
}
