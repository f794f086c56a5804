package driver_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

func TestTurnRunsACommandAndSettles(t *testing.T) {
	r := newRig(t, "run: echo hello; echo oops >&2; echo x >> counter\nsay: I saw {{result}}")
	r.replica()
	session := r.session()
	work := r.submit(session, "go")
	if now := r.settled(work.ID); now.Outcome != completed {
		t.Fatalf("outcome %s", now.Outcome)
	}
	entries, state := r.history(session)
	want := []string{
		"session_created", "input_accepted", "turn_started", "model_requested", "model_completed", "tool_called",
		"tool_started", "exec_started", "exec_exited", "tool_result", "model_requested", "model_completed", "submission_settled",
	}
	got := slices.DeleteFunc(kinds(entries), func(kind string) bool { return kind == "model_delta" })
	if !slices.Equal(got, want) {
		t.Fatalf("entries\n%v, want\n%v", got, want)
	}
	if n := count(entries, journal.KindSubmissionSettled); n != 1 {
		t.Errorf("settled %d times", n)
	}
	if content := results(state)[0]; !strings.Contains(content, "hello\n") || !strings.Contains(content, "oops\n") || !strings.Contains(content, "[exit code 0]") {
		t.Errorf("result %q", content)
	}
	if r.file(session, "counter") != "x\n" {
		t.Errorf("the command ran %q", r.file(session, "counter"))
	}
	for _, call := range state.Calls {
		exec := uuid.MustParse(call.Exec.ID)
		chunks, err := r.store.ReadOutput(t.Context(), tenant, exec, store.Stdout, 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		end := int64(0)
		for _, chunk := range chunks {
			if chunk.Off != end {
				t.Fatalf("a chunk begins at %d, the one before ended at %d", chunk.Off, end)
			}
			end = chunk.Off + chunk.RawLen
			all.Write(chunk.Data)
		}
		if all.String() != "hello\noops\n" || end != call.Exec.StdoutEnd {
			t.Errorf("output %q up to %d, its end is %d", all.String(), end, call.Exec.StdoutEnd)
		}
	}
	r.soon("the session is idle", func() bool {
		now, err := r.store.Session(t.Context(), tenant, session)
		return err == nil && now.State == store.SessionIdle
	})
}
