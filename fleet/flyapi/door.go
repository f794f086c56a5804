package flyapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// maxBody bounds what is read of one answer. A list of 1,000 machines with configs is a few MiB.
	maxBody = 64 << 20
	// maxRequest bounds what is held of one request to repeat it.
	maxRequest = 16 << 20
	// busyTries is how often a 429 is repeated before the caller sees it.
	busyTries = 8
)

// door is the transport under both layers: it sends Machines API requests to the configured host, keeps the pace,
// repeats a 429 and bounds what is read.
type door struct {
	base  http.RoundTripper
	flaps *url.URL
	pace  *pacer
	log   *slog.Logger
}

// pacedKey marks a request whose turn was waited for already.
type pacedKey struct{}

// RoundTrip implements http.RoundTripper.
func (d *door) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := replayable(req)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		if try > 1 || req.Context().Value(pacedKey{}) == nil {
			if err := d.pace.wait(req.Context(), req.Method, req.URL.Path); err != nil {
				return nil, err
			}
		}
		resp, err := d.once(req, body)
		if err != nil || resp.StatusCode != http.StatusTooManyRequests || try == busyTries {
			return resp, err
		}
		// Refused before it was looked at, so repeating is safe for every method.
		pause := retryAfter(resp.Header, try)
		discard(resp)
		if err := sleep(req.Context(), pause); err != nil {
			return nil, err
		}
	}
}

func (d *door) once(req *http.Request, body []byte) (*http.Response, error) {
	// A RoundTripper must not change the request it was given.
	out := req.Clone(req.Context())
	if body != nil {
		out.Body = io.NopCloser(bytes.NewReader(body))
		out.ContentLength = int64(len(body))
	}
	if req.URL.Path != "" && len(req.URL.Path) >= 4 && req.URL.Path[:4] == "/v1/" {
		// fly-go takes its base from the environment only; the configured one wins.
		out.URL.Scheme, out.URL.Host, out.Host = d.flaps.Scheme, d.flaps.Host, d.flaps.Host
	}
	out.Header.Del("Fly-Force-Instance-Id") // fly-go would take it from the environment of whoever runs us
	start := time.Now()
	resp, err := d.base.RoundTrip(out)
	if err != nil {
		d.log.DebugContext(req.Context(), "fly request failed", "method", req.Method, "path", req.URL.Path, "error", err)
		return nil, err
	}
	d.log.DebugContext(req.Context(), "fly request", "method", req.Method, "path", req.URL.Path, "status", resp.StatusCode,
		"ms", time.Since(start).Milliseconds(), "request_id", resp.Header.Get(headerRequestID))
	resp.Body = &limitedBody{inner: resp.Body, left: maxBody}
	return resp, nil
}

func replayable(req *http.Request) ([]byte, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return nil, nil
	}
	defer req.Body.Close()
	body, err := io.ReadAll(io.LimitReader(req.Body, maxRequest+1))
	if err != nil {
		return nil, fmt.Errorf("read the request to send: %w", err)
	}
	if len(body) > maxRequest {
		return nil, fmt.Errorf("request of more than %d bytes refused before sending", maxRequest)
	}
	return body, nil
}

// errTooLarge is an answer past the limit: it was given, so nothing about it is in doubt.
var errTooLarge = fmt.Errorf("answer of more than %d bytes refused", int64(maxBody))

// limitedBody fails a read past the limit; io.LimitReader would end it in silence and a cut list would look whole.
type limitedBody struct {
	inner io.ReadCloser
	left  int64
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.inner.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

func (b *limitedBody) Close() error { return b.inner.Close() }

func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	resp.Body.Close()
}

// retryAfter is how long to wait before the next try.
//
// Assumption: Fly documents no Retry-After header; it is honoured, up to 30 s, where it is present.
func retryAfter(h http.Header, try int) time.Duration {
	if s, err := strconv.Atoi(h.Get("Retry-After")); err == nil && s >= 0 && s <= 30 {
		return time.Duration(s)*time.Second + jitter(250*time.Millisecond)
	}
	return backoff(try)
}

// backoff is 0.5 s, 1 s, 2 s, 4 s, 4 s …, each spread by half, so that a fleet does not come back in step.
func backoff(try int) time.Duration {
	d := 250 * time.Millisecond << min(try, 4)
	return d/2 + jitter(d)
}

func jitter(d time.Duration) time.Duration {
	return time.Duration(rand.Int64N(int64(d) + 1)) //nolint:gosec // spreads retries; guards nothing
}

// sleep waits for d or until ctx ends, whose cause it then returns.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
