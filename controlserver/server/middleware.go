//go:build linux

package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// DefaultBodyTime is how long a request's body may take to arrive.
const DefaultBodyTime = 30 * time.Second

// envelope is the most that framing adds to a request message.
const envelope = 64

type claimsKey struct{}

// claimsOf are the proven claims of a call.
func claimsOf(ctx context.Context) token.Claims {
	c, _ := ctx.Value(claimsKey{}).(token.Claims)
	return c
}

// prove lets a request through once its token is proven, and hands its body on whole: a stranger's
// body is never read, and nobody's is read without a bound of size and time.
func (s *Server) prove(next http.Handler) http.Handler {
	errorsOut := connect.NewErrorWriter()
	refuse := func(w http.ResponseWriter, r *http.Request, e *wire.Error) {
		if r.ProtoMajor < 2 {
			// The rest of the body is not wanted; without this the connection would wait for it.
			w.Header().Set("Connection", "close")
		}
		_ = errorsOut.Write(w, r, e.Connect())
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		claims, err := s.tokens.Verify(text, s.options.Now())
		if err != nil {
			s.log.Warn("token refused", "rpc", path.Base(r.URL.Path), "peer", r.RemoteAddr, "reason", err.Error())
			refuse(w, r, wire.Refuse(wirev1.ErrorReason_ERROR_REASON_TOKEN, "%v", err))
			return
		}
		if claims.Operator != "" {
			s.log.Info("operator call", "rpc", path.Base(r.URL.Path), "key", claims.Key, "subject", claims.Subject, "scope", claims.Scope)
		}
		body, refusal := s.body(w, r)
		if refusal != nil {
			s.log.Warn("body refused", "rpc", path.Base(r.URL.Path), "key", claims.Key, "subject", claims.Subject, "reason", refusal.Message)
			refuse(w, r, refusal)
			return
		}
		defer body.give()
		r.Body = body
		next.ServeHTTP(w, r.WithContext(withWriter(context.WithValue(r.Context(), claimsKey{}, claims), w)))
	})
}

// body reads a request's whole body, at most one message, within BodyTime.
func (s *Server) body(w http.ResponseWriter, r *http.Request) (*rope, *wire.Error) {
	const most = wire.MaxRequestBytes + envelope
	tooLarge := wire.Refuse(wirev1.ErrorReason_ERROR_REASON_BODY_TOO_LARGE, "the request is larger than %d bytes; send content by WriteStdin", wire.MaxRequestBytes)
	if r.ContentLength > most {
		return nil, tooLarge
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(s.options.BodyTime)); err != nil {
		return nil, wire.Refuse(wirev1.ErrorReason_ERROR_REASON_UNSPECIFIED, "the connection takes no deadline")
	}
	body := new(rope)
	err := body.fill(r.Body, most)
	switch {
	case err == nil:
		if err = control.SetReadDeadline(time.Time{}); err == nil {
			return body, nil
		}
	case errors.Is(err, errRopeFull):
		body.give()
		return nil, tooLarge
	}
	body.give()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, wire.Refuse(wirev1.ErrorReason_ERROR_REASON_TOO_SLOW, "the request's body took longer than %s", s.options.BodyTime)
	}
	return nil, wire.Refuse(wirev1.ErrorReason_ERROR_REASON_UNSPECIFIED, "the request's body broke off")
}

// rope holds a body in pieces of one size, so that a large one never needs twice its size to grow.
type rope struct {
	pieces [][]byte
	pooled []*[ropePiece]byte
	next   int
	off    int
}

const ropePiece = 32 << 10

var (
	ropePool    = sync.Pool{New: func() any { return new([ropePiece]byte) }}
	errRopeFull = errors.New("more bytes than allowed")
)

func (b *rope) fill(r io.Reader, most int) error {
	for total := 0; ; {
		p, _ := ropePool.Get().(*[ropePiece]byte)
		b.pooled = append(b.pooled, p)
		n, err := io.ReadFull(r, p[:])
		total += n
		b.pieces = append(b.pieces, p[:n])
		switch {
		case total > most:
			return errRopeFull
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// Read gives the body out once.
func (b *rope) Read(p []byte) (int, error) {
	for b.next < len(b.pieces) {
		piece := b.pieces[b.next][b.off:]
		if len(piece) == 0 {
			b.next, b.off = b.next+1, 0
			continue
		}
		n := copy(p, piece)
		b.off += n
		return n, nil
	}
	return 0, io.EOF
}

// Close does nothing: give returns the memory when the call is over.
func (b *rope) Close() error { return nil }

func (b *rope) give() {
	for _, p := range b.pooled {
		ropePool.Put(p)
	}
	b.pooled, b.pieces = nil, nil
}

// health answers the platform's check: versions, and nothing that needs a proof.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	state, _, _ := s.door.state()
	var answer bytes.Buffer
	err := json.NewEncoder(&answer).Encode(map[string]any{
		"status": "ok", "build": wire.Build, "state": StateName(state),
		"wire": map[string]int{"min": wire.Version, "max": wire.Version},
	})
	if err != nil {
		http.Error(w, "health cannot be told", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if state == wirev1.MachineState_MACHINE_STATE_STOPPING {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(answer.Bytes())
}

// StateName is a machine state as the probe and /healthz spell it.
func StateName(state wirev1.MachineState) string {
	switch state {
	case wirev1.MachineState_MACHINE_STATE_SERVING:
		return "serving"
	case wirev1.MachineState_MACHINE_STATE_QUIESCED:
		return "quiesced"
	case wirev1.MachineState_MACHINE_STATE_STOPPING:
		return "stopping"
	}
	return fmt.Sprintf("state-%d", state)
}
