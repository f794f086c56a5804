package gateway

import (
	"bytes"
	"context"
	"encoding/json"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

const (
	maxReason     = 4 << 10
	maxEditedArgs = 1 << 20
)

func (s *service) ListApprovals(ctx context.Context, r *connect.Request[runtimev1.ListApprovalsRequest]) (*connect.Response[runtimev1.ListApprovalsResponse], error) {
	size, after, err := page(r.Msg.GetPageSize(), r.Msg.GetPageToken(), uuid.Nil)
	if err != nil {
		return nil, err
	}
	list, err := s.store.Pending(ctx, CallerOf(ctx).Tenant, after, size+1)
	if err != nil {
		return nil, s.failed(ctx, "card", err)
	}
	answer := &runtimev1.ListApprovalsResponse{}
	if len(list) > size {
		list = list[:size]
		answer.NextPageToken = list[size-1].ID.String()
	}
	answer.Approvals = shownAll(list, shownApproval)
	return connect.NewResponse(answer), nil
}

func (s *service) Decide(ctx context.Context, r *connect.Request[runtimev1.DecideRequest]) (*connect.Response[runtimev1.DecideResponse], error) {
	d, err := decision(CallerOf(ctx).Tenant, r.Msg)
	if err != nil {
		return nil, err
	}
	decided, err := s.store.Decide(ctx, d)
	if err != nil {
		return nil, s.failed(ctx, "card", err)
	}
	s.log.InfoContext(ctx, "card decided", "approval", decided.ID, "session", decided.Session, "state", decided.State.String(), "by", decided.By,
		"key", CallerOf(ctx).Key)
	return connect.NewResponse(&runtimev1.DecideResponse{Approval: shownApproval(decided)}), nil
}

func decision(tenant string, m *runtimev1.DecideRequest) (store.Decision, error) {
	id, err := parseID("approval_id", m.GetApprovalId())
	if err != nil {
		return store.Decision{}, err
	}
	approve := m.GetVerdict() == runtimev1.ApprovalVerdict_APPROVAL_VERDICT_APPROVE
	switch {
	case !printable(m.GetIdempotencyKey()):
		return store.Decision{}, invalid("idempotency_key is not 1 to %d printable ASCII characters", maxName)
	case !approve && m.GetVerdict() != runtimev1.ApprovalVerdict_APPROVAL_VERDICT_DENY:
		return store.Decision{}, invalid("verdict is neither approve nor deny")
	case !approve && len(m.GetEditedArgs()) > 0:
		return store.Decision{}, invalid("edited_args come with a denial")
	case len(m.GetEditedArgs()) > maxEditedArgs || len(m.GetEditedArgs()) > 0 && !object(m.GetEditedArgs()):
		return store.Decision{}, invalid("edited_args are not a JSON object of at most %d bytes", maxEditedArgs)
	case len(m.GetDecidedBy()) > maxName || len(m.GetReason()) > maxReason:
		return store.Decision{}, invalid("decided_by has more than %d bytes, or reason more than %d", maxName, maxReason)
	case bytes.ContainsRune([]byte(m.GetDecidedBy()+m.GetReason()), 0):
		return store.Decision{}, invalid("decided_by or reason has a NUL")
	}
	d := store.Decision{Tenant: tenant, Approval: id, Key: m.GetIdempotencyKey(), Approve: approve, By: m.GetDecidedBy(), Reason: m.GetReason()}
	if len(m.GetEditedArgs()) > 0 {
		d.EditedArgs = m.GetEditedArgs()
	}
	return d, nil
}

func object(text []byte) bool {
	var o map[string]json.RawMessage
	return json.Unmarshal(text, &o) == nil && o != nil
}
