package cluster

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

// Watch watches the Lease and the ConfigMap with the settings until the context ends, and returns
// the error of the context. It calls lease with each resourceVersion of the Lease, or "" when the
// Lease is deleted, and settings with the data of the ConfigMap, when it is first seen and when it
// changes. When the ConfigMap is deleted, it calls nothing: the last settings stay in use.
func (c *Cluster) Watch(ctx context.Context, lease func(version string), settings func(data map[string]string)) error {
	leases := c.follow(c.Database, &coordinationv1.Lease{}, lister{
		func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return c.leases.List(ctx, options)
		},
		func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return c.leases.Watch(ctx, options)
		},
	}, toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { lease(versionOf(object)) },
		UpdateFunc: func(_, object any) { lease(versionOf(object)) },
		DeleteFunc: func(any) { lease("") },
	})
	configs := c.follow(contract.SettingsName(c.Database), &corev1.ConfigMap{}, lister{
		func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return c.settings.List(ctx, options)
		},
		func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return c.settings.Watch(ctx, options)
		},
	}, toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { settings(c.dataOf(object)) }, UpdateFunc: func(_, object any) { settings(c.dataOf(object)) },
	})
	go leases.RunWithContext(ctx)
	configs.RunWithContext(ctx)
	return ctx.Err()
}

// versionOf returns the resourceVersion of a watched Lease.
func versionOf(object any) string {
	lease, _ := object.(*coordinationv1.Lease) // Nothing else is watched there.
	return lease.GetResourceVersion()
}

// dataOf returns the data of a watched ConfigMap, and notes its owner.
func (c *Cluster) dataOf(object any) map[string]string {
	settings, _ := object.(*corev1.ConfigMap) // Nothing else is watched there.
	c.noteOwner(settings)
	return settings.Data
}

// Settings reads the data of the ConfigMap once.
func (c *Cluster) Settings(ctx context.Context) (map[string]string, error) {
	found, err := c.settings.Get(ctx, contract.SettingsName(c.Database), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the settings: %w", err)
	}
	c.noteOwner(found)
	return found.Data, nil
}

// lister lists and watches objects of one kind.
type lister struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// follow returns a controller that lists and watches one object, and retries with growing pauses.
// It calls the handler met for each event.
func (c *Cluster) follow(name string, kind runtime.Object, of lister, met toolscache.ResourceEventHandler) toolscache.Controller {
	one := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	_, controller := toolscache.NewInformerWithOptions(toolscache.InformerOptions{
		ListerWatcher: &toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				options.FieldSelector = one
				return of.list(ctx, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				options.FieldSelector = one
				return of.watch(ctx, options)
			},
		},
		ObjectType: kind,
		Handler:    met,
	})
	return controller
}

// Provisions reads the content of the Secret with the databases and users that the primary makes,
// once.
func (c *Cluster) Provisions(ctx context.Context) ([]byte, error) {
	found, err := c.secrets.Get(ctx, contract.ProvisionsName(c.Database), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the databases and users: %w", err)
	}
	return found.Data[contract.ProvisionsKey], nil
}
