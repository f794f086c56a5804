package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/crashpoint"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/machinetoken"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/secrets"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/tools"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

// URLVariable of the environment says where a command finds upstreams.
const URLVariable = "FLYFLEET_PROXY_URL"

// lookForCalls reads what commands ask for, while any runs.
func (s *session) lookForCalls() error {
	s.wanted = nil
	if s.options.WayBack == nil || !slices.ContainsFunc(s.state.Pending(), func(call *journal.Call) bool { return call.Exec != nil }) {
		return nil
	}
	wanted, err := s.options.Store.Asked(s.ctx, s.claim, turn.MaxNested)
	switch {
	case s.ctx.Err() != nil:
		return context.Cause(s.ctx)
	case err != nil:
		s.log.WarnContext(s.ctx, "what commands ask for cannot be read", "error", err)
		return nil
	}
	s.wanted = wanted
	return nil
}

// callers are the tools that commands may ask for; an agent without any has an empty set.
func (s *session) callers() Calls {
	if s.agent.Calls == nil {
		return noCalls{}
	}
	return s.agent.Calls
}

type noCalls struct{}

func (noCalls) Plan(string, json.RawMessage) tools.Plan {
	return tools.Plan{Class: journalv1.EffectClass_EFFECT_CLASS_PURE, Policy: journalv1.Policy_POLICY_ALLOW}
}

func (noCalls) Run(context.Context, string, tools.Call) (tools.Result, error) {
	return tools.Result{Failed: true, Content: []byte("This agent's commands may ask for nothing.")}, nil
}

func (noCalls) Show(args json.RawMessage, _ []byte) json.RawMessage { return args }

func (noCalls) Title(json.RawMessage) string { return "" }

// takeCall writes down that a command asks for a call, under the policy that it has here and now.
func (s *session) takeCall(id string) error {
	at := slices.IndexFunc(s.wanted, func(w store.Callback) bool { return w.Call == id })
	if at < 0 {
		return nil
	}
	request := s.wanted[at]
	plan := s.callers().Plan(request.Tool, request.Args)
	called := &journalv1.ToolCalled{
		CallId: id, Tool: request.Tool, ArgsSha256: journal.ArgsSHA256(request.Args), Class: plan.Class, Policy: plan.Policy, Block: -1,
	}
	step := store.Step{
		Take: []store.Take{{Call: id}},
		Intend: []store.Effect{{
			Call: id, Submission: s.state.Open().ID, Class: plan.Class, Tool: request.Tool, ArgsSHA256: called.GetArgsSha256(),
		}},
	}
	if err := s.commit(step, &journalv1.Body{Body: &journalv1.Body_ToolCalled{ToolCalled: called}}); err != nil {
		return err
	}
	s.requests[id] = request
	s.wanted = slices.Delete(slices.Clone(s.wanted), at, at+1)
	return nil
}

// request is what a command asked in its bytes.
func (s *session) request(call *journal.Call) (store.Callback, error) {
	if there, known := s.requests[call.ID]; known {
		return there, nil
	}
	read, err := s.options.Store.Callback(s.ctx, s.claim.Session, call.ID)
	if err == nil {
		s.requests[call.ID] = read
	}
	return read, err
}

// shown is what a card shows of a call.
func (s *session) shown(call *journal.Call, args json.RawMessage) json.RawMessage {
	if !call.Nested() {
		return args
	}
	request, err := s.request(call)
	if err != nil {
		return args
	}
	return s.callers().Show(args, request.Body)
}

// serve works on a call that a command asks for. It needs no machine.
func (s *session) serve(ctx context.Context, j job) error {
	if j.start != nil {
		if err := s.commitStart(ctx, &j, nil); err != nil {
			return err
		}
	}
	crashpoint.Hit("serve.before")
	result, err := j.calls.Run(ctx, j.tool, tools.Call{Args: j.args, Body: j.body, Key: j.key, Resumed: j.again, Credential: j.credential})
	crashpoint.Hit("serve.after")
	if err != nil {
		return err
	}
	return s.in(s.ctx, func() error { return s.settleResult(j, result) })
}

// titled is a result's content, for the journal: what a command asked is in no other entry.
func (s *session) titled(call *journal.Call, content []byte) []byte {
	if !call.Nested() {
		return content
	}
	args, err := s.args(call)
	if err != nil {
		return content
	}
	title := s.callers().Title(args)
	if title == "" {
		return content
	}
	return fmt.Appendf(nil, "%s: %s", title, content)
}

// answerOf is what the command that asked for a call gets; nil when the model did.
func (s *session) answerOf(call *journal.Call, content, data []byte) *store.Answer {
	if !call.Nested() {
		return nil
	}
	delete(s.requests, call.ID)
	clean, _ := s.mask.Redact(content)
	return &store.Answer{Content: clean, Data: data}
}

// lender gives credentials of the submissions that are worked on now, read when they are needed: they may be over by then.
func (s *session) lender() func(ctx context.Context, name string) (string, bool, error) {
	ids := s.working()
	return func(ctx context.Context, name string) (string, bool, error) {
		if s.options.Sealer == nil {
			return "", false, nil
		}
		for _, id := range ids {
			byName, err := s.credentials(ctx, id)
			if err != nil {
				s.log.ErrorContext(ctx, "credentials cannot be read", "submission", id, "error", err)
				return "", false, errors.New("credentials cannot be read")
			}
			if value, there := byName[name]; there {
				return value, true, nil
			}
		}
		return "", false, nil
	}
}

// equip gives a command its way back, and hides the token in what the command says.
func (s *session) equip(ctx context.Context, j *job) ([]string, error) {
	way := s.options.WayBack
	if way == nil || j.calls == nil || j.exec.ID == "" {
		return nil, nil
	}
	id, err := uuid.Parse(j.exec.ID)
	if err != nil {
		return nil, err
	}
	claim := machinetoken.Claim{Machine: j.exec.Machine}
	held, has, err := s.options.Store.SlotOf(ctx, s.claim.Session)
	if err != nil {
		return nil, err
	}
	if has && held.Machine == j.exec.Machine {
		claim = machinetoken.ClaimOf(held)
	}
	// The command may have one that was made under an older key.
	all := way.Keys.All(id, claim)
	j.mask = secrets.NewRedactor(append(slices.Clone(j.known), all...)...)
	return []string{URLVariable + "=" + way.URL, machinetoken.Variable + "=" + all[0]}, nil
}
