// Package supervise is the parent of a machine's processes where there is no namespace to hold them together. It
// starts the entrypoint, and when that ends, or the platform asks or is gone, it ends everything below it.
//
// On Linux it is a child subreaper, so that no process of the machine escapes by losing its parent. Elsewhere a
// process that left the entrypoint's session and lost its parent is not found.
package supervise

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/children"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/procs"
)

const (
	// Name is the supervisor's argv[0], by which the executable knows its part.
	Name = "flylocal-supervisor"
	// SpecFD carries one Spec as JSON. Commands come on stdin, one JSON line each; the end of stdin is the end of the
	// machine.
	SpecFD = 3
	// EventsFD takes Events, one JSON line each.
	EventsFD = 4
)

// Spec is what to start.
type Spec struct {
	// Path is the program's file.
	Path      string
	Argv, Env []string
	Dir       string
	// Remove is a directory that is removed at the end, "" for none.
	Remove string
}

// Verb is what a Command asks for.
type Verb string

// The verbs. Each but Kill is answered by an Event with Did.
const (
	Signal Verb = "signal"
	Freeze Verb = "freeze"
	Thaw   Verb = "thaw"
	Kill   Verb = "kill"
)

// Command is one line on stdin.
type Command struct {
	Do     Verb
	Signal syscall.Signal `json:",omitempty"`
}

// Event is one line from the supervisor: first Started or Error, then Did for commands, last Ended.
type Event struct {
	Started bool            `json:",omitempty"`
	Error   string          `json:",omitempty"`
	Did     Verb            `json:",omitempty"`
	Ended   *children.Ended `json:",omitempty"`
}

// lookAgain is the pause between two looks at processes that are being ended.
const lookAgain = 5 * time.Millisecond

type supervisor struct {
	events  *json.Encoder
	table   *children.Table
	main    *children.Child
	stopped map[int]bool
}

// Run is the supervisor's main.
func Run() int {
	syscall.CloseOnExec(SpecFD)
	syscall.CloseOnExec(EventsFD)
	out := os.NewFile(EventsFD, "events")
	s := &supervisor{events: json.NewEncoder(out), table: children.New(), stopped: map[int]bool{}}
	spec, err := readSpec()
	if err == nil {
		err = becomeSubreaper()
	}
	if err == nil {
		go s.table.Reap()
		err = s.start(spec)
	}
	if err != nil {
		s.tell(Event{Error: err.Error()})
		return 1
	}
	s.tell(Event{Started: true})
	over := make(chan struct{})
	go func() {
		s.obey(os.Stdin)
		close(over)
	}()
	select {
	case <-s.main.Done():
	case <-over:
	}
	s.killAll()
	if spec.Remove != "" {
		_ = os.RemoveAll(spec.Remove) // nothing more can be done about it here
	}
	how := s.main.Ended()
	s.tell(Event{Ended: &how})
	return 0
}

// tell writes an event; a platform that is gone hears nothing.
func (s *supervisor) tell(e Event) { _ = s.events.Encode(e) }

func readSpec() (Spec, error) {
	f := os.NewFile(SpecFD, "spec")
	defer f.Close()
	var spec Spec
	if err := json.NewDecoder(f).Decode(&spec); err != nil {
		return spec, fmt.Errorf("read what to start: %w", err)
	}
	return spec, nil
}

func (s *supervisor) start(spec Spec) error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	s.main, err = s.table.Start(spec.Path, spec.Argv, &syscall.ProcAttr{
		Dir: spec.Dir, Env: spec.Env,
		Files: []uintptr{null.Fd(), 1, 2},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", spec.Path, err)
	}
	return nil
}

// obey serves commands until Kill or the end of the stream.
func (s *supervisor) obey(commands io.Reader) {
	lines := bufio.NewScanner(commands)
	for lines.Scan() {
		var c Command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil || c.Do == Kill {
			return
		}
		e := Event{Did: c.Do}
		if err := s.do(c); err != nil {
			e.Error = err.Error()
		}
		s.tell(e)
	}
}

func (s *supervisor) do(c Command) error {
	switch c.Do {
	case Signal:
		return s.table.Signal(s.main, c.Signal)
	case Freeze:
		return s.freeze()
	case Thaw:
		return s.thaw()
	}
	return fmt.Errorf("unknown command %q", c.Do)
}

// freeze stops processes until a look finds none that runs: one may have been born between two looks.
func (s *supervisor) freeze() error {
	for {
		list, err := procs.Descendants(os.Getpid())
		if err != nil {
			return err
		}
		fresh := false
		for _, p := range list {
			if !s.stopped[p.PID] && p.State != 'T' && p.State != 'Z' {
				s.stopped[p.PID], fresh = true, true
				_ = syscall.Kill(p.PID, syscall.SIGSTOP) // it may have ended
			}
		}
		if !fresh {
			return nil
		}
	}
}

func (s *supervisor) thaw() error {
	for pid := range s.stopped {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	clear(s.stopped)
	return nil
}

// killAll returns when nothing is left below the supervisor. A look at the process list may miss one that is just
// being born or losing its parent; having no child is certain, since a subreaper gets every orphan.
func (s *supervisor) killAll() {
	s.table.KillGroup(s.main)
	for !s.table.Alone() {
		list, err := procs.Descendants(os.Getpid())
		if err != nil {
			return
		}
		for _, p := range list {
			_ = syscall.Kill(p.PID, syscall.SIGKILL) // it may have ended
		}
		time.Sleep(lookAgain)
	}
}
