package machine

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
)

// recordKey names the record in Terraform's private state, which is stored with the state and shown in no plan.
const recordKey = "machine"

// record is what the provider remembers of a machine beside its attributes.
type record struct {
	// InstanceID is the machine's version when state was last known to be true. A list row with the same one needs no GET.
	InstanceID string `json:"instance_id,omitempty"`
	// State is the machine's state when it was last read.
	State string `json:"state,omitempty"`
	// Owner is flyfleet_image_owner as it was last read.
	Owner string `json:"owner,omitempty"`
	// Open is the step of a create that was not finished.
	Open *openStep `json:"open,omitempty"`
	// Seen are the paths whose values came by import and that the configuration has never declared. They are released,
	// never deleted.
	Seen []string `json:"seen,omitempty"`
}

// openStep is a create's unfinished business.
type openStep struct {
	// InstanceID is the version whose outcome is open.
	InstanceID string `json:"instance_id"`
	// Image is what must run for the create to be finished.
	Image string `json:"image"`
	// Why says what was not reached.
	Why string `json:"why"`
}

func (r record) seen(path string) bool { return slices.Contains(r.Seen, path) }

// privateReader and privateWriter are the two halves of the framework's private state.
type privateReader interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
}

type privateWriter interface {
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

func readRecord(ctx context.Context, from privateReader) (record, diag.Diagnostics) {
	var r record
	raw, diags := from.GetKey(ctx, recordKey)
	if diags.HasError() || len(raw) == 0 {
		return r, diags
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		// Losing the record costs a GET; it is not worth stopping for.
		return record{}, diags
	}
	return r, diags
}

func writeRecord(ctx context.Context, to privateWriter, r record) diag.Diagnostics {
	raw, err := json.Marshal(r)
	if err != nil {
		return diag.Diagnostics{diag.NewErrorDiagnostic("Private state not written", err.Error())}
	}
	return to.SetKey(ctx, recordKey, raw)
}
