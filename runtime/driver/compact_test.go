package driver_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/driver"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// narrow is a model that takes no request longer than limit, and sums up what it is asked to.
type narrow struct {
	model.Model
	limit int
	// sums answers requests for a summary; nil fails them.
	sums model.Model
	// holds are what the first requests for a summary wait for, one each; held says that one does.
	holds chan (<-chan struct{})
	held  chan struct{}

	mu sync.Mutex
	// asked are the texts of all requests, summaries those for a summary.
	asked, summaries []string
}

// Ask is Model's.
func (n *narrow) Ask(ctx context.Context, r model.Request, onDelta func(model.Delta) error) (model.Answer, error) {
	text, err := json.Marshal(r.Messages)
	if err != nil {
		return model.Answer{}, err
	}
	summary := strings.HasPrefix(r.System, "You sum up")
	if summary && len(n.holds) > 0 {
		until := <-n.holds
		n.held <- struct{}{}
		select {
		case <-until:
		case <-ctx.Done():
			return model.Answer{}, context.Cause(ctx)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if summary {
		n.summaries = append(n.summaries, string(text))
		if n.sums == nil {
			return model.Answer{}, errors.New("no summary today")
		}
		return n.sums.Ask(ctx, r, onDelta)
	}
	n.asked = append(n.asked, string(text))
	if len(text) > n.limit {
		return model.Answer{}, &model.Error{Kind: model.TooLong, Provider: n.Provider(), Status: 400, Message: "prompt is too long"}
	}
	return n.Model.Ask(ctx, r, onDelta)
}

// A conversation that has become too long for its model is summed up once and goes on; where that does not help the turn fails,
// and where there is no summary it goes on without one.
func TestConversationThatIsTooLongIsSummedUpOnce(t *testing.T) {
	const secret = "s3cr3t-of-the-tenant"
	cases := map[string]struct {
		limit   int
		sums    bool
		outcome journalv1.SettledOutcome
		summary string
		kinds   []journal.Kind
	}{
		"a summary helps": {
			limit: 9000, sums: true, outcome: completed, summary: "KINGFISHER and [secret]",
			kinds: []journal.Kind{journal.KindModelRequested, journal.KindModelAborted, journal.KindCompaction, journal.KindModelRequested, journal.KindModelCompleted},
		},
		"there is no summary": {
			limit: 9000, outcome: completed, summary: "is left out",
			kinds: []journal.Kind{journal.KindModelRequested, journal.KindModelAborted, journal.KindCompaction, journal.KindModelRequested, journal.KindModelCompleted},
		},
		"a summary does not help": {
			limit: 6500, sums: true, outcome: journalv1.SettledOutcome_SETTLED_OUTCOME_FAILED, summary: "KINGFISHER and [secret]",
			kinds: []journal.Kind{journal.KindModelRequested, journal.KindModelAborted, journal.KindCompaction, journal.KindModelRequested, journal.KindModelAborted},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := &narrow{Model: scriptedModel(t, ""), limit: c.limit}
			if c.sums {
				m.sums = scriptedModel(t, "say: KINGFISHER and "+secret)
			}
			r := newRigAsking(t, m, nil)
			r.change = func(o *driver.Options) { o.Known = []string{secret} }
			r.replica()
			session := r.session()
			// It fits, just.
			if now := r.settled(r.submit(session, "run: head -c 2500 /dev/zero | tr '\\0' a\nsay: first").ID); now.Outcome != completed {
				t.Fatalf("the first ended as %s", now.Outcome)
			}
			second := r.submit(session, "# "+strings.Repeat("b", 7000)+"\nsay: second")
			if now := r.settled(second.ID); now.Outcome != c.outcome {
				t.Fatalf("it ended as %s", now.Outcome)
			}
			entries, _ := r.history(session)
			var got []journal.Kind
			for _, entry := range entries {
				if entry.Submission != second.ID {
					continue
				}
				switch entry.Kind {
				case journal.KindModelRequested, journal.KindModelAborted, journal.KindModelCompleted, journal.KindCompaction:
					got = append(got, entry.Kind)
				}
				if summary := entry.Body.GetCompaction(); summary != nil && !strings.Contains(string(summary.GetSummary()), c.summary) {
					t.Errorf("the summary is %q", summary.GetSummary())
				}
				if ended := entry.Body.GetSubmissionSettled(); ended != nil && (ended.GetError() != "") != (c.outcome != completed) {
					t.Errorf("the end says %q", ended.GetError())
				}
			}
			if !slices.Equal(got, c.kinds) {
				t.Errorf("the journal has %v", got)
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			if len(m.summaries) != 1 || !strings.Contains(m.summaries[0], "Agent calls exec") || !strings.Contains(m.summaries[0], "aaaaaaaa") || strings.Contains(m.summaries[0], "bbbbbbbb") {
				t.Errorf("asked for %d summaries: %.300q", len(m.summaries), m.summaries)
			}
			last := m.asked[len(m.asked)-1]
			if strings.Contains(last, "aaaaaaaa") || !strings.Contains(last, c.summary) || !strings.Contains(last, "bbbbbbbb") {
				t.Errorf("asked at last: %.300q", last)
			}
		})
	}
}

// An owner dies while its model sums up, and the next one looks at the session again while its own does: each asks once, and the
// journal has one summary.
func TestSummaryIsAskedForOnceAnOwner(t *testing.T) {
	m := &narrow{
		Model: scriptedModel(t, ""), limit: 9000, sums: scriptedModel(t, "say: KINGFISHER"), holds: make(chan (<-chan struct{}), 2), held: make(chan struct{}, 2),
	}
	never, soon := make(chan struct{}), make(chan struct{})
	m.holds <- never
	m.holds <- soon
	r := newRigAsking(t, m, nil)
	r.open = func(o *store.Options) { o.TTL = 400 * time.Millisecond }
	stop := r.replica()
	session := r.session()
	r.settled(r.submit(session, "run: head -c 2500 /dev/zero | tr '\\0' a\nsay: first").ID)
	stop()
	work := r.submit(session, "# "+strings.Repeat("b", 7000)+"\nsay: second")
	kill := r.owner()
	<-m.held
	kill()
	r.replica()
	<-m.held
	// The owner has looked when it has taken it, and then it decides again.
	for i := range 2 {
		r.submit(session, "say: second", func(in *store.Input) { in.Policy = store.PolicyJoin })
		r.soon("another input joins", func() bool {
			entries, _ := r.history(session)
			return count(entries, journal.KindInputAccepted) == 3+i
		})
	}
	close(soon)
	if now := r.settled(work.ID); now.Outcome != completed {
		t.Fatalf("it ended as %s", now.Outcome)
	}
	entries, _ := r.history(session)
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := count(entries, journal.KindCompaction); n != 1 || len(m.summaries) != 1 {
		t.Errorf("the journal has %d summaries, the owner that lived asked %d times", n, len(m.summaries))
	}
}
