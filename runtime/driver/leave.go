package driver

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

// park gives the session up until something comes for it. What has come already is looked at instead.
func (s *session) park() (did, error) {
	parked, err := s.options.Store.Park(s.ctx, s.claim)
	if err != nil {
		return nothing, err
	}
	if parked {
		return gone, nil
	}
	before := s.claim.Submission
	if before == nil {
		if err := s.begin(); err != nil || s.claim.Submission != nil {
			return done, err
		}
	}
	had := s.news
	if err := s.look(); err != nil {
		return nothing, err
	}
	now := s.news
	if len(now.Decisions) != len(had.Decisions) || len(now.Joining) != len(had.Joining) || now.Answered != had.Answered || now.Cancelled || len(s.wanted) > 0 {
		return done, nil
	}
	return nothing, nil
}

func (s *session) release(a turn.Release) (did, error) {
	var after time.Duration
	switch a.Why {
	case turn.Idle:
		return s.park()
	case turn.BackingOff:
		after = s.backOff(a.Tries)
	case turn.Draining:
	}
	s.log.InfoContext(s.ctx, "session released", "why", a.Why, "after", after)
	return gone, s.options.Store.Release(s.ctx, s.claim, after)
}

// backOff is how long to wait after the n-th failure of a model call.
func (s *session) backOff(tries int) time.Duration {
	failure := s.modelError
	if failure == nil {
		failure = &model.Error{Kind: model.Server}
	}
	wait, giveUp := model.Backoff(min(tries, model.MaxAttempts-1), failure, s.options.Jitter())
	if giveUp {
		return time.Minute
	}
	return wait
}

// drop takes note that a decision came too late; the next entry marks it as told.
func (s *session) drop(a turn.DropDecision) (did, error) {
	id, err := uuid.Parse(a.Decision.ApprovalID)
	if err != nil {
		return nothing, err
	}
	s.log.InfoContext(s.ctx, "a decision came too late", "approval", id)
	s.dropped = append(s.dropped, store.Deliver{Approval: id})
	return done, nil
}

func (s *session) isDropped(id uuid.UUID) bool {
	return slices.ContainsFunc(s.dropped, func(dropped store.Deliver) bool { return dropped.Approval == id })
}
