package driver

import (
	"context"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// Machines says which machine a session works on. Its methods may be called from many goroutines.
type Machines interface {
	// Open gives the place that the session has, or gets one for it; it may take as long as a machine takes to start. A
	// session that has a slot stays on that slot's machine. An *sandbox.UnavailableError is waited for and asked
	// again. Any other error is told to the model for a call that has no command yet; with one it is waited for.
	//
	// One call at a time for a claim: at the first use, and again when the place could not be reached or had no slot; every
	// place is closed before the claim ends.
	Open(ctx context.Context, claim store.Claim) (Place, error)
}

// Place is where a session's commands run and its files are.
type Place struct {
	// Box is the machine as the session sees it. Its scope is the session's and its fence the claim's, so that the
	// machine refuses an owner whose time is over.
	Box sandbox.Sandbox
	// Machine names it in the journal and in rows. A command that was started on a machine of another name is lost.
	Machine string
	// Slot is claimed in the transaction that starts a command; nil where machines have no slots.
	Slot *store.Slot
	// Close drops connections. It leaves commands and the slot alone. May be nil.
	Close func()
}
