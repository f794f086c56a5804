//go:build linux

package server

import (
	"context"
	"math"
	"syscall"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// MaxStreams is how many streams one connection may have open.
const MaxStreams = 4096

// features are what this server can do beyond Hello, Exec and Attach themselves.
var features = []string{
	"exec", "attach", "if_epoch", "fence", "list", "signal", "forget", "forbid",
	"stdin_inline", "stdin_pipe", "pty", "resize", "merge_stderr",
	"wall_timeout", "unattended_timeout", "hold", "drain", "caps", "sync_on_exit",
}

// Hello tells who answers. It changes nothing.
func (s *Server) Hello(_ context.Context, call *connect.Request[wirev1.HelloRequest]) (*connect.Response[wirev1.HelloResponse], error) {
	request := call.Msg
	if err := wire.CheckHello(request); err != nil {
		return nil, s.answer("Hello", wire.Invalid(err))
	}
	if request.GetWireMax() < wire.Version || request.GetWireMin() > wire.Version {
		return nil, s.answer("Hello", wire.Refuse(wirev1.ErrorReason_ERROR_REASON_VERSION,
			"this machine speaks wire version %d, the client %d to %d", wire.Version, request.GetWireMin(), request.GetWireMax()))
	}
	room, err := s.options.Spool.Room()
	if err != nil {
		return nil, s.answer("Hello", err)
	}
	state, _, _ := s.door.state()
	return connect.NewResponse(&wirev1.HelloResponse{
		WireVersion: wire.Version, WireMin: wire.Version, WireMax: wire.Version, Build: wire.Build,
		Features: features, App: s.options.App, Machine: s.options.Machine,
		Epoch: s.keeper.Epoch(), ServerInstance: s.instance, Spool: s.options.Kind,
		Limits: &wirev1.Limits{
			MaxStreams: MaxStreams, MaxRunning: uint32(s.door.most),
			MaxArgumentBytes: wire.MaxArgumentBytes, MaxOneArgumentBytes: maxOneArgument,
			MaxInlineStdinBytes: wire.MaxInlineStdin, MaxStdinChunkBytes: wire.MaxStdinChunk, MaxChunkBytes: wire.MaxChunk,
			DefaultCapBytes: defaultCap, MaxCapBytes: maxCap,
			SpoolQuotaBytes: room.Quota, SpoolFreeBytes: room.Free,
			MaxIdAgeMs: maxIDAge.Milliseconds(), RetentionMs: retention.Milliseconds(),
			MaxWallTimeoutMs: wire.MaxLimit.Milliseconds(),
		},
		State: state, ExecUser: s.options.Accounts.Default().Name, ExecUserSeparate: s.options.Accounts.Separate(),
		Workspace: []byte(s.options.Workspace), TreeKill: s.keeper.TreeKill(),
		PtyDurable: s.ptySafe,
	}), nil
}

// maxOneArgument is the kernel's MAX_ARG_STRLEN, 32 pages, less the final NUL.
const maxOneArgument = 128<<10 - 1

// mostRunning leaves room for the files that one exec and its followers need.
func mostRunning() int {
	const perExec, own, most = 8, 256, 4096
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > math.MaxInt32 {
		return most
	}
	return max(16, min(most, (int(limit.Cur)-own)/perExec))
}
