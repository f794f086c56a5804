package flyapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/superfly/fly-go/flaps"
)

const headerRequestID = "fly-request-id"

// Error is a refused or failed call. Branch on it with the predicates below, not on its text.
type Error struct {
	// Op says what was being done, as a person would: "update machine", "extend volume vol_x".
	Op string
	// App and Machine say to what; Machine is empty for calls on an app.
	App, Machine string
	// Status is the HTTP status, 0 when no answer came.
	Status int
	// Text is Fly's own text, at most 2 KiB of it.
	Text string
	// Code is Fly's machine-readable status ("name_taken", "insufficient_capacity"), often empty.
	Code string
	// RequestID is Fly's id of the request, for its support.
	RequestID string
	// Err is the cause where there was no answer.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Machine != "" {
		b.WriteString(" " + e.Machine)
	}
	if e.App != "" {
		b.WriteString(" of app " + e.App)
	}
	b.WriteString(": ")
	if e.Status != 0 {
		// Status, text and id always: an error that says "400 Bad Request, body:" helps nobody (andrewbaxter#9).
		fmt.Fprintf(&b, "%d %s", e.Status, http.StatusText(e.Status))
		if e.Text != "" {
			b.WriteString(": " + e.Text)
		}
	} else {
		b.WriteString(e.Text)
		if e.Err != nil {
			if e.Text != "" {
				b.WriteString(": ")
			}
			b.WriteString(e.Err.Error())
		}
	}
	var notes []string
	if e.Code != "" {
		notes = append(notes, "code "+e.Code)
	}
	if e.RequestID != "" {
		notes = append(notes, "request id "+e.RequestID)
	}
	if len(notes) > 0 {
		b.WriteString(" (" + strings.Join(notes, ", ") + ")")
	}
	return b.String()
}

// Unwrap gives the cause of a call without an answer.
func (e *Error) Unwrap() error { return e.Err }

// IsNotFound reports a 404: the app, machine, volume or address is not there.
func IsNotFound(err error) bool { return status(err) == http.StatusNotFound }

// IsNameTaken reports that an app or a machine of that name exists.
func IsNameTaken(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	return e.Code == "name_taken" || strings.Contains(e.Text, "has already been taken") ||
		(e.Status == http.StatusConflict && strings.Contains(e.Text, "unique machine name violation"))
}

var takenBy = regexp.MustCompile(`machine ID ([0-9A-Za-z]+) already exists`)

// NameTakenBy is the id of the machine that has the name, from the text of a 409, and "" when the text names none.
//
// Assumption: the text is `already_exists: unique machine name violation, machine ID <id> already exists with
// name "<name>"`, as quoted in public reports; another text yields "".
func NameTakenBy(err error) string {
	var e *Error
	if !errors.As(err, &e) || e.Status != http.StatusConflict {
		return ""
	}
	if m := takenBy.FindStringSubmatch(e.Text); m != nil {
		return m[1]
	}
	return ""
}

// IsVolumeBound reports a 412 that says a volume is still claimed by a machine (of the volume's delete, or of a
// machine's create).
func IsVolumeBound(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusPreconditionFailed && boundTo.MatchString(e.Text)
}

var boundTo = regexp.MustCompile(`(?:currently bound to|already claimed by) machine:? ?([0-9A-Za-z]*)`)

// VolumeHolder is the machine that a 412 names as the volume's holder, or "".
func VolumeHolder(err error) string {
	var e *Error
	if !errors.As(err, &e) {
		return ""
	}
	if m := boundTo.FindStringSubmatch(e.Text); m != nil {
		return m[1]
	}
	return ""
}

// IsConcurrentUpdate reports that another change of the same machine was under way ("aborted: machine update failed
// due to concurrent update", "machine is replacing"); the same call may work a moment later (flyctl PR#4825).
func IsConcurrentUpdate(err error) bool {
	var e *Error
	if !errors.As(err, &e) || e.Status != http.StatusConflict {
		return false
	}
	return strings.Contains(e.Text, "concurrent update") || strings.Contains(e.Text, "machine is replacing") ||
		strings.Contains(e.Text, "getting replaced")
}

// IsVersionConflict reports a 409 of an update whose current_version is no longer the machine's.
func IsVersionConflict(err error) bool {
	var e *Error
	if !errors.As(err, &e) || e.Status != http.StatusConflict {
		return false
	}
	return !IsConcurrentUpdate(err) && !IsNameTaken(err) && !strings.Contains(e.Text, "lease") &&
		!strings.Contains(e.Text, "could not reserve resource")
}

// IsNoCapacity reports that Fly has no room for what was asked, here and now.
func IsNoCapacity(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	return e.Code == "insufficient_capacity" || e.Code == "volume_placement_capacity" || strings.Contains(e.Text, "could not reserve resource")
}

// IsUnreachable reports that nothing answered at the endpoint at all.
func IsUnreachable(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == 0 && neverSent(e.Err)
}

// IsTimeout reports a wait that ended before the machine reached the state (408).
func IsTimeout(err error) bool { return status(err) == http.StatusRequestTimeout }

