package journal_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journaltext"
)

// update writes the files of journals that have none yet: a file that is there is of a build that was
// released, and is never written again.
var update = flag.Bool("update", false, "write missing golden files")

// unkeyed/unkey#4979, restatedev/sdk-typescript#656: new code meets sessions that old code began. Each journal in
// testdata/golden was written by some build (.bin; .txt is its source); this build must fold it to what it was then
// (.fold). Files are added, never changed.
func TestJournalsOfEveryBuildFold(t *testing.T) {
	sources, err := filepath.Glob("testdata/golden/*.txt")
	if err != nil || len(sources) < 5 {
		t.Fatalf("%d golden journals, %v", len(sources), err)
	}
	kinds := map[journal.Kind]bool{}
	for _, source := range sources {
		t.Run(filepath.Base(source), func(t *testing.T) {
			name := strings.TrimSuffix(source, ".txt")
			entries := golden(t, name)
			for _, entry := range entries {
				kinds[entry.Kind] = true
			}
			state, err := journal.Fold(entries)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(file(t, name+".fold", func() []byte { return []byte(summary(state)) }), summary(state)); diff != "" {
				t.Errorf("the journal folds to something else than it did (-then +now):\n%s", diff)
			}
		})
	}
	for kind := journal.Kind(1); kind.Known(); kind++ {
		if !kinds[kind] {
			t.Errorf("no golden journal has a %s", kind)
		}
	}
}

// golden reads the binary journal, and holds it against its source.
func golden(t *testing.T, name string) []journal.Entry {
	t.Helper()
	text, err := os.ReadFile(name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := journaltext.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	stored := file(t, name+".bin", func() []byte {
		data, err := journaltext.Encode(parsed)
		if err != nil {
			t.Fatal(err)
		}
		return data
	})
	entries, err := journaltext.Decode([]byte(stored))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(parsed) {
		t.Fatalf("%d entries are stored, the source has %d", len(entries), len(parsed))
	}
	for i := range entries {
		if !proto.Equal(entries[i].Body, parsed[i].Body) {
			t.Errorf("entry %d is not what its source says", i+1)
		}
	}
	return entries
}

func file(t *testing.T, name string, content func() []byte) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if os.IsNotExist(err) && *update {
		data = content()
		err = os.WriteFile(name, data, 0o644)
	}
	if err != nil {
		t.Fatalf("%v; a new journal is written by go test ./runtime/journal -run TestJournals -update", err)
	}
	return string(data)
}

// summary is what a fold comes to, in words that do not depend on how State is laid out.
func summary(s *journal.State) string {
	var b strings.Builder
	fmt.Fprintf(&b, "agent %s, seq %d, fence %d, phase %s, ancestors %d\n", s.Agent, s.Seq, s.Fence, s.Phase(), len(s.Ancestors))
	fmt.Fprintf(&b, "usage %+v, masked %d, redacted %d, answered %t\n", s.Usage, s.Masked, s.Redacted, s.Answered)
	for _, sub := range s.Submissions {
		fmt.Fprintf(&b, "submission %d: input %d, attempt %d, %s %q at %d, unknown %q\n",
			sub.Ordinal, sub.InputSeq, sub.Attempt, sub.Outcome, sub.Error, sub.SettledSeq, sub.Unknown)
	}
	for _, item := range s.Conversation {
		switch {
		case item.Input != nil:
			fmt.Fprintf(&b, "%d input, redacted %t:", item.Seq, item.Input.Redacted)
			for _, part := range item.Input.Parts {
				fmt.Fprintf(&b, " %q", part.Text)
				if a := part.Attachment; a != nil {
					fmt.Fprintf(&b, " (%s %s %x %d %s)", a.Name, a.MediaType, a.SHA256, a.Size, a.Path)
				}
			}
		case item.Answer != nil:
			fmt.Fprintf(&b, "%d answer of %s/%s, %s, %s, redacted %t, calls %q:", item.Seq, item.Answer.Provider, item.Answer.Model,
				item.Answer.StopReason, item.Answer.ResponseID, item.Answer.Redacted, item.Answer.Calls)
			for _, block := range item.Answer.Blocks {
				fmt.Fprintf(&b, " %s %q", block.Kind, block.Raw)
			}
		default:
			fmt.Fprintf(&b, "%d summary up to %d: %q", item.Seq, item.Summary.UptoSeq, item.Summary.Text)
		}
		b.WriteString("\n")
	}
	for _, id := range slices.Sorted(maps.Keys(s.Calls)) {
		call := s.Calls[id]
		fmt.Fprintf(&b, "call %s: %s %s %s %s, key %q, started %d/%d, args %x\n", id, call.Tool, call.Class, call.Policy, call.State, call.Key, call.StartedSeq, call.StartedFence, call.ArgsSHA256)
		if a := call.Approval; a != nil {
			fmt.Fprintf(&b, "  approval %s: %s by %q, %q, args %q, consumed %t, expires %d\n", a.ID, a.Decision, a.By, a.Reason, a.Args, a.Consumed, a.ExpiresAtMS)
		}
		if e := call.Exec; e != nil {
			fmt.Fprintf(&b, "  exec %s on %s/%s: %s %d %d %q, ends %d %d\n", e.ID, e.Machine, e.Epoch, e.State, e.Code, e.Signal, e.Cause, e.StdoutEnd, e.StderrEnd)
		}
		if r := call.Result; r != nil {
			fmt.Fprintf(&b, "  result at %d: %s %q, masked %d, %d attachments\n", r.Seq, r.Outcome, r.Content, r.Masked, len(r.Attachments))
		}
	}
	if r := s.Request; r != nil {
		fmt.Fprintf(&b, "asking %s/%s since %d, try %d\n", r.Provider, r.Model, r.Seq, r.Attempt)
	}
	if tr := s.Trouble; tr != nil {
		fmt.Fprintf(&b, "trouble %s %q, failures %d, refusals %d\n", tr.Reason, tr.Message, tr.Failures, tr.Refusals)
	}
	return b.String()
}
