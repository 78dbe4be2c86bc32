package proxy

import (
	"net/http"
	"slices"
	"strings"
)

// Request describes a request, as the rules of a plan match it.
type Request struct {
	// Verb is get, list, watch, create, update, patch, delete or deletecollection, as in audit logs.
	// For a path without a resource, it is the HTTP method in lower case.
	Verb string
	// Group is empty for the core group.
	Group string
	// Resource is a plural name ("deployments"), empty for a path without a resource, such as
	// discovery.
	Resource string
	// Subresource is "status", "scale" and so on, empty for the object itself.
	Subresource string
	// Namespace and Name are empty if the request has none.
	Namespace, Name string
	// DryRun means that nothing is to be stored.
	DryRun bool
	// Path is the path of the URL.
	Path string
}

// verbs are the verbs of Kubernetes' API.
var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// writes are the verbs that change something.
var writes = []string{"create", "update", "patch", "delete", "deletecollection"}

// IsWrite reports whether the request is to change something stored.
func (r Request) IsWrite() bool { return slices.Contains(writes, r.Verb) && !r.DryRun }

// String returns "patch apps/deployments/status shop/web", or the verb and the path if there is no
// resource.
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

// joined returns the non-empty parts, separated by slashes.
func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "/")
}

// Parse returns the description of a request to an API server.
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
	// A namespace itself is a resource too, with these two subresources.
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
