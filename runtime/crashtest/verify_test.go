//go:build linux

package crashtest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// verify counts what was promised.
func (x *trial) verify() {
	x.t.Helper()
	state := x.folds()
	x.settledOnce()
	for _, name := range []string{"a", "b", "gated"} {
		if lines := x.read(name); lines != "x\n" {
			x.t.Errorf("the side effect of %s was had %d times", name, strings.Count(lines, "x"))
		}
	}
	if x.read("w") != "written" {
		x.t.Errorf("the written file holds %q", x.read("w"))
	}
	x.resultsOnce(state)
	for id, call := range state.Calls {
		if call.Exec == nil {
			x.t.Errorf("call %s has no command", id)
			continue
		}
		if call.Tool == "exec" {
			x.outputWhole(call, x.expects(state, call))
		}
	}
	x.rows(1)
	x.startsNothingAgain()
	x.noneFailed()
}

func (x *trial) noneFailed() {
	x.t.Helper()
	for n, r := range x.replicas {
		// Such as store.ErrCollision: two owners wrote the same entry. The rows are right even then, by their keys.
		if strings.Contains(r.log.String(), `"msg":"a turn failed"`) {
			x.t.Errorf("replica %d failed:\n%s", n+1, r.log.String())
		}
	}
}

// folds: entries are dense and in an order that a fold accepts, so each call has at most one result and the submission
// one end.
func (x *trial) folds() *journal.State {
	x.t.Helper()
	state := new(journal.State)
	fence := int64(0)
	for i, entry := range x.entries() {
		if entry.Seq != int64(i)+1 {
			x.t.Fatalf("entry %d has seq %d", i, entry.Seq)
		}
		if entry.Fence < fence {
			x.t.Errorf("entry %d was written under fence %d, one before it under %d", entry.Seq, entry.Fence, fence)
		}
		fence = entry.Fence
		if err := state.Apply(entry); err != nil {
			x.t.Fatalf("%v: %v", err, x.kinds())
		}
	}
	return state
}

func (x *trial) settledOnce() {
	x.t.Helper()
	settled := 0
	for _, entry := range x.entries() {
		if entry.Kind == journal.KindSubmissionSettled {
			settled++
			if outcome := entry.Body.GetSubmissionSettled().GetOutcome(); outcome != journalv1.SettledOutcome_SETTLED_OUTCOME_COMPLETED {
				x.t.Errorf("settled as %s: %s", outcome, entry.Body.GetSubmissionSettled().GetError())
			}
		}
	}
	if settled != 1 {
		x.t.Errorf("settled %d times", settled)
	}
}

func (x *trial) resultsOnce(state *journal.State) {
	x.t.Helper()
	if len(state.Calls) != 4 {
		x.t.Errorf("%d calls, want 4", len(state.Calls))
	}
	results, started := map[string]int{}, map[string]int{}
	for _, entry := range x.entries() {
		switch entry.Kind {
		case journal.KindToolResult:
			results[entry.Call]++
			if got := entry.Body.GetToolResult(); got.GetOutcome() != journalv1.ToolOutcome_TOOL_OUTCOME_OK {
				x.t.Errorf("call %s: %s: %s", entry.Call, got.GetOutcome(), got.GetContent())
			}
		case journal.KindExecStarted:
			started[entry.Call]++
		}
	}
	for id := range state.Calls {
		if results[id] != 1 || started[id] != 1 {
			x.t.Errorf("call %s has %d results and %d starts", id, results[id], started[id])
		}
	}
}

// expects is what the call's command writes.
func (x *trial) expects(state *journal.State, call *journal.Call) string {
	x.t.Helper()
	for _, item := range state.Conversation {
		if item.Answer == nil {
			continue
		}
		for _, id := range item.Answer.Calls {
			if id != call.ID {
				continue
			}
			block, err := model.Decode(item.Answer.Provider, item.Answer.Blocks[call.Block].Raw)
			if err != nil {
				x.t.Fatal(err)
			}
			for touched, output := range outputs() {
				if strings.Contains(string(block.Args), "echo x >> "+strings.Replace(touched, "DIR", x.dir, 1)+";") {
					return output
				}
			}
		}
	}
	x.t.Fatalf("call %s is none of the script's", call.ID)
	return ""
}

