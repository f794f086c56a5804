// Package exchange is one HTTP exchange with a provider of models, bounded in time and size, whose every
// failure is a *model.Error. An SDK is given an Exchange as its HTTP client, so that it sees good answers only and
// its own errors, which hold the request, are never made.
package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
)

// maxErrorBody is as much of a refusal as is read.
const maxErrorBody = 64 << 10

var (
	errSilent = errors.New("the provider was silent for too long")
	errTooBig = errors.New("the answer is over the size limit")
)

// Exchange is one call. It is used by one goroutine, and ended by End.
type Exchange struct {
	provider string
	key      string
	limits   model.Limits
	http     *http.Client

	caller context.Context
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	status int
	id     string
}

// Begin makes an exchange under the key that the source gives, and the context to send it in: it ends with the caller's,
// and when the provider is silent. The key is kept out of every message. A source without a key is a *model.Error.
func Begin(
	caller context.Context, provider string, source func(context.Context) (string, error), limits model.Limits,
) (context.Context, *Exchange, error) {
	limits = limits.WithDefaults()
	x := &Exchange{provider: provider, limits: limits, caller: caller}
	key, err := source(caller)
	if key = strings.TrimSpace(key); err != nil || key == "" {
		// The source's own error may hold what it read.
		return nil, nil, x.failure(model.Auth, "there is no API key")
	}
	x.key = key
	x.http = &http.Client{
		// A redirect would carry the key's header to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	x.ctx, x.cancel = context.WithCancelCause(caller)
	x.timer = time.AfterFunc(limits.FirstByte, func() { x.cancel(errSilent) })
	return x.ctx, x, nil
}

// Key is the key that the call is made under.
func (x *Exchange) Key() string { return x.key }

// End frees what the exchange holds.
func (x *Exchange) End() {
	x.timer.Stop()
	x.cancel(context.Canceled)
}

// Do sends the request. An answer that is not a stream of events is an error.
func (x *Exchange) Do(req *http.Request) (*http.Response, error) {
	resp, err := x.http.Do(req) //nolint:gosec // The address is the operator's.
	if err != nil {
		return nil, x.Failed(err)
	}
	x.status = resp.StatusCode
	x.id = requestID(resp.Header)
	resp.Body = &body{x: x, from: resp.Body, left: x.limits.Bytes, limit: x.limits.FirstByte}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
		if err != nil && x.ctx.Err() != nil {
			return nil, x.Failed(err)
		}
		return nil, x.refusal(resp, text)
	}
	if t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); t != "text/event-stream" {
		resp.Body.Close()
		return nil, x.Broken("the answer is not a stream of events but %q", t)
	}
	return resp, nil
}

// requestID is the provider's name for a call, from whichever header it uses.
func requestID(h http.Header) string {
	for _, name := range []string{"Request-Id", "X-Request-Id"} {
		if id := h.Get(name); id != "" {
			return clean(id, maxRequestID)
		}
	}
	return ""
}

const maxRequestID = 100

// Broken is an answer that makes no sense.
func (x *Exchange) Broken(format string, args ...any) *model.Error {
	return x.failure(model.BrokenStream, fmt.Sprintf(format, args...))
}

// Failed makes of a failure what Ask returns: the caller's cause, or an *Error.
func (x *Exchange) Failed(err error) error {
	var e *model.Error
	switch {
	case errors.As(err, &e):
		return e
	case x.caller.Err() != nil && errors.Is(x.caller.Err(), context.DeadlineExceeded):
		return x.failure(model.Timeout, "the deadline of the call came").Because(context.Cause(x.caller))
	case x.caller.Err() != nil:
		return fmt.Errorf("model call to %s: %w", x.provider, context.Cause(x.caller))
	case errors.Is(context.Cause(x.ctx), errSilent):
		return x.failure(model.Timeout, errSilent.Error())
	case errors.Is(err, errTooBig):
		return x.failure(model.Refused, fmt.Sprintf("%v of %d bytes", errTooBig, x.limits.Bytes))
	}
	return x.failure(model.BrokenStream, err.Error())
}

func (x *Exchange) failure(kind model.ErrorKind, message string) *model.Error {
	return &model.Error{
		Kind: kind, Provider: x.provider, Status: x.status, RequestID: x.id,
		Message: clean(mask(message, x.key), model.MaxMessage),
	}
}

// body is an answer's body: counted, and watched while somebody waits for it. What the reader does between
// two reads is not the provider's silence.
type body struct {
	x     *Exchange
	from  io.ReadCloser
	left  int64
	limit time.Duration
}

func (b *body) Read(p []byte) (int, error) {
	b.x.timer.Reset(b.limit)
	n, err := b.from.Read(p[:min(int64(len(p)), b.left+1)])
	b.x.timer.Stop()
	b.left -= int64(n)
	if n > 0 {
		b.limit = b.x.limits.Idle
	}
	if b.left < 0 {
		b.left = -1
		return 0, errTooBig
	}
	return n, err
}

func (b *body) Close() error { return b.from.Close() }
