// Package account is the configured provider as the resources see it: one Fly account, its client, what it holds, and
// the defaults of the fleet.
package account

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/inventory"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/swap"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/claims"
)

// Account is made once per provider process and shared by its resources; it is safe for concurrent use.
type Account struct {
	// ID tells this configured provider from others: Terraform configures one for each of its walks.
	ID string
	// Fly is the client, nil while the provider's own configuration is not known (see Ready).
	Fly *flyapi.Client
	// Inventory is what the organization holds.
	Inventory *inventory.Inventory
	// Claims says which resource of the plan stands for which object.
	Claims *claims.Registry
	// Swap changes machines; its breaker counts over all of them.
	Swap *swap.Engine
	// Defaults are the fleet's.
	Defaults Defaults
	// missing says why Fly is nil.
	missing error
}

// Defaults are what resources use where they say nothing.
type Defaults struct {
	// FailIncomplete turns the warning of an unfinished create into an error, where nothing precious is lost.
	FailIncomplete bool
	// Busy is "wait" or "interrupt".
	Busy string
	// Drain is how long "wait" waits.
	Drain time.Duration
}

// New makes the account of a client. It makes no call.
// hello is the wire gate of swaps, nil where no transport and key are configured.
func New(client *flyapi.Client, defaults Defaults, hello func(ctx context.Context, app, machine string) error) *Account {
	return &Account{
		ID: rand.Text(), Fly: client, Inventory: inventory.New(client), Claims: claims.New(),
		Swap: swap.New(client, swap.Options{Poll: time.Second, Hello: hello}), Defaults: defaults,
	}
}

// Unknown is the account of a provider whose configuration depends on something that does not exist yet. Plans of new
// resources work with it; what needs Fly says why it cannot.
func Unknown(attribute string, defaults Defaults) *Account {
	return &Account{
		ID: rand.Text(), Claims: claims.New(), Defaults: defaults,
		missing: fmt.Errorf("the provider's %s is not known yet, because it depends on a resource that does not exist; "+
			"create that one first with `terraform apply -target=…`, or set it from the environment", attribute),
	}
}

// Ready is an error diagnostic while the account cannot be asked.
func (a *Account) Ready() diag.Diagnostics {
	if a != nil && a.Fly != nil {
		return nil
	}
	err := errors.New("the provider was not configured")
	if a != nil && a.missing != nil {
		err = a.missing
	}
	return diag.Diagnostics{diag.NewErrorDiagnostic("Fly cannot be asked", err.Error()+".")}
}

// Of reads the account from a resource's or data source's configure request. Terraform configures resources without one
// when it only validates; then ok is false.
func Of(providerData any) (a *Account, ok bool, diags diag.Diagnostics) {
	if providerData == nil {
		return nil, false, nil
	}
	a, ok = providerData.(*Account)
	if !ok {
		diags.AddError("Provider data of a foreign type", fmt.Sprintf("got %T; this is a fault of the provider, please report it.", providerData))
	}
	return a, ok, diags
}
