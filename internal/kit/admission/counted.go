package admission

import (
	"context"
	"net/http"

	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
)

// counted counts the requests that a handler fails to decide, for an alert. The metrics of
// controller-runtime can't show them: such an answer has the HTTP status 200.
type counted struct {
	path string
	ctrladmission.Handler
}

// countFailures makes a handler count the requests that it fails to decide.
func countFailures(path string, handler ctrladmission.Handler) ctrladmission.Handler {
	metrics.WebhookServed(path)
	return counted{path, handler}
}

// Handle returns the answer of the handler.
func (c counted) Handle(ctx context.Context, request ctrladmission.Request) ctrladmission.Response {
	isAnswered := false
	defer func() { // after a panic, too: the webhook answers for the handler then
		if !isAnswered {
			metrics.WebhookFailed(c.path)
		}
	}()
	response := c.Handler.Handle(ctx, request)
	isAnswered = response.Result == nil || response.Result.Code < http.StatusInternalServerError
	return response
}
