package setup

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

// stackObjects returns the kinds of other projects whose objects may be components of AppStacks.
// Kinds that the scheme knows are Kubernetes' own, or ones that the manager handles by itself.
func (s Settings) stackObjects(scheme *runtime.Scheme) ([]registration.ObjectKind, error) {
	var objects []registration.ObjectKind
	for _, text := range s.StackObjects {
		name, kind, _ := strings.Cut(text, "/")
		resource, _ := schema.ParseResourceArg(name)
		if resource == nil || kind == "" || resource.Resource == "" || resource.Version == "" || resource.Group == "" {
			return nil, fmt.Errorf("--stack-objects: invalid value %q: must be RESOURCE.VERSION.GROUP/KIND, "+
				"such as rabbitmqclusters.v1beta1.rabbitmq.com/RabbitmqCluster", text)
		}
		object := registration.ObjectKind{GroupVersionKind: resource.GroupVersion().WithKind(kind), Resource: resource.Resource}
		if api.IsOurs(resource.Group) || scheme.IsGroupRegistered(resource.Group) {
			return nil, fmt.Errorf("--stack-objects: invalid value %q: must not be a kind of Kubernetes, of Mainstay, or of an API that Mainstay "+
				"uses itself", text)
		}
		objects = append(objects, object)
	}
	return objects, nil
}
