package webhooks

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/optional"
	"github.com/mainstay-platform/mainstay/internal/version"
)

// fieldManager owns what we write of the configurations.
var fieldManager = naming.Manager("webhooks")

// NewCache is a cache of the two configurations and of the metadata of definitions: of nothing that
// must be converted to be read.
//
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations;mutatingwebhookconfigurations,resourceNames=mainstay,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
func NewCache(config *rest.Config, scheme *runtime.Scheme) (cache.Cache, error) {
	named := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", Name), Transform: cache.TransformStripManagedFields()}
	made, err := cache.New(config, cache.Options{Scheme: scheme, ByObject: map[client.Object]cache.ByObject{
		&admissionregistrationv1.ValidatingWebhookConfiguration{}: named,
		&admissionregistrationv1.MutatingWebhookConfiguration{}:   named,
		definition(): {Transform: stripDefinition},
	}})
	if err != nil {
		return nil, fmt.Errorf("making a cache of the webhook configurations: %w", err)
	}
	return made, nil
}

func definition() *metav1.PartialObjectMetadata {
	definition := &metav1.PartialObjectMetadata{}
	definition.SetGroupVersionKind(optional.CRDKind)
	return definition
}

// stripDefinition leaves name and version, which are all that we look at.
func stripDefinition(cached any) (any, error) {
	if definition, ok := cached.(*metav1.PartialObjectMetadata); ok {
		definition.Annotations, definition.Labels, definition.ManagedFields = nil, nil, nil
	}
	return cached, nil
}

// watch wakes the Publisher when somebody changes what it keeps.
func (p *Publisher) watch(ctx context.Context) error {
	poke := func(any) {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
	for _, object := range []client.Object{
		&admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{}, definition(),
	} {
		informer, err := p.options.Cache.GetInformer(ctx, object)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the process ends
		}
		if err != nil {
			return fmt.Errorf("watching the webhook configurations: %w", err)
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: poke, DeleteFunc: poke,
			UpdateFunc: func(old, updated any) {
				if old.(metav1.Object).GetResourceVersion() != updated.(metav1.Object).GetResourceVersion() {
					poke(updated)
				}
			},
		})
		if err != nil {
			return fmt.Errorf("watching the webhook configurations: %w", err)
		}
	}
	return nil
}

// isPresent reports whether one of the configurations is there: then the API server asks.
func (p *Publisher) isPresent(ctx context.Context) (bool, error) {
	for _, object := range []client.Object{&admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{}} {
		err := p.options.Cache.Get(ctx, client.ObjectKey{Name: Name}, object)
		if err == nil {
			return true, nil
		}
		if !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("reading the webhook configurations: %w", err)
		}
	}
	return false, nil
}

// awaitEndpoint makes sure, before the API server is first told of webhooks, that somebody
// answers behind the Service.
//
// +kubebuilder:rbac:groups=discovery.k8s.io,namespace=mainstay-system,resources=endpointslices,verbs=list
func (p *Publisher) awaitEndpoint(ctx context.Context) error {
	endpoint := p.options.Wanted.Endpoint
	if endpoint.Service == "" {
		return nil
	}
	var slices discoveryv1.EndpointSliceList
	err := p.options.Client.List(ctx, &slices, client.InNamespace(endpoint.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: endpoint.Service})
	if err != nil {
		return fmt.Errorf("listing the endpoints of Service %s/%s: %w", endpoint.Namespace, endpoint.Service, err)
	}
	for _, slice := range slices.Items {
		for _, candidate := range slice.Endpoints {
			if ptr.Deref(candidate.Conditions.Ready, false) {
				p.sleep(ctx, proxyDelay, nil)
				return nil
			}
		}
	}
	return waitingError{fmt.Errorf("waiting until Service %s/%s has a ready endpoint", endpoint.Namespace, endpoint.Service)}
}

// write applies the configurations that differ from what is wanted.
//
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations;mutatingwebhookconfigurations,verbs=create
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations;mutatingwebhookconfigurations,resourceNames=mainstay,verbs=patch
func (p *Publisher) write(ctx context.Context, bundle []byte) error {
	wanted := p.options.Wanted
	validating, mutating := wanted.Validating(bundle), wanted.Mutating(bundle)
	var liveValidating admissionregistrationv1.ValidatingWebhookConfiguration
	if err := p.look(ctx, &liveValidating); err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(liveValidating.Webhooks, validating.Webhooks) || !isOwned(&liveValidating, wanted.Owner) {
		if err := p.apply(ctx, "ValidatingWebhookConfiguration", validating, &liveValidating); err != nil {
			return err
		}
	}
	var liveMutating admissionregistrationv1.MutatingWebhookConfiguration
	if err := p.look(ctx, &liveMutating); err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(liveMutating.Webhooks, mutating.Webhooks) || !isOwned(&liveMutating, wanted.Owner) {
		return p.apply(ctx, "MutatingWebhookConfiguration", mutating, &liveMutating)
	}
	return nil
}

// look reads a configuration from the cache; object stays empty if there is none.
func (p *Publisher) look(ctx context.Context, object client.Object) error {
	if err := p.options.Cache.Get(ctx, client.ObjectKey{Name: Name}, object); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the webhook configurations: %w", err)
	}
	return nil
}

func isOwned(object client.Object, owner *metav1.OwnerReference) bool {
	if owner == nil {
		return true
	}
	for _, reference := range object.GetOwnerReferences() {
		if reference.UID == owner.UID {
			return true
		}
	}
	return false
}

// apply writes one configuration, unless a later release did.
func (p *Publisher) apply(ctx context.Context, kind string, wanted, live client.Object) error {
	if version.IsLater(live.GetAnnotations()[api.AnnotationRelease], p.options.Release) {
		ctrl.LoggerFrom(ctx).Info("Leaving a webhook configuration of a later release alone", "kind", kind)
		return nil
	}
	wanted.SetAnnotations(map[string]string{api.AnnotationRelease: p.options.Release})
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
	if err != nil {
		return fmt.Errorf("rendering %s %s: %w", kind, Name, err)
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind(kind))
	unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp")
	if err := p.options.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(fieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("applying %s %s: %w", kind, Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Told the API server of webhooks", "kind", kind)
	return nil
}

// Remove deletes the configurations: for an installation that goes on without webhooks.
//
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations;mutatingwebhookconfigurations,resourceNames=mainstay,verbs=delete
func Remove(ctx context.Context, c client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var problems []error
	for _, object := range []client.Object{
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: Name}},
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: Name}},
	} {
		if err := c.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			problems = append(problems, fmt.Errorf("deleting webhook configuration %s: %w", Name, err))
		}
	}
	return errors.Join(problems...)
}
