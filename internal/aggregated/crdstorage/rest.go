package crdstorage

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// REST has the objects of a resource in a cluster.
type REST struct {
	// Client is a client of the resource's group and version.
	Client rest.Interface
	// Resource is its name, such as "pods".
	Resource string
	// New and NewList return empty ones.
	New     func() Object
	NewList func() runtime.Object
	// Codec encodes options into requests.
	Codec runtime.ParameterCodec
}

var _ Objects = REST{}

// Get implements Objects.
func (r REST) Get(ctx context.Context, namespace, name string) (Object, error) {
	found := r.New()
	return found, r.request(r.Client.Get(), namespace).Name(name).Do(ctx).Into(found)
}

// List implements Objects.
func (r REST) List(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
	list := r.NewList()
	return list, r.request(r.Client.Get(), namespace).VersionedParams(&options, r.Codec).Do(ctx).Into(list)
}

// Watch implements Objects.
func (r REST) Watch(ctx context.Context, namespace string, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	request := r.request(r.Client.Get(), namespace).VersionedParams(&options, r.Codec)
	if options.TimeoutSeconds != nil {
		request = request.Timeout(time.Duration(*options.TimeoutSeconds) * time.Second)
	}
	return request.Watch(ctx)
}

// Create implements Objects.
func (r REST) Create(ctx context.Context, object Object) (Object, error) {
	made := r.New()
	return made, r.request(r.Client.Post(), object.GetNamespace()).Body(object).Do(ctx).Into(made)
}

// Update implements Objects.
func (r REST) Update(ctx context.Context, object Object) (Object, error) {
	written := r.New()
	return written, r.request(r.Client.Put(), object.GetNamespace()).Name(object.GetName()).Body(object).Do(ctx).Into(written)
}

// Delete implements Objects.
func (r REST) Delete(ctx context.Context, namespace, name, resourceVersion string) error {
	options := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &resourceVersion}}
	return r.request(r.Client.Delete(), namespace).Name(name).Body(options).Do(ctx).Error()
}

func (r REST) request(verb *rest.Request, namespace string) *rest.Request {
	return verb.NamespaceIfScoped(namespace, namespace != "").Resource(r.Resource)
}
