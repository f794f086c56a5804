package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/children"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/control"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/stage"
)

// maxConversations bounds the init's goroutines; the platform's calls beyond it wait their turn.
const maxConversations = 256

// guest is the init's state.
type guest struct {
	line  *control.Line
	procs *children.Table

	// frozen and stoppedBefore belong to freeze and thaw, under the table's lock.
	frozen        bool
	stoppedBefore map[int]bool

	mu      sync.Mutex
	started bool
	start   Start
	user    user
	main    *children.Child
	// ended is closed when the entrypoint has ended and the platform was told.
	ended chan struct{}
	// egress is what accepted connections wait in until the platform takes them.
	egress chan outgoing
}

// Run is the init's main; it returns when the machine is to go down.
func Run() int {
	if os.Getpid() != 1 {
		return 0 // the platform's probe runs it as an entrypoint: that it starts is all there is to see
	}
	syscall.CloseOnExec(stage.ControlFD)
	if err := giveUpMounting(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	line, err := control.FromFile(os.NewFile(stage.ControlFD, "control"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	g := &guest{line: line, procs: children.New(), ended: make(chan struct{}), egress: make(chan outgoing)}
	go g.procs.Reap()
	platformGone := make(chan struct{})
	go func() {
		g.serve()
		close(platformGone)
	}()
	select {
	case <-g.ended:
	case <-platformGone:
	}
	return 0
}

// giveUpMounting takes CAP_SYS_ADMIN out of reach of every process of the machine for good. bubblewrap has dropped it
// from the init's own sets and forbids new privileges; this closes the bounding set as well, and clears the ambient
// one, by which bubblewrap hands capabilities on.
func giveUpMounting() error {
	for _, args := range [][2]uintptr{
		{unix.PR_CAPBSET_DROP, unix.CAP_SYS_ADMIN},
		{unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL},
	} {
		_, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, args[0], args[1], 0, 0, 0, 0)
		// A build with cgo cannot do it on all threads; there bubblewrap's two measures hold alone.
		if errno != 0 && errno != syscall.ENOTSUP {
			return fmt.Errorf("give up capabilities: %w", errno)
		}
	}
	return nil
}

// serve takes conversations until the platform is gone.
func (g *guest) serve() {
	slots := make(chan struct{}, maxConversations)
	for {
		talk, err := g.line.Accept()
		if err != nil {
			return
		}
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			defer talk.Close()
			g.converse(talk)
		}()
	}
}

// converse serves one conversation. A failed Send means that the platform has lost interest or is gone.
func (g *guest) converse(talk *control.Conversation) {
	var req Request
	files, err := talk.Receive(&req)
	for _, f := range files {
		f.Close()
	}
	if err != nil {
		return
	}
	var reply Reply
	switch req.Op {
	case OpStart:
		g.serveStart(talk, req.Start)
		return
	case OpExec:
		g.serveExec(talk, req.Argv)
		return
	case OpEgress:
		g.serveEgress(talk)
		return
	case OpDial:
		g.serveDial(talk, req.Port)
		return
	case OpPs:
		reply.Processes, err = listProcesses()
	case OpSignal:
		err = g.signal(req.Signal)
	case OpFreeze:
		err = g.freeze()
	case OpThaw:
		err = g.thaw()
	default:
		err = fmt.Errorf("unknown operation %q", req.Op)
	}
	if err != nil {
		reply = failure(err)
	}
	_ = talk.Send(reply)
}

// sendEnd tells how a child that is done has ended; the platform may have gone.
func sendEnd(talk *control.Conversation, c *children.Child) {
	how := c.Ended()
	_ = talk.Send(Reply{Ended: &how})
}

func failure(err error) Reply {
	r := Reply{Error: err.Error()}
	errors.As(err, &r.Errno)
	return r
}

func (g *guest) signal(sig syscall.Signal) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.main == nil {
		return errors.New("the entrypoint has not been started")
	}
	return g.procs.Signal(g.main, sig)
}

// watchEnd calls end when the other side ends the conversation or its write half.
func watchEnd(talk *control.Conversation, end func()) {
	var ignored struct{}
	for {
		files, err := talk.Receive(&ignored)
		for _, f := range files {
			f.Close()
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
				fmt.Fprintln(os.Stderr, "control line:", err)
			}
			end()
			return
		}
	}
}
