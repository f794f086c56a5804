//go:build linux

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
	r := call.Msg
	e, release, err := s.act(ctx, wire.CheckSignal(r), r.GetExecId(), r.GetScope(), r.GetFence())
	if err != nil {
		return nil, s.answer("Signal", err)
	}
	defer release()
	hit, err := s.keeper.Signal(keeper.Shot{
		ID: e.id, Signal: int(r.GetSignal()), Target: r.GetTarget(),
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
	for _, a := range e.spec.GetArgv() {
		if len(a) > left {
			info.Argv = append(info.Argv, a[:left])
			break
		}
		info.Argv = append(info.Argv, a)
		left -= len(a)
	}
	return info
}
