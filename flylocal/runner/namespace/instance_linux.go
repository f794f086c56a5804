package namespace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/console"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/control"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/guest"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/signals"
)

// callTimeout bounds the init's answers to calls that it serves at once.
const callTimeout = 15 * time.Second

var errSuspended = errors.New("the machine is suspended")

// instance is a running machine.
type instance struct {
	child *child
	// init is the pidfd of the machine's PID 1; initMu keeps its number from being closed, and given to another
	// machine's, under a signal.
	init   *os.File
	initMu sync.Mutex

	mu        sync.Mutex
	suspended bool
	requested bool

	// done is closed after exit was set.
	done chan struct{}
	exit runner.Exit
}

// newInstance takes over a machine that has been started; what it starts lives as long as the machine.
func newInstance(r *Runner, spec runner.Spec, c *child, talk *control.Conversation, output, init *os.File) *instance {
	i := &instance{child: c, init: init, done: make(chan struct{})}
	var helpers sync.WaitGroup
	helpers.Go(func() {
		if err := console.Save(output, spec.Dir); err != nil {
			r.cfg.Log.Warn("console", "machine", spec.MachineID, "error", err)
		}
	})
	if len(r.cfg.Egress) > 0 {
		helpers.Go(func() { i.serveEgress(r.cfg.Egress, r.cfg.Log) })
	}
	go i.watch(talk, &helpers)
	return i
}

// watch waits for the machine's end: the init's word, then the end of every process, then of all that this side keeps
// for it.
func (i *instance) watch(talk *control.Conversation, helpers *sync.WaitGroup) {
	var reply guest.Reply
	// A machine that was killed says nothing.
	exit := runner.Exit{Code: 128 + int(syscall.SIGKILL), Signal: int(syscall.SIGKILL)}
	if _, err := talk.Receive(&reply); err == nil && reply.Ended != nil {
		exit = runner.Exit{Code: reply.Ended.Code, Signal: int(reply.Ended.Signal)}
	}
	exit.At = time.Now()
	talk.Close()
	// The pidfd of PID 1 becomes readable when it is gone, and the kernel lets it go last.
	awaitEnd(i.init)
	<-i.child.ended
	i.child.line.Close()
	helpers.Wait()
	i.mu.Lock()
	exit.Requested = i.requested
	i.exit = exit
	i.mu.Unlock()
	i.initMu.Lock()
	i.init.Close()
	i.initMu.Unlock()
	close(i.done)
}

func awaitEnd(pidfd *os.File) {
	poll := []unix.PollFd{{Fd: int32(pidfd.Fd()), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(poll, -1)
		if n > 0 || (err != nil && !errors.Is(err, unix.EINTR)) {
			return
		}
	}
}

// Wait waits until the machine is down.
func (i *instance) Wait() runner.Exit {
	<-i.done
	return i.exit
}

func (i *instance) down() bool {
	select {
	case <-i.done:
		return true
	default:
		return false
	}
}

// Kill ends every process.
func (i *instance) Kill() error {
	i.mu.Lock()
	i.requested = true
	i.mu.Unlock()
	return i.signalInit(unix.SIGKILL)
}

func (i *instance) signalInit(sig unix.Signal) error {
	i.initMu.Lock()
	defer i.initMu.Unlock()
	if i.down() {
		return runner.ErrDown
	}
	err := unix.PidfdSendSignal(int(i.init.Fd()), sig, nil, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EBADF) {
		return runner.ErrDown
	}
	return err
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
	if !suspended {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		_, err := i.call(ctx, guest.Request{Op: guest.OpSignal, Signal: sig})
		if err == nil {
			select {
			case <-i.done:
			case <-ctx.Done():
			}
		}
		cancel()
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
	_, err = i.call(context.Background(), guest.Request{Op: guest.OpSignal, Signal: sig})
	return err
}

// Suspend freezes the machine: the init stops all others at once, then is stopped itself.
func (i *instance) Suspend() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.suspended {
		return nil
	}
	if _, err := i.callLocked(context.Background(), guest.Request{Op: guest.OpFreeze}); err != nil {
		return err
	}
	if err := i.signalInit(unix.SIGSTOP); err != nil {
		return err
	}
	i.suspended = true
	return nil
}

// Resume lets a suspended machine go on.
func (i *instance) Resume() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.suspended {
		if i.down() {
			return runner.ErrDown
		}
		return nil
	}
	if err := i.signalInit(unix.SIGCONT); err != nil {
		return err
	}
	if _, err := i.callLocked(context.Background(), guest.Request{Op: guest.OpThaw}); err != nil {
		return err
	}
	i.suspended = false
	return nil
}

