// Package trace tells what reconciles spend their time on, as OpenTelemetry spans, if somebody listens. While nobody
// does it costs a comparison: nothing is made or kept.
package trace

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// scope names who makes the spans.
const scope = "github.com/mainstay-platform/mainstay"

var tracer atomic.Pointer[trace.Tracer]

// Listen sends spans to a provider from now on; nil ends that.
func Listen(provider trace.TracerProvider) {
	if provider == nil {
		tracer.Store(nil)
		return
	}
	made := provider.Tracer(scope)
	tracer.Store(&made)
}

// Span is a piece of work; the zero value is one that nobody listens to.
type Span struct{ span trace.Span }

// Start begins a piece of work, as a part of what ctx is in, and returns a context that is in it. It must be ended.
func Start(ctx context.Context, name string) (context.Context, Span) {
	with := tracer.Load()
	if with == nil {
		return ctx, Span{}
	}
	ctx, span := (*with).Start(ctx, name)
	return ctx, Span{span}
}

// Object says which object the work is for, and in which generation.
func (s Span) Object(kind, namespace, name string, generation int64) {
	if s.span == nil {
		return
	}
	s.span.SetAttributes(attribute.String("mainstay.kind", kind), attribute.String("k8s.namespace.name", namespace),
		attribute.String("mainstay.name", name), attribute.Int64("mainstay.generation", generation))
}

// Result says how the work ended.
func (s Span) Result(result string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.String("mainstay.result", result))
	}
}

// End ends the work; err is nil if it went well.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, err.Error())
	}
	s.span.End()
}
