package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/crashpoint"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/statement"
)

// ApprovalState is how a card stands.
type ApprovalState int16

// The states of an approval. They are columns of the database: numbers never change.
const (
	ApprovalPending  ApprovalState = 1
	ApprovalApproved ApprovalState = 2
	ApprovalDenied   ApprovalState = 3
	ApprovalExpired  ApprovalState = 4
	// ApprovalCancelled closed because its call or submission ended first.
	ApprovalCancelled ApprovalState = 5
)

func (s ApprovalState) String() string {
	return name(s, "pending", "approved", "denied", "expired", "cancelled")
}

// Approval is a card: a call that a person may allow, once, with the arguments that were shown.
type Approval struct {
	ID         uuid.UUID
	Tenant     string
	Session    uuid.UUID
	Submission uuid.UUID
	Call       string
	// ArgsSHA256 is of the arguments that were shown; Summary is what was shown.
	ArgsSHA256  []byte
	Summary     []byte
	State       ApprovalState
	RequestedAt time.Time
	// ExpiresAt is by the database's clock, for people to read.
	ExpiresAt time.Time
	// By, Reason and Key are the decision's.
	By, Reason, Key string
	// EditedArgs are the arguments to use instead of those shown; nil when they were not edited.
	EditedArgs []byte
	// AllowedSHA256 is of the arguments that may be used; nil unless approved.
	AllowedSHA256 []byte
	// Used says that a call was started by it.
	Used bool
}

func approvalOf(row statement.Approval) Approval {
	return Approval{
		ID: row.ID, Tenant: row.TenantID, Session: row.SessionID, Call: row.CallID, ArgsSHA256: row.ArgsSha, Summary: row.Summary,
		State: ApprovalState(row.State), RequestedAt: row.RequestedAt, ExpiresAt: row.ExpiresAt, By: row.DecidedBy, Reason: row.Reason,
		Key: row.DecisionKey, EditedArgs: row.EditedArgs, AllowedSHA256: row.AllowedSha, Used: row.ConsumedSeq != nil,
		Submission: orZero(row.SubmissionID),
	}
}

// Decision is a person's answer to a card.
type Decision struct {
	Tenant   string
	Approval uuid.UUID
	// Key makes a repeated Decide the same decision.
	Key     string
	Approve bool
	// EditedArgs replace the arguments that were shown; only with Approve.
	EditedArgs []byte
	By         string
	Reason     string
}

// Decide answers a card, on any replica; the session's next owner finds it. Whether the person may is for the caller to
// check. The same key again gives the same answer; another decision is *DecidedError, a late one ErrExpired.
func (s *Store) Decide(ctx context.Context, d Decision) (Approval, error) {
	crashpoint.Hit("decide.before")
	var decided Approval
	var late error
	err := s.transaction(ctx, func(q *statement.Queries) (err error) {
		decided, err = decide(ctx, q, d)
		if late = nil; errors.Is(err, ErrExpired) {
			// The expiry is kept: nobody may decide differently by asking at another moment.
			late, err = err, nil
		}
		return err
	})
	if err = errors.Join(err, late); err != nil {
		return decided, fmt.Errorf("decide approval %s: %w", d.Approval, err)
	}
	crashpoint.Hit("decide.after")
	s.notifier.Ready(decided.Session)
	return decided, nil
}

func decide(ctx context.Context, q *statement.Queries, d Decision) (Approval, error) {
	get := func() (statement.GetApprovalRow, error) {
		return found(q.GetApproval(ctx, statement.GetApprovalParams{ID: d.Approval, TenantID: d.Tenant}))
	}
	// The session's row is locked first, as everywhere; then the card is read again, as it is under the lock.
	card, err := get()
	if err != nil {
		return Approval{}, err
	}
	if _, err := q.LockSession(ctx, statement.LockSessionParams{ID: card.Approval.SessionID, TenantID: d.Tenant}); err != nil {
		return Approval{}, err
	}
	if card, err = get(); err != nil {
		return Approval{}, err
	}
	if now := approvalOf(card.Approval); now.State != ApprovalPending {
		return now, repeated(now, d)
	}
	set := statement.DecideApprovalParams{
		State: int16(ApprovalDenied), DecidedBy: d.By, DecisionKey: d.Key, Reason: d.Reason, ID: d.Approval,
	}
	switch {
	case card.Due:
		set.State, set.DecidedBy, set.DecisionKey, set.Reason = int16(ApprovalExpired), "", "", ""
	case d.Approve && d.EditedArgs != nil:
		sum := sha256.Sum256(d.EditedArgs)
		set.State, set.EditedArgs, set.AllowedSha = int16(ApprovalApproved), d.EditedArgs, sum[:]
	case d.Approve:
		set.State, set.AllowedSha = int16(ApprovalApproved), card.Approval.ArgsSha
	}
	if _, err := q.DecideApproval(ctx, set); err != nil {
		return Approval{}, err
	}
	if _, err := q.WakeSession(ctx, statement.WakeSessionParams{ID: card.Approval.SessionID, Now: true}); err != nil {
		return Approval{}, err
	}
	if card, err = get(); err != nil {
		return Approval{}, err
	}
	if set.State == int16(ApprovalExpired) {
		return approvalOf(card.Approval), ErrExpired
	}
	return approvalOf(card.Approval), nil
}

// repeated is nil when the decision is the one that was taken.
func repeated(now Approval, d Decision) error {
	if now.State == ApprovalExpired {
		return ErrExpired
	}
	same := now.Key == d.Key && d.Key != "" && d.Approve == (now.State == ApprovalApproved) && string(now.EditedArgs) == string(d.EditedArgs)
	if same && now.State != ApprovalCancelled {
		return nil
	}
	return &DecidedError{Approval: now}
}

// Approval gives a tenant's card, or ErrNotFound.
func (s *Store) Approval(ctx context.Context, tenant string, id uuid.UUID) (Approval, error) {
	row, err := found(ask(ctx, s.query.GetApproval, statement.GetApprovalParams{ID: id, TenantID: tenant}))
	if err != nil {
		return Approval{}, fmt.Errorf("approval %s: %w", id, err)
	}
	return approvalOf(row.Approval), nil
}

// Pending lists a tenant's open cards by id, those after the given one (uuid.Nil: all), at most most.
func (s *Store) Pending(ctx context.Context, tenant string, after uuid.UUID, most int) ([]Approval, error) {
	rows, err := ask(ctx, s.query.PendingApprovals, statement.PendingApprovalsParams{TenantID: tenant, After: after, Most: int32(most)})
	if err != nil {
		return nil, fmt.Errorf("store: pending approvals: %w", err)
	}
	return each(rows, approvalOf), nil
}

// PendingOf lists a session's open cards by id, at most most.
func (s *Store) PendingOf(ctx context.Context, tenant string, session uuid.UUID, most int) ([]Approval, error) {
	rows, err := ask(ctx, s.query.PendingOfSession, statement.PendingOfSessionParams{SessionID: session, TenantID: tenant, Most: int32(most)})
	if err != nil {
		return nil, fmt.Errorf("store: pending approvals: %w", err)
	}
	return each(rows, approvalOf), nil
}

// ExpireApprovals closes cards whose time is over by the database's clock and wakes their sessions; it gives how many
// sessions that were. Any replica may call it at any time.
func (s *Store) ExpireApprovals(ctx context.Context, most int) (int, error) {
	woken, err := ask(ctx, s.query.ExpireApprovals, int32(most))
	if err != nil {
		return 0, fmt.Errorf("store: expire approvals: %w", err)
	}
	for _, id := range woken {
		s.notifier.Ready(id)
	}
	return len(woken), nil
}
