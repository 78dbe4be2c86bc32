package proxy

import (
	"net/http"
	"slices"
	"strings"
)

// Request is what a request asks for, as the rules of a plan match it.
type Request struct {
	// Verb is get, list, watch, create, update, patch, delete or deletecollection, as in audit logs; for a path that
	// is no resource the method in lower case.
	Verb string
	// Group is empty for the core group.
	Group string
	// Resource is a plural name ("deployments"); empty for a path that is no resource, such as discovery.
	Resource string
	// Subresource is "status", "scale" ...; empty for the object itself.
	Subresource string
	// Namespace and Name are empty where the request has none.
	Namespace, Name string
	// DryRun tells that nothing is to be stored.
	DryRun bool
	// Path is that of the URL.
	Path string
}

// verbs of Kubernetes' API.
var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// writes are those verbs that change something.
var writes = []string{"create", "update", "patch", "delete", "deletecollection"}

// IsWrite tells whether the request is to change something that is stored.
func (r Request) IsWrite() bool { return slices.Contains(writes, r.Verb) && !r.DryRun }

// String is "patch apps/deployments/status shop/web", or the verb and the path of what is no resource.
func (r Request) String() string {
	if r.Resource == "" {
		return r.Verb + " " + r.Path
	}
	text := r.Verb + " " + joined(r.Group, r.Resource, r.Subresource)
	if object := joined(r.Namespace, r.Name); object != "" {
		text += " " + object
	}
	if r.DryRun {
		text += " (dry run)"
	}
	return text
}

// joined are the parts that there are, with slashes between.
func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "/")
}

// Parse reads what a request to an API server asks for.
//
// Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-uris
func Parse(request *http.Request) Request {
	query := request.URL.Query()
	parsed := Request{
		Verb:   strings.ToLower(request.Method),
		DryRun: query.Has("dryRun"),
		Path:   request.URL.Path,
	}
	parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parsed.Group, parts = parts[1], parts[3:]
	default:
		return parsed
	}
	// A namespace itself is a resource too, and its subresources are these two.
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		parsed.Namespace, parts = parts[1], parts[2:]
	}
	parsed.Resource = parts[0]
	if len(parts) > 1 {
		parsed.Name = parts[1]
	}
	if len(parts) > 2 {
		parsed.Subresource = strings.Join(parts[2:], "/")
	}
	parsed.Verb = verb(request, parsed.Name != "")
	return parsed
}

func verb(request *http.Request, isNamed bool) string {
	collection := !isNamed
	switch request.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if collection {
			return "deletecollection"
		}
		return "delete"
	}
	if watch := request.URL.Query().Get("watch"); watch == "true" || watch == "1" {
		return "watch"
	}
	if collection {
		return "list"
	}
	return "get"
}
