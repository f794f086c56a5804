package gateway

import (
	"context"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1/runtimev1connect"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// service is RuntimeService over the store. Every request has a caller: the door lets in no other.
type service struct{ *Gateway }

var _ runtimev1connect.RuntimeServiceHandler = (*service)(nil)

// Bounds of what a client gives names to, and of lists.
const (
	maxName       = 200
	maxOpen       = 200
	defaultPage   = 50
	maxPage       = 200
	entriesPage   = 200
	maxEntries    = 1000
	entriesBytes  = 4 << 20
	searchPage    = 20
	maxSearch     = 100
	maxQuery      = 1000
	clientIDPast  = 24 * time.Hour
	clientIDAhead = 5 * time.Minute
)

func parseID(field, text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || id.String() != text {
		return uuid.Nil, invalid("%s is not an id", field)
	}
	return id, nil
}

// newID is a client's id for something new, or a fresh one. Its time is where the journal puts a session, so it must be
// true.
func newID(field, text string) (uuid.UUID, error) {
	if text == "" {
		return store.NewID(), nil
	}
	id, err := parseID(field, text)
	if err != nil {
		return uuid.Nil, err
	}
	seconds, nanos := id.Time().UnixTime()
	age := time.Since(time.Unix(seconds, nanos))
	if id.Version() != 7 || age > clientIDPast || age < -clientIDAhead {
		return uuid.Nil, invalid("%s is not a UUIDv7 of the last 24 hours", field)
	}
	return id, nil
}

// within is a page size: 0 is the default.
func within(field string, n, otherwise, most int32) (int, error) {
	if n < 0 || n > most {
		return 0, invalid("%s is not 0 to %d", field, most)
	}
	if n == 0 {
		n = otherwise
	}
	return int(n), nil
}

// printable says that a text is something that a person or program chose: 1 to maxName printable ASCII characters.
func printable(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return text != "" && len(text) <= maxName
}

func (s *service) CreateSession(ctx context.Context, r *connect.Request[runtimev1.CreateSessionRequest]) (*connect.Response[runtimev1.CreateSessionResponse], error) {
	id, err := newID("session_id", r.Msg.GetSessionId())
	if err != nil {
		return nil, err
	}
	if !printable(r.Msg.GetAgent()) || !s.agent(r.Msg.GetAgent()) {
		return nil, invalid("agent: this server has none of that name")
	}
	made, err := s.store.CreateSession(ctx, CallerOf(ctx).Tenant, r.Msg.GetAgent(), id)
	if err != nil {
		return nil, s.failed(ctx, "session", err)
	}
	return connect.NewResponse(&runtimev1.CreateSessionResponse{Session: shownSession(made)}), nil
}

func (s *service) GetSession(ctx context.Context, r *connect.Request[runtimev1.GetSessionRequest]) (*connect.Response[runtimev1.GetSessionResponse], error) {
	id, err := parseID("session_id", r.Msg.GetSessionId())
	if err != nil {
		return nil, err
	}
	tenant := CallerOf(ctx).Tenant
	session, err := s.store.Session(ctx, tenant, id)
	if err != nil {
		return nil, s.failed(ctx, "session", err)
	}
	submissions, err := s.store.OpenSubmissions(ctx, tenant, id, maxOpen)
	if err != nil {
		return nil, s.failed(ctx, "session", err)
	}
	approvals, err := s.store.PendingOf(ctx, tenant, id, maxOpen)
	if err != nil {
		return nil, s.failed(ctx, "session", err)
	}
	return connect.NewResponse(&runtimev1.GetSessionResponse{
		Session: shownSession(session), OpenSubmissions: shownAll(submissions, shownSubmission), OpenApprovals: shownAll(approvals, shownApproval),
	}), nil
}

func (s *service) ListSessions(ctx context.Context, r *connect.Request[runtimev1.ListSessionsRequest]) (*connect.Response[runtimev1.ListSessionsResponse], error) {
	size, before, err := page(r.Msg.GetPageSize(), r.Msg.GetPageToken(), uuid.Max)
	if err != nil {
		return nil, err
	}
	list, err := s.store.Sessions(ctx, CallerOf(ctx).Tenant, before, size+1)
	if err != nil {
		return nil, s.failed(ctx, "session", err)
	}
	answer := &runtimev1.ListSessionsResponse{}
	if len(list) > size {
		list = list[:size]
		answer.NextPageToken = list[size-1].ID.String()
	}
	answer.Sessions = shownAll(list, shownSession)
	return connect.NewResponse(answer), nil
}

// page reads a page's size and the id that it begins after; first is that of the first page.
func page(size int32, token string, first uuid.UUID) (int, uuid.UUID, error) {
	n, err := within("page_size", size, defaultPage, maxPage)
	if err != nil || token == "" {
		return n, first, err
	}
	after, err := parseID("page_token", token)
	return n, after, err
}

func (s *service) ListEntries(ctx context.Context, r *connect.Request[runtimev1.ListEntriesRequest]) (*connect.Response[runtimev1.ListEntriesResponse], error) {
	id, err := parseID("session_id", r.Msg.GetSessionId())
	if err != nil {
		return nil, err
	}
	size, err := within("page_size", r.Msg.GetPageSize(), entriesPage, maxEntries)
	if err != nil {
		return nil, err
	}
	if r.Msg.GetAfterSeq() < 0 {
		return nil, invalid("after_seq is negative")
	}
	if err := s.room.Acquire(ctx, min(entriesBytes, s.most)); err != nil {
		return nil, s.failed(ctx, "session", err)
	}
	defer s.room.Release(min(entriesBytes, s.most))
	tenant := CallerOf(ctx).Tenant
	found, err := s.store.LoadPage(ctx, tenant, id, r.Msg.GetAfterSeq(), size+1, entriesBytes)
	if err != nil {
		return nil, s.failed(ctx, "session", err)
	}
	list := found.Entries
	more := len(list) > size
	list = list[:min(len(list), size)]
	answer := &runtimev1.ListEntriesResponse{Entries: shownAll(list, shownEntry)}
	if len(list) == 0 {
		return connect.NewResponse(answer), nil
	}
	last := list[len(list)-1].Seq
	if !more {
		// A page that is cut by its bytes looks like the end.
		rest, err := s.store.LoadPage(ctx, tenant, id, last, 1, 0)
		if err != nil {
			return nil, s.failed(ctx, "session", err)
		}
		more = len(rest.Entries) > 0
	}
	if more {
		answer.NextAfterSeq = last
	}
	return connect.NewResponse(answer), nil
}

func (s *service) Fork(ctx context.Context, r *connect.Request[runtimev1.ForkRequest]) (*connect.Response[runtimev1.ForkResponse], error) {
	parent, err := parseID("session_id", r.Msg.GetSessionId())
	if err != nil {
		return nil, err
	}
	id, err := newID("new_session_id", r.Msg.GetNewSessionId())
	if err != nil {
		return nil, err
	}
	if r.Msg.GetSeq() < 1 {
		return nil, invalid("seq is not that of an entry")
	}
	made, err := s.store.Fork(ctx, CallerOf(ctx).Tenant, parent, r.Msg.GetSeq(), id)
	if err != nil {
		return nil, s.failed(ctx, "session or entry", err)
	}
	return connect.NewResponse(&runtimev1.ForkResponse{Session: shownSession(made)}), nil
}

func (s *service) CloseSession(ctx context.Context, r *connect.Request[runtimev1.CloseSessionRequest]) (*connect.Response[runtimev1.CloseSessionResponse], error) {
	id, err := parseID("session_id", r.Msg.GetSessionId())
	if err != nil {
		return nil, err
	}
	tenant := CallerOf(ctx).Tenant
	if err := s.store.CloseSession(ctx, tenant, id); err != nil {
		return nil, s.failed(ctx, "session", err)
	}
	closed, err := s.store.Session(ctx, tenant, id)
	if err != nil {
		return nil, s.failed(ctx, "session", err)
	}
	s.store.Notifier().Changed(id) // whoever follows it is told of the end
	return connect.NewResponse(&runtimev1.CloseSessionResponse{Session: shownSession(closed)}), nil
}

func (s *service) Search(ctx context.Context, r *connect.Request[runtimev1.SearchRequest]) (*connect.Response[runtimev1.SearchResponse], error) {
	size, err := within("page_size", r.Msg.GetPageSize(), searchPage, maxSearch)
	if err != nil {
		return nil, err
	}
	if q := r.Msg.GetQuery(); q == "" || len(q) > maxQuery {
		return nil, invalid("query is not 1 to %d bytes", maxQuery)
	}
	hits, err := s.store.Search(ctx, CallerOf(ctx).Tenant, r.Msg.GetQuery(), size)
	if err != nil {
		return nil, s.failed(ctx, "search", err)
	}
	return connect.NewResponse(&runtimev1.SearchResponse{Hits: shownAll(hits, func(h store.Hit) *runtimev1.SearchHit {
		return &runtimev1.SearchHit{SessionId: h.Session.String(), Seq: h.Seq, Score: h.Score, Excerpt: h.Excerpt}
	})}), nil
}
