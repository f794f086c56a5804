package driver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/driver"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/tools"
)

// both runs a script whose outputs stay apart, as a tool of somebody else's could.
func both(script string) tools.Tool {
	return tools.Tool{
		Name: "both", Schema: json.RawMessage(`{"type":"object"}`),
		Class: journalv1.EffectClass_EFFECT_CLASS_ATTACHED, Policy: journalv1.Policy_POLICY_ALLOW,
		Run: func(ctx context.Context, call tools.Call) (tools.Result, error) {
			process, err := call.Box.Start(ctx, sandbox.Command{ID: call.ExecID, IfEpoch: call.Epoch, Argv: []string{"/bin/sh", "-c", script}})
			if err != nil {
				return tools.Result{}, err
			}
			exit, err := process.Follow(ctx, call.From, call.Output)
			if err != nil {
				return tools.Result{}, err
			}
			return tools.Result{Content: []byte("done"), Exit: &exit}, nil
		},
	}
}

// Owners die again and again while a command writes: each stream is stored once, whole and in order, with the secret masked
// that comes in pieces. paperclipai/paperclip#8047.
func TestOutputIsWholeAndMaskedWhoeverDies(t *testing.T) {
	const secret = "s3cr3t-of-the-tenant"
	script := `i=0; while [ $i -lt 60 ]; do printf 'out %s s3cr3t-' $i; sleep 0.03; echo of-the-tenant; echo "err $i" >&2; i=$((i+1)); done`
	r := newRig(t, "call: both {}\nsay: {{result}}", both(script))
	r.open = func(o *store.Options) { o.TTL = 400 * time.Millisecond }
	r.change = func(o *driver.Options) { o.Known = []string{secret} }
	session := r.session()
	work := r.submit(session, "go")
	for range 3 {
		kill := r.owner()
		_, before := r.history(session)
		had := r.stored(before)
		r.soon("there is more output", func() bool {
			_, now := r.history(session)
			return r.stored(now) > had
		})
		kill()
	}
	r.replica()
	if now := r.settled(work.ID); now.Outcome != completed {
		t.Fatalf("outcome %s", now.Outcome)
	}
	var out, err strings.Builder
	for i := range 60 {
		fmt.Fprintf(&out, "out %d [secret]\n", i)
		fmt.Fprintf(&err, "err %d\n", i)
	}
	_, state := r.history(session)
	for _, call := range state.Calls {
		for stream, want := range map[store.Stream]string{store.Stdout: out.String(), store.Stderr: err.String()} {
			end := map[store.Stream]int64{store.Stdout: call.Exec.StdoutEnd, store.Stderr: call.Exec.StderrEnd}[stream]
			if got, at := r.output(call.Exec.ID, stream); got != want || at != end {
				t.Errorf("stream %d up to %d of %d:\n%q, want\n%q", stream, at, end, got, want)
			}
		}
	}
}

// stored is how much output of the session's commands there is.
func (r *rig) stored(state *journal.State) int64 {
	r.t.Helper()
	var all int64
	for id := range state.Execs {
		ends, err := r.store.OutputEnds(r.t.Context(), uuid.MustParse(id))
		if err != nil {
			r.t.Fatal(err)
		}
		all += ends.Stdout + ends.Stderr
	}
	return all
}

// output is a stream as it is stored, without a gap, and where it ends.
func (r *rig) output(exec string, stream store.Stream) (string, int64) {
	r.t.Helper()
	chunks, err := r.store.ReadOutput(r.t.Context(), tenant, uuid.MustParse(exec), stream, 0, 10000)
	if err != nil {
		r.t.Fatal(err)
	}
	var all bytes.Buffer
	at := int64(0)
	for _, chunk := range chunks {
		if chunk.Off != at {
			r.t.Fatalf("a chunk begins at %d, the one before ended at %d", chunk.Off, at)
		}
		at = chunk.Off + chunk.RawLen
		all.Write(chunk.Data)
	}
	return all.String(), at
}

