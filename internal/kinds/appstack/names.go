package appstack

import (
	"strings"

	"github.com/mainstay-platform/mainstay/api"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
)

const (
	// Controller is the name of the kind's controller; its field manager is mainstay/appstack.
	Controller = "appstack"
	// Kind is the name of the kind.
	Kind = "AppStack"
	// Finalizer keeps an AppStack until its components are deleted, in order.
	Finalizer = api.Domain + "/appstack"
)

// ObjectName returns the name of a component's object.
func ObjectName(stack, component string) string { return stack + "-" + component }

// componentOf returns the component that an object of the stack is.
func componentOf(stack, object string) string { return strings.TrimPrefix(object, stack+"-") }

// labels returns the labels of a component's object. Ours take precedence over the user's: those of
// the stack itself, then spec.labels, then those of the component's own manifest.
func labels(stack *platformv1.AppStack, component string, manifest map[string]string) map[string]string {
	given := map[string]string{}
	for key, value := range stack.Labels {
		if !api.IsOurKey(key) && !strings.HasPrefix(key, "app.kubernetes.io/") {
			given[key] = value
		}
	}
	own := map[string]string{
		api.LabelName: stack.Name, api.LabelInstance: naming.LabelValue(ObjectName(stack.Name, component)),
		api.LabelComponent: component, api.LabelPartOf: stack.Name, api.LabelManagedBy: api.ManagedBy,
	}
	return naming.Merged(given, plain(stack.Spec.Labels), manifest, own)
}

// plain returns labels in the type that Kubernetes uses.
func plain[V ~string](labels map[string]V) map[string]string {
	all := make(map[string]string, len(labels))
	for key, value := range labels {
		all[key] = string(value)
	}
	return all
}
