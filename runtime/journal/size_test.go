package journal_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

// temporalio/sdk-python#1890: the history of a session held each model call's whole input, and 100 tool calls on a
// history of 200k tokens were too much. Here an entry costs what it adds, so 100 calls cost their contents.
func TestJournalGrowsByItsContents(t *testing.T) {
	journaled, contents := 0, 0
	add := func(content int, body *journalv1.Body) {
		_, data, err := journal.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		journaled += len(data)
		contents += content
	}
	digest := journal.ArgsSHA256(nil)
	input := string(bytes.Repeat([]byte("word "), 40_000))
	add(len(input), &journalv1.Body{Body: &journalv1.Body_InputAccepted{InputAccepted: &journalv1.InputAccepted{
		Parts: []*journalv1.Part{{Part: &journalv1.Part_Text{Text: input}}},
	}}})
	for i := range 100 {
		id := fmt.Sprintf("toolu_%024d", i)
		raw := []byte(`{"type":"tool_use","id":"` + id + `","name":"exec","input":{"command":"go test ./... 2>&1 | tail -50"}}`)
		output := bytes.Repeat([]byte("ok  	example.org/some/package	0.1s\n"), 60)
		add(0, &journalv1.Body{Body: &journalv1.Body_ModelRequested{ModelRequested: &journalv1.ModelRequested{
			Provider: "anthropic", Model: "claude", RequestSha256: digest, ToolsSha256: digest, Attempt: 1,
		}}})
		add(len(raw), &journalv1.Body{Body: &journalv1.Body_ModelCompleted{ModelCompleted: &journalv1.ModelCompleted{
			Provider: "anthropic", Model: "claude", StopReason: "tools", ResponseId: id, Usage: &journalv1.Usage{Input: 200_000, Output: 50},
			Blocks: []*journalv1.Block{{Kind: journalv1.BlockKind_BLOCK_KIND_TOOL_CALL, Raw: raw}},
		}}})
		add(0, &journalv1.Body{Body: &journalv1.Body_ToolCalled{ToolCalled: &journalv1.ToolCalled{
			CallId: id, Tool: "exec", ArgsSha256: digest, Class: journalv1.EffectClass_EFFECT_CLASS_ATTACHED, Policy: journalv1.Policy_POLICY_ALLOW,
		}}})
		add(0, &journalv1.Body{Body: &journalv1.Body_ToolStarted{ToolStarted: &journalv1.ToolStarted{CallId: id}}})
		add(0, &journalv1.Body{Body: &journalv1.Body_ExecStarted{ExecStarted: &journalv1.ExecStarted{CallId: id, ExecId: id, Machine: id, Epoch: id, Fence: 1}}})
		add(0, &journalv1.Body{Body: &journalv1.Body_ExecExited{ExecExited: &journalv1.ExecExited{CallId: id, ExecId: id, Cause: "exited", StdoutEnd: 2000}}})
		add(len(output), &journalv1.Body{Body: &journalv1.Body_ToolResult{ToolResult: &journalv1.ToolResult{
			CallId: id, Outcome: journalv1.ToolOutcome_TOOL_OUTCOME_OK, Content: output,
		}}})
	}
	if ratio := float64(journaled) / float64(contents); ratio >= 1.2 {
		t.Errorf("100 calls with %d bytes of contents cost %d bytes, %.2f times as many", contents, journaled, ratio)
	} else {
		t.Logf("%d bytes for %d bytes of contents: %.3f", journaled, contents, ratio)
	}
}