// LeaseHeldError says that somebody else holds the machine's lease, so nothing was written.
type LeaseHeldError struct {
	App, Machine string
	// Holder is who Fly says holds it, "" when its text names none.
	Holder string
	// Expires is when the lease ends, zero when Fly's text names no time.
	Expires time.Time
	// Text is Fly's own text.
	Text string
}

// Error implements error.
func (e *LeaseHeldError) Error() string {
	s := fmt.Sprintf("machine %s of app %s is leased by %s", e.Machine, e.App, orElse(e.Holder, "somebody else"))
	if !e.Expires.IsZero() {
		s += " until " + e.Expires.UTC().Format(time.RFC3339)
	}
	return s + fmt.Sprintf("; nothing was written. Wait for it, or end a forgotten one with `fly machine leases clear %s -a %s`", e.Machine, e.App)
}

// LeaseLostError is the cause of a context that WithLease ended: the lease could not be kept, so writing on would not
// be safe.
type LeaseLostError struct {
	App, Machine string
	Err          error
}

// Error implements error.
func (e *LeaseLostError) Error() string {
	return fmt.Sprintf("the lease on machine %s of app %s was lost: %v", e.Machine, e.App, e.Err)
}

// Unwrap gives the refusal of the refresh.
func (e *LeaseLostError) Unwrap() error { return e.Err }

// Assumption: two spellings of the time are known, RFC 3339 and Go's time.String; what is neither is left out.
var heldBy = regexp.MustCompile(`lease currently held by (.+), expires at (.+)$`)

func leaseHeld(app, machine string, e *Error) *LeaseHeldError {
	held := &LeaseHeldError{App: app, Machine: machine, Text: e.Text}
	m := heldBy.FindStringSubmatch(e.Text)
	if m == nil {
		return held
	}
	held.Holder = m[1]
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999 -0700 MST", "2006-01-02 15:04:05 -0700 MST"} {
		if t, err := time.Parse(layout, strings.TrimSpace(m[2])); err == nil {
			held.Expires = t
			break
		}
	}
	return held
}

func isLeaseRefusal(e *Error) bool {
	return e.Status == http.StatusConflict && strings.Contains(e.Text, "lease currently held by")
}

func status(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// answerError reads Fly's error body: `message` wins over `error`, as fly-go has it.
func answerError(r request, code int, h http.Header, body []byte) *Error {
	e := &Error{Op: r.op, App: r.app, Machine: r.machine, Status: code, RequestID: h.Get(headerRequestID)}
	var says struct {
		Error   string `json:"error"`
		Message string `json:"message"`
		Status  string `json:"status"`
	}
	if err := json.Unmarshal(body, &says); err != nil {
		e.Text = clip(strings.TrimSpace(string(body)))
		return e
	}
	e.Text = clip(orElse(says.Message, says.Error))
	if says.Status != "error" { // lease errors carry the word where others carry a code
		e.Code = says.Status
	}
	if e.Text == "" {
		e.Text = clip(strings.TrimSpace(string(body)))
	}
	return e
}

// fromTyped turns an error of fly-go into ours.
func (c *Client) fromTyped(ctx context.Context, r request, err error) error {
	if err == nil {
		return nil
	}
	var fe *flaps.FlapsError
	if errors.As(err, &fe) {
		h := http.Header{}
		h.Set(headerRequestID, fe.FlyRequestId)
		return answerError(r, fe.ResponseStatusCode, h, fe.ResponseBody)
	}
	return c.noAnswer(ctx, r, err)
}

// noAnswer words a call that got no answer, with the thing to check.
func (c *Client) noAnswer(ctx context.Context, r request, err error) *Error {
	e := &Error{Op: r.op, App: r.app, Machine: r.machine, Err: err}
	if cause := context.Cause(ctx); cause != nil {
		e.Err = cause
		return e
	}
	if neverSent(err) {
		where := c.flaps
		if r.graphql {
			where = c.graphql
		}
		e.Text = fmt.Sprintf("nothing answers at %s://%s", where.Scheme, where.Host)
		if host := where.Hostname(); host == "localhost" || net.ParseIP(host).IsLoopback() {
			e.Text += " (start the local platform with `flyfleet local up`, or correct FLY_FLAPS_BASE_URL and FLY_API_BASE_URL)"
		} else {
			e.Text += " (check the network and FLY_FLAPS_BASE_URL, FLY_API_BASE_URL)"
		}
	}
	return e
}

// neverSent reports that no byte of the request can have arrived.
func neverSent(err error) bool {
	var dns *net.DNSError
	var op *net.OpError
	return errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &dns) || (errors.As(err, &op) && op.Op == "dial")
}

// unsure reports that a call may have been carried out although it failed: an answer of a gateway, or none at all.
func unsure(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case 0:
		return !neverSent(e.Err) && !errors.Is(e.Err, errTooLarge)
	}
	return false
}

func clip(s string) string {
	const most = 2048
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

func orElse(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}
