//go:build linux

package spool

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// State is the fold of an exec's state file. Lines are appended by the process that sees the event
// happen, each by one write; a last line without its newline is torn and not counted.
type State struct {
	// PID and StartedAt (Unix milliseconds) of the process; zero before it started.
	PID       int64
	StartedAt int64
	Epoch     string
	// Failure is set when no process could be started.
	Failure *Failure
	// Cause is why the machine ended the exec; EXITED when it did not.
	Cause wirev1.ExitCause
	// Ended is set once the process was reaped.
	Ended *Ended
	// Forbidden: the id may never start, says an owner of Scope.
	Forbidden bool
	Scope     string
	// Forgotten: nobody wants the output any more.
	Forgotten bool

	books      map[string]*page
	spec, exit string // JSON
}

// Failure says why an exec has no process.
type Failure struct {
	Step wirev1.StartFailure
	// Text for a person; never argv or env.
	Text string
}

// Ended is what the kernel said of a process.
type Ended struct {
	Code, Signal int
	Core         bool
	At           int64 // Unix milliseconds
	UserUS       int64
	SystemUS     int64
	MaxRSS       int64 // bytes
	// OutOfMemory: the kernel killed for want of memory while it lived, and nobody sent its KILL.
	OutOfMemory bool
}

// StrongerCause is which of two causes stays: what the machine did of itself outweighs a client's
// signal, which may not have been meant to end anything, and the first of equals stays.
func StrongerCause(have, next wirev1.ExitCause) wirev1.ExitCause {
	rank := func(c wirev1.ExitCause) int {
		switch c {
		case wirev1.ExitCause_EXIT_CAUSE_UNSPECIFIED, wirev1.ExitCause_EXIT_CAUSE_EXITED:
			return 0
		case wirev1.ExitCause_EXIT_CAUSE_SIGNALED_BY_CLIENT:
			return 1
		}
		return 2
	}
	if rank(next) > rank(have) {
		return next
	}
	return have
}

// CauseOf is the cause to tell, from the one on record and what the kernel said: a client's signal that
// did not end the process is none.
func CauseOf(recorded wirev1.ExitCause, e Ended) wirev1.ExitCause {
	switch {
	case e.OutOfMemory:
		return wirev1.ExitCause_EXIT_CAUSE_OUT_OF_MEMORY
	case recorded == wirev1.ExitCause_EXIT_CAUSE_SIGNALED_BY_CLIENT && e.Signal == 0 && e.Code < 128:
		return wirev1.ExitCause_EXIT_CAUSE_EXITED
	}
	return recorded
}

// Log is an exec's state file, open while the exec is started. Each event is one write of one line: a
// last line without its end is torn, and counts for nothing.
type Log struct {
	spool *Spool
	file  *os.File
}

