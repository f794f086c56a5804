package gateway_test

import (
	"errors"
	"testing"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1/runtimev1connect"
)

func TestStreamOverTheLimitIsToldWhenToComeBack(t *testing.T) {
	r := newRig(t)
	f := r.face(func(o *gateway.Options) { o.Door.Rates.Streams = 1 })
	session := f.session(r.acme)
	w := f.watch(r.acme, session, "", "")
	defer w.close()
	for name, protocol := range map[string][]connect.ClientOption{
		"Connect": nil, "gRPC": {connect.WithGRPC()}, "gRPC-Web": {connect.WithGRPCWeb()},
	} {
		t.Run(name, func(t *testing.T) {
			client := runtimev1connect.NewRuntimeServiceClient(f.keyed(r.acme), f.URL, protocol...)
			stream, err := client.StreamEvents(t.Context(), connect.NewRequest(&runtimev1.StreamEventsRequest{SessionId: session}))
			r.ok(err)
			for stream.Receive() {
				t.Error("an event came")
			}
			e := new(connect.Error)
			if !errors.As(stream.Err(), &e) || e.Code() != connect.CodeResourceExhausted || e.Meta().Get("Retry-After") != "1" {
				t.Errorf("%v", stream.Err())
			}
			if err := stream.Close(); err != nil && connect.CodeOf(err) != connect.CodeResourceExhausted {
				t.Error(err)
			}
		})
	}
}