// outputWhole: the stored pieces follow each other without a gap up to the end that the machine told, and say what the
// command said, with the secret masked.
func (x *trial) outputWhole(call *journal.Call, want string) {
	x.t.Helper()
	exec := uuid.MustParse(call.Exec.ID)
	for stream, end := range map[store.Stream]int64{store.Stdout: call.Exec.StdoutEnd, store.Stderr: call.Exec.StderrEnd} {
		chunks, err := x.db.ReadOutput(x.t.Context(), tenant, exec, stream, 0, 10000)
		if err != nil {
			x.t.Fatal(err)
		}
		var all bytes.Buffer
		at := int64(0)
		for _, chunk := range chunks {
			if chunk.Off != at {
				x.t.Errorf("output of %s: a piece begins at %d, the one before ended at %d", call.ID, chunk.Off, at)
			}
			at = chunk.Off + chunk.RawLen
			all.Write(chunk.Data)
		}
		if at != end {
			x.t.Errorf("output of %s is stored up to %d, the machine says %d", call.ID, at, end)
		}
		expected := want
		if stream == store.Stderr {
			expected = "" // the tool merges both
		}
		if all.String() != expected {
			x.t.Errorf("output of %s:\n%q, want\n%q", call.ID, all.String(), expected)
		}
	}
	if strings.Contains(want, "[secret]") && (call.Result.Masked == 0 || !strings.Contains(string(call.Result.Content), "[secret]")) {
		x.t.Errorf("the result of %s: %d masks: %q", call.ID, call.Result.Masked, call.Result.Content)
	}
}

// rows: what the database keeps beside the journal is at its end too, and nothing of it holds the secret.
func (x *trial) rows(cards int) {
	x.t.Helper()
	conn, err := pgx.Connect(x.t.Context(), x.url)
	if err != nil {
		x.t.Fatal(err)
	}
	defer func() { _ = conn.Close(x.t.Context()) }()
	for what, query := range map[string]string{
		"calls that are not settled":          "SELECT count(*) FROM effects WHERE state <> 4",
		"commands that have not ended":        "SELECT count(*) FROM execs WHERE state <> 2",
		"cards too many":                      fmt.Sprintf("SELECT count(*) - %d FROM approvals", cards),
		"calls of commands without an answer": "SELECT count(*) FROM callbacks WHERE state <> 3",
		"cards that are open or undelivered":  "SELECT count(*) FROM approvals WHERE state = 1 OR delivered_seq IS NULL",
		"cards that no call was started with": "SELECT count(*) FROM approvals WHERE consumed_seq IS NULL",
		"submissions that are not settled":    "SELECT count(*) FROM submissions WHERE state <> 5",
		"secrets in the journal":              fmt.Sprintf("SELECT count(*) FROM journal WHERE position('%s'::bytea IN body) > 0", secret),
		"halves of secrets in output":         fmt.Sprintf("SELECT count(*) FROM exec_output WHERE position('%s'::bytea IN data) > 0 OR position('%s'::bytea IN data) > 0", secret[:11], secret[11:]),
	} {
		var n int
		if err := conn.QueryRow(x.t.Context(), query).Scan(&n); err != nil {
			x.t.Fatalf("%s: %v", what, err)
		}
		if n != 0 {
			x.t.Errorf("%d %s", n, what)
		}
	}
}

// startsNothingAgain: not even an owner starts a call that was started, whatever it thinks it knows.
func (x *trial) startsNothingAgain() {
	x.t.Helper()
	if _, err := x.db.Submit(x.t.Context(), store.Input{Tenant: tenant, Session: x.session, Key: "again"}); err != nil {
		x.t.Fatal(err)
	}
	e, err := x.db.Register(x.t.Context(), "the test", "")
	if err != nil {
		x.t.Fatal(err)
	}
	claims, err := x.db.Claim(x.t.Context(), e, 1)
	if err != nil || len(claims) != 1 {
		x.t.Fatalf("claimed %v, %v", claims, err)
	}
	conn, err := pgx.Connect(x.t.Context(), x.url)
	if err != nil {
		x.t.Fatal(err)
	}
	defer func() { _ = conn.Close(x.t.Context()) }()
	rows, err := conn.Query(x.t.Context(), "SELECT call_id, args_sha FROM effects")
	if err != nil {
		x.t.Fatal(err)
	}
	starts, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (start store.Start, err error) {
		return start, row.Scan(&start.Call, &start.ArgsSHA256)
	})
	if err != nil || len(starts) == 0 {
		x.t.Fatalf("%d effects, %v", len(starts), err)
	}
	last := int64(len(x.entries()))
	for _, start := range starts {
		_, err := x.db.Commit(x.t.Context(), claims[0], store.Step{
			After:   last,
			Entries: []journal.Entry{{Body: &journalv1.Body{Body: &journalv1.Body_ToolStarted{ToolStarted: &journalv1.ToolStarted{CallId: start.Call}}}}},
			Start:   []store.Start{start},
		})
		if !errors.Is(err, store.ErrNotStarted) {
			x.t.Errorf("call %s can be started again: %v", start.Call, err)
		}
	}
}
