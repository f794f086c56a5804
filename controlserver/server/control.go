package server

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/keeper"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Signal sends one signal to a running exec.
func (s *Server) Signal(ctx context.Context, call *connect.Request[wirev1.SignalRequest]) (*connect.Response[wirev1.SignalResponse], error) {
	request := call.Msg
	if err := wire.CheckSignal(request); err != nil {
		return nil, s.answer("Signal", wire.Invalid(err))
	}
	if err := scope(ctx, request.GetScope()); err != nil {
		return nil, s.answer("Signal", err)
	}
	release, err := s.fences.guard(request.GetScope(), request.GetFence())
	if err != nil {
		return nil, s.answer("Signal", err)
	}
	defer release()
	e, err := s.known(request.GetExecId(), request.GetScope())
	if err != nil {
		return nil, s.answer("Signal", err)
	}
	hit, err := s.keeper.Signal(keeper.Shot{
		ID: e.id, Signal: int(request.GetSignal()), Target: request.GetTarget(),
		Cause: wirev1.ExitCause_EXIT_CAUSE_SIGNALED_BY_CLIENT,
	})
	if err != nil {
		return nil, s.answer("Signal", fmt.Errorf("signal: %w", err))
	}
	return connect.NewResponse(&wirev1.SignalResponse{
		Delivered: hit.Delivered, ReachedBy: hit.ReachedBy, MayHaveEscaped: hit.MayHaveEscaped, State: e.state(),
	}), nil
}

// defaultPage is how many execs List returns when the request does not say.
const defaultPage = 100

// pageBytes bounds one List answer, whatever its page size.
const pageBytes = 1 << 20

// List returns the execs of a scope, newest first.
func (s *Server) List(ctx context.Context, call *connect.Request[wirev1.ListRequest]) (*connect.Response[wirev1.ListResponse], error) {
	request := call.Msg
	if err := wire.CheckList(request); err != nil {
		return nil, s.answer("List", wire.Invalid(err))
	}
	if err := scope(ctx, request.GetScope()); err != nil {
		return nil, s.answer("List", err)
	}
	if _, err := s.fences.see(request.GetScope(), request.GetFence()); err != nil {
		return nil, s.answer("List", err)
	}
	page, err := s.page(ctx, request)
	if err != nil {
		return nil, s.answer("List", err)
	}
	return connect.NewResponse(page), nil
}

func (s *Server) page(ctx context.Context, request *wirev1.ListRequest) (*wirev1.ListResponse, error) {
	ids, err := s.options.Spool.IDs()
	if err != nil {
		return nil, err
	}
	size := int(request.GetPageSize())
	if size == 0 {
		size = defaultPage
	}
	out, bytes := &wirev1.ListResponse{Epoch: s.keeper.Epoch()}, 0
	for _, id := range ids {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if t := request.GetPageToken(); t != "" && id >= t {
			continue
		}
		e, err := s.execs.find(id)
		if errors.Is(err, spool.ErrUnknown) {
			continue
		}
		if err != nil {
			s.log.Error("exec left out of a list", "exec", id, "error", err)
			continue
		}
		if e.scope != request.GetScope() || request.GetRunning() && e.state() != wirev1.ExecState_EXEC_STATE_RUNNING {
			continue
		}
		if len(out.Execs) == size || bytes > pageBytes {
			out.NextPageToken = out.Execs[len(out.Execs)-1].GetExecId()
			return out, nil
		}
		info := e.info()
		bytes += proto.Size(info)
		out.Execs = append(out.Execs, info)
	}
	return out, nil
}

// maxListedArgv bounds what List tells of a command line.
const maxListedArgv = 4 << 10

func (e *exec) info() *wirev1.ExecInfo {
	exit, lost := e.end()
	info := &wirev1.ExecInfo{
		ExecId: e.id, State: e.state(), StartedAtMs: e.started.GetStartedAtMs(), Pid: e.started.GetPid(),
		StdoutEnd: e.out.end.Load(), StderrEnd: e.err.end.Load(), Exit: exit, Lost: lost,
		Attached: uint32(e.attached.Load()), Digest: e.digest,
	}
	left := maxListedArgv
	for _, a := range e.argv {
		if len(a) > left {
			info.Argv = append(info.Argv, a[:left])
			break
		}
		info.Argv = append(info.Argv, a)
		left -= len(a)
	}
	return info
}

func unserved(rpc string) error {
	return wire.Refuse(wirev1.ErrorReason_ERROR_REASON_UNIMPLEMENTED, "%s is not served by this control server: see the features in Hello", rpc).Connect()
}

// WriteStdin is not served.
func (s *Server) WriteStdin(context.Context, *connect.Request[wirev1.WriteStdinRequest]) (*connect.Response[wirev1.WriteStdinResponse], error) {
	return nil, unserved("WriteStdin")
}

// Resize is not served.
func (s *Server) Resize(context.Context, *connect.Request[wirev1.ResizeRequest]) (*connect.Response[wirev1.ResizeResponse], error) {
	return nil, unserved("Resize")
}

// Hold is not served.
func (s *Server) Hold(context.Context, *connect.Request[wirev1.HoldRequest]) (*connect.Response[wirev1.HoldResponse], error) {
	return nil, unserved("Hold")
}

// Forget is not served.
func (s *Server) Forget(context.Context, *connect.Request[wirev1.ForgetRequest]) (*connect.Response[wirev1.ForgetResponse], error) {
	return nil, unserved("Forget")
}

// Forbid is not served.
func (s *Server) Forbid(context.Context, *connect.Request[wirev1.ForbidRequest]) (*connect.Response[wirev1.ForbidResponse], error) {
	return nil, unserved("Forbid")
}
