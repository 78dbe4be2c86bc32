package admission

import (
	"context"
	"fmt"
	"net/http"

	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Prefixes are the beginnings of the paths of all hooks.
func Prefixes() []string { return []string{"/validate/", "/mutate/"} }

// Unserved admits requests to hooks that this replica does not have, with a warning. The API server
// sends them while replicas with other kinds run, and after a rollback. Nothing else would answer,
// and with failurePolicy Fail every such write would be refused. The reconcilers check all that
// they apply.
func Unserved() http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		text := fmt.Sprintf("this replica of Mainstay does not serve %s: admitted without this check", request.URL.Path)
		hook := ctrladmission.Webhook{
			Handler: ctrladmission.HandlerFunc(func(context.Context, ctrladmission.Request) ctrladmission.Response {
				return ctrladmission.Allowed("").WithWarnings(text)
			}),
		}
		hook.ServeHTTP(response, request)
	})
}
