// Package gateway is the runtime's face: the API of flyfleet.runtime.v1, its events as SSE, and the door in
// front of both.
package gateway

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/apikey"
)

// Caller is who makes a request.
type Caller struct {
	Tenant string
	// Key is the public id of its API key.
	Key string
}

type callerKey struct{}

// CallerOf is the proven caller of a request that came through a Door.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

type connectionKey struct{}

// connectionOf is the way to a request's connection, where the API has none.
func connectionOf(ctx context.Context) *http.ResponseController {
	control, _ := ctx.Value(connectionKey{}).(*http.ResponseController)
	return control
}

// Keys prove API keys; *apikey.Verifier does.
type Keys interface {
	Verify(ctx context.Context, text string) (apikey.Key, error)
}

// DoorOptions of a Door. Zero fields have the defaults.
type DoorOptions struct {
	Rates Rates
	// MaxBody is the most bytes of a request. 32 MiB.
	MaxBody int64
	// BodyTime is how long a request's body may take. 1 minute.
	BodyTime time.Duration
	Log      *slog.Logger
	// Now is the clock of the rates; nil is time.Now.
	Now func() time.Time
}

// Door lets requests in: proven, within the tenant's rate, with bodies bounded in size and time. A stranger's
// body is never read.
type Door struct {
	keys    Keys
	options DoorOptions
	limiter *limiter
	errors  *connect.ErrorWriter
}

// NewDoor makes a door.
func NewDoor(keys Keys, options DoorOptions) *Door {
	if options.MaxBody <= 0 {
		options.MaxBody = 32 << 20
	}
	if options.BodyTime <= 0 {
		options.BodyTime = time.Minute
	}
	if options.Log == nil {
		options.Log = slog.Default()
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	return &Door{keys: keys, options: options, limiter: newLimiter(options.Rates), errors: connect.NewErrorWriter()}
}

// Wrap puts the door in front of a handler.
func (d *Door) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, refusal := d.admit(r)
		if refusal != nil {
			d.refuse(w, r, refusal)
			return
		}
		control := http.NewResponseController(w)
		if r.Body != nil && r.Body != http.NoBody {
			if err := control.SetReadDeadline(time.Now().Add(d.options.BodyTime)); err != nil {
				d.refuse(w, r, &refused{code: connect.CodeInternal, message: "the connection takes no deadline"})
				return
			}
			r.Body = &body{ReadCloser: http.MaxBytesReader(w, r.Body, d.options.MaxBody), control: control}
		}
		ctx := context.WithValue(r.Context(), callerKey{}, caller)
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, connectionKey{}, control)))
	})
}

// refused is an answer of the door.
type refused struct {
	code    connect.Code
	message string
	// after is when to try again; 0 says nothing.
	after time.Duration
}

// tooManyStreams answers a stream that the limiter does not let in, over either way to the events.
var tooManyStreams = &refused{code: connect.CodeResourceExhausted, message: "too many open streams", after: time.Second}

func (r *refused) retryAfter(h http.Header) {
	if r.after > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(r.after.Seconds()))))
	}
}

func (r *refused) asError() *connect.Error { return connect.NewError(r.code, errors.New(r.message)) }

func (d *Door) admit(r *http.Request) (Caller, *refused) {
	key, err := d.keys.Verify(r.Context(), bearer(r))
	switch {
	case errors.Is(err, apikey.ErrRefused):
		d.options.Log.Warn("API key refused", "path", r.URL.Path, "peer", r.RemoteAddr)
		return Caller{}, &refused{code: connect.CodeUnauthenticated, message: apikey.ErrRefused.Error()}
	case err != nil:
		d.options.Log.Error("API key not looked up", "error", err)
		return Caller{}, &refused{code: connect.CodeUnavailable, message: "API keys cannot be looked up now", after: time.Second}
	}
	caller := Caller{Tenant: key.Tenant, Key: key.ID}
	if wait, ok := d.limiter.call(caller.Tenant, d.options.Now()); !ok {
		return Caller{}, &refused{code: connect.CodeResourceExhausted, message: "too many requests", after: wait}
	}
	return caller, nil
}

// bearer is the key of a request. It is taken from the header only: addresses are logged on the way.
func bearer(r *http.Request) string {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(text)
}

func (d *Door) refuse(w http.ResponseWriter, r *http.Request, why *refused) {
	d.prepare(w, r, why)
	err := why.asError()
	if d.errors.IsSupported(r) {
		// It fails when the client has gone.
		_ = d.errors.Write(w, r, err)
		return
	}
	writeError(w, err)
}

// prepare sets the headers of a refusal.
func (d *Door) prepare(w http.ResponseWriter, r *http.Request, why *refused) {
	why.retryAfter(w.Header())
	if why.code == connect.CodeUnauthenticated {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if r.ProtoMajor < 2 {
		// The rest of the body is not wanted; without this the connection would wait for it.
		w.Header().Set("Connection", "close")
	}
}

// writeError answers a plain HTTP request as Connect answers a unary one.
func writeError(w http.ResponseWriter, err *connect.Error) {
	status := map[connect.Code]int{
		connect.CodeInvalidArgument: http.StatusBadRequest, connect.CodeUnauthenticated: http.StatusUnauthorized,
		connect.CodeNotFound: http.StatusNotFound, connect.CodeResourceExhausted: http.StatusTooManyRequests,
		connect.CodeFailedPrecondition: http.StatusBadRequest, connect.CodeAlreadyExists: http.StatusConflict, connect.CodeUnavailable: http.StatusServiceUnavailable,
	}[err.Code()]
	if status == 0 {
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"code":`+strconv.Quote(err.Code().String())+`,"message":`+strconv.QuoteToASCII(err.Message())+"}\n")
}

// body lifts the deadline when the body has come: what follows is the answer, and that may take days.
type body struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
