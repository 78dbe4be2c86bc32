package admission

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// warning adds to a mutating handler what controller-runtime's Defaulter has no way to return:
// warnings, so that nothing of what a user wrote is replaced in silence.
type warning struct{ admission.Handler }

type collectorKey struct{}

// Handle answers, with the warnings that were given to warn meanwhile.
func (w warning) Handle(ctx context.Context, request admission.Request) admission.Response {
	var collected []string
	response := w.Handler.Handle(context.WithValue(ctx, collectorKey{}, &collected), request)
	return response.WithWarnings(collected...)
}

// warn collects warnings for the answer to the request in ctx.
func warn(ctx context.Context, warnings []string) {
	if collected, ok := ctx.Value(collectorKey{}).(*[]string); ok {
		*collected = append(*collected, warnings...)
	}
}
