package callid

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
)

func said(provider, id string) model.Message {
	return model.Message{Role: model.RoleAssistant, Provider: provider, Blocks: []model.Block{
		{Kind: model.KindToolCall, CallID: id, Raw: []byte("{}")},
	}}
}

func TestOwnIdsStay(t *testing.T) {
	id := For("openai", []model.Message{said("openai", "odd one/é"), said("elsewhere", "odd two/é")})
	if got := id("odd one/é"); got != "odd one/é" {
		t.Errorf("an own id became %q", got)
	}
	if got := id("odd two/é"); !accepted.MatchString(got) {
		t.Errorf("a foreign id became %q", got)
	}
	if got := id("toolu_01A"); got != "toolu_01A" {
		t.Errorf("an id that is taken became %q", got)
	}
}

// Ids that servers are known to give: Anthropic refuses the first for its characters, OpenAI the second for its length.
func TestForeignIdsThatWouldBeRefusedAreReplaced(t *testing.T) {
	taken := regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	for _, provider := range []string{"anthropic", "openai"} {
		for _, foreign := range []string{"functions.t:0", strings.Repeat("x", 41)} {
			id := For(provider, []model.Message{said("elsewhere", foreign)})
			if got := id(foreign); got == foreign || !taken.MatchString(got) || len(got) > 40 || got != id(foreign) {
				t.Errorf("%s is told of %q as %q", provider, foreign, got)
			}
		}
	}
}

func TestEveryForeignIdIsTakenAndTellsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := For("anthropic", nil)
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		if !accepted.MatchString(id(a)) || (a == b) != (id(a) == id(b)) {
			t.Fatalf("%q, %q became %q, %q", a, b, id(a), id(b))
		}
	})
}
