package guest

import (
	"io/fs"
	"net/netip"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/children"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/procs"
)

// Op is what a conversation is about.
type Op string

// The operations. OpStart comes first and once; its conversation stays open until the entrypoint has ended.
const (
	// OpStart answers a Reply with PID and, beside it, the pipe of the console and a pidfd of the init; later a
	// second Reply with Ended.
	OpStart Op = "start"
	// OpDial answers with the connected socket beside the Reply.
	OpDial Op = "dial"
	// OpExec answers with the command's stdin, stdout and stderr pipes beside the Reply; later a second Reply with
	// Ended. Ending the conversation, or its write half, kills the command.
	OpExec Op = "exec"
	OpPs   Op = "ps"
	// OpSignal signals the entrypoint.
	OpSignal Op = "signal"
	// OpFreeze stops every process but the init, OpThaw lets those go on that OpFreeze stopped.
	OpFreeze Op = "freeze"
	OpThaw   Op = "thaw"
	// OpEgress hands connections out: a Reply with Egress and the accepted socket beside it, one for each.
	OpEgress Op = "egress"
)

// Request begins a conversation.
type Request struct {
	Op     Op
	Start  *Start         `json:",omitempty"`
	Port   int            `json:",omitempty"`
	Argv   []string       `json:",omitempty"`
	Signal syscall.Signal `json:",omitempty"`
}

// Reply answers.
type Reply struct {
	// Error is empty when all went well; Errno is its number when it came from the kernel.
	Error string        `json:",omitempty"`
	Errno syscall.Errno `json:",omitempty"`
	PID   int           `json:",omitempty"`
	// Ended tells how the entrypoint or the command ended.
	Ended     *children.Ended `json:",omitempty"`
	Processes []procs.Process `json:",omitempty"`
	// Egress is the index into Start.Egress.
	Egress int `json:",omitempty"`
}

// Start is everything the init needs.
type Start struct {
	Argv, Env     []string
	User, WorkDir string
	// Owners says that the namespace has ids besides root's, so that User can be applied.
	Owners bool
	// Hostname is the machine's id, App its app, for /etc/hosts.
	Hostname, App string
	PrivateIP     netip.Addr
	Files         []File
	// Egress are the addresses inside, host:port, on which connections to the outside are taken.
	Egress []string `json:",omitempty"`
}

// File is written before the entrypoint starts.
type File struct {
	Path    string
	Content []byte
	Mode    fs.FileMode
}
