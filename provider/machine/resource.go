// Package machine is the resource and the data source flyfleet_machine.
//
// The decisions are pure and stand in files of their own: what a configuration means to Fly (tree.go), what the machine's
// configuration means to Terraform (project.go), what has to be written so that one becomes the other without touching
// anything else (changes.go), what a plan must refuse (plan.go), and what a create may adopt (adopt.go). The rest drives
// the framework and the Fly client.
package machine

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/flyfleet/terraform-provider-flyfleet/provider/account"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/claims"
)

const (
	defaultCreate = 5 * time.Minute
	defaultUpdate = 5 * time.Minute
	defaultDelete = 2 * time.Minute
)

// NewResource makes the resource.
func NewResource() resource.Resource { return &machineResource{} }

type machineResource struct {
	account *account.Account
}

// Metadata implements resource.Resource.
func (r *machineResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_machine"
}

// Schema implements resource.Resource.
func (r *machineResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = resourceSchema(ctx)
}

// Configure implements resource.ResourceWithConfigure.
func (r *machineResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	a, ok, diags := account.Of(req.ProviderData)
	resp.Diagnostics.Append(diags...)
	if ok {
		r.account = a
	}
}

func key(app, name string) claims.Key {
	return claims.Key{Kind: "machine", Name: fmt.Sprintf("%q in app %s", name, app)}
}
