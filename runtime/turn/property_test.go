package turn_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journaltext"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

// Whoever dies, and whenever: every submission ends once, every call has one result, no effect happens twice
// that may not, none without its intent and its approval, and no provider is sent what it would refuse.
//
// letta-ai/letta#3308, earendil-works/pi#4189, openclaw/openclaw#10900, OpenHands/software-agent-sdk#2298.
func TestAnyTurnEndsOnceWhoeverDies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.run()
		settled := map[uuid.UUID]int{}
		results := map[string]int{}
		for _, entry := range w.entries {
			switch entry.Kind {
			case journal.KindSubmissionSettled:
				settled[entry.Submission]++
			case journal.KindToolResult:
				results[entry.Call]++
			}
		}
		for _, submission := range w.state.Submissions {
			ends := 1
			if submission.Joins != uuid.Nil {
				ends = 0
			}
			if submission.Open() || settled[submission.ID] != ends {
				t.Errorf("submission %s settled %d times", submission.ID, settled[submission.ID])
			}
		}
		for id, call := range w.state.Calls {
			if results[id] != 1 {
				t.Errorf("call %s has %d results", id, results[id])
			}
			if call.Class != journalv1.EffectClass_EFFECT_CLASS_PURE && w.effects[id] > 1 {
				t.Errorf("call %s, %s, had its effect %d times", id, call.Class, w.effects[id])
			}
		}
	})
}

// Any prefix of any journal folds, and a fork at that place asks its model what a provider accepts.
func TestAnyPrefixFoldsAndCanBeAsked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.run()
		for i := range w.entries {
			state, err := journal.Fold(w.entries[:i+1])
			if err != nil {
				t.Fatal(err)
			}
			w.checkFork(state, i)
		}
	})
}

func (w *world) checkFork(state *journal.State, i int) {
	fork := []*journalv1.Body{
		{Body: &journalv1.Body_SessionForked{SessionForked: &journalv1.SessionForked{ParentId: state.Session.String(), ParentSeq: state.Seq}}},
		{Body: &journalv1.Body_InputAccepted{InputAccepted: &journalv1.InputAccepted{Ordinal: 1}}},
		{Body: &journalv1.Body_TurnStarted{TurnStarted: &journalv1.TurnStarted{Attempt: 1}}},
	}
	for _, body := range fork {
		entry := journal.Entry{
			Session: journaltext.Session("b"), Seq: state.Seq + 1, Fence: 1, Kind: journal.KindOf(body),
			Submission: journaltext.Submission("fork"), Body: body,
		}
		if err := state.Apply(entry); err != nil {
			w.t.Fatalf("fork after entry %d: %v", i, err)
		}
	}
	agent := agents[i%len(agents)]
	want := []turn.Action{turn.AskModel{Try: 1}}
	if got := turn.Next(state, turn.Facts{Fence: 1, Attempt: 1, Trusted: true}); !cmp.Equal(got, want) {
		w.t.Fatalf("fork after entry %d does %#v", i, got)
	}
	request, err := turn.Request(state, agent.agent(), i%2 == 0)
	if err != nil {
		w.t.Fatalf("fork after entry %d: %v", i, err)
	}
	w.check(request, agent)
}
