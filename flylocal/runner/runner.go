// Package runner is the seam between the local Fly platform and what makes a machine real. The platform owns
// names, states, versions, leases and policy; a runner owns processes. Implementations live in the folders beside
// this file: none (no processes at all), namespace (Linux, isolated) and process (no isolation).
//
// A runner is told everything it needs in a Spec and asks nothing back. It makes no decision about a machine: it
// does not restart, does not destroy, does not change state on its own.
package runner

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Config is what every runner is made from. Each implementation exports
// `New(ctx context.Context, cfg Config) (Runner, error)`; an error says why this computer cannot run it, in words a
// person can act on, and lets "auto" try the next one.
type Config struct {
	// StateDir is the platform's state directory, absolute. A runner may keep files in StateDir/runner.
	StateDir string
	// CacheDir is shared by all machines and survives restarts: unpacked image roots live here, keyed by digest.
	// The runner owns its content and must make concurrent Starts of one image safe.
	CacheDir string
	// HostTools lends the host's shell and tools, read-only, to images that have none.
	HostTools bool
	// Egress is what machines may reach outside their networks: nothing, unless named here. A runner whose machines are on the
	// host's network does not look at it.
	Egress []Egress
	// Log takes one line an event; never nil.
	Log *slog.Logger
}

// Egress lets machines reach one address of the host's network, and nothing else.
type Egress struct {
	// Inside is where machines connect, as "address:port"; an address of 127.0.0.0/8, ::1, or an fdaa: address that
	// is not the machine's own.
	Inside string
	// Outside is where the platform connects for them, as "host:port".
	Outside string
}

// Runner starts machines. All methods are safe for concurrent use.
type Runner interface {
	// Name is "namespace", "process" or "none".
	Name() string
	// Level is the name plus how much isolation this computer gives, such as "namespace/mapped".
	Level() string
	// Start boots a machine and returns once its entrypoint has been started. An error means that the machine
	// cannot boot: nothing of it runs and Dir may be reused by the next Start. ctx bounds the boot only, never the
	// life of the instance.
	Start(ctx context.Context, spec Spec) (Instance, error)
	// Cleanup removes a destroyed machine's directory, whatever user ids own the files in it. A directory that is
	// already gone is no error. It is never called while an instance of that machine runs.
	Cleanup(ctx context.Context, dir string) error
	// RemoveVolume removes a destroyed volume's directory in the same way.
	RemoveVolume(ctx context.Context, dir string) error
	// Close ends what the runner itself keeps (helpers, mounts). Instances must be down before.
	Close() error
}

// Spec is one boot of one machine: resolved and immutable. The runner must not keep or change its maps and slices.
type Spec struct {
	App, MachineID, InstanceID string
	// Network is the name of the app's private network; machines of different networks never reach each other.
	Network string
	Region  string
	// PrivateIP is the machine's 6PN address (fdaa:…), to be configured inside the machine.
	PrivateIP netip.Addr
	// MemoryMB is the guest's memory. Runners may enforce it; none promises to.
	MemoryMB int

	// Dir is the machine's own state directory, absolute, mode 0700, kept between boots and removed by Cleanup.
	// The runner keeps its sockets and writable root below it and appends the console to Dir/console.log.
	Dir string
	// Fresh says that the root file system starts from the image again, as after a stop or an update. When false
	// (a restart after the process crashed) the runner may keep what the last boot wrote. Starting fresh is always right.
	Fresh bool

	// ImageRef is the reference as the API shows it (registry/repository[:tag]@digest), for messages.
	ImageRef string
	// ImageDigest is the manifest's digest, "sha256:…": the key of a cached root.
	ImageDigest string
	// Image is the pulled image, for this computer's platform; layers are read lazily and verified by digest as
	// they are read. It is nil only for a runner named "none".
	Image v1.Image

	// Argv is entrypoint and arguments, after the image's and the machine's overrides; never empty.
	Argv []string
	// Env is the whole environment, "NAME=value", no name twice: the image's, Fly's own FLY_*, secrets, the
	// machine's. Values may be secrets: never on a command line, never in a log.
	Env []string
	// User is the image's USER, as written ("", "1000", "app", "1000:1000"); "" is root.
	User string
	// WorkDir is the image's WORKDIR; "" is "/".
	WorkDir string
	// Mounts are the machine's volumes, in order.
	Mounts []Mount
	// Files are written into the root before the entrypoint starts.
	Files []File
}

