package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/console"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/procs"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/signals"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/supervise"
)

const (
	// answerTimeout bounds the supervisor's answer to a command.
	answerTimeout = 15 * time.Second
	// drainTimeout bounds how long output is read after a command has ended.
	drainTimeout = 2 * time.Second
)

var errSuspended = errors.New("the machine is suspended")

// instance is a running machine.
type instance struct {
	layout  *layout
	workDir string
	cmd     *exec.Cmd

	// ask serializes commands to the supervisor, of which one is answered at a time.
	ask    sync.Mutex
	stdin  io.WriteCloser
	answer chan supervise.Event

	mu        sync.Mutex
	suspended bool
	requested bool
	// commands are the process groups of running Execs.
	commands map[int]bool

	done chan struct{}
	exit runner.Exit
	// life ends with the machine, and with it the commands that run in it.
	life context.Context
	end  context.CancelFunc
}

// Start boots a machine.
func (r *Runner) Start(ctx context.Context, spec runner.Spec) (runner.Instance, error) {
	root, err := r.unpacked(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", spec.ImageRef, err)
	}
	port, err := r.ports.take()
	if err != nil {
		return nil, fmt.Errorf("boot machine %s: %w", spec.MachineID, err)
	}
	l, err := newLayout(spec, root, port)
	if err != nil {
		r.ports.release(port)
		return nil, fmt.Errorf("boot machine %s: %w", spec.MachineID, err)
	}
	i, err := r.boot(ctx, spec, l)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("boot machine %s: %w", spec.MachineID, err), os.RemoveAll(l.run))
	}
	return i, nil
}

// boot starts the supervisor and, by it, the entrypoint. The machine's port is released when it is down.
func (r *Runner) boot(ctx context.Context, spec runner.Spec, l *layout) (*instance, error) {
	program, err := l.program(spec.Argv[0])
	if err != nil {
		r.ports.release(l.port)
		return nil, fmt.Errorf("find the entrypoint: %w", err)
	}
	i := &instance{layout: l, workDir: l.workDir(spec), answer: make(chan supervise.Event), done: make(chan struct{}), commands: map[int]bool{}}
	i.life, i.end = context.WithCancel(context.WithoutCancel(ctx))
	events, output, err := i.startSupervisor(supervise.Spec{
		Path: program, Argv: spec.Argv, Env: l.env, Dir: i.workDir, Remove: l.run,
	})
	if err != nil {
		i.end()
		r.ports.release(l.port)
		return nil, err
	}
	first := make(chan supervise.Event, 1)
	var helpers sync.WaitGroup
	helpers.Go(func() {
		if err := console.Save(output, spec.Dir); err != nil {
			r.cfg.Log.Warn("console", "machine", spec.MachineID, "error", err)
		}
	})
	go func() {
		i.watch(events, first, &helpers)
		r.ports.release(l.port)
	}()
	select {
	case e := <-first:
		if e.Error != "" {
			<-i.done
			return nil, errors.New(e.Error)
		}
		return i, nil
	case <-ctx.Done():
		_ = i.Kill() // it may be down by itself
		<-i.done
		return nil, context.Cause(ctx)
	}
}