// A secret lies over gaps in a command's output, one of them in front of the next owner, and over the loss of the command: what is
// stored, and what the model is told, has no part of it.
func TestSecretOverAGapIsMaskedWhoeverDies(t *testing.T) {
	const secret = "first-half-and-the-second-half"
	pieces := []sandbox.Output{
		{Data: []byte("one first-ha")},
		{Offset: 12, Missing: 30},
		{Offset: 42, Data: []byte("-and-the-")},
		{Offset: 51, Missing: 10},
		{Offset: 61, Data: []byte("second-half two first-")},
	}
	var owners atomic.Int64
	tool := both("true")
	tool.Run = func(ctx context.Context, call tools.Call) (tools.Result, error) {
		if _, err := call.Box.Start(ctx, sandbox.Command{ID: call.ExecID, IfEpoch: call.Epoch, Argv: []string{"true"}}); err != nil {
			return tools.Result{}, err
		}
		mine, last := pieces[:4], owners.Add(1) == 2
		if last {
			mine = pieces[4:]
			if call.From.Stdout != mine[0].Offset {
				t.Errorf("the next owner goes on at %d", call.From.Stdout)
			}
		}
		for _, piece := range mine {
			piece.Stream = sandbox.Stdout
			if err := call.Output(piece); err != nil {
				return tools.Result{}, err
			}
		}
		if !last {
			<-ctx.Done()
			return tools.Result{}, context.Cause(ctx)
		}
		var told []byte
		for _, piece := range pieces {
			then := tools.More
			if piece.Missing > 0 {
				then = tools.Gap
			}
			told = append(told, call.Mask(piece.Data, then).Data...)
		}
		told = append(told, call.Mask(nil, tools.Gap).Data...)
		return tools.Result{Content: told, Lost: &sandbox.LostError{Reason: "restarted"}}, nil
	}
	r := newRig(t, "call: both {}\nsay: done", tool)
	r.open = func(o *store.Options) { o.TTL = 400 * time.Millisecond }
	r.change = func(o *driver.Options) { o.Known = []string{secret} }
	session := r.session()
	work := r.submit(session, "go")
	kill := r.owner()
	r.soon("the output before the next owner is stored", func() bool {
		_, now := r.history(session)
		return r.stored(now) == pieces[4].Offset
	})
	kill()
	r.replica()
	if now := r.settled(work.ID); now.Outcome != completed {
		t.Fatalf("outcome %s", now.Outcome)
	}
	const want = "one [secret][secret][secret] two [secret]"
	_, state := r.history(session)
	for id := range state.Execs {
		if got, end := r.output(id, store.Stdout); got != want || end != 83 {
			t.Errorf("stored up to %d is %q", end, got)
		}
	}
	if got := results(state); len(got) != 1 || got[0] != want {
		t.Errorf("the model is told %q", got)
	}
}

// A long result is masked before its middle is left out: the cut does not leave half a secret.
func TestSecretOnTheCutOfALongResultIsMasked(t *testing.T) {
	const secret = "s3cr3t-of-the-tenant"
	r := newRig(t, "")
	r.change = func(o *driver.Options) { o.Known = []string{secret} }
	r.replica()
	session := r.session()
	// The head that is kept ends in the middle of a secret.
	r.settled(r.submit(session, fmt.Sprintf("run: head -c %d /dev/zero | tr '\\0' a; printf 's3cr3t-'; echo of-the-tenant; head -c 100000 /dev/zero | tr '\\0' b", tools.HeadBytes-10)).ID)
	entries, state := r.history(session)
	got := results(state)
	if len(got) != 1 || strings.Contains(got[0], "s3cr3t") || !strings.Contains(got[0], "bytes left out") {
		t.Errorf("results %q", got)
	}
	for _, entry := range entries {
		if entry.Kind == journal.KindToolResult && entry.Body.GetToolResult().GetMasked() == 0 {
			t.Error("no mask was counted")
		}
	}
}

// slow is a model that answers when it is let.
type slow struct {
	model.Model
	asked chan struct{}
	let   chan struct{}
}

// Ask is Model's.
func (m slow) Ask(ctx context.Context, request model.Request, onDelta func(model.Delta) error) (model.Answer, error) {
	if text := request.Messages[0].Blocks[0].Text; strings.HasPrefix(text, "slow") {
		m.asked <- struct{}{}
		select {
		case <-m.let:
		case <-ctx.Done():
			return model.Answer{}, context.Cause(ctx)
		}
	}
	return m.Model.Ask(ctx, request, onDelta)
}

