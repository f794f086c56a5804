//go:build linux

package crashtest

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/apikey"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1/runtimev1connect"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// A replica dies while a client waits for its answer, before or after what was asked is there. The client asks the next replica again, with the same key. a2aproject/A2A#928. A decision outlives
// whoever took it, and nobody is asked twice. openai/openai-agents-python#4244, Agenta-AI/agenta#5592.
func TestKilledUnderAClientsCall(t *testing.T) {
	m := startFleet(t).machine("tenant")
	t.Run("points", func(t *testing.T) {
		for _, point := range []struct {
			name string
			ask  func(*trial, *asker) error
			// before the call there must be something to ask; done counts what a call has done.
			before func(*trial, *replica)
			done   func(*trial) int
			first  int
		}{
			{"submit.before", (*trial).submitBy, (*trial).none, (*trial).admitted, 0},
			{"submit.after", (*trial).submitBy, (*trial).none, (*trial).admitted, 1},
			{"decide.before", (*trial).decideBy, (*trial).waitsForACard, (*trial).decided, 0},
			{"decide.after", (*trial).decideBy, (*trial).waitsForACard, (*trial).decided, 1},
		} {
			for times := 1; times <= 2; times++ {
				if times == 2 && !long() {
					continue
				}
				name := point.name
				if times == 2 {
					name += " twice"
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					x := prepared(t, m)
					client := x.asker()
					if strings.HasPrefix(point.name, "decide") {
						x.submit()
					}
					for range times {
						r := x.start(point.name)
						client.of(r)
						point.before(x, r)
						if err := point.ask(x, client); err == nil {
							t.Fatal("a call was answered by a replica that died in it")
						}
						if !r.diesOrSettles() {
							t.Fatal("settled without an answer to the client")
						}
						if _, err := os.Stat(filepath.Join(x.crashes, point.name)); !os.IsNotExist(err) {
							t.Fatalf("a replica died elsewhere than at %s:\n%s", point.name, r.log.String())
						}
						if n := point.done(x); n != point.first {
							t.Errorf("%d were done by calls that died at %s, want %d", n, point.name, point.first)
						}
					}
					last := x.start()
					client.of(last)
					point.before(x, last)
					if err := point.ask(x, client); err != nil {
						t.Fatalf("asked again: %v\n%s", err, last.log.String())
					}
					if strings.HasPrefix(point.name, "submit") {
						x.waitsForACard(last)
						if err := x.decideBy(client); err != nil {
							t.Fatal(err)
						}
					}
					if last.diesOrSettles() {
						t.Fatal("the last replica was killed by nobody of ours")
					}
					last.stop()
					if n := x.admitted(); n != 1 {
						t.Errorf("%d submissions of one", n)
					}
					x.verify()
				})
			}
		}
	})
}

// asker is a client of the trial's tenant.
type asker struct {
	x      *trial
	key    string
	client runtimev1connect.RuntimeServiceClient
}

func (x *trial) asker() *asker {
	x.t.Helper()
	key, _, err := gateway.AddKey(x.t.Context(), x.db, tenant, 0)
	if err != nil {
		x.t.Fatal(err)
	}
	return &asker{x: x, key: key}
}

// of lets it ask a replica, once that serves. No connection is used twice: what is asked of a replica that dies is not asked again
// by the client's own library.
func (a *asker) of(r *replica) {
	a.x.t.Helper()
	a.x.soon(func() string { return "it does not serve:\n" + r.log.String() }, func() bool { return r.address() != "" })
	a.client = runtimev1connect.NewRuntimeServiceClient(&http.Client{
		Transport: apikey.Transport{RoundTripper: &http.Transport{DisableKeepAlives: true}, Key: a.key},
	}, "http://"+r.address())
}

func (x *trial) submitBy(a *asker) error {
	ctx, cancel := context.WithTimeout(x.t.Context(), patience)
	defer cancel()
	made, err := a.client.Submit(ctx, connect.NewRequest(&runtimev1.SubmitRequest{
		SessionId: x.session.String(), IdempotencyKey: "1", Credentials: x.credentials,
		Parts: []*runtimev1.InputPart{{Part: &runtimev1.InputPart_Text{Text: "go"}}},
	}))
	if err == nil {
		x.work.ID = uuid.MustParse(made.Msg.GetSubmission().GetSubmissionId())
	}
	return err
}

func (x *trial) decideBy(a *asker) error {
	ctx, cancel := context.WithTimeout(x.t.Context(), patience)
	defer cancel()
	_, err := a.client.Decide(ctx, connect.NewRequest(&runtimev1.DecideRequest{
		ApprovalId: x.card.String(), IdempotencyKey: "yes", Verdict: runtimev1.ApprovalVerdict_APPROVAL_VERDICT_APPROVE, DecidedBy: "ann",
	}))
	return err
}

func (x *trial) none(*replica) {}

// waitsForACard waits until the trial's one card is there.
func (x *trial) waitsForACard(r *replica) {
	x.t.Helper()
	x.soon(func() string { return "no card is shown\n" + r.log.String() }, func() bool {
		if x.card != uuid.Nil {
			return true
		}
		cards, err := x.db.Pending(x.t.Context(), tenant, uuid.Nil, 10)
		if err != nil {
			x.t.Fatal(err)
		}
		if len(cards) == 1 {
			x.card = cards[0].ID
		}
		return len(cards) == 1
	})
}

// admitted counts the trial's submissions. What a client was not told it finds there.
func (x *trial) admitted() int {
	x.t.Helper()
	all, err := x.db.Submissions(x.t.Context(), tenant, x.session, 0, 10)
	if err != nil {
		x.t.Fatal(err)
	}
	if len(all) > 0 {
		x.work = all[0]
	}
	return len(all)
}

func (x *trial) decided() int {
	x.t.Helper()
	card, err := x.db.Approval(x.t.Context(), tenant, x.card)
	if err != nil {
		x.t.Fatal(err)
	}
	if card.State == store.ApprovalApproved {
		return 1
	}
	return 0
}
