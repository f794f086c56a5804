package gateway

import (
	"context"
	"errors"
	"mime"
	"regexp"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/driver"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// Bounds of a submission.
const (
	maxParts       = 100
	maxText        = 1 << 20
	maxFileName    = 200
	maxCredentials = 50
	maxCredential  = 16 << 10
	// maxTime is what can be told the database in milliseconds without doubt.
	maxTime = 365 * 24 * time.Hour
)

var policies = map[runtimev1.BusyPolicy]store.Policy{
	runtimev1.BusyPolicy_BUSY_POLICY_UNSPECIFIED: store.PolicyQueue,
	runtimev1.BusyPolicy_BUSY_POLICY_QUEUE:       store.PolicyQueue,
	runtimev1.BusyPolicy_BUSY_POLICY_REJECT:      store.PolicyReject,
	runtimev1.BusyPolicy_BUSY_POLICY_INTERRUPT:   store.PolicyInterrupt,
	runtimev1.BusyPolicy_BUSY_POLICY_JOIN:        store.PolicyJoin,
	runtimev1.BusyPolicy_BUSY_POLICY_ANSWER:      store.PolicyAnswer,
}

func (s *service) Submit(ctx context.Context, r *connect.Request[runtimev1.SubmitRequest]) (*connect.Response[runtimev1.SubmitResponse], error) {
	in, err := s.admissible(CallerOf(ctx).Tenant, r.Msg)
	if err != nil {
		return nil, err
	}
	// A tenant's bytes are stored for a session that it has, and for no other.
	if _, err := s.store.Session(ctx, in.Tenant, in.Session); err != nil {
		return nil, s.failed(ctx, "session", err)
	}
	parts, err := s.stored(ctx, in, r.Msg.GetParts())
	if err != nil {
		return nil, err
	}
	if in.Payload, err = driver.EncodeInput(parts...); err != nil {
		return nil, s.failed(ctx, "submission", err)
	}
	if err := s.seal(ctx, in, r.Msg); err != nil {
		return nil, err
	}
	in.Trace = traceparent(ctx)
	made, err := s.store.Submit(ctx, *in)
	if err != nil {
		return nil, s.failed(ctx, subject(err), err)
	}
	return connect.NewResponse(&runtimev1.SubmitResponse{Submission: shownSubmission(made)}), nil
}

// subject is what an error of Submit is about.
func subject(err error) string {
	if errors.Is(err, store.ErrConflict) {
		return "submission"
	}
	return "session"
}

// admissible checks all that is not bytes to be stored.
func (s *service) admissible(tenant string, m *runtimev1.SubmitRequest) (*store.Input, error) {
	session, err := parseID("session_id", m.GetSessionId())
	if err != nil {
		return nil, err
	}
	policy, ok := policies[m.GetBusyPolicy()]
	limit, ttl := time.Duration(m.GetTimeLimitMs())*time.Millisecond, m.GetCredentialsTtlMs()
	switch {
	case !printable(m.GetIdempotencyKey()):
		return nil, invalid("idempotency_key is not 1 to %d printable ASCII characters", maxName)
	case !ok:
		return nil, invalid("busy_policy is not one of this API")
	case m.GetTimeLimitMs() < 0 || m.GetTimeLimitMs() > maxTime.Milliseconds():
		return nil, invalid("time_limit_ms is not 0 to %d", maxTime.Milliseconds())
	case ttl < 0 || ttl > maxTime.Milliseconds():
		return nil, invalid("credentials_ttl_ms is not 0 to %d", maxTime.Milliseconds())
	case len(m.GetParts()) == 0 || len(m.GetParts()) > maxParts:
		return nil, invalid("parts are not 1 to %d", maxParts)
	}
	if err := checkParts(m.GetParts()); err != nil {
		return nil, err
	}
	if err := s.checkCredentials(m.GetCredentials()); err != nil {
		return nil, err
	}
	return &store.Input{
		ID: store.NewID(), Tenant: tenant, Session: session, Key: m.GetIdempotencyKey(), Policy: policy, TimeLimit: limit,
	}, nil
}

func checkParts(parts []*runtimev1.InputPart) error {
	text, names := 0, map[string]bool{}
	for i, p := range parts {
		switch part := p.GetPart().(type) {
		case *runtimev1.InputPart_Text:
			if text += len(part.Text); part.Text == "" || text > maxText || strings.ContainsRune(part.Text, 0) {
				return invalid("parts[%d].text is empty or has a NUL, or the texts have more than %d bytes", i, maxText)
			}
		case *runtimev1.InputPart_Attachment:
			a := part.Attachment
			if !fileName(a.GetName()) || names[a.GetName()] {
				return invalid("parts[%d].attachment.name is not a file name of its own: 1 to %d bytes, no slash, no control characters", i, maxFileName)
			}
			names[a.GetName()] = true
			if a.GetMediaType() != "" {
				if _, _, err := mime.ParseMediaType(a.GetMediaType()); err != nil || !printable(a.GetMediaType()) {
					return invalid("parts[%d].attachment.media_type is not a media type", i)
				}
			}
		default:
			return invalid("parts[%d] is neither a text nor an attachment", i)
		}
	}
	return nil
}

func fileName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= maxFileName &&
		!strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '/' || r == '\\' })
}