// langchain-ai/langgraph#5675, langchain-ai/langgraph#7259: what waits for a model holds no connection: with two of them
// for everything, forty sessions wait and another one still runs.
func TestNoConnectionIsHeldWhileAModelThinks(t *testing.T) {
	m := slow{Model: scriptedModel(t, ""), asked: make(chan struct{}, 40), let: make(chan struct{})}
	r := newRigAsking(t, m, nil)
	r.open = func(o *store.Options) { o.Conns, o.Writers, o.OutputLanes = 1, 1, 1 }
	r.replica()
	var waiting []store.Submission
	for range 40 {
		waiting = append(waiting, r.submit(r.session(), "slow"))
	}
	for range waiting {
		<-m.asked
	}
	if now := r.settled(r.submit(r.session(), "run: echo quick").ID); now.Outcome != completed {
		t.Fatalf("outcome %s", now.Outcome)
	}
	close(m.let)
	for _, work := range waiting {
		if now := r.settled(work.ID); now.Outcome != completed {
			t.Errorf("outcome %s", now.Outcome)
		}
	}
}

// hanging is a model that never answers its first call.
type hanging struct {
	model.Model
	calls atomic.Int64
}

// Ask is Model's.
func (m *hanging) Ask(ctx context.Context, request model.Request, onDelta func(model.Delta) error) (model.Answer, error) {
	if m.calls.Add(1) == 1 {
		<-ctx.Done()
		return model.Answer{}, context.Cause(ctx)
	}
	return m.Model.Ask(ctx, request, onDelta)
}

// withastro/flue#538: a model that says nothing is not waited for for ever, though the replica beats.
func TestSilentModelIsAskedAgain(t *testing.T) {
	m := &hanging{Model: scriptedModel(t, "")}
	r := newRigAsking(t, m, nil)
	r.change = func(o *driver.Options) { o.ModelSilence = 300 * time.Millisecond }
	r.replica()
	session := r.session()
	if now := r.settled(r.submit(session, "say: there").ID); now.Outcome != completed {
		t.Fatalf("outcome %s", now.Outcome)
	}
	entries, _ := r.history(session)
	if count(entries, journal.KindModelAborted) != 1 || m.calls.Load() != 2 {
		t.Errorf("%v after %d calls", kinds(entries), m.calls.Load())
	}
}

// Files that came with a submission are in the workspace before the first command, and what is made of them afterwards is not
// overwritten by an owner after this one.
func TestAttachmentsAreDeliveredOnce(t *testing.T) {
	r := newRig(t, "")
	data := []byte("a,b\x00c")
	sum, err := r.store.PutBlob(t.Context(), tenant, "text/csv", data)
	if err != nil {
		t.Fatal(err)
	}
	session := r.session()
	payload, err := driver.EncodeInput(
		driver.Text("run: f=$(ls attachments/*/table.csv); cp $f copy; echo changed > $f; while [ ! -e go ]; do sleep 0.05; done\nrun: cat attachments/*/table.csv"),
		&journalv1.Part{Part: &journalv1.Part_Attachment{Attachment: &journalv1.Attachment{Name: "table.csv", MediaType: "text/csv", Sha256: sum, Size: int64(len(data))}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	work, err := r.store.Submit(t.Context(), store.Input{Tenant: tenant, Session: session, Key: "1", Payload: payload, Blobs: [][]byte{sum}})
	if err != nil {
		t.Fatal(err)
	}
	kill := r.owner()
	r.soon("the file is there", func() bool { return r.file(session, "copy") == string(data) })
	r.soon("it is changed", func() bool {
		return r.file(session, driver.AttachmentPath(work.ID, "table.csv")) == "changed\n"
	})
	kill()
	r.replica()
	box, err := r.places.Open(t.Context(), store.Claim{Session: session})
	if err != nil {
		t.Fatal(err)
	}
	if err := box.Box.WriteFile(t.Context(), "go", nil, sandbox.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if now := r.settled(work.ID); now.Outcome != completed {
		t.Fatalf("outcome %s", now.Outcome)
	}
	_, state := r.history(session)
	if got := results(state); len(got) != 2 || !strings.HasPrefix(got[1], "changed\n") {
		t.Errorf("results %q", got)
	}
}
