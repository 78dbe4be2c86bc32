package admission

import (
	"context"

	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// warning adds warnings to the responses of a mutating handler, which the Defaulter of
// controller-runtime can't return. So no value that a user wrote is replaced silently.
type warning struct{ ctrladmission.Handler }

type collectorKey struct{}

// Handle returns the response of the handler, with the warnings that were passed to warn.
func (w warning) Handle(ctx context.Context, request ctrladmission.Request) ctrladmission.Response {
	var collected []string
	response := w.Handler.Handle(context.WithValue(ctx, collectorKey{}, &collected), request)
	return response.WithWarnings(collected...)
}

// warn collects warnings for the response to the request in ctx.
func warn(ctx context.Context, warnings []string) {
	if collected, ok := ctx.Value(collectorKey{}).(*[]string); ok {
		*collected = append(*collected, warnings...)
	}
}