// Mount binds a volume's directory on the host to a path inside the machine.
type Mount struct {
	// VolumeID names the volume in messages.
	VolumeID string
	// VolumeDir is the absolute path on the host of the directory that is the volume's root.
	VolumeDir string
	// Path is absolute, inside the machine; the runner makes it when the image lacks it.
	Path string
}

// File is one `files[]` entry of a machine config, resolved to bytes.
type File struct {
	// Path is absolute, inside the machine. Parents are made.
	Path    string
	Content []byte
	Mode    fs.FileMode
}

// Instance is one running boot of a machine. All methods are safe for concurrent use; after the machine is down
// they answer ErrDown.
type Instance interface {
	// Wait blocks until every process of the machine is gone and tells how the entrypoint ended. It may be called
	// many times and by many goroutines, and answers the same each time.
	Wait() Exit
	// Stop sends signal (a name such as "SIGTERM") to the entrypoint, waits up to timeout for the machine to go
	// down, then kills all of it. It returns when the machine is down or ctx is done; in the latter case the kill
	// still happens. A suspended machine is killed at once.
	Stop(ctx context.Context, signal string, timeout time.Duration) error
	// Kill ends every process at once; Wait reports it.
	Kill() error
	// Signal sends a signal by name to the entrypoint.
	Signal(signal string) error
	// Suspend freezes every process (SIGSTOP); Resume lets them go on. Both are idempotent.
	Suspend() error
	Resume() error
	// Exec runs a command inside the machine as root and waits for it. An exit code is a result, not an error.
	Exec(ctx context.Context, req ExecRequest) (ExecResult, error)
	// Ps lists the machine's processes.
	Ps(ctx context.Context) ([]Process, error)
	// Dial connects to a TCP port inside the machine, at any address on which the machine listens. A port without
	// a listener is an error at once (connection refused), never a wait. A runner without processes answers
	// ErrNoProcess.
	Dial(ctx context.Context, port int) (net.Conn, error)
}

// ErrDown is answered by every method of an Instance whose machine is down.
var ErrDown = errors.New("the machine is not running")

// ErrNoProcess is answered where an instance has no process behind it (runner "none").
var ErrNoProcess = errors.New("this runner starts no processes")

// Exit tells how a machine went down.
type Exit struct {
	// Code is the entrypoint's exit code, or 128 + signal when a signal ended it.
	Code int
	// Signal is the number of the signal that ended the entrypoint, 0 when it exited by itself.
	Signal int
	// OOMKilled says that the kernel ended it for memory.
	OOMKilled bool
	// Requested says that Stop or Kill was called before the machine went down.
	Requested bool
	// At is when it went down.
	At time.Time
}

// MaxExecOutput bounds stdout and stderr of an Exec, in bytes each; the rest is dropped.
const MaxExecOutput = 1 << 20

// ExecRequest is one command for Instance.Exec.
type ExecRequest struct {
	// Argv is the command, looked up in the machine's PATH; never empty.
	Argv []string
	// Stdin is given whole, then closed.
	Stdin []byte
	// Timeout ends the command; zero means that only ctx does. A command ended by it answers ExecResult with
	// TimedOut set.
	Timeout time.Duration
}

// ExecResult is what a command left.
type ExecResult struct {
	// Code is the exit code, 128 + signal for a signalled one.
	Code int
	// Signal is the number of the signal that ended it, or 0.
	Signal   int
	Stdout   []byte
	Stderr   []byte
	TimedOut bool
}

// Process is one row of `GET …/ps`; field meanings are those of Fly's answer.
type Process struct {
	PID int
	// Started is how long ago it started; CPUTime what it used.
	Started, CPUTime time.Duration
	Command          string
	Directory        string
	// RSS is in bytes.
	RSS int64
	// Listen holds the sockets on which it listens.
	Listen []ListenSocket
}

// ListenSocket is one listening socket.
type ListenSocket struct {
	// Proto is "tcp" or "udp", Address "host:port".
	Proto, Address string
}
