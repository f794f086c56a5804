package local

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// mostOutput is how much of a stream is kept when the command does not say.
const mostOutput = 64 << 20

// defaultGrace is the time between TERM and KILL when the command does not say.
const defaultGrace = 5 * time.Second

// command is what runs, or has run, under an id.
type command struct {
	id     string
	entry  *entry
	ledger *ledger
	log    *slog.Logger
	grace  time.Duration

	terminal, interactive bool

	out, err  *tape
	pumps     []*pump
	stdin     *stdin // nil without an input to feed
	limits    *limits
	bell      bell // rings with output and at the end
	followers atomic.Int32

	// started is closed once there is a process, or there will be none.
	started chan struct{}
	// over is closed with the end; gone when no goroutine of the command is left.
	over, gone chan struct{}
	ending     sync.Once
	ended      atomic.Bool // the computer has begun to end it

	mu      sync.Mutex
	process *os.Process // nil before the start and after the end
	cause   sandbox.Cause
	exit    *sandbox.Exit
}

func (s *Sandbox) newCommand(spec sandbox.Command, kept int64) *command {
	return &command{
		ledger: s.ledger, log: s.log, grace: cmp.Or(spec.TermGrace, defaultGrace), terminal: spec.Terminal != nil,
		interactive: spec.Interactive,
		out:         newTape("", kept), err: newTape("", kept),
		started: make(chan struct{}), over: make(chan struct{}), gone: make(chan struct{}), cause: sandbox.CauseExited,
	}
}

// name gives a command its id, and its output files.
func (c *command) name(e *entry, spool string) {
	c.id, c.entry = e.id, e
	c.out.path = filepath.Join(spool, e.id+".1")
	c.err.path = filepath.Join(spool, e.id+".2")
}

// launch makes the process, or records why there is none.
func (c *command) launch(order order) {
	process, failure := c.fork(order)
	if failure != nil {
		if c.stdin != nil {
			c.stdin.close()
		}
		for _, p := range c.pumps {
			p.file.Close()
		}
		c.finish(sandbox.Exit{ID: c.id, Code: failure.code, Cause: sandbox.CauseStartFailed, Message: failure.text})
		close(c.gone)
		close(c.started)
		return
	}
	c.mu.Lock()
	c.process = process
	c.mu.Unlock()
	if c.ended.Load() {
		// The sandbox was closed in the moment of the start.
		c.signalTree(syscall.SIGKILL)
	}
	var work sync.WaitGroup
	for _, p := range c.pumps {
		work.Go(p.run)
	}
	if c.stdin != nil {
		work.Go(c.stdin.run)
	}
	if c.limits != nil {
		work.Go(func() { c.limits.run(c) })
	}
	work.Go(func() { c.watch(process) })
	go func() {
		work.Wait()
		for _, p := range c.pumps {
			p.file.Close()
		}
		close(c.gone)
	}()
	close(c.started)
}

// watch waits for the process's end and puts it on record once all of its output is.
func (c *command) watch(process *os.Process) {
	state, err := process.Wait()
	c.mu.Lock()
	c.process = nil
	c.mu.Unlock()
	if c.ended.Load() {
		// The program heeded TERM; what it left running is ended with it.
		_ = killTree(process.Pid, syscall.SIGKILL)
	}
	if c.stdin != nil {
		c.stdin.close()
	}
	c.settle()
	exit := sandbox.Exit{ID: c.id, Code: 125, Cause: sandbox.CauseExited}
	if err != nil {
		c.log.Error("the end of a command is not known", "exec", c.id, "error", err)
		exit.Message = "its end was not told"
	} else if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		exit.Signal = int(status.Signal())
		exit.Code = 128 + exit.Signal
	} else {
		exit.Code = state.ExitCode()
	}
	exit.Cause = c.causeOf(exit)
	if exit.Cause != sandbox.CauseExited {
		exit.Message = messages[exit.Cause]
	}
	c.finish(exit)
}

var messages = map[sandbox.Cause]string{
	sandbox.CauseSignalled:  "it was ended by a signal",
	sandbox.CauseTimeout:    "it ran longer than its time limit",
	sandbox.CauseUnattended: "nobody followed it for so long",
	sandbox.CauseStopping:   "the sandbox was closed",
}

// causeOf is the cause to tell. A signal that was sent and did not end the program is none.
func (c *command) causeOf(exit sandbox.Exit) sandbox.Cause {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == sandbox.CauseSignalled && exit.Code < 128 {
		return sandbox.CauseExited
	}
	return c.cause
}

// finish puts the end on record.
func (c *command) finish(exit sandbox.Exit) {
	kept := c.out.seal() + c.err.seal()
	exit.Ends = sandbox.Offsets{Stdout: c.out.length(), Stderr: c.err.length()}
	c.mu.Lock()
	c.exit = &exit
	c.mu.Unlock()
	close(c.over)
	c.bell.ring()
	c.ledger.settle(c.entry, nil, nil, kept+512)
}

// end lets the computer end the command, once: TERM, and KILL after the grace.
func (c *command) end(cause sandbox.Cause) {
	c.blame(cause)
	c.ending.Do(func() {
		c.ended.Store(true)
		grace := c.grace
		if cause == sandbox.CauseStopping {
			grace = 0
		} else {
			c.signalTree(syscall.SIGTERM)
		}
		timer := time.NewTimer(grace)
		go func() {
			defer timer.Stop()
			select {
			case <-c.over:
			case <-timer.C:
				c.signalTree(syscall.SIGKILL)
			}
		}()
	})
	if cause == sandbox.CauseStopping {
		c.signalTree(syscall.SIGKILL)
	}
}

// blame notes why the command will have ended; the computer's own reasons are stronger than a caller's.
func (c *command) blame(cause sandbox.Cause) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == sandbox.CauseExited || c.cause == sandbox.CauseSignalled && cause != sandbox.CauseExited {
		c.cause = cause
	}
}

func (c *command) signalTree(signal syscall.Signal) {
	if _, err := c.signal(signal, sandbox.Tree); err != nil {
		c.log.Error("a command was not signalled", "exec", c.id, "error", err)
	}
}

// signal sends a signal while the process lives.
func (c *command) signal(signal syscall.Signal, to sandbox.Target) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return false, nil
	}
	var err error
	switch to {
	case sandbox.Leader:
		err = c.process.Signal(signal)
	case sandbox.Group:
		err = syscall.Kill(-c.process.Pid, signal)
	case sandbox.Tree:
		err = killTree(c.process.Pid, signal)
	default:
		return false, fmt.Errorf("signal target %d: %w", to, syscall.EINVAL)
	}
	if isGone(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("signal a command: %w", err)
	}
	return true, nil
}

// result is how the command ended, nil while it runs.
func (c *command) result() *sandbox.Exit {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exit
}

// drop forgets the output.
func (c *command) drop() {
	c.out.drop()
	c.err.drop()
	c.bell.ring()
}

// shut lets go of whatever is left of an ended command: pipes that a process of its own session still holds.
func (c *command) shut() {
	<-c.over
	for _, p := range c.pumps {
		p.stop.Store(true)
		p.file.Close()
	}
	<-c.gone
}
