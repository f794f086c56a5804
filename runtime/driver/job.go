package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/crashpoint"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/secrets"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/tools"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

// running is a call that this process works on.
type running struct{ stop context.CancelCauseFunc }

// job is the work on a call. What is in it was read by the loop, and does not change.
type job struct {
	call string
	key  string
	// again: it was started before.
	again bool
	// start is what to commit before it may happen; nil for a pure call and one that was started.
	start *turn.StartTool

	tool  string
	args  json.RawMessage
	class journalv1.EffectClass
	exec  journal.Exec
	files []files
	// known are the values that mask hides.
	known []string
	mask  *secrets.Redactor
	// calls are what commands may ask for. A call that one asks for has a body, and credentials.
	calls      Calls
	nested     bool
	body       []byte
	credential func(ctx context.Context, name string) (string, bool, error)
	// holds: the command's clock may stand.
	holds bool
}

var errStopped = errors.New("the call was told to stop")

// startTool begins a call. The intent is committed once its machine is there.
func (s *session) startTool(a turn.StartTool) (did, error) {
	j := job{call: a.Call, key: a.Key}
	if a.Journaled {
		j.start = &a
	}
	return done, s.work(j)
}

// work begins the work on a call in a goroutine of its own.
func (s *session) work(j job) error {
	call := s.state.Calls[j.call]
	args, err := s.args(call)
	if err != nil {
		return err
	}
	j.tool, j.args, j.class, j.files = call.Tool, args, call.Class, s.files()
	j.known, j.mask, j.calls = s.known, s.mask, s.agent.Calls
	work := s.carry
	if call.Nested() {
		request, err := s.request(call)
		if err != nil {
			return err
		}
		j.nested, j.body, j.credential, j.calls = true, request.Body, s.lender(), s.callers()
		work = s.serve
	}
	if call.Exec != nil {
		j.exec = *call.Exec
		j.holds = s.asked(call.Exec.ID)
	}
	ctx, stop := context.WithCancelCause(s.ctx)
	ctx, end := s.callSpan(ctx, j)
	this := &running{stop: stop}
	s.calls[j.call] = this
	s.own(func() {
		defer stop(nil)
		err := work(ctx, j)
		end(err)
		if err != nil && ctx.Err() == nil && !errors.Is(err, errCannot) {
			// It is begun again when this is over; not at once.
			_ = pause(ctx, failedPatience)
		}
		s.tell(func() error { return s.over(j, this, err) })
	})
	return nil
}

// over takes note that nothing works on a call any more.
func (s *session) over(j job, this *running, err error) error {
	if s.calls[j.call] == this {
		delete(s.calls, j.call)
	}
	if j.nested && s.stopped[j.call] {
		// Its command ended before it; that is no end of the submission, whose grace begins when it does.
		if delete(s.stopped, j.call); len(s.stopped) == 0 {
			s.stoppedAt = time.Time{}
		}
	}
	if err != nil && !errors.Is(err, errStopped) && !errors.Is(err, errCannot) {
		s.log.WarnContext(s.ctx, "a call came to no result", "call", j.call, "tool", j.tool, "error", err)
	}
	if errors.Is(err, sandbox.ErrFenced) || errors.Is(err, store.ErrFenced) {
		return errors.Join(store.ErrFenced, err)
	}
	return nil
}

// asked: calls were made from within the command, so its clock may stand.
func (s *session) asked(exec string) bool {
	for _, call := range s.state.Calls {
		if call.Within == exec {
			return true
		}
	}
	return false
}

// args are the arguments that may run: the model's, from its answer, or a person's.
func (s *session) args(call *journal.Call) (json.RawMessage, error) {
	if edited := call.EditedArgs(); edited != nil {
		return edited, nil
	}
	if call.Nested() {
		request, err := s.request(call)
		return request.Args, err
	}
	for i := len(s.state.Conversation) - 1; i >= 0; i-- {
		answer := s.state.Conversation[i].Answer
		if answer == nil || int(call.Block) >= len(answer.Blocks) || !slices.Contains(answer.Calls, call.ID) {
			continue
		}
		block, err := model.Decode(answer.Provider, answer.Blocks[call.Block].Raw)
		if err != nil {
			return nil, fmt.Errorf("arguments of call %s: %w", call.ID, err)
		}
		return block.Args, nil
	}
	return nil, fmt.Errorf("arguments of call %s: its answer is gone", call.ID)
}

