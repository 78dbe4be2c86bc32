// Package trace records reconciles as OpenTelemetry spans, if there is a provider. Without one it
// costs a comparison: nothing is allocated or kept.
package trace

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// scope is the instrumentation scope of the spans.
const scope = "github.com/mainstay-platform/mainstay"

var tracer atomic.Pointer[trace.Tracer]

// Listen sends spans to a provider from now on; nil ends that.
func Listen(provider trace.TracerProvider) {
	if provider == nil {
		tracer.Store(nil)
		return
	}
	created := provider.Tracer(scope)
	tracer.Store(&created)
}

// Span is one operation. The zero value is not recorded.
type Span struct{ span trace.Span }

// Start starts a span as a child of the span in ctx, and returns a context with the new span. The
// caller must call End.
func Start(ctx context.Context, name string) (context.Context, Span) {
	current := tracer.Load()
	if current == nil {
		return ctx, Span{}
	}
	ctx, span := (*current).Start(ctx, name)
	return ctx, Span{span}
}

// Object sets the object of the span, and its generation.
func (s Span) Object(kind, namespace, name string, generation int64) {
	if s.span == nil {
		return
	}
	s.span.SetAttributes(attribute.String("mainstay.kind", kind), attribute.String("k8s.namespace.name", namespace),
		attribute.String("mainstay.name", name), attribute.Int64("mainstay.generation", generation))
}

// Result sets the result of the span.
func (s Span) Result(result string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.String("mainstay.result", result))
	}
}

// End ends the span. err is nil on success.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, err.Error())
	}
	s.span.End()
}
