package sandbox

import (
	"context"
	"time"
)

// Commands runs programs. The end of a command is the end of its program: what it left running in the background is waited for no
// longer than it writes without a pause, a second at most, and is not ended by it. A Command that no computer could run (no program, a NUL byte in
// a string, an environment line that is not NAME=value, a negative limit, an ID that is no UUIDv7) is an error that wraps EINVAL.
type Commands interface {
	// Exec runs a command to its end and collects its output. An exit code is a result, never an error;
	// so is a program that cannot be started (126, 127), a missing working directory (125) and a death by
	// signal n (128 + n). When ctx ends, the command's process group is sent TERM, and KILL after
	// TermGrace; the error is then the context's cause, beside what is known of the result.
	Exec(ctx context.Context, command Command) (Result, error)
	// Start returns once the command has a process, or is known never to get one: Follow then ends at
	// once with 125 to 127. The end of ctx after that does not touch the command. Started again under the
	// same ID with the same Command, it returns the command that runs or has run; with another Command,
	// ErrConflict.
	Start(ctx context.Context, command Command) (Process, error)
	// Attach finds a command that Start or Exec started, also one that has ended, until it is forgotten;
	// an unknown id is ErrUnknown. It never starts anything.
	Attach(ctx context.Context, id string) (Process, error)
	// Forbid makes an id one that never starts. It reports whether that is so; false means that it had
	// started already.
	Forbid(ctx context.Context, id string) (bool, error)
}

// Command is what runs. The zero value of each field but Argv is a good default.
type Command struct {
	// ID is a UUIDv7; empty makes a fresh one.
	ID string
	// IfEpoch is the epoch that was recorded with the intent to run: when the computer has another one and
	// does not know ID, the command is Lost and not started. Empty: do not compare.
	IfEpoch string
	// Argv is the program and its arguments, without a shell. A program without a slash is looked up in
	// the PATH of the computer.
	Argv []string
	// Dir is the working directory; empty is the sandbox's Dir.
	Dir string
	// Env adds to the clean environment of the computer: NAME=value.
	Env []string
	// SecretEnv is Env that is kept nowhere: not in records, not in the digest that tells one command
	// from another.
	SecretEnv []string
	// Stdin is all of the command's input; nil is /dev/null.
	Stdin []byte
	// Interactive opens stdin for Process.Write. Stdin must be nil.
	Interactive bool
	// Terminal gives the command a terminal of this size; both outputs are then stdout.
	Terminal *Size
	// MergeStderr puts stderr into stdout, in exact order.
	MergeStderr bool
	// Timeout is a limit on running time, kept by the computer: time suspended or on hold does not count. 0: none.
	Timeout time.Duration
	// Unattended ends the command when nobody followed it for so long. 0: never.
	Unattended time.Duration
	// TermGrace is the time between TERM and KILL; 0 is 5 s.
	TermGrace time.Duration
	// MaxOutput is how much of each stream is kept at least, the newest bytes; 0 is the backend's default. For Exec it
	// limits what is collected in memory, the oldest bytes: then 0 is 16 MiB.
	MaxOutput int64
}

// Size is a terminal's.
type Size struct{ Cols, Rows int }

// Result is the collected end of a command.
type Result struct {
	Exit
	// Stdout and Stderr are the first bytes of each stream, up to MaxOutput; Exit.Ends tell all there was.
	Stdout, Stderr []byte
}

// Truncated reports whether output is missing from the result.
func (r Result) Truncated() bool {
	return int64(len(r.Stdout)) < r.Ends.Stdout || int64(len(r.Stderr)) < r.Ends.Stderr
}

// Exit is how a command ended.
type Exit struct {
	// ID names the command, for Attach.
	ID string
	// Code is the exit status; 128 + Signal when a signal ended it.
	Code   int
	Signal int
	Cause  Cause
	// Message is a person's text where Cause is not CauseExited. It holds no argument and no content.
	Message string
	// Ends is how many bytes each stream had.
	Ends Offsets
}

// Cause says why a command ended.
type Cause string

// The causes. A backend invents no other.
const (
	CauseExited      Cause = "exited"          // by itself, or by a signal from elsewhere
	CauseSignalled   Cause = "signalled"       // by Process.Signal, or the end of Exec's ctx
	CauseTimeout     Cause = "timeout"         // Command.Timeout
	CauseUnattended  Cause = "unattended"      // Command.Unattended
	CauseStopping    Cause = "stopping"        // the computer went down
	CauseStartFailed Cause = "start_failed"    // no process: Code is 125, 126 or 127
	CauseMemory      Cause = "out_of_memory"   // ended by the kernel
	CauseOutput      Cause = "output_limit"    // a limit on output that kills
	CauseStdin       Cause = "stdin_incorrect" // its input did not arrive whole
)

// Stream is one of a command's two outputs.
type Stream int

// The streams, numbered as a process numbers them.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// Offsets count bytes of both streams from their beginnings.
type Offsets struct{ Stdout, Stderr int64 }

// Output is a piece of one stream. Within a stream, pieces come in order and without overlap.
type Output struct {
	Stream Stream
	// Offset of the first byte.
	Offset int64
	// Data is the receiver's to read until it returns. Text is not cut inside a UTF-8 sequence.
	Data []byte
	// Missing is how many bytes from Offset on are kept nowhere; Data is then empty.
	Missing int64
}

// Process is a command that was started. It holds nothing: dropping it leaves the command alone.
type Process interface {
	ID() string
	// Epoch is the life of the computer that it runs in.
	Epoch() string
	// Follow hands over all output from the offsets on, as it comes, and returns how the command ended once
	// all of it was handed over. A broken connection is repaired on the way. An error of take ends Follow
	// with it. The end of ctx ends Follow with its cause; neither touches the command. A taker that waits
	// holds up this Follow alone. A command whose end can never be known is a *LostError; what it had
	// written until then is handed over before.
	Follow(ctx context.Context, from Offsets, take func(Output) error) (Exit, error)
	// Write sends stdin from an offset on: bytes that arrived before are not sent again to the command. eof
	// closes it.
	Write(ctx context.Context, offset int64, data []byte, eof bool) error
	// Signal signals the process group, or all descendants. It reports whether the command still ran.
	Signal(ctx context.Context, signal int, target Target) (bool, error)
	// Resize sets the size of its terminal.
	Resize(ctx context.Context, size Size) error
	// Hold stops the count of Command.Timeout for so long, under a key; 0 ends that hold.
	Hold(ctx context.Context, key string, d time.Duration) error
	// Forget drops the output of a command that ended. Its exit stays known for a day.
	Forget(ctx context.Context) error
}

// Target is whom a signal reaches.
type Target int

// The targets.
const (
	Leader Target = iota // the program itself
	Group                // its process group
	Tree                 // all that it started, as far as the computer can tell
)
