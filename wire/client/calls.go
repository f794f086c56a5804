package client

import (
	"context"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Each call below speaks with the client's scope and fence, and waits 30 s when ctx has no deadline. A
// refusal comes back as *wire.Error in the chain.

// Signal sends a signal to an exec of the client's scope.
func (c *Client) Signal(ctx context.Context, id string, signal int32, target wirev1.SignalTarget) (*wirev1.SignalResponse, error) {
	return call(ctx, c, "signal exec "+id, c.rpc.Signal, &wirev1.SignalRequest{
		ExecId: id, Scope: c.options.Scope, Fence: c.options.Fence, Signal: signal, Target: target,
	})
}

// Resize sets the size of an exec's terminal.
func (c *Client) Resize(ctx context.Context, id string, cols, rows uint32) error {
	_, err := call(ctx, c, "resize exec "+id, c.rpc.Resize, &wirev1.ResizeRequest{
		ExecId: id, Scope: c.options.Scope, Fence: c.options.Fence, Cols: cols, Rows: rows,
	})
	return err
}

// Hold pauses an exec's wall limit under a key for ttlMS milliseconds; 0 ends the hold. It says whether
// the exec is held now.
func (c *Client) Hold(ctx context.Context, id, key string, ttlMS int64) (bool, error) {
	answer, err := call(ctx, c, "hold exec "+id, c.rpc.Hold, &wirev1.HoldRequest{
		ExecId: id, Scope: c.options.Scope, Fence: c.options.Fence, Key: key, TtlMs: ttlMS,
	})
	return answer.GetHeld(), err
}

// Forget lets the machine collect a finished exec's output. It says whether there was something to
// forget.
func (c *Client) Forget(ctx context.Context, id string) (bool, error) {
	answer, err := call(ctx, c, "forget exec "+id, c.rpc.Forget, &wirev1.ForgetRequest{
		ExecId: id, Scope: c.options.Scope, Fence: c.options.Fence,
	})
	return answer.GetForgotten(), err
}

// Forbid makes an id one that can never start, and returns its state: FORBIDDEN, or what it was already.
func (c *Client) Forbid(ctx context.Context, id string) (wirev1.ExecState, error) {
	answer, err := call(ctx, c, "forbid exec "+id, c.rpc.Forbid, &wirev1.ForbidRequest{
		ExecId: id, Scope: c.options.Scope, Fence: c.options.Fence,
	})
	return answer.GetState(), err
}

// WriteStdin sends bytes of an exec's stdin from an offset on; eof ends it. It returns how far the machine has accepted bytes, which may
// be less than was sent while the exec reads slowly, and whether it takes no more. Repeating a call is harmless.
func (c *Client) WriteStdin(ctx context.Context, id string, offset uint64, data []byte, eof bool) (accepted uint64, closed bool, err error) {
	answer, err := call(ctx, c, "write stdin of exec "+id, c.rpc.WriteStdin, &wirev1.WriteStdinRequest{
		ExecId: id, Scope: c.options.Scope, Fence: c.options.Fence, Offset: offset, Data: data, Eof: eof,
	})
	return answer.GetAcceptedTo(), answer.GetClosed(), err
}

// List returns the execs of the client's scope, newest first, all pages of them.
func (c *Client) List(ctx context.Context, runningOnly bool) ([]*wirev1.ExecInfo, error) {
	var all []*wirev1.ExecInfo
	request := &wirev1.ListRequest{
		Scope: c.options.Scope, Fence: c.options.Fence, Running: runningOnly, PageSize: wire.MaxPageSize,
	}
	for {
		page, err := call(ctx, c, "list execs", c.rpc.List, request)
		if err != nil {
			return nil, err
		}
		all = append(all, page.GetExecs()...)
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" || len(page.GetExecs()) == 0 {
			return all, nil
		}
	}
}

// call makes one unary call.
func call[Q, A any](ctx context.Context, c *Client, what string,
	rpc func(context.Context, *connect.Request[Q]) (*connect.Response[A], error), request *Q,
) (*A, error) {
	ctx, cancel := withLimit(ctx)
	defer cancel()
	answer, err := rpc(ctx, connect.NewRequest(request))
	if err != nil {
		return nil, c.failed(what, err)
	}
	return answer.Msg, nil
}