// carry works on a call until it has its result, or cannot have one here.
func (s *session) carry(ctx context.Context, j job) error {
	var lost *Place
	for wait := firstPatience; ; wait = min(2*wait, longestPatience) {
		place, err := s.places.open(ctx, lost)
		if err == nil {
			err = s.attempt(ctx, &j, place)
		} else if ctx.Err() == nil && !isUnavailable(err) {
			if j.exec.ID == "" {
				return s.noMachine(j, err)
			}
			err = &sandbox.UnavailableError{Reason: err.Error(), Err: err}
		}
		unavailable := new(sandbox.UnavailableError)
		full := errors.Is(err, store.ErrNoSlot)
		if ctx.Err() != nil || !errors.As(err, &unavailable) && !full {
			return err
		}
		if !full && !unavailable.Refused && !j.mayRepeat() {
			// It was sent, and nobody knows: that is what the next owner would find, too.
			return err
		}
		s.log.InfoContext(ctx, "waiting for the machine", "call", j.call, "error", err)
		if lost = nil; full || wait == longestPatience {
			lost = place
		}
		if err := pause(ctx, max(wait, unavailable.RetryAfter)); err != nil {
			return err
		}
	}
}

// Patience with a machine doubles from try to try. A machine that is away for longer is asked for anew.
const (
	firstPatience   = 100 * time.Millisecond
	longestPatience = 10 * time.Second
	failedPatience  = time.Second
)

func isUnavailable(err error) bool {
	unavailable := new(sandbox.UnavailableError)
	return errors.As(err, &unavailable) || errors.Is(err, sandbox.ErrFenced)
}

// masker masks a text that comes in pieces, and then another one.
func (j job) masker() func(raw []byte, then tools.Then) tools.Clean {
	stream := j.mask.Stream()
	return func(raw []byte, then tools.Then) tools.Clean {
		written := stream.Write(raw)
		var rest secrets.Chunk
		switch then {
		case tools.Last:
			rest, stream = stream.Close(), j.mask.Stream()
		case tools.Gap:
			rest, stream = stream.Cut(), j.mask.AfterGap(0)
		case tools.More:
		}
		return tools.Clean{Data: append(written.Data, rest.Data...), Raw: written.RawLen + rest.RawLen, Masks: written.Masks + rest.Masks}
	}
}

// mayRepeat: sending it twice is doing it once.
func (j job) mayRepeat() bool {
	return j.class != journalv1.EffectClass_EFFECT_CLASS_OPAQUE || j.start != nil
}

func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// attempt commits the intent, if that is due, runs the call, and commits its result.
func (s *session) attempt(ctx context.Context, j *job, place *Place) error {
	if err := s.put(ctx, place, j.files); err != nil {
		return err
	}
	if j.start != nil {
		if err := s.commitStart(ctx, j, place); err != nil {
			return err
		}
	}
	if j.exec.ID != "" && j.exec.Machine != place.Machine {
		return s.machineGone(ctx, *j)
	}
	if j.holds {
		s.unhold(ctx, *j, place)
	}
	env, err := s.equip(ctx, j)
	if err != nil {
		return err
	}
	out, err := s.newOutput(ctx, *j)
	if err != nil {
		return err
	}
	crashpoint.Hit("effect.before")
	result, err := s.runTool(ctx, j, tools.Call{
		Args: j.args, Box: place.Box, ExecID: j.exec.ID, Epoch: j.exec.Epoch, Resumed: j.again, Key: j.key,
		Output: out.take, From: out.from, Mask: j.masker(), SecretEnv: env,
	})
	crashpoint.Hit("effect.after")
	j.again = true
	var rest func(*secrets.Stream) secrets.Chunk
	switch {
	case err != nil:
	case result.Lost != nil:
		rest = (*secrets.Stream).Cut
	case result.Exit != nil:
		rest = (*secrets.Stream).Close
	}
	if failed := out.close(rest); failed != nil {
		return failed
	}
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		// What a tool says of a call that was cut off is no result. One that was told to stop may still have one.
		if cause := context.Cause(ctx); !errors.Is(cause, errStopped) {
			return cause
		}
	}
	if err := s.in(s.ctx, func() error { return s.settleResult(*j, result) }); err != nil {
		return err
	}
	s.forget(j.exec, place)
	return nil
}

// noMachine is the result of a call for which there is no machine.
func (s *session) noMachine(j job, cause error) error {
	return s.in(s.ctx, func() error {
		return s.settleCall(j.call, journalv1.ToolOutcome_TOOL_OUTCOME_ERROR, fmt.Appendf(nil, "It was not done: there is no machine to work on: %v", cause))
	})
}
