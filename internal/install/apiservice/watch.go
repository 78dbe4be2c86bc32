package apiservice

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/kit/pki"
	"github.com/mainstay-platform/mainstay/internal/kit/transport/retrytransport"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
)

// NewCache returns a cache of the APIService, of the endpoints of one Service and of the metadata
// of its namespace. It survives an API server that is down.
//
// The right to watch the namespace is in the chart's templates/rbac.yaml, because it uses
// resourceNames.
//
// +kubebuilder:rbac:part=apiservice,groups=apiregistration.k8s.io,resources=apiservices,resourceNames=v1alpha1.farm.mainstay.dev,verbs=list;watch
// +kubebuilder:rbac:part=apiservice,groups=discovery.k8s.io,namespace=mainstay-system,resources=endpointslices,verbs=list;watch
func NewCache(config *rest.Config, scheme *runtime.Scheme, mapper meta.RESTMapper, service client.ObjectKey) (cache.Cache, error) {
	slices := labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service.Name})
	made, err := cache.New(retrytransport.Config(config, "apiservice"), cache.Options{
		Scheme: scheme, Mapper: mapper, DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&apiregistrationv1.APIService{}: {Field: fields.OneTermEqualSelector("metadata.name", Name)},
			&discoveryv1.EndpointSlice{}:    {Namespaces: map[string]cache.Config{service.Namespace: {LabelSelector: slices}}},
			watch.Namespace():               {Field: fields.OneTermEqualSelector("metadata.name", service.Namespace)},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("making a cache of the APIService: %w", err)
	}
	return made, nil
}

// watched reports what has been read at least once.
type watched struct{ apiService, namespace, endpoints toolscache.InformerSynced }

// isSynced reports whether enough is known to decide. decide itself handles unknown endpoints.
func (w watched) isSynced() bool { return w.apiService() && w.namespace() }

// watch wakes the loop when an object changes that decisions depend on.
func (p *Publisher) watch(ctx context.Context) ([]toolscache.InformerSynced, error) {
	synced, err := p.loop.Informers(ctx, p.options.Cache, nil, &apiregistrationv1.APIService{}, watch.Namespace(),
		&discoveryv1.EndpointSlice{})
	if err == nil {
		p.watched = watched{apiService: synced[0], namespace: synced[1], endpoints: synced[2]}
	}
	return synced, err
}

// observe returns the input of decide, from the cache. If the owner can't be read it returns an
// error and the rest, because withdrawing does not need the owner.
func (p *Publisher) observe(ctx context.Context) (*observed, error) {
	o := &observed{now: p.options.Clock.Now(), known: p.watched.endpoints()}
	var live apiregistrationv1.APIService
	switch err := p.options.Cache.Get(ctx, client.ObjectKey{Name: Name}, &live); {
	case err == nil:
		o.apiService, o.isOurs = &live, p.options.Whose(&live)
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("reading APIService %s: %w", Name, err)
	}
	namespace := watch.Namespace()
	switch err := p.options.Cache.Get(ctx, client.ObjectKey{Name: p.options.Namespace}, namespace); {
	case err == nil:
		o.leaving = !namespace.DeletionTimestamp.IsZero()
	case client.IgnoreNotFound(err) == nil:
		o.leaving = true
	default:
		return nil, fmt.Errorf("reading Namespace %s: %w", p.options.Namespace, err)
	}
	if o.known {
		var err error
		if o.ready, err = p.countReady(ctx); err != nil {
			return nil, err
		}
	}
	switch {
	case o.ready == 0:
		p.present = time.Time{}
	case p.present.IsZero():
		p.present = o.now
	}
	o.present = p.present
	p.absence = p.absence.next(*o)
	o.missing = p.absence.since
	bundle := p.bundle(o)
	if bundle == nil {
		return o, nil
	}
	if !p.ownerRead {
		if err := p.readOwner(ctx); err != nil {
			return o, err
		}
	}
	o.wanted = desired(p.options.Namespace, p.options.Service, bundle, p.owner)
	return o, nil
}

// bundle returns the CAs that the API server must trust, or nil until they are known.
func (p *Publisher) bundle(o *observed) []byte {
	bundle := p.options.Certificates.Bundle()
	if bundle == nil || !p.options.External || !o.isOurs {
		return bundle
	}
	return pki.UniteBundles(o.now, bundle, o.apiService.Spec.CABundle)
}

func (p *Publisher) readOwner(ctx context.Context) error {
	owner, err := p.options.Owner(ctx)
	if err != nil {
		return err
	}
	p.owner, p.ownerRead = owner, true
	return nil
}

// countReady returns the number of ready endpoints. An endpoint with an address of each family
// counts once.
func (p *Publisher) countReady(ctx context.Context) (int, error) {
	var found discoveryv1.EndpointSliceList
	if err := p.options.Cache.List(ctx, &found, client.InNamespace(p.options.Namespace)); err != nil {
		return 0, fmt.Errorf("listing the endpoints of Service %s/%s: %w", p.options.Namespace, p.options.Service, err)
	}
	return countReady(found.Items), nil
}

func countReady(slices []discoveryv1.EndpointSlice) int {
	ready := map[string]bool{}
	for _, slice := range slices {
		for _, endpoint := range slice.Endpoints {
			// An endpoint without the condition is ready, by the definition of the API.
			if !ptr.Deref(endpoint.Conditions.Ready, true) || len(endpoint.Addresses) == 0 {
				continue
			}
			name := endpoint.Addresses[0]
			if endpoint.TargetRef != nil {
				name = endpoint.TargetRef.Kind + "/" + endpoint.TargetRef.Name
			}
			ready[name] = true
		}
	}
	return len(ready)
}

// service returns the Service that events are about. The right to read it is in the chart's
// templates/rbac.yaml, because it uses resourceNames.
//
// +kubebuilder:rbac:part=apiservice,groups=events.k8s.io,namespace=mainstay-system,resources=events,verbs=create;patch
func (p *Publisher) service(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
	service := &metav1.PartialObjectMetadata{}
	service.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
	if err := p.options.Client.Get(ctx, client.ObjectKey{Namespace: p.options.Namespace, Name: p.options.Service}, service); err != nil {
		return nil, fmt.Errorf("reading Service %s/%s: %w", p.options.Namespace, p.options.Service, err)
	}
	return service, nil
}
