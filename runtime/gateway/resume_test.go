package gateway_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1/runtimev1connect"
)

// told checks that events are each entry once and in order, and each byte of output once and in its place; it gives the
// output by command and stream.
type told struct {
	t      *testing.T
	seq    int64
	output map[string][]byte
	ended  map[string]bool
}

func (c *told) take(events ...*runtimev1.StreamEventsResponse) {
	c.t.Helper()
	if c.output == nil {
		c.output, c.ended = map[string][]byte{}, map[string]bool{}
	}
	for _, e := range events {
		if entry := e.GetEntry(); entry != nil {
			if entry.GetSeq() != c.seq+1 {
				c.t.Fatalf("entry %d comes after %d", entry.GetSeq(), c.seq)
			}
			c.seq = entry.GetSeq()
			if exited := entry.GetBody().GetExecExited(); exited != nil {
				c.ended[exited.GetExecId()] = true
				if got := int64(len(c.output[exited.GetExecId()+"1"])); got != exited.GetStdoutEnd() {
					c.t.Fatalf("the command's end came after %d bytes of %d", got, exited.GetStdoutEnd())
				}
			}
		}
		if out := e.GetOutput(); out != nil {
			key := fmt.Sprint(out.GetExecId(), int(out.GetStream()))
			if c.ended[out.GetExecId()] || out.GetOffset() != int64(len(c.output[key])) || out.GetRawLength() != int64(len(out.GetData())) {
				c.t.Fatalf("%s: %d bytes at %d, after %d", key, out.GetRawLength(), out.GetOffset(), len(c.output[key]))
			}
			c.output[key] = append(c.output[key], out.GetData()...)
		}
	}
}

func (c *told) stdout() []byte {
	var all []byte
	for key, out := range c.output {
		if key[len(key)-1] == '1' {
			all = append(all, out...)
		}
	}
	return all
}

// numbers is what `seq 1 n` writes.
func numbers(n int) []byte {
	var b bytes.Buffer
	for i := 1; i <= n; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.Bytes()
}

// anomalyco/opencode#25657, OpenHands/OpenHands#17619: a client that was away while a command wrote gets exactly what it
// missed, also from another replica.
// modelcontextprotocol/typescript-sdk#2499: one that is cut again before any event came goes on at the cursor that it
// came with.
func TestClientThatWasAwayGetsExactlyWhatItMissed(t *testing.T) {
	r := newRig(t)
	r.executor()
	one, two := r.face(), r.face()
	session := one.session(r.acme)
	gate := filepath.Join(t.TempDir(), "gate")
	submission := one.submit(r.acme, session, "run: seq 1 2000; while [ ! -e "+gate+" ]; do sleep 0.02; done; seq 2001 60000\nsay: over")
	seen := &told{t: t}

	w := one.watch(r.acme, session, "?output=1", "")
	seen.take(w.until(func(e *runtimev1.StreamEventsResponse) bool { return e.GetOutput() != nil })...)
	w.close()
	last := w.last
	if seen.seq == 0 || len(seen.output) == 0 || last == "" {
		t.Fatalf("nothing was told before the cut: %d, %d, %q", seen.seq, len(seen.output), last)
	}

	r.ok(os.WriteFile(gate, nil, 0o600))
	one.settled(r.acme, submission.GetSubmissionId())

	// Cut before anything came: what counts is still the cursor of the request.
	for range 3 {
		two.watch(r.acme, session, "?output=1", last).close()
	}
	for i := 0; ; i++ {
		w = two.watch(r.acme, session, "?output=1", last)
		n := 0
		got := w.until(func(e *runtimev1.StreamEventsResponse) bool { n++; return isSettled(e) || n == i })
		seen.take(got...)
		last = w.last
		w.close()
		if len(got) > 0 && isSettled(got[len(got)-1]) {
			break
		}
		if last == "" {
			t.Fatal("no event in a whole connection")
		}
	}
	if want := numbers(60000); !bytes.Equal(seen.stdout(), want) {
		t.Errorf("the output has %d bytes, want %d", len(seen.stdout()), len(want))
	}
}