var credentialName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,99}$`)

// checkCredentials quotes no name either: it may be a value that was put in the wrong place.
func (s *service) checkCredentials(all map[string]string) error {
	if len(all) == 0 {
		return nil
	}
	if s.sealer == nil {
		return connect.NewError(connect.CodeFailedPrecondition, errors.New("this server has no key to seal credentials with, so it takes none"))
	}
	if len(all) > maxCredentials {
		return invalid("credentials are more than %d", maxCredentials)
	}
	for name, value := range all {
		if !credentialName.MatchString(name) {
			return invalid("a name in credentials is not letters, digits and _ . -, at most 100, beginning with a letter or _")
		}
		if value == "" || len(value) > maxCredential {
			return invalid("a value in credentials is empty or has more than %d bytes", maxCredential)
		}
	}
	return nil
}

// stored puts attachments away and gives the parts as the journal will have them. Repeated it comes to the same.
func (s *service) stored(ctx context.Context, in *store.Input, from []*runtimev1.InputPart) ([]*journalv1.Part, error) {
	var parts []*journalv1.Part
	for _, p := range from {
		a := p.GetAttachment()
		if a == nil {
			parts = append(parts, driver.Text(p.GetText()))
			continue
		}
		sum, err := s.store.PutBlob(ctx, in.Tenant, a.GetMediaType(), a.GetData())
		if err != nil {
			return nil, s.failed(ctx, "attachment", err)
		}
		in.Blobs = append(in.Blobs, sum)
		parts = append(parts, &journalv1.Part{Part: &journalv1.Part_Attachment{Attachment: &journalv1.Attachment{
			Name: a.GetName(), MediaType: a.GetMediaType(), Sha256: sum, Size: int64(len(a.GetData())),
		}}})
	}
	return parts, nil
}

func (s *service) seal(ctx context.Context, in *store.Input, m *runtimev1.SubmitRequest) error {
	if len(m.GetCredentials()) == 0 {
		return nil
	}
	plain, err := driver.EncodeCredentials(m.GetCredentials())
	if err != nil {
		return s.failed(ctx, "submission", err)
	}
	sealed, err := s.sealer.Seal(ctx, in.ID, plain)
	if err != nil {
		return s.failed(ctx, "submission", err)
	}
	in.Credentials = &store.Sealed{
		KeyID: sealed.KeyID, Data: sealed.Data, ExpiresIn: time.Duration(m.GetCredentialsTtlMs()) * time.Millisecond,
	}
	return nil
}

func (s *service) GetSubmission(ctx context.Context, r *connect.Request[runtimev1.GetSubmissionRequest]) (*connect.Response[runtimev1.GetSubmissionResponse], error) {
	id, err := parseID("submission_id", r.Msg.GetSubmissionId())
	if err != nil {
		return nil, err
	}
	found, err := s.submission(ctx, id)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&runtimev1.GetSubmissionResponse{Submission: found}), nil
}

func (s *service) submission(ctx context.Context, id uuid.UUID) (*runtimev1.Submission, error) {
	found, err := s.store.Submission(ctx, CallerOf(ctx).Tenant, id)
	if err != nil {
		return nil, s.failed(ctx, "submission", err)
	}
	return shownSubmission(found), nil
}

func (s *service) Cancel(ctx context.Context, r *connect.Request[runtimev1.CancelRequest]) (*connect.Response[runtimev1.CancelResponse], error) {
	id, err := parseID("submission_id", r.Msg.GetSubmissionId())
	if err != nil {
		return nil, err
	}
	if err := s.store.Cancel(ctx, CallerOf(ctx).Tenant, id); err != nil {
		return nil, s.failed(ctx, "submission", err)
	}
	found, err := s.submission(ctx, id)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&runtimev1.CancelResponse{Submission: found}), nil
}
