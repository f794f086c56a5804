//go:build linux

package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// act is what all calls on one exec begin with: fields, scope, and the fence, which is held until
// release; then the exec.
func (s *Server) act(ctx context.Context, checked error, id, of string, fence uint64) (e *exec, release func(), err error) {
	if checked != nil {
		return nil, nil, wire.Invalid(checked)
	}
	if err := scope(ctx, of); err != nil {
		return nil, nil, err
	}
	release, err = s.fences.guard(of, fence)
	if err != nil {
		return nil, nil, err
	}
	release = sync.OnceFunc(release)
	if e, err = s.known(id, of); err != nil {
		release()
		return nil, nil, err
	}
	return e, release, nil
}

// stdinTime is how long one WriteStdin waits for the exec to read.
const stdinTime = 20 * time.Second

// WriteStdin appends to a piped stdin.
func (s *Server) WriteStdin(ctx context.Context, call *connect.Request[wirev1.WriteStdinRequest]) (*connect.Response[wirev1.WriteStdinResponse], error) {
	r := call.Msg
	e, release, err := s.act(ctx, wire.CheckWriteStdin(r), r.GetExecId(), r.GetScope(), r.GetFence())
	if err != nil {
		return nil, s.answer("WriteStdin", err)
	}
	defer release()
	if e.spec != nil && wire.StdinMode(e.spec.GetStdin()) != wirev1.StdinMode_STDIN_MODE_PIPE {
		return nil, s.answer("WriteStdin", wire.Invalid(&wire.FieldError{Field: "exec_id", Problem: "is of an exec without a piped stdin"}))
	}
	if e.stdin == nil || !e.running() {
		// Ended, or its stdin is: nobody reads what is written.
		return connect.NewResponse(&wirev1.WriteStdinResponse{AcceptedTo: r.GetOffset(), Closed: true}), nil
	}
	// The fence is not held while the exec takes its time to read.
	release()
	wait, cancel := context.WithTimeout(ctx, stdinTime)
	defer cancel()
	accepted, closed, err := e.stdin.write(wait, int64(r.GetOffset()), r.GetData(), r.GetEof())
	if err != nil {
		return nil, s.answer("WriteStdin", err)
	}
	return connect.NewResponse(&wirev1.WriteStdinResponse{AcceptedTo: uint64(accepted), Closed: closed}), nil
}

// Resize sets a terminal's size.
func (s *Server) Resize(ctx context.Context, call *connect.Request[wirev1.ResizeRequest]) (*connect.Response[wirev1.ResizeResponse], error) {
	r := call.Msg
	e, release, err := s.act(ctx, wire.CheckResize(r), r.GetExecId(), r.GetScope(), r.GetFence())
	if err != nil {
		return nil, s.answer("Resize", err)
	}
	defer release()
	if e.spec.GetPty() == nil {
		return nil, s.answer("Resize", wire.Invalid(&wire.FieldError{Field: "exec_id", Problem: "is of an exec without a terminal"}))
	}
	if e.files.Terminal == nil || !e.running() {
		return connect.NewResponse(&wirev1.ResizeResponse{}), nil
	}
	raw, err := e.files.Terminal.SyscallConn()
	if err == nil {
		var step error
		err = raw.Control(func(fd uintptr) {
			step = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(r.GetCols()), Row: uint16(r.GetRows())})
		})
		err = errors.Join(err, step)
	}
	if err != nil && !errors.Is(err, os.ErrClosed) {
		return nil, s.answer("Resize", fmt.Errorf("resize: %w", err))
	}
	return connect.NewResponse(&wirev1.ResizeResponse{}), nil
}

// Hold pauses the wall limit of an exec.
func (s *Server) Hold(ctx context.Context, call *connect.Request[wirev1.HoldRequest]) (*connect.Response[wirev1.HoldResponse], error) {
	r := call.Msg
	e, release, err := s.act(ctx, wire.CheckHold(r), r.GetExecId(), r.GetScope(), r.GetFence())
	if err != nil {
		return nil, s.answer("Hold", err)
	}
	defer release()
	if e.limits == nil || !e.running() {
		return connect.NewResponse(&wirev1.HoldResponse{}), nil
	}
	e.limits.hold(r.GetKey(), time.Duration(r.GetTtlMs())*time.Millisecond)
	return connect.NewResponse(&wirev1.HoldResponse{Held: r.GetTtlMs() > 0}), nil
}

