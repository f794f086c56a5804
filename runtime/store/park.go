package store

import (
	"context"
	"fmt"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/crashpoint"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/statement"

	"github.com/jackc/pgx/v5"
)

// News is what has come for a session since its owner last looked.
type News struct {
	// Cancelled says that the running submission's end was asked for.
	Cancelled bool
	// Decisions are approvals that were decided or have expired, and not delivered (Step.Deliver).
	Decisions []Approval
	// Joining are inputs that ask to become part of the running turn (Step.Accept).
	Joining []Submission
	// Answered: an input waits that denies the open cards.
	Answered bool
	// Limited and Remaining are those of the running submission, counted now.
	Limited   bool
	Remaining time.Duration
}

// Look tells the news of a session that the claim owns. Notifier says when it is worth it.
func (s *Store) Look(ctx context.Context, c Claim) (News, error) {
	if err := s.owned(ctx, c); err != nil {
		return News{}, err
	}
	var news News
	if c.Submission != nil {
		now, err := s.Submission(ctx, c.Tenant, c.Submission.ID)
		if err != nil {
			return News{}, err
		}
		news.Cancelled, news.Limited, news.Remaining = now.Cancelled, now.Limited, now.Remaining
	}
	decided, err := ask(ctx, s.query.Undelivered, c.Session)
	if err != nil {
		return News{}, fmt.Errorf("store: look: %w", err)
	}
	news.Decisions = each(decided, approvalOf)
	insisting, err := ask(ctx, s.query.Insisting, c.Session)
	if err != nil {
		return News{}, fmt.Errorf("store: look: %w", err)
	}
	for _, r := range insisting {
		if r.Submission.Answers {
			news.Answered = true
		} else {
			news.Joining = append(news.Joining, submissionOf(r.Submission, 0))
		}
	}
	return news, nil
}

// Park gives the session up until something comes for it: it is parked when a submission waits, idle when there is
// none. It is false, and the claim goes on, when something has come already: Look, or Begin. A decision, a cancel or an
// input that comes at the same moment is either seen here or wakes the session.
func (s *Store) Park(ctx context.Context, c Claim) (bool, error) {
	crashpoint.Hit("park.before")
	parked := false
	err := s.leave(ctx, c, func(r *recorder) {
		r.batch.Queue(statement.Park, c.Session, c.Executor, c.Fence).Query(func(rows pgx.Rows) error {
			defer rows.Close()
			parked = rows.Next()
			return rows.Err()
		})
	})
	if err != nil {
		c.dropIfFenced(err)
		return false, fmt.Errorf("park session %s: %w", c.Session, err)
	}
	if parked {
		c.executor.drop(c)
		crashpoint.Hit("park.after")
		s.notifier.Changed(c.Session)
	}
	return parked, nil
}

// Release gives the session back, to be claimed by anybody after the given time: 0 for a replica that stops, more for
// a back-off. What cannot wait, a decision or a cancel, cuts it short. It counts no attempt.
func (s *Store) Release(ctx context.Context, c Claim, after time.Duration) error {
	err := s.leave(ctx, c, func(r *recorder) {
		r.batch.Queue(statement.Release, after.Seconds(), c.Session, c.Executor, c.Fence)
	})
	if err != nil {
		c.dropIfFenced(err)
		return fmt.Errorf("release session %s: %w", c.Session, err)
	}
	c.executor.drop(c)
	crashpoint.Hit("release.after")
	if after == 0 {
		s.notifier.Ready(c.Session)
	}
	return nil
}

// leave locks the session's row as its owner and adds one statement, in one round trip.
func (s *Store) leave(ctx context.Context, c Claim, add func(*recorder)) error {
	// When an answer is lost, the second try finds that the session was left: ErrFenced, which is true.
	return patient(ctx, func() error {
		r := &recorder{}
		if err := statement.New(r).HoldForUpdate(ctx, statement.HoldForUpdateParams{ID: c.Session, Owner: c.Executor, Fence: c.Fence}); err != nil {
			return err
		}
		add(r)
		return promise(s.pool.SendBatch(ctx, &r.batch).Close())
	})
}
