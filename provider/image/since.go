package image

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
)

// refreshed notes, in private state, when and by which provider process the image was last read. Terraform plans a change
// once more at the start of its apply, in another process, and reports a digest that differs by then as a bug of the
// provider. The note tells that second look from the first, as far as can be told, so that the true cause is said.
type refreshed struct {
	At      time.Time `json:"at"`
	Process string    `json:"process"`
}

const refreshedKey = "refreshed"

func (r *imageResource) noteRefresh(ctx context.Context, private interface {
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
},
) diag.Diagnostics {
	raw, err := json.Marshal(refreshed{At: time.Now(), Process: r.account.ID})
	if err != nil {
		return diag.Diagnostics{diag.NewErrorDiagnostic("Private state not written", err.Error())}
	}
	return private.SetKey(ctx, refreshedKey, raw)
}

// changedSince names a source that was written after the refresh of another process; "" when there is none, or when this
// process did the refresh.
func (r *imageResource) changedSince(ctx context.Context, m model, private interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
},
) string {
	var last refreshed
	raw, diags := private.GetKey(ctx, refreshedKey)
	if diags.HasError() || len(raw) == 0 || json.Unmarshal(raw, &last) != nil || last.Process == r.account.ID {
		return ""
	}
	for _, source := range sources(m) {
		if info, err := os.Stat(source); err == nil && info.ModTime().After(last.At) {
			return fmt.Sprintf("%s was written at %s, after the refresh at %s", source, info.ModTime().Format(time.TimeOnly), last.At.Format(time.TimeOnly))
		}
	}
	return ""
}
