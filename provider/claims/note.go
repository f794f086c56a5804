package claims

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/diag"
)

// noteKey is the note's name in private state.
const noteKey = "claims"

// Note goes from the plan of a create to its apply, which Terraform runs in another process.
type Note struct {
	// Held are objects of the same key that must not be adopted.
	Held []string `json:"held,omitempty"`
}

// String names the key for Registry.Take.
func (k Key) String() string { return k.Kind + " " + k.Name }

// Remember stores a note in the planned private state.
func Remember(ctx context.Context, private interface {
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}, n Note,
) diag.Diagnostics {
	raw, err := json.Marshal(n)
	if err != nil {
		return diag.Diagnostics{diag.NewErrorDiagnostic("Private state not written", err.Error())}
	}
	return private.SetKey(ctx, noteKey, raw)
}

// Recall reads the note of the plan, an empty one where there is none.
func Recall(ctx context.Context, private interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
},
) Note {
	var n Note
	raw, diags := private.GetKey(ctx, noteKey)
	if diags.HasError() || json.Unmarshal(raw, &n) != nil {
		return Note{}
	}
	return n
}