// startSupervisor starts this program as the machine's supervisor and hands it the spec.
func (i *instance) startSupervisor(spec supervise.Spec) (events, output *os.File, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	var near, far []*os.File
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(append(near, far...))
			return nil, nil, err
		}
		near, far = append(near, r), append(far, w)
	}
	// The spec goes in, events and output come out.
	near[0], far[0] = far[0], near[0]
	i.cmd = &exec.Cmd{
		Path: self, Args: []string{supervise.Name}, Env: []string{"GOMAXPROCS=2", "PATH=" + os.Getenv("PATH")},
		Stdout: far[2], Stderr: far[2], ExtraFiles: far[:2],
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if i.stdin, err = i.cmd.StdinPipe(); err == nil {
		err = i.cmd.Start()
	}
	closeAll(far)
	if err == nil {
		err = json.NewEncoder(near[0]).Encode(spec)
		if err != nil {
			_ = i.cmd.Process.Kill()
			_ = i.cmd.Wait()
		}
	}
	near[0].Close()
	if err != nil {
		closeAll(near)
		return nil, nil, fmt.Errorf("start the machine's supervisor: %w", err)
	}
	return near[1], near[2], nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// watch reads the supervisor's events until it is gone. The first is the boot's.
func (i *instance) watch(events *os.File, first chan<- supervise.Event, helpers *sync.WaitGroup) {
	exit := runner.Exit{Code: 128 + int(syscall.SIGKILL), Signal: int(syscall.SIGKILL)}
	booted := false
	decoder := json.NewDecoder(events)
	for {
		var e supervise.Event
		if err := decoder.Decode(&e); err != nil {
			break
		}
		switch {
		case !booted:
			booted = true
			first <- e
		case e.Ended != nil:
			exit = runner.Exit{Code: e.Ended.Code, Signal: int(e.Ended.Signal)}
		case e.Did != "":
			select {
			case i.answer <- e:
			case <-time.After(answerTimeout):
			}
		}
	}
	exit.At = time.Now()
	i.end()
	_ = i.cmd.Wait() // how the machine ended was told by an event
	events.Close()
	helpers.Wait()
	i.mu.Lock()
	exit.Requested = i.requested
	i.exit = exit
	i.mu.Unlock()
	if !booted {
		first <- supervise.Event{Error: "the supervisor ended without a word"}
	}
	close(i.done)
}

// command sends one command and waits for its answer.
func (i *instance) command(c supervise.Command) error {
	i.ask.Lock()
	defer i.ask.Unlock()
	if err := i.send(c); err != nil {
		return err
	}
	select {
	case e := <-i.answer:
		if e.Error != "" {
			return errors.New(e.Error)
		}
		return nil
	case <-i.done:
		return runner.ErrDown
	case <-time.After(answerTimeout):
		return fmt.Errorf("the machine's supervisor does not answer %q", c.Do)
	}
}

func (i *instance) send(c supervise.Command) error {
	if i.down() {
		return runner.ErrDown
	}
	if err := json.NewEncoder(i.stdin).Encode(c); err != nil {
		return runner.ErrDown
	}
	return nil
}

func (i *instance) down() bool {
	select {
	case <-i.done:
		return true
	default:
		return false
	}
}

// Wait waits until the machine is down.
func (i *instance) Wait() runner.Exit {
	<-i.done
	return i.exit
}

// Kill ends every process.
func (i *instance) Kill() error {
	i.mu.Lock()
	i.requested = true
	i.mu.Unlock()
	return i.send(supervise.Command{Do: supervise.Kill})
}

// Stop ends the machine, kindly at first.
func (i *instance) Stop(ctx context.Context, signal string, timeout time.Duration) error {
	sig, err := signals.Parse(signal)
	if err != nil {
		return err
	}
	i.mu.Lock()
	i.requested = true
	suspended := i.suspended
	i.mu.Unlock()
	if !suspended && i.command(supervise.Command{Do: supervise.Signal, Signal: sig}) == nil {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		select {
		case <-i.done:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if err := i.Kill(); err != nil && !errors.Is(err, runner.ErrDown) {
		return err
	}
	select {
	case <-i.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Signal signals the entrypoint.
func (i *instance) Signal(signal string) error {
	sig, err := signals.Parse(signal)
	if err != nil {
		return err
	}
	return i.command(supervise.Command{Do: supervise.Signal, Signal: sig})
}

// Suspend stops every process of the machine.
func (i *instance) Suspend() error { return i.suspend(true, supervise.Freeze) }

// Resume lets them go on.
func (i *instance) Resume() error { return i.suspend(false, supervise.Thaw) }

func (i *instance) suspend(want bool, do supervise.Verb) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.down() {
		return runner.ErrDown
	}
	if i.suspended == want {
		return nil
	}
	if err := i.command(supervise.Command{Do: do}); err != nil {
		return err
	}
	sig := syscall.SIGCONT
	if want {
		sig = syscall.SIGSTOP
	}
	for group := range i.commands {
		_ = syscall.Kill(-group, sig) // it may have ended
	}
	i.suspended = want
	return nil
}

// refuse says why a call cannot be served now.
func (i *instance) refuse() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.down():
		return runner.ErrDown
	case i.suspended:
		return errSuspended
	}
	return nil
}

// Ps lists the machine's processes.
func (i *instance) Ps(context.Context) ([]runner.Process, error) {
	if err := i.refuse(); err != nil {
		return nil, err
	}
	list, err := i.processes()
	if err != nil {
		return nil, err
	}
	procs.AddSockets(list)
	var out []runner.Process
	for _, p := range list {
		row := runner.Process{
			PID: p.PID, Started: p.Started, CPUTime: p.CPUTime, Command: p.Command, Directory: p.Directory, RSS: p.RSS,
		}
		for _, s := range p.Listen {
			row.Listen = append(row.Listen, runner.ListenSocket{Proto: s.Proto, Address: s.Address})
		}
		out = append(out, row)
	}
	return out, nil
}

// processes lists what is below the supervisor, and the commands with what is below them.
func (i *instance) processes() ([]procs.Process, error) {
	all, err := procs.Descendants(os.Getpid())
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	// Parents come before their children.
	member := map[int]bool{i.cmd.Process.Pid: true}
	var out []procs.Process
	for _, p := range all {
		if i.commands[p.PID] || member[p.Parent] {
			member[p.PID] = true
			out = append(out, p)
		}
	}
	return out, nil
}

// Dial connects to the machine's translated port; on any other nothing listens.
func (i *instance) Dial(ctx context.Context, port int) (net.Conn, error) {
	if err := i.refuse(); err != nil {
		return nil, err
	}
	if port != machinePort {
		return nil, fmt.Errorf("port %d: the process runner translates port %d only: %w", port, machinePort, syscall.ECONNREFUSED)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(i.layout.port)))
}

var _ runner.Instance = (*instance)(nil)