// OpenHands/software-agent-sdk#1785: what is written between the snapshot and the subscription is not missed.
// anomalyco/opencode#46102: entries of one batch, of one time, come by their numbers.
func TestNothingFallsBetweenSnapshotAndStream(t *testing.T) {
	r := newRig(t)
	f := r.face()
	session := f.session(r.acme)
	list := func() []*runtimev1.Entry {
		got, err := f.client(r.acme).ListEntries(t.Context(), connect.NewRequest(&runtimev1.ListEntriesRequest{SessionId: session}))
		r.ok(err)
		if got.Msg.GetNextAfterSeq() != 0 {
			t.Fatal("a short list says that there is more")
		}
		return got.Msg.GetEntries()
	}
	snapshot := list()
	stop := r.executor()
	f.settled(r.acme, f.submit(r.acme, session, "say: hello").GetSubmissionId())
	stop()
	stream, err := f.client(r.acme).StreamEvents(t.Context(), connect.NewRequest(&runtimev1.StreamEventsRequest{
		SessionId: session, Cursor: fmt.Sprint(snapshot[len(snapshot)-1].GetSeq()), UntilNow: true,
	}))
	r.ok(err)
	seen := &told{t: t, seq: snapshot[len(snapshot)-1].GetSeq()}
	said := ""
	for stream.Receive() {
		seen.take(stream.Msg())
		for _, b := range stream.Msg().GetEntry().GetShown() {
			said += b.GetText()
		}
	}
	r.ok(stream.Err())
	if all := list(); seen.seq != all[len(all)-1].GetSeq() || len(all) <= len(snapshot) || said != "hello" {
		t.Errorf("told up to %d of %d, %q", seen.seq, all[len(all)-1].GetSeq(), said)
	}
}

// cut lets requests reach the server, and loses the first answers.
type cut struct {
	http.RoundTripper
	lose int
}

var errCut = errors.New("the connection was cut before the reply")

func (c *cut) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.RoundTripper.RoundTrip(r)
	if err == nil && c.lose > 0 {
		c.lose--
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		return nil, errCut
	}
	return resp, err
}

// a2aproject/A2A#928: a POST whose answer was lost, sent again, is the same submission and one turn; a session, a fork, a
// decision too.
func TestRepeatAfterALostReplyIsTheSame(t *testing.T) {
	r := newRig(t)
	f := r.face()
	session := f.session(r.acme)
	lossy := &cut{RoundTripper: f.keyed(r.acme).Transport, lose: 1}
	client := runtimev1connect.NewRuntimeServiceClient(&http.Client{Transport: lossy}, f.URL)
	req := &runtimev1.SubmitRequest{
		SessionId: session, IdempotencyKey: "one", Parts: append(text("say: once"), &runtimev1.InputPart{
			Part: &runtimev1.InputPart_Attachment{Attachment: &runtimev1.InputAttachment{Name: "a.txt", MediaType: "text/plain", Data: []byte("a")}},
		}), Credentials: map[string]string{"TOKEN": "first-secret"},
	}
	if _, err := client.Submit(t.Context(), connect.NewRequest(req)); connect.CodeOf(err) == 0 || err == nil {
		t.Fatalf("the answer was not lost: %v", err)
	}
	req.Credentials["TOKEN"] = "second-secret" // no part of the content
	again, err := client.Submit(t.Context(), connect.NewRequest(req))
	r.ok(err)
	third, err := client.Submit(t.Context(), connect.NewRequest(req))
	r.ok(err)
	if again.Msg.GetSubmission().GetSubmissionId() != third.Msg.GetSubmission().GetSubmissionId() || again.Msg.GetSubmission().GetOrdinal() != 1 {
		t.Errorf("%v, then %v", again.Msg, third.Msg)
	}
	req.Parts = text("say: something else")
	if _, err := client.Submit(t.Context(), connect.NewRequest(req)); connect.CodeOf(err) != connect.CodeAlreadyExists {
		t.Errorf("the key with other content: %v", err)
	}
	r.executor()
	f.settled(r.acme, again.Msg.GetSubmission().GetSubmissionId())
	got, err := client.ListEntries(t.Context(), connect.NewRequest(&runtimev1.ListEntriesRequest{SessionId: session}))
	r.ok(err)
	inputs := 0
	for _, e := range got.Msg.GetEntries() {
		if e.GetBody().GetInputAccepted() != nil {
			inputs++
		}
	}
	if inputs != 1 {
		t.Errorf("%d turns", inputs)
	}

	id := "" // of the session that the lost answer had
	for range 2 {
		lossy.lose = 0
		req := &runtimev1.ForkRequest{SessionId: session, Seq: 2, NewSessionId: newID(t, id)}
		id = req.GetNewSessionId()
		fork, err := client.Fork(t.Context(), connect.NewRequest(req))
		r.ok(err)
		if fork.Msg.GetSession().GetSessionId() != id || fork.Msg.GetSession().GetParentSeq() != 2 {
			t.Errorf("%v", fork.Msg)
		}
	}
}
