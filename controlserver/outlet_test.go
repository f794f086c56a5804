//go:build linux

package controlserver_test

import (
	"bytes"
	"testing"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1/wirev1connect"
)

// TestOutputIsTheSameInEveryFraming reads one exec in each protocol and encoding that Connect offers, by
// clients that know nothing of how the server writes chunks.
func TestOutputIsTheSameInEveryFraming(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	const words = `for i in 1 2 3 4 5; do echo grüße; done; seq 200000; echo ≠ >&2`
	first := begin(t, c, shell(words))
	first.wait(t)
	want := first.out.Bytes()
	for name, options := range map[string][]connect.ClientOption{
		"grpc":         {connect.WithGRPC()},
		"grpc json":    {connect.WithGRPC(), connect.WithProtoJSON()},
		"grpc-web":     {connect.WithGRPCWeb()},
		"connect":      nil,
		"connect json": {connect.WithProtoJSON()},
	} {
		t.Run(name, func(t *testing.T) {
			service := wirev1connect.NewControlServiceClient(h2c(t), "http://"+m.Address, options...)
			request := connect.NewRequest(&wirev1.AttachRequest{ExecId: first.id, Scope: machinetest.Scope, Follow: true})
			request.Header().Set("Authorization", "Bearer "+m.Token(machinetest.Scope))
			events, err := service.Attach(limited(t), request)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = events.Close() }()
			var out, errs bytes.Buffer
			var exit *wirev1.Exit
			for events.Receive() {
				if e := events.Msg(); e.GetExit() != nil {
					exit = e.GetExit()
				} else if chunk := e.GetChunk(); chunk != nil {
					to := &out
					if chunk.GetStream() == wirev1.Stream_STREAM_STDERR {
						to = &errs
					}
					if int(chunk.GetOffset()) != to.Len() || len(chunk.GetData()) > wire.MaxChunk {
						t.Fatalf("a chunk of %d bytes at %d, after %d", len(chunk.GetData()), chunk.GetOffset(), to.Len())
					}
					to.Write(chunk.GetData())
				}
			}
			if err := events.Err(); err != nil {
				t.Fatal(err)
			}
			if exit == nil || int(exit.GetStdoutEnd()) != out.Len() || !bytes.Equal(out.Bytes(), want) || errs.String() != "≠\n" {
				t.Fatalf("%d bytes of %d, %q, %v", out.Len(), len(want), errs.String(), exit)
			}
		})
	}
}
