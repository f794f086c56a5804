// Package callid gives tool calls the ids under which a provider is told of them.
package callid

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
)

// accepted is what every provider takes: Anthropic's pattern, OpenAI's length.
var accepted = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// For gives the ids of a conversation as provider is to see them: its own calls keep theirs, whatever they look
// like, since their bytes are sent; another provider's are replaced where they would be refused. The same
// id is always replaced by the same.
func For(provider string, messages []model.Message) func(id string) string {
	own := make(map[string]bool)
	for _, m := range messages {
		if m.Provider != provider {
			continue
		}
		for _, b := range m.Blocks {
			if b.Kind == model.KindToolCall && b.Raw != nil {
				own[b.CallID] = true
			}
		}
	}
	return func(id string) string {
		if own[id] || accepted.MatchString(id) {
			return id
		}
		sum := sha256.Sum256([]byte(id))
		return "call_" + hex.EncodeToString(sum[:12])
	}
}