// Begin makes an exec's directory, the point of no return, and puts on record what was asked.
// os.ErrExist in the chain says that the id is taken. Two calls for one id must not run at the same
// time.
func (s *Spool) Begin(id string, aside bool, record []byte) (*Log, error) {
	if err := s.Create(id, aside); err != nil {
		return nil, err
	}
	l := &Log{spool: s}
	err := s.withRoom(func() error {
		var err error
		l.file, err = s.openState(id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open state: %w", err)
	}
	if err := l.append("spec " + string(record)); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Close ends the log's use; the file stays.
func (l *Log) Close() { l.file.Close() }

// Started records the process of the exec.
func (l *Log) Started(pid int, at int64, epoch string) error {
	return l.append(fmt.Sprintf("started %d %d %s", pid, at, epoch))
}

// Failed records that the exec will have no process.
func (l *Log) Failed(at int64, epoch string, f Failure) error {
	return l.append(fmt.Sprintf("failed %d %d %s %s", int32(f.Step), at, epoch, strconv.Quote(f.Text)))
}

// AppendCause records why the machine is about to end an exec, see StrongerCause.
func (s *Spool) AppendCause(id string, cause wirev1.ExitCause) error {
	return s.appendState(id, fmt.Sprintf("cause %d", int32(cause)))
}

// AppendEnded records how a process ended.
func (s *Spool) AppendEnded(id string, e Ended) error {
	return s.appendState(id, fmt.Sprintf("ended %d %d %d %d %d %d %d %d", e.Code, e.Signal, bit(e.Core), e.At, e.UserUS, e.SystemUS, e.MaxRSS, bit(e.OutOfMemory)))
}

func (l *Log) append(line string) error {
	return l.spool.withRoom(func() error { return writeLine(l.file, line) })
}

func bit(set bool) int {
	if set {
		return 1
	}
	return 0
}

// writeLine writes a whole line, and ends whatever a full disk or a crash left half-written before it.
func writeLine(f *os.File, line string) error {
	if _, err := f.WriteString("\n" + line + "\n"); err != nil {
		return fmt.Errorf("append to state: %w", err)
	}
	return nil
}

// AppendForbidden records that an id whose directory was made will never have a process.
func (s *Spool) AppendForbidden(id, scope string) error {
	return s.appendState(id, "forbidden "+scope)
}

// AppendForgotten records that an exec's output may go.
func (s *Spool) AppendForgotten(id string) error { return s.appendState(id, "forgotten") }

func (s *Spool) openState(id string) (*os.File, error) {
	return OpenFile(s.File(id, "state"), os.O_CREATE|os.O_APPEND|os.O_WRONLY)
}

func (s *Spool) appendState(id, line string) error {
	return s.withRoom(func() error {
		f, err := s.openState(id)
		if err != nil {
			return fmt.Errorf("append to state: %w", err)
		}
		defer f.Close()
		return writeLine(f, line)
	})
}

// State reads and folds an exec's state file; an absent one is the zero State.
func (s *Spool) State(id string) (State, error) {
	b, err := readFile(s.File(id, "state"))
	if errors.Is(err, os.ErrNotExist) {
		return foldState(""), nil
	}
	if err != nil {
		return State{}, fmt.Errorf("read state: %w", err)
	}
	return foldState(string(b)), nil
}

// foldState never fails: a line it cannot read, torn or of a later version, says nothing.
func foldState(text string) State {
	st := State{Cause: wirev1.ExitCause_EXIT_CAUSE_EXITED}
	for {
		line, rest, whole := strings.Cut(text, "\n")
		if !whole {
			return st
		}
		text = rest
		st.apply(line)
	}
}

func (st *State) apply(line string) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "spec":
		st.spec = rest
	case "exit":
		if st.exit == "" {
			st.exit = rest
		}
	case "started":
		if f := strings.Fields(rest); len(f) >= 3 {
			st.PID, st.StartedAt, st.Epoch = number(f[0]), number(f[1]), f[2]
		}
	case "failed":
		if f := strings.SplitN(rest, " ", 4); len(f) == 4 {
			text, _ := strconv.Unquote(f[3])
			st.StartedAt, st.Epoch = number(f[1]), f[2]
			st.Failure = &Failure{Step: wirev1.StartFailure(number(f[0])), Text: text}
		}
	case "cause":
		st.Cause = StrongerCause(st.Cause, wirev1.ExitCause(number(rest)))
	case "forbidden":
		st.Forbidden, st.Scope = true, rest
	case "forgotten":
		st.Forgotten = true
	case "gap", "gapend", "tail":
		st.turn(word, rest)
	case "ended":
		if f := strings.Fields(rest); len(f) >= 7 {
			st.Ended = &Ended{
				Code: int(number(f[0])), Signal: int(number(f[1])), Core: f[2] == "1", At: number(f[3]),
				UserUS: number(f[4]), SystemUS: number(f[5]), MaxRSS: number(f[6]), OutOfMemory: len(f) > 7 && f[7] == "1",
			}
		}
	}
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
