package driver_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

// letta-ai/lettabot#127: a client vanishes with a card open, and the user sends text. The card is denied in the user's name, what
// it gated is not done, and the text is heard: in the same turn, or in one of its own. It is so whether the session is parked or has
// an owner that follows another call.
func TestTextInPlaceOfADecisionIsHeard(t *testing.T) {
	for name, policy := range map[string]store.Policy{"join": store.PolicyJoin, "answer": store.PolicyAnswer} {
		for _, parked := range []bool{true, false} {
			t.Run(map[bool]string{true: name + " parked", false: name + " at work"}[parked], func(t *testing.T) {
				r := newRigAsking(t, scriptedModel(t, ""), gated())
				r.replica()
				session := r.session()
				script := "run: touch gated\n"
				if !parked {
					script += "+ run: touch free; while [ ! -e go ]; do sleep 0.01; done\n"
				}
				first := r.submit(session, script+"say: over")
				r.soon("a card, and whatever is free", func() bool {
					cards, err := r.store.PendingOf(t.Context(), tenant, session, 10)
					if err != nil {
						t.Fatal(err)
					}
					now, err := r.store.Session(t.Context(), tenant, session)
					if err != nil {
						t.Fatal(err)
					}
					_, free := os.Stat(filepath.Join(r.dir, session.String(), "free"))
					return len(cards) == 1 && (parked && now.State == store.SessionParked || !parked && free == nil)
				})
				second := r.submit(session, "say: heard", func(in *store.Input) { in.Policy = policy })
				r.soon("the card is denied", func() bool {
					entries, _ := r.history(session)
					return count(entries, journal.KindApprovalDecided) == 1
				})
				if !parked {
					if err := os.WriteFile(filepath.Join(r.dir, session.String(), "go"), nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				for _, work := range []store.Submission{first, second} {
					if now := r.settled(work.ID); now.Outcome != completed {
						t.Errorf("it ended as %s", now.Outcome)
					}
				}
				entries, state := r.history(session)
				for _, call := range state.Calls {
					if call.Approval == nil {
						continue
					}
					if call.Approval.By != turn.ByInput || call.Approval.Decision != journalv1.Decision_DECISION_DENIED || call.Result.Outcome != journalv1.ToolOutcome_TOOL_OUTCOME_DENIED {
						t.Errorf("the card: %s by %s, the call: %s", call.Approval.Decision, call.Approval.By, call.Result.Outcome)
					}
				}
				if _, err := os.Stat(filepath.Join(r.dir, session.String(), "gated")); err == nil {
					t.Error("what was gated was done")
				}
				// What joined ends with what it joined.
				if ends := count(entries, journal.KindSubmissionSettled); (ends == 1) != (policy == store.PolicyJoin) || ends > 2 {
					t.Errorf("%d ends", ends)
				}
				input := slices.IndexFunc(entries, func(e journal.Entry) bool { return e.Kind == journal.KindInputAccepted && e.Submission == second.ID })
				end := slices.IndexFunc(entries, func(e journal.Entry) bool { return e.Kind == journal.KindSubmissionSettled && e.Submission == first.ID })
				if (input < end) != (policy == store.PolicyJoin) {
					t.Errorf("its input is entry %d, the end of the first %d: %v", input, end, kinds(entries))
				}
			})
		}
	}
}
