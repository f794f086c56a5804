//go:build linux

// Package keeper starts the processes of execs, holds the pipes to them, and says how they ended.
//
// It is the one place that forks and the one parent of every child, so that no process can start
// without a record and none can end without one. It is a process of its own: small, without network,
// never restarted while the machine runs. The server beside it speaks to callers and moves bytes, and
// may die at any moment: the keeper starts another one and hands it every exec with all its pipes.
//
// The start of an exec is one transaction:
//
//	execs/<id>            made, or renamed from stock: the point of no return: from here on the id can never start again
//	append "spec"         what was asked
//	fork
//	append "started"      or "failed", when no process could be made
//	answer with our ends of its pipes, of which the keeper keeps copies
//
// and its end is: reap, append "ended", notify. A crash between any two steps leaves a directory
// without an end, which is read as Lost, never as leave to run it again.
//
// Core does the work, Remote is the server's end of the socket to it, and Supervise keeps a server alive.
package keeper

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Keeper is what a server asks of it. Calls are safe for concurrent use.
type Keeper interface {
	// Epoch names this life of the keeper.
	Epoch() string
	// TreeKill says how all processes of an exec can be reached here.
	TreeKill() wirev1.TreeKill
	// Start runs the transaction above. An error means that it stopped before the point of no return,
	// or that its outcome could not be recorded; a process that could not be made is no error but
	// Receipt.Failure. The caller closes the Receipt's files.
	Start(Order) (Receipt, error)
	// Signal signals a process that Start made and that was not reaped yet.
	Signal(Shot) (Hit, error)
	// CloseStdin gives the keeper's copies of an exec's stdin up, so that closing the caller's ends it.
	CloseStdin(id string) error
	// Release gives the keeper's copies of an ended exec's files up: all bytes are in the spool.
	Release(id string) error
	// Sweep signals every process below the keeper that is not the server.
	Sweep(signal int) error
}

// Order is what to start.
type Order struct {
	ID string
	// Record is put on the exec's record before the fork.
	Record []byte
	Argv   [][]byte
	// Env is the whole environment, "NAME=value" each.
	Env [][]byte
	// Dir is the absolute working directory.
	Dir string
	// User is who the process runs as; nil leaves the keeper's own.
	User  *User
	Stdin StdinKind
	// Content is the whole standard input, with StdinContent.
	Content []byte
	// Merge gives both streams one pipe.
	Merge bool
	// Terminal makes all three streams a new terminal of that size, and its output one stream.
	Terminal *Size
}

// StdinKind is what an exec reads.
type StdinKind uint32

// Kinds of stdin. With a terminal, StdinNull means that nobody types.
const (
	StdinNull StdinKind = iota
	StdinContent
	StdinPipe
)

// Size is a terminal's.
type Size struct{ Cols, Rows uint32 }

// User is a numeric identity.
type User struct {
	UID, GID uint32
	Groups   []uint32
}

// Receipt is what a start came to: exactly one of Existed, Failure and PID is set.
type Receipt struct {
	// Existed: the id was taken before; nothing was done.
	Existed bool
	Failure *spool.Failure
	PID     int
	// StartedAt is in Unix milliseconds, also with Failure.
	StartedAt int64
	// Volatile: the volume was full, so the exec is kept beside it.
	Volatile bool
	Files    Files
}

// Live is an exec that has a process, or that a server has not released yet.
type Live struct {
	ID        string
	PID       int
	StartedAt int64
	Files     Files
	// Ended is set when the process was reaped.
	Ended *Ended
}

// Shot is a signal to send.
type Shot struct {
	ID     string
	Signal int
	Target wirev1.SignalTarget
	// Cause is recorded before the signal leaves, unless a stronger one was (spool.StrongerCause).
	Cause wirev1.ExitCause
}

// Hit says what a signal reached.
type Hit struct {
	// Delivered is false when the process had been reaped.
	Delivered bool
	ReachedBy wirev1.TreeKill
	// MayHaveEscaped: no cgroup held the tree, and somebody's orphans run.
	MayHaveEscaped bool
}

// Ended is how the process of an exec ended.
type Ended struct {
	ID string
	spool.Ended
	Cause wirev1.ExitCause
}

// newEpoch hashes the kernel's boot id with random bytes: under containers many machines share a boot
// id, which alone would never change.
func newEpoch() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read the kernel's boot id: %w", err)
	}
	seed := make([]byte, 16)
	if _, err := rand.Read(seed); err != nil {
		return "", fmt.Errorf("make an epoch: %w", err)
	}
	sum := sha256.Sum256(append([]byte(strings.TrimSpace(string(boot))+"\n"), seed...))
	return base64.RawURLEncoding.EncodeToString(sum[:16]), nil
}