// Ps lists the machine's processes.
func (i *instance) Ps(ctx context.Context) ([]runner.Process, error) {
	reply, err := i.call(ctx, guest.Request{Op: guest.OpPs})
	if err != nil {
		return nil, err
	}
	var out []runner.Process
	for _, p := range reply.Processes {
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

// Dial connects into the machine. The connection is the machine's own socket.
func (i *instance) Dial(ctx context.Context, port int) (net.Conn, error) {
	if port < 1 || port > 65535 {
		return nil, fmt.Errorf("port %d does not exist", port)
	}
	_, files, err := i.converse(ctx, guest.Request{Op: guest.OpDial, Port: port})
	if err != nil {
		return nil, err
	}
	defer closeAll(files)
	if len(files) != 1 {
		return nil, fmt.Errorf("the init sent %d sockets", len(files))
	}
	return net.FileConn(files[0])
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// call makes a call that brings no files.
func (i *instance) call(ctx context.Context, req guest.Request) (guest.Reply, error) {
	reply, files, err := i.converse(ctx, req)
	closeAll(files)
	return reply, err
}

func (i *instance) callLocked(ctx context.Context, req guest.Request) (guest.Reply, error) {
	reply, files, err := i.exchange(ctx, req)
	closeAll(files)
	return reply, err
}

// converse makes a call unless the machine is suspended, when nobody would answer.
func (i *instance) converse(ctx context.Context, req guest.Request) (guest.Reply, []*os.File, error) {
	i.mu.Lock()
	suspended := i.suspended
	i.mu.Unlock()
	if suspended && !i.down() {
		return guest.Reply{}, nil, errSuspended
	}
	return i.exchange(ctx, req)
}

func (i *instance) exchange(ctx context.Context, req guest.Request) (guest.Reply, []*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	talk, err := i.open(req)
	if err != nil {
		return guest.Reply{}, nil, err
	}
	defer talk.Close()
	defer bound(ctx, talk)()
	return i.receive(ctx, talk)
}

// open begins a conversation with the init.
func (i *instance) open(req guest.Request) (*control.Conversation, error) {
	if i.down() {
		return nil, runner.ErrDown
	}
	talk, err := i.child.line.Open()
	if err != nil {
		return nil, i.gone(err)
	}
	if err := talk.Send(req); err != nil {
		talk.Close()
		return nil, i.gone(err)
	}
	return talk, nil
}

// receive reads one reply; its error becomes the call's.
func (i *instance) receive(ctx context.Context, talk *control.Conversation) (guest.Reply, []*os.File, error) {
	var reply guest.Reply
	files, err := talk.Receive(&reply)
	if err != nil {
		if ctx.Err() != nil {
			return reply, nil, context.Cause(ctx)
		}
		return reply, nil, i.gone(err)
	}
	if reply.Error != "" {
		closeAll(files)
		if reply.Errno != 0 {
			return reply, nil, fmt.Errorf("%s (%w)", reply.Error, reply.Errno)
		}
		return reply, nil, errors.New(reply.Error)
	}
	return reply, files, nil
}

// gone tells a machine that has gone down from a line that broke for another reason.
func (i *instance) gone(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed) {
		return runner.ErrDown
	}
	return err
}

var _ runner.Instance = (*instance)(nil)
