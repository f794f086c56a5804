package journaltest

import (
	"strings"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// index brings the whole index up to date.
func (w *world) index() {
	w.Helper()
	for {
		n, err := w.Index(w.Context(), 100)
		w.ok(err)
		if n == 0 {
			return
		}
	}
}

func (w *world) search(query string) []store.Hit {
	w.Helper()
	hits, err := w.Search(w.Context(), tenant, query, 10)
	return get(w, hits, err)
}

var searchCases = []testCase{
	{name: "words of inputs, answers, tools and results are found", run: func(w *world) {
		t := w.begin()
		t.must(nil, answer("The Pelican is ready"))
		t.call("c1", opaque)
		t.must(func(s *store.Step) { s.Settle = []store.Settle{{Call: "c1", Outcome: good}} },
			result("c1", good, []byte("albatross\x00 "+strings.Repeat("x ", 8<<10)+"ostrich")))
		w.index()
		for query, kind := range map[string]journal.Kind{
			"hello": journal.KindInputAccepted, "pelican": journal.KindModelCompleted, "tool": journal.KindToolCalled, "ALBATROSS": journal.KindToolResult,
			`"pelican is"`: journal.KindModelCompleted,
		} {
			hits := w.search(query)
			if len(hits) != 1 || hits[0].Kind != kind || hits[0].Session != t.id || hits[0].Excerpt == "" {
				w.Errorf("%s: hits are %+v, want a %s", query, hits, kind)
			}
		}
		for _, query := range []string{"ostrich", "pelican -ready", "nothing", "", "'\x00("} {
			if hits := w.search(query); len(hits) != 0 {
				w.Errorf("%s: hits are %+v, want none", query, hits)
			}
		}
		none, err := w.Search(w.Context(), "another", "pelican", 10)
		if w.ok(err); len(none) != 0 {
			w.Error("another tenant finds it")
		}
	}},
	{name: "a model's thinking is not searched", run: func(w *world) {
		t := w.begin()
		t.must(nil, &journalv1.Body{Body: &journalv1.Body_ModelCompleted{ModelCompleted: &journalv1.ModelCompleted{Blocks: []*journalv1.Block{
			{Kind: journalv1.BlockKind_BLOCK_KIND_THINKING, Raw: []byte(`{"type":"thinking","thinking":"secretly"}`)},
			{Kind: journalv1.BlockKind_BLOCK_KIND_TOOL_CALL, Raw: []byte(`{"type":"tool_use","id":"toolu_1","input":{"path":"notes/heron.txt","n":42}}`)},
		}}}})
		w.index()
		if hits := w.search("secretly"); len(hits) != 0 {
			w.Errorf("hits are %+v", hits)
		}
		for _, query := range []string{"heron", "42"} {
			if hits := w.search("notes/heron.txt"); len(hits) != 1 {
				w.Errorf("%s: hits are %+v", query, hits)
			}
		}
	}},
	// kamu-data/kamu-cli#1398: one watermark over all sessions skips what was committed out of order.
	{name: "nothing is skipped, however commits interleave", run: func(w *world) {
		turns := []*turn{w.begin(), w.begin(), w.begin()}
		for i := range 30 {
			turns[i%3].must(nil, answer("sparrow"))
			if i%7 == 0 {
				_, err := w.Index(w.Context(), 2)
				w.ok(err)
			}
		}
		for _, t := range turns {
			w.ok(t.finish())
			t.park()
		}
		w.index()
		found := map[uuid.UUID]int{}
		hits, err := w.Search(w.Context(), tenant, "sparrow", 100)
		w.ok(err)
		for _, h := range hits {
			found[h.Session]++
		}
		for _, t := range turns {
			if found[t.id] != 10 {
				w.Errorf("found %d in session %s, want 10", found[t.id], t.id)
			}
		}
	}},
	{name: "a session that ran while it was indexed is indexed again", run: func(w *world) {
		t := w.begin()
		w.index()
		t.must(nil, answer("cormorant"))
		w.ok(t.finish())
		t.park()
		w.index()
		if hits := w.search("cormorant"); len(hits) != 1 {
			w.Errorf("hits are %+v", hits)
		}
	}},
}
