package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
)

// A tenant sees and touches nothing of another's, by any method: a method without a case here fails the test.
func TestTenantsAreApart(t *testing.T) {
	r := newRig(t, askBeforeExec)
	r.executor()
	f := r.face()
	session := f.session(r.acme)
	submission := f.submit(r.acme, session, "run: echo hush-hush\nsay: over").GetSubmissionId()
	card := f.card(r.acme, session).GetApprovalId()
	c := f.client(r.zed)
	before := f.entries(r.acme, session)
	r.soon("the index has the words", func() bool {
		got, err := f.client(r.acme).Search(t.Context(), connect.NewRequest(&runtimev1.SearchRequest{Query: "hush"}))
		r.ok(err)
		return len(got.Msg.GetHits()) > 0
	})
	notFound := connect.CodeNotFound
	cases := map[string]struct {
		want connect.Code // 0: it answers, with nothing
		call func(context.Context) (any, error)
	}{
		"CreateSession": {connect.CodeNotFound, func(ctx context.Context) (any, error) {
			return c.CreateSession(ctx, connect.NewRequest(&runtimev1.CreateSessionRequest{SessionId: session, Agent: "coder"}))
		}},
		"Submit": {notFound, func(ctx context.Context) (any, error) {
			return c.Submit(ctx, connect.NewRequest(&runtimev1.SubmitRequest{SessionId: session, IdempotencyKey: "k", Parts: text("say: hi")}))
		}},
		"GetSession": {notFound, func(ctx context.Context) (any, error) {
			return c.GetSession(ctx, connect.NewRequest(&runtimev1.GetSessionRequest{SessionId: session}))
		}},
		"GetSubmission": {notFound, func(ctx context.Context) (any, error) {
			return c.GetSubmission(ctx, connect.NewRequest(&runtimev1.GetSubmissionRequest{SubmissionId: submission}))
		}},
		"ListSessions": {0, func(ctx context.Context) (any, error) {
			got, err := c.ListSessions(ctx, connect.NewRequest(&runtimev1.ListSessionsRequest{}))
			r.ok(err)
			return got.Msg.GetSessions(), nil
		}},
		"ListEntries": {notFound, func(ctx context.Context) (any, error) {
			return c.ListEntries(ctx, connect.NewRequest(&runtimev1.ListEntriesRequest{SessionId: session}))
		}},
		"ListApprovals": {0, func(ctx context.Context) (any, error) {
			got, err := c.ListApprovals(ctx, connect.NewRequest(&runtimev1.ListApprovalsRequest{}))
			r.ok(err)
			return got.Msg.GetApprovals(), nil
		}},
		"StreamEvents": {notFound, func(ctx context.Context) (any, error) {
			stream, err := c.StreamEvents(ctx, connect.NewRequest(&runtimev1.StreamEventsRequest{SessionId: session, Output: true, UntilNow: true}))
			r.ok(err)
			if stream.Receive() {
				t.Errorf("told %v", stream.Msg())
			}
			return nil, stream.Err()
		}},
		"Decide": {notFound, func(ctx context.Context) (any, error) {
			return c.Decide(ctx, connect.NewRequest(&runtimev1.DecideRequest{ApprovalId: card, IdempotencyKey: "k", Verdict: approve}))
		}},
		"Cancel": {notFound, func(ctx context.Context) (any, error) {
			return c.Cancel(ctx, connect.NewRequest(&runtimev1.CancelRequest{SubmissionId: submission}))
		}},
		"Fork": {notFound, func(ctx context.Context) (any, error) {
			return c.Fork(ctx, connect.NewRequest(&runtimev1.ForkRequest{SessionId: session, Seq: 1}))
		}},
		"CloseSession": {notFound, func(ctx context.Context) (any, error) {
			return c.CloseSession(ctx, connect.NewRequest(&runtimev1.CloseSessionRequest{SessionId: session}))
		}},
		"Search": {0, func(ctx context.Context) (any, error) {
			got, err := c.Search(ctx, connect.NewRequest(&runtimev1.SearchRequest{Query: "hush"}))
			r.ok(err)
			return got.Msg.GetHits(), nil
		}},
	}
	methods := runtimev1.File_flyfleet_runtime_v1_runtime_proto.Services().ByName("RuntimeService").Methods()
	for i := range methods.Len() {
		name := string(methods.Get(i).Name())
		one, there := cases[name]
		if !there {
			t.Errorf("%s has no case", name)
			continue
		}
		got, err := one.call(t.Context())
		if one.want == 0 && !empty(got) || one.want != 0 && connect.CodeOf(err) != one.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if err != nil && (strings.Contains(err.Error(), session) || strings.Contains(err.Error(), "acme")) {
			t.Errorf("%s tells of the other: %v", name, err)
		}
	}
	refused := new(refusal)
	if _, err := f.connectTo(f.Client(), r.zed, session, "", ""); !errors.As(err, &refused) || refused.status != http.StatusNotFound {
		t.Errorf("SSE: %v", err)
	}
	if after := f.entries(r.acme, session); len(after) != len(before) {
		t.Errorf("%d entries, then %d", len(before), len(after))
	}
	if f.card(r.acme, session).GetApprovalId() != card {
		t.Error("the card was touched")
	}
}

func empty(list any) bool {
	switch l := list.(type) {
	case []*runtimev1.Session:
		return len(l) == 0
	case []*runtimev1.Approval:
		return len(l) == 0
	case []*runtimev1.SearchHit:
		return len(l) == 0
	}
	return false
}

func (f *face) entries(key, session string) []*runtimev1.Entry {
	f.Helper()
	got, err := f.client(key).ListEntries(f.Context(), connect.NewRequest(&runtimev1.ListEntriesRequest{SessionId: session}))
	f.ok(err)
	return got.Msg.GetEntries()
}
