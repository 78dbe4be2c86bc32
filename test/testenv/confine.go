package testenv

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/mainstay-platform/mainstay/internal/kit/transport"
)

// Namespaced is the set of namespaced resources, as "group/resource". The core group is empty.
type Namespaced map[string]bool

// known caches the results of FindNamespaced by host.
var known sync.Map

// FindNamespaced returns the namespaced resources of an API server, including custom resources. It
// asks each server once: CRDs are installed before the first manager starts.
func FindNamespaced(config *rest.Config) (Namespaced, error) {
	if found, ok := known.Load(config.Host); ok {
		return found.(Namespaced), nil
	}
	asking, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("asking for the API's resources: %w", err)
	}
	lists, err := asking.ServerPreferredNamespacedResources()
	if err != nil {
		return nil, fmt.Errorf("asking for the API's resources: %w", err)
	}
	found := Namespaced{}
	for _, list := range lists {
		group, _, isNamed := strings.Cut(list.GroupVersion, "/")
		if !isNamed {
			group = "" // the core group has a version only
		}
		for _, resource := range list.APIResources {
			found[group+"/"+resource.Name] = true
		}
	}
	known.Store(config.Host, found)
	return found, nil
}

// Confine returns a transport wrapper that turns reads of all namespaces into reads of one. It
// keeps the managers of parallel tests from reconciling each other's objects.
func (n Namespaced) Confine(namespace string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return transport.Func(func(request *http.Request) (*http.Response, error) {
			if path, changed := n.Within(request.URL.Path, namespace); request.Method == http.MethodGet && changed {
				request = request.Clone(request.Context())
				request.URL.Path = path
			}
			return next.RoundTrip(request)
		})
	}
}

// Within returns the path of the same resource in a namespace, and whether that differs from path.
func (n Namespaced) Within(path, namespace string) (string, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) == 3 && parts[0] == "api" && n["/"+parts[2]]:
		return "/api/" + parts[1] + "/namespaces/" + namespace + "/" + parts[2], true
	case len(parts) == 4 && parts[0] == "apis" && n[parts[1]+"/"+parts[3]]:
		return "/apis/" + parts[1] + "/" + parts[2] + "/namespaces/" + namespace + "/" + parts[3], true
	}
	return path, false
}