// Forget lets the machine collect an ended exec's output, at once if nothing writes to it any more.
func (s *Server) Forget(ctx context.Context, call *connect.Request[wirev1.ForgetRequest]) (*connect.Response[wirev1.ForgetResponse], error) {
	r := call.Msg
	e, release, err := s.act(ctx, wire.CheckForget(r), r.GetExecId(), r.GetScope(), r.GetFence())
	if wire.ReasonOf(err) == wirev1.ErrorReason_ERROR_REASON_UNKNOWN_EXEC {
		return connect.NewResponse(&wirev1.ForgetResponse{}), nil
	}
	if err != nil {
		return nil, s.answer("Forget", err)
	}
	defer release()
	if e.running() {
		return nil, s.answer("Forget", wire.Invalid(&wire.FieldError{Field: "exec_id", Problem: "is of an exec that runs"}))
	}
	forgotten, err := s.execs.forget(e)
	if err != nil {
		return nil, s.answer("Forget", err)
	}
	return connect.NewResponse(&wirev1.ForgetResponse{Forgotten: forgotten}), nil
}

// Forbid makes an id one that can never start.
func (s *Server) Forbid(ctx context.Context, call *connect.Request[wirev1.ForbidRequest]) (*connect.Response[wirev1.ForbidResponse], error) {
	r := call.Msg
	if err := wire.CheckForbid(r); err != nil {
		return nil, s.answer("Forbid", wire.Invalid(err))
	}
	if err := scope(ctx, r.GetScope()); err != nil {
		return nil, s.answer("Forbid", err)
	}
	release, err := s.fences.guard(r.GetScope(), r.GetFence())
	if err != nil {
		return nil, s.answer("Forbid", err)
	}
	defer release()
	e, err := s.forbid(r.GetExecId(), r.GetScope())
	if err != nil {
		return nil, s.answer("Forbid", err)
	}
	return connect.NewResponse(&wirev1.ForbidResponse{State: e.state()}), nil
}

func (s *Server) forbid(id, of string) (*exec, error) {
	for {
		e, err := s.execs.find(id)
		if errors.Is(err, spool.ErrUnknown) {
			if err := s.remembered(id); err != nil {
				return nil, err
			}
			e, err = s.execs.forbid(id, of)
		}
		switch {
		case errors.Is(err, errMoved):
			continue
		case err != nil:
			return nil, err
		case e.scope != of:
			return nil, wire.Refuse(wirev1.ErrorReason_ERROR_REASON_CONFLICT, "id %s is taken by another command", id)
		}
		return e, nil
	}
}

// forbid takes an unknown id by making its directory, as a start would: of the two only one can.
func (r *registry) forbid(id, scope string) (*exec, error) {
	e, mine := r.claim(id, scope, nil)
	if !mine {
		return nil, errMoved
	}
	defer r.abandon(e, errMoved)
	err := r.spool.Create(id, false)
	if errors.Is(err, os.ErrExist) {
		return r.stored(id)
	}
	if err == nil {
		err = r.spool.AppendForbidden(id, scope)
		r.vault.stored(int64(r.spool.Stored(id)))
	}
	if err != nil {
		return nil, fmt.Errorf("forbid: %w", err)
	}
	return r.stored(id)
}

// forget puts it on record that an ended exec's output may go, and collects it if nothing writes to it.
func (r *registry) forget(e *exec) (bool, error) {
	e.mu.Lock()
	had := e.forgotten
	e.mu.Unlock()
	if had {
		return false, nil
	}
	if err := r.spool.AppendForgotten(e.id); err != nil {
		return false, fmt.Errorf("forget: %w", err)
	}
	// Orphans hold a pipe: they write on, to nowhere.
	e.mu.Lock()
	e.forgotten = true
	e.mu.Unlock()
	for _, s := range e.streams() {
		if s.pump != nil {
			s.pump.Discard()
		}
	}
	if !r.lives(e) {
		r.collect(e.id)
	}
	return true, nil
}
