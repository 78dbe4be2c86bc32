package campaign

import (
	"fmt"
	"net/http"
	"strings"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/mainstay-platform/mainstay/internal/kit/roundtrip"
)

// namespaced are the resources that live in namespaces, as "group/resource".
type namespaced map[string]bool

func findNamespaced(config *rest.Config) (namespaced, error) {
	asking, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("asking for the API's resources: %w", err)
	}
	lists, err := asking.ServerPreferredNamespacedResources()
	if err != nil {
		return nil, fmt.Errorf("asking for the API's resources: %w", err)
	}
	found := namespaced{}
	for _, list := range lists {
		group, _, isNamed := strings.Cut(list.GroupVersion, "/")
		if !isNamed {
			group = "" // the core group has a version only
		}
		for _, resource := range list.APIResources {
			found[group+"/"+resource.Name] = true
		}
	}
	return found, nil
}

// confine turns what a manager reads of all namespaces into reads of one: so that managers of
// several runs do not do each other's work.
func (n namespaced) confine(namespace string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundtrip.Func(func(request *http.Request) (*http.Response, error) {
			if path, changed := n.within(request.URL.Path, namespace); request.Method == http.MethodGet && changed {
				request = request.Clone(request.Context())
				request.URL.Path = path
			}
			return next.RoundTrip(request)
		})
	}
}

// within is the path of the same resource in a namespace, and whether that differs.
func (n namespaced) within(path, namespace string) (string, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) == 3 && parts[0] == "api" && n["/"+parts[2]]:
		return "/api/" + parts[1] + "/namespaces/" + namespace + "/" + parts[2], true
	case len(parts) == 4 && parts[0] == "apis" && n[parts[1]+"/"+parts[3]]:
		return "/apis/" + parts[1] + "/" + parts[2] + "/namespaces/" + namespace + "/" + parts[3], true
	}
	return path, false
}
