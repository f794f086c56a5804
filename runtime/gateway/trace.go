package gateway

import (
	"context"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

// scopeName is the instrumentation scope of all spans that are made here.
const scopeName = "github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway"

// tracing has a span for each request that asks and answers, under the caller's. Streams have none: they are open for days.
// Of a caller's context only the traceparent is read: tracestate and baggage are free text.
func tracing(tracer trace.Tracer) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
			ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": r.Header().Get("traceparent")})
			method := r.Spec().Procedure[1:]
			ctx, span := tracer.Start(ctx, method, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
				semconv.RPCSystemNameConnectrpc, semconv.RPCMethod(method), attribute.String("flyfleet.tenant", CallerOf(ctx).Tenant)))
			defer span.End()
			answer, err := next(ctx, r)
			if err != nil {
				code := connect.CodeOf(err)
				span.SetAttributes(semconv.RPCResponseStatusCode(code.String()), semconv.ErrorTypeKey.String(code.String()))
				if ours(code) {
					span.SetStatus(codes.Error, "")
				}
			}
			return answer, err
		}
	}
}

// ours: the server is to blame.
func ours(code connect.Code) bool {
	switch code {
	case connect.CodeUnknown, connect.CodeInternal, connect.CodeUnavailable, connect.CodeDataLoss, connect.CodeDeadlineExceeded, connect.CodeUnimplemented:
		return true
	}
	return false
}

// traceparent is the span of a context as the store keeps it; "" is none.
func traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}
