package modeltest

import (
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
)

// everyAnswerGoesBack: whatever an answer holds and however it is cut, its blocks are read as they were meant and
// the provider gets their bytes back.
func everyAnswerGoesBack(t *testing.T, d Dialect) {
	rapid.Check(t, func(r *rapid.T) {
		said := drawSpoken(r)
		s := NewServer(t, d, Stream(d.Events(said), nil), Stream(d.Events(Spoken{Text: []string{"ok"}}), nil))
		defer s.Close()
		m := d.client(t, s, model.Limits{})
		a, err := m.Ask(t.Context(), hello(), nil)
		if err != nil {
			r.Fatal(err)
		}
		next := hello()
		next.Messages = append(next.Messages, a.Message())
		var results []model.Block
		for _, b := range a.Blocks {
			if b.Kind != model.KindToolCall {
				continue
			}
			if want := args(said.Calls[len(results)]); string(b.Args) != want {
				r.Fatalf("arguments %s became %s", want, b.Args)
			}
			results = append(results, model.Result(b.CallID, false, model.Text("x")))
		}
		if len(results) != len(said.Calls) {
			r.Fatalf("%d calls, want %d", len(results), len(said.Calls))
		}
		next.Messages = append(next.Messages, model.User(append(results, model.Text("on"))...))
		if _, err := m.Ask(t.Context(), next, nil); err != nil {
			r.Fatal(err)
		}
		SentBack(t, s.Bodies()[1], a.Blocks)
	})
}

func drawSpoken(r *rapid.T) Spoken {
	words := rapid.SliceOfN(rapid.SampledFrom([]string{
		"a", "é", "😀", `\u0000`, `\ud800`, `\udc00`, `\"`, `\\`, `\/`, `<&>`, "\u2028", `\u00e9`, "{", "data: ", `\n\n`,
	}), 1, 8)
	said := Spoken{Text: append([]string{"t"}, words.Draw(r, "text")...)}
	if rapid.Bool().Draw(r, "thinks") {
		said.Thinking, said.Signature = append([]string{"t"}, words.Draw(r, "thinking")...), "c2ln"
	}
	for i := range rapid.IntRange(0, 3).Draw(r, "calls") {
		key, _ := json.Marshal(rapid.String().Draw(r, "key"))
		text := "{ " + string(key) + ` :"`
		for _, w := range words.Draw(r, "value") {
			text += w
		}
		text += `"}`
		c := SpokenCall{ID: fmt.Sprintf("call_%d", i), Name: "exec"}
		// Cut between characters.
		runes := []rune(text)
		for len(runes) > 0 {
			n := rapid.IntRange(1, len(runes)).Draw(r, "cut")
			c.Args = append(c.Args, string(runes[:n]))
			runes = runes[n:]
		}
		said.Calls = append(said.Calls, c)
	}
	return said
}
