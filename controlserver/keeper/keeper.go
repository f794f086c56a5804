// Package keeper starts the processes of execs and says how they ended.
//
// It is the one place that forks and the one parent of every child, so that no process can start
// without a record and none can end without one. What it is told and what it answers are plain values
// (Order, Receipt, Ended) and file descriptors: the messages of a keeper that is a process of its own.
//
// The start of an exec is one transaction:
//
//	mkdir execs/<id>      the point of no return: from here on the id can never start again
//	write spec
//	fork
//	append "started"      or "failed", when no process could be made
//	answer with the read ends of its pipes
//
// and its end is: reap, append "ended", notify. A crash between any two steps leaves a directory
// without an end, which is read as Lost, never as leave to run it again.
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

// Keeper is what the server asks of it. Calls are safe for concurrent use.
type Keeper interface {
	// Epoch names this life of the keeper.
	Epoch() string
	// Start runs the transaction above. An error means that it stopped before the point of no return,
	// or that its outcome could not be recorded; a process that could not be made is no error but
	// Receipt.Failure.
	Start(Order) (Receipt, error)
	// Signal signals a process that Start made and that was not reaped yet.
	Signal(Shot) (Hit, error)
	// Sweep signals every process below the keeper, those that no exec owns any more too.
	Sweep(signal int) error
	// Close waits for no child; it ends the keeper's own goroutines.
	Close() error
}

// Order is what to start.
type Order struct {
	ID string
	// Record is stored as the exec's spec before the fork.
	Record []byte
	Argv   [][]byte
	// Env is the whole environment, "NAME=value" each.
	Env [][]byte
	// Dir is the absolute working directory.
	Dir string
	// User is who the process runs as; nil leaves the keeper's own.
	User *User
	// Stdin is the whole standard input; nil means /dev/null.
	Stdin []byte
	// Merge gives both streams one pipe.
	Merge bool
}

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
	// Stdout and Stderr are the read ends of the pipes, non-blocking; Stderr is nil with Merge. The
	// caller closes them.
	Stdout, Stderr *os.File
}

// Shot is a signal to send.
type Shot struct {
	ID     string
	Signal int
	Target wirev1.SignalTarget
	// Cause is recorded before the signal leaves, when it is set and none was recorded before.
	Cause wirev1.ExitCause
}

// Hit says what a signal reached.
type Hit struct {
	// Delivered is false when the process had been reaped.
	Delivered bool
	ReachedBy wirev1.TreeKill
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
