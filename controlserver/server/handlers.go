//go:build linux

package server

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/crashpoint"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// answer turns any error into the form that travels. What is not a refusal is our own trouble: it is
// logged whole and told in short.
func (s *Server) answer(rpc string, err error) error {
	if err == nil {
		return nil
	}
	var travelled *connect.Error
	if refusal, ok := wire.AsError(err); ok {
		return refusal.Connect()
	} else if errors.As(err, &travelled) {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return connect.NewError(connect.CodeCanceled, err)
	}
	s.log.Error("call failed", "rpc", rpc, "error", err)
	return connect.NewError(connect.CodeInternal, fmt.Errorf("the control server failed: %w", err))
}

// scope refuses a request whose scope is not its token's.
func scope(ctx context.Context, asked string) error {
	if claimsOf(ctx).Scope != asked {
		return wire.Refuse(wirev1.ErrorReason_ERROR_REASON_SCOPE, "the token is for another scope")
	}
	return nil
}

func unknown(id string) error {
	return wire.Refuse(wirev1.ErrorReason_ERROR_REASON_UNKNOWN_EXEC, "no exec %s in this scope", id)
}

// Exec starts a command or attaches to it, and streams it to its end.
func (s *Server) Exec(ctx context.Context, call *connect.Request[wirev1.ExecRequest], stream *connect.ServerStream[wirev1.Event]) error {
	request := call.Msg
	if err := wire.CheckExec(request); err != nil {
		return s.answer("Exec", wire.Invalid(err))
	}
	if err := scope(ctx, request.GetScope()); err != nil {
		return s.answer("Exec", err)
	}
	if string(wire.Digest(request.GetScope(), request.GetSpec())) != string(request.GetDigest()) {
		return s.answer("Exec", wire.Invalid(&wire.FieldError{Field: "digest", Problem: "is not that of scope and spec"}))
	}
	release, err := s.fences.guard(request.GetScope(), request.GetFence())
	if err != nil {
		return s.answer("Exec", err)
	}
	e, fresh, err := s.obtain(request)
	release()
	switch {
	case errors.Is(err, errCutShort):
		return s.answer("Exec", lost(stream, wirev1.LostReason_LOST_REASON_KEEPER_DIED))
	case err != nil:
		return s.answer("Exec", err)
	case e == nil:
		return s.answer("Exec", lost(stream, wirev1.LostReason_LOST_REASON_MACHINE_RESTARTED))
	}
	started, _ := proto.Clone(e.started).(*wirev1.Started)
	if started != nil {
		started.AlreadyStarted = !fresh
	}
	return s.answer("Exec", s.stream(ctx, request.GetFence(), started, newSubscriber(e, request.GetFrom(), true, outletOf(ctx, stream))))
}

// lost ends the stream of an exec that has no record.
func lost(stream *connect.ServerStream[wirev1.Event], reason wirev1.LostReason) error {
	return stream.Send(&wirev1.Event{Event: &wirev1.Event_Lost{Lost: &wirev1.Lost{Reason: reason}}})
}

// obtain finds or starts the exec of a request. A nil exec says that it must not start: the machine
// restarted since its intent was recorded.
func (s *Server) obtain(request *wirev1.ExecRequest) (*exec, bool, error) {
	for {
		e, fresh, err := s.obtainOnce(request)
		if !errors.Is(err, errMoved) {
			return e, fresh, err
		}
	}
}

func (s *Server) obtainOnce(request *wirev1.ExecRequest) (*exec, bool, error) {
	id, scope, digest := request.GetExecId(), request.GetScope(), request.GetDigest()
	e, err := s.execs.find(id)
	if err == nil {
		return s.sameExec(e, scope, digest)
	}
	if !errors.Is(err, spool.ErrUnknown) {
		return nil, false, err
	}
	if err := s.remembered(id); err != nil {
		return nil, false, err
	}
	if epoch := request.GetIfEpoch(); epoch != "" && epoch != s.keeper.Epoch() {
		return nil, false, nil
	}
	order, err := s.order(request)
	if err != nil {
		return nil, false, err
	}
	e, mine := s.execs.claim(id, scope, digest)
	if !mine {
		if e.startErr != nil {
			return nil, false, e.startErr
		}
		return s.sameExec(e, scope, digest)
	}
	got, err := s.execs.start(e, request.GetSpec(), order)
	if err != nil {
		return nil, false, err
	}
	if got != e {
		return s.sameExec(got, scope, digest)
	}
	s.log.Info("exec started", "exec", id, "scope", scope, "pid", e.started.GetPid())
	return e, true, nil
}

// remembered refuses ids so old that the machine may have forgotten them.
func (s *Server) remembered(id string) error {
	made, err := wire.IDTime(id)
	if err == nil && s.options.Now().Sub(made) <= maxIDAge && !s.graves.Before(id) {
		return nil
	}
	return wire.Refuse(wirev1.ErrorReason_ERROR_REASON_EXPIRED, "id %s is older than %s, or than what the machine remembers: it may have run and been collected, so it never starts", id, maxIDAge)
}

func (s *Server) sameExec(e *exec, scope string, digest []byte) (*exec, bool, error) {
	if e.state() == wirev1.ExecState_EXEC_STATE_FORBIDDEN && e.scope == scope {
		return nil, false, wire.Refuse(wirev1.ErrorReason_ERROR_REASON_FORBIDDEN_ID, "id %s was forbidden: it never starts", e.id)
	}
	if !e.same(scope, digest) {
		return nil, false, wire.Refuse(wirev1.ErrorReason_ERROR_REASON_CONFLICT, "id %s is taken by another command", e.id)
	}
	return e, false, nil
}

// Attach follows a known exec.
func (s *Server) Attach(ctx context.Context, call *connect.Request[wirev1.AttachRequest], stream *connect.ServerStream[wirev1.Event]) error {
	request := call.Msg
	if err := wire.CheckAttach(request); err != nil {
		return s.answer("Attach", wire.Invalid(err))
	}
	if err := scope(ctx, request.GetScope()); err != nil {
		return s.answer("Attach", err)
	}
	e, err := s.known(request.GetExecId(), request.GetScope())
	if err != nil {
		return s.answer("Attach", err)
	}
	if e.state() == wirev1.ExecState_EXEC_STATE_FORBIDDEN {
		return s.answer("Attach", wire.Refuse(wirev1.ErrorReason_ERROR_REASON_FORBIDDEN_ID, "id %s was forbidden: it never started", e.id))
	}
	from := request.GetFrom()
	if request.GetFromEnd() {
		from = &wirev1.Offsets{Stdout: e.out.end.Load(), Stderr: e.err.end.Load()}
	}
	started, _ := proto.Clone(e.started).(*wirev1.Started)
	if started != nil {
		started.AlreadyStarted = true
	}
	crashpoint.At(crashpoint.Attach)
	return s.answer("Attach", s.stream(ctx, request.GetFence(), started, newSubscriber(e, from, request.GetFollow(), outletOf(ctx, stream))))
}

// known finds an exec of a scope; one of another scope is as unknown as none.
func (s *Server) known(id, scope string) (*exec, error) {
	e, err := s.execs.find(id)
	if errors.Is(err, spool.ErrUnknown) || err == nil && e.scope != scope {
		return nil, unknown(id)
	}
	return e, err
}
