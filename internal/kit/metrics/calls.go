package metrics

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/mainstay-platform/mainstay/internal/kit/transport"
)

// Calls counts the requests to the API server.
func Calls(next http.RoundTripper) http.RoundTripper {
	return transport.Func(func(request *http.Request) (*http.Response, error) {
		verb, resource := describe(request)
		response, err := next.RoundTrip(request)
		calls.WithLabelValues(verb, resource, code(response, err)).Inc()
		return response, err
	})
}

// code returns the class of a response. Conflicts and overload are separate, because they are
// useful to operators.
func code(response *http.Response, err error) string {
	switch {
	case err != nil || response == nil:
		return "error"
	case response.StatusCode == http.StatusConflict, response.StatusCode == http.StatusTooManyRequests:
		return fmt.Sprint(response.StatusCode)
	default:
		return fmt.Sprintf("%dxx", response.StatusCode/100)
	}
}

// none is the resource of requests that are not for a resource: discovery, /version, /readyz.
const none = "none"

// describe returns the verb and the resource of a request, as the API server parses them, and never
// a name:
//
//	/api/v1/RESOURCE
//	/apis/GROUP/VERSION/RESOURCE
//	/apis/GROUP/VERSION/namespaces/NAMESPACE/RESOURCE/NAME/SUBRESOURCE
//
// Source: k8s.io/apiserver/pkg/endpoints/request.RequestInfoFactory, whose dependencies we avoid.
func describe(request *http.Request) (verb, resource string) {
	parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	// A proxy may have prepended a path.
	parts = parts[max(0, slices.IndexFunc(parts, func(part string) bool { return part == "api" || part == "apis" })):]
	group := ""
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		group, parts = parts[1], parts[3:]
	default:
		return strings.ToLower(request.Method), none
	}
	// What follows a namespace is a resource in it, or a subresource of the namespace itself.
	if parts[0] == "namespaces" && len(parts) > 2 && !slices.Contains([]string{"status", "finalize"}, parts[2]) {
		parts = parts[2:]
	}
	resource = parts[0]
	if group != "" {
		resource += "." + group
	}
	if len(parts) > 2 {
		resource += "/" + parts[2]
	}
	return verbOf(request, len(parts) > 1), resource
}

func verbOf(request *http.Request, isOne bool) string {
	switch request.Method {
	case http.MethodGet, http.MethodHead:
		query := request.URL.Query()
		switch {
		case query.Get("watch") == "true" || query.Get("watch") == "1":
			return "watch"
		case isOne:
			return "get"
		default:
			return "list"
		}
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		if strings.HasPrefix(request.Header.Get("Content-Type"), "application/apply-patch") {
			return "apply"
		}
		return "patch"
	case http.MethodDelete:
		if isOne {
			return "delete"
		}
		return "deletecollection"
	default:
		return strings.ToLower(request.Method)
	}
}
