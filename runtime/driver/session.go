package driver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/secrets"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

// session is a claim at work. Its fields belong to the loop; goroutines reach them by tell and in.
type session struct {
	*Driver
	claim store.Claim
	agent Agent
	state *journal.State
	news  store.News
	// known are values that mask hides.
	known  []string
	mask   *secrets.Redactor
	places *places
	span   turnSpan
	log    *slog.Logger

	// ctx ends with the claim, by the cause of that.
	ctx    context.Context //nolint:containedctx // the life of the claim, not of a call
	end    context.CancelCauseFunc
	events chan func() error
	owned  sync.WaitGroup

	draining bool
	asking   *asking
	// modelError is what the last model call failed with.
	modelError error
	compacting bool
	// calls that this process works on, by id.
	calls map[string]*running
	// stopped are calls that were told to end.
	stopped map[string]bool
	clocks  *clocks
	// wanted are the calls that commands ask for and that no entry tells of; requests those that are open, by call.
	wanted   []store.Callback
	requests map[string]store.Callback
	// stoppedAt is when the first of them was told.
	stoppedAt time.Time
	// dropped are decisions that came too late, to be marked with the next entry.
	dropped []store.Deliver
}

// mostEvents bounds what may wait for the loop.
const mostEvents = 64

func newSession(ctx context.Context, end context.CancelCauseFunc, d *Driver, claim store.Claim) *session {
	s := &session{
		Driver: d, claim: claim, state: new(journal.State), ctx: ctx, end: end, events: make(chan func() error, mostEvents),
		calls: map[string]*running{}, stopped: map[string]bool{}, clocks: newClocks(), requests: map[string]store.Callback{},
	}
	s.log = slog.New(tracedLog{d.options.Log.Handler(), &s.span}).With("session", claim.Session, "fence", claim.Fence)
	s.places = newPlaces(d.options.Machines, claim)
	return s
}

// run is the loop. It returns nil when the session was given up in good order.
func (s *session) run(drain <-chan struct{}) error {
	look, stop := s.options.Store.Notifier().WatchNews(s.claim.Session)
	defer stop()
	if err := s.load(); err != nil {
		return err
	}
	for {
		left, err := s.act()
		if left || err != nil {
			return err
		}
		select {
		case event := <-s.events:
			err = event()
		case <-look:
			s.watch()
			s.renewHolds()
			err = s.look()
		case <-drain:
			s.draining, drain = true, nil
		case <-s.ctx.Done():
			err = context.Cause(s.ctx)
		}
		if err != nil {
			return err
		}
	}
}

// load folds the journal and reads what the rows say.
func (s *session) load() error {
	entries, err := s.options.Store.Load(s.ctx, s.claim.Tenant, s.claim.Session, 0, 0)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := s.state.Apply(entry); err != nil {
			return fmt.Errorf("fold: %w", err)
		}
	}
	if s.agent, err = s.options.Agents.Agent(s.claim.Agent); err != nil {
		return err
	}
	s.agent.Blob = s.blob
	s.agent.Model = tracedModel{s.agent.Model, s.tracer, s.claim.Session.String()}
	if err := s.learnClaim(); err != nil {
		return err
	}
	s.beginSpan()
	if err := s.look(); err != nil {
		return err
	}
	return s.finishTerminal()
}

func (s *session) blob(sha []byte) []byte {
	data, err := s.options.Store.Blob(s.ctx, s.claim.Tenant, sha)
	if err != nil {
		s.log.WarnContext(s.ctx, "an attachment cannot be read", "error", err)
		return nil
	}
	return data
}

// look reads the news. A database that is away is no news.
func (s *session) look() error {
	news, err := s.options.Store.Look(s.ctx, s.claim)
	switch {
	case errors.Is(err, store.ErrFenced):
		return err
	case s.ctx.Err() != nil:
		return context.Cause(s.ctx)
	case err != nil:
		s.log.WarnContext(s.ctx, "the session's news cannot be read", "error", err)
		return nil
	}
	s.news = news
	return s.lookForCalls()
}

// act does what is to be done now, until that is nothing. left: the session was given up.
func (s *session) act() (left bool, err error) {
	for {
		moved := false
		for _, action := range turn.Next(s.state, s.facts()) {
			did, err := s.do(action)
			if err = s.survives(err); err != nil {
				return false, err
			}
			if did == gone {
				return true, nil
			}
			moved = moved || did == done
		}
		if !moved {
			return false, nil
		}
	}
}

// survives passes over what the next look will show in another light.
func (s *session) survives(err error) error {
	switch {
	case errors.Is(err, sandbox.ErrFenced):
		return errors.Join(store.ErrFenced, err)
	case errors.Is(err, store.ErrLapsed):
		s.log.InfoContext(s.ctx, "the last beat is too long ago to begin anything")
		return nil
	}
	return err
}

// facts are what the journal does not tell.
func (s *session) facts() turn.Facts {
	f := turn.Facts{
		Fence: s.claim.Fence, Attempt: int32(s.claim.Attempts) + 1, Trusted: s.claim.Trusted(), Draining: s.draining,
		GraceOver:    !s.stoppedAt.IsZero() && time.Since(s.stoppedAt) > s.options.Grace,
		ModelRunning: s.asking != nil, Running: map[string]bool{}, Stopped: s.stopped, Held: s.clocks.held, Ended: s.clocks.ended,
	}
	for _, wanted := range s.wanted {
		f.Asked = append(f.Asked, turn.Asked{Call: wanted.Call, Exec: wanted.Exec.String()})
	}
	for id := range s.calls {
		f.Running[id] = true
	}
	for _, decided := range s.news.Decisions {
		if !s.isDropped(decided.ID) {
			f.Decisions = append(f.Decisions, decisionOf(decided))
		}
	}
	for _, joining := range s.news.Joining {
		f.Joining = append(f.Joining, joining.ID)
	}
	work := s.claim.Submission
	if work == nil {
		return f
	}
	cancelled := work.Cancelled || s.news.Cancelled
	if open := s.state.Open(); open == nil || open.ID != work.ID {
		f.Queued = []turn.Queued{{ID: work.ID, Policy: turn.Queue, Cancel: cancelled}}
		return f
	}
	if s.news.Answered {
		f.Queued = []turn.Queued{{Policy: turn.Answer}}
	}
	f.Cancel = cancelled
	f.DeadlinePassed = s.news.Limited && s.news.Remaining <= 0
	return f
}

// own runs something that the session waits for at its end.
func (s *session) own(work func()) { s.owned.Go(work) }

// tell gives the loop something to do, unless the claim ends first.
func (s *session) tell(event func() error) {
	select {
	case s.events <- event:
	case <-s.ctx.Done():
	}
}

// in does something in the loop and gives what came of it. What the loop cannot go on after ends it too.
func (s *session) in(ctx context.Context, work func() error) error {
	answer := make(chan error, 1)
	event := func() error {
		err := work()
		answer <- err
		if errors.Is(err, errCannot) {
			return nil
		}
		return s.survives(err)
	}
	select {
	case s.events <- event:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-answer:
		return err
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// errCannot is an answer of the loop that only the asker minds.
var errCannot = errors.New("not now")
