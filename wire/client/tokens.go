package client

import (
	"context"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
)

// TokenSource gives a valid session token whenever a call needs one. It must be safe for concurrent
// use and cheap: it is asked once a call.
type TokenSource interface {
	Token(ctx context.Context) (string, error)
}

// Renewer is a TokenSource that can drop a token the machine refused, so that the next one is fresh.
type Renewer interface {
	Renew()
}

// TokenFunc makes a function a TokenSource.
type TokenFunc func(ctx context.Context) (string, error)

// Token calls the function.
func (f TokenFunc) Token(ctx context.Context) (string, error) { return f(ctx) }

// SignWith is a source that signs tokens for one machine itself and renews them after two thirds of
// their life, unseen by the caller.
func SignWith(key token.SigningKey, app, machine, subject, scope string) TokenSource {
	return &signer{key: key, app: app, machine: machine, subject: subject, scope: scope, now: time.Now}
}

type signer struct {
	key                          token.SigningKey
	app, machine, subject, scope string
	now                          func() time.Time

	mu    sync.Mutex
	text  string
	renew time.Time
}

func (s *signer) Token(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.text != "" && now.Before(s.renew) {
		return s.text, nil
	}
	text, err := s.key.Sign(s.app, s.machine, s.subject, s.scope, token.MaxSession, now)
	if err != nil {
		return "", err
	}
	s.text, s.renew = text, now.Add(token.MaxSession*2/3)
	return text, nil
}

func (s *signer) Renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = ""
}

// bearer puts a token on every call.
type bearer struct{ tokens TokenSource }

// tokenError marks a failure of the source itself: retrying the call would not help.
type tokenError struct{ err error }

func (e *tokenError) Error() string { return "token source: " + e.err.Error() }
func (e *tokenError) Unwrap() error { return e.err }

func (b *bearer) set(ctx context.Context, h http.Header) error {
	text, err := b.tokens.Token(ctx)
	if err != nil {
		return connect.NewError(connect.CodeUnauthenticated, &tokenError{err})
	}
	h.Set("Authorization", "Bearer "+text)
	return nil
}

func (b *bearer) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		if err := b.set(ctx, request.Header()); err != nil {
			return nil, err
		}
		return next(ctx, request)
	}
}

func (b *bearer) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		if err := b.set(ctx, conn.RequestHeader()); err != nil {
			return &refusedConn{StreamingClientConn: conn, err: err}
		}
		return conn
	}
}

func (b *bearer) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// refusedConn is a stream that never left, because there was no token for it.
type refusedConn struct {
	connect.StreamingClientConn
	err error
}

func (c *refusedConn) Send(any) error       { return c.err }
func (c *refusedConn) CloseRequest() error  { return nil }
func (c *refusedConn) Receive(any) error    { return c.err }
func (c *refusedConn) CloseResponse() error { return nil }
func (c *refusedConn) ResponseHeader() http.Header {
	return http.Header{}
}

func (c *refusedConn) ResponseTrailer() http.Header {
	return http.Header{}
}
