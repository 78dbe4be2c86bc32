package admission

import (
	"context"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// warning adds warnings to the responses of a mutating handler, which the Defaulter of
// controller-runtime can't return. So no value that a user wrote is replaced silently.
type warning struct{ admission.Handler }

type collectorKey struct{}

// Handle returns the response of the handler, with the warnings that were passed to warn.
func (w warning) Handle(ctx context.Context, request admission.Request) admission.Response {
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

// decodable lets an object pass unchanged that a mutating handler can't decode. The API server
// calls mutating webhooks before it checks an object against its schema, and then refuses it with
// the path of each wrong field. What it would accept nevertheless, the validating webhook refuses.
type decodable struct{ admission.Handler }

// Handle returns the response of the handler, unless it could not decode the request.
func (d decodable) Handle(ctx context.Context, request admission.Request) admission.Response {
	response := d.Handler.Handle(ctx, request)
	if !response.Allowed && response.Result != nil && response.Result.Code == http.StatusBadRequest {
		return admission.Allowed("")
	}
	return response
}
