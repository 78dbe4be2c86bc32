package setup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/optionalapi"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

// findStackObjects returns what stackObjects does, with whether each kind can be used now. While no
// kind composes stacks, the manager has no right to list their objects, and does not ask.
func (s Settings) findStackObjects(ctx context.Context, manager ctrl.Manager, on []registration.Kind) ([]registration.ObjectKind, error) {
	objects, err := s.stackObjects(manager.GetScheme())
	if err != nil || !slices.ContainsFunc(on, func(k registration.Kind) bool { return k.Composes }) {
		return objects, err
	}
	// All at once: each that can't be used takes seconds, and liveness is not served before the start.
	group, within := errgroup.WithContext(ctx)
	for i := range objects {
		one := &objects[i]
		group.Go(func() (err error) {
			if one.API, err = optionalapi.Find(within, one.GroupVersionKind, one.Definition(), manager, s.WatchNamespaces); err != nil {
				return fmt.Errorf("finding %s: %w", one.Kind, err)
			}
			return nil
		})
	}
	return objects, group.Wait()
}

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
