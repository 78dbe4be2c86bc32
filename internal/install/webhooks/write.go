package webhooks

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/install/certificates"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/optionalapi"
	"github.com/mainstay-platform/mainstay/internal/kit/transport/retrytransport"
	"github.com/mainstay-platform/mainstay/internal/version"
)

// fieldManager owns the fields that we write of the configurations.
var fieldManager = naming.Manager("webhooks")

// NewCache returns a cache of the two configurations and of the metadata of definitions, and of
// nothing that must be converted when read. It survives an API server that is down.
//
// +kubebuilder:rbac:part=webhooks,groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations;mutatingwebhookconfigurations,resourceNames=mainstay,verbs=list;watch
// +kubebuilder:rbac:part=webhooks,groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
func NewCache(config *rest.Config, scheme *runtime.Scheme) (cache.Cache, error) {
	named := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", Name), Transform: cache.TransformStripManagedFields()}
	// Discovery takes no context: with retries it could outlast the process.
	plain, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, plain)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	config = rest.CopyConfig(config)
	config.Wrap(retrytransport.Transport(ctrl.Log.WithName("webhooks"), clock.RealClock{}))
	made, err := cache.New(config, cache.Options{Scheme: scheme, Mapper: mapper, ByObject: map[client.Object]cache.ByObject{
		&admissionregistrationv1.ValidatingWebhookConfiguration{}: named,
		&admissionregistrationv1.MutatingWebhookConfiguration{}:   named,
		optionalapi.Definition():                                  {Transform: stripDefinition},
	}})
	if err != nil {
		return nil, fmt.Errorf("making a cache of the webhook configurations: %w", err)
	}
	return made, nil
}

// stripDefinition keeps name and version only.
func stripDefinition(cached any) (any, error) {
	if definition, ok := cached.(*metav1.PartialObjectMetadata); ok {
		definition.Annotations, definition.Labels, definition.ManagedFields = nil, nil, nil
	}
	return cached, nil
}

// watch wakes the Publisher when an object changes that it keeps. Objects that exist when it
// returns are in the cache and wake nothing. It also returns nil when ctx ends.
func (p *Publisher) watch(ctx context.Context, _ *sync.WaitGroup) error {
	var synced []toolscache.InformerSynced
	poke := func(changed any) {
		// Definitions of other projects change often.
		if definition, ok := changed.(*metav1.PartialObjectMetadata); ok && !strings.HasSuffix(definition.Name, "."+api.Domain) {
			return
		}
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
	for _, object := range []client.Object{
		&admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{},
		optionalapi.Definition(),
	} {
		informer, err := p.options.Cache.GetInformer(ctx, object)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the process ends
		}
		if err != nil {
			return fmt.Errorf("watching the webhook configurations: %w", err)
		}
		registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
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
		synced = append(synced, registration.HasSynced)
	}
	toolscache.WaitForCacheSync(ctx.Done(), synced...)
	select {
	case <-p.wake:
	default:
	}
	return nil
}

// AnotherError is the error that the configurations belong to another installation. A cluster can
// have one only: a definition has one conversion webhook, and a PlatformPolicy one status.
type AnotherError struct {
	// ClusterRole is the owner of the other installation's objects.
	ClusterRole string
}

// Error returns a message with the remedy.
func (e AnotherError) Error() string {
	return fmt.Sprintf("webhook configuration %s belongs to ClusterRole %s, which is of another installation of Mainstay: a cluster can have only one. "+
		"Uninstall that one, or delete the ClusterRole if it is left over", Name, e.ClusterRole)
}

// Ours returns an AnotherError if a configuration is owned by a ClusterRole other than role. A
// configuration without such an owner is ours. If role is empty, all are.
func Ours(ctx context.Context, reader client.Reader, role string) error {
	if role == "" {
		return nil
	}
	for _, object := range []client.Object{&admissionregistrationv1.ValidatingWebhookConfiguration{},
		&admissionregistrationv1.MutatingWebhookConfiguration{}} {
		if err := reader.Get(ctx, client.ObjectKey{Name: Name}, object); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading the webhook configurations: %w", err)
		}
		for _, owner := range object.GetOwnerReferences() {
			if owner.Kind == "ClusterRole" && owner.Name != role {
				return AnotherError{owner.Name}
			}
		}
	}
	return nil
}

// isPresent reports whether one of the configurations exists, so that the API server calls the
// webhooks.
func (p *Publisher) isPresent(ctx context.Context) (bool, error) {
	for _, object := range []client.Object{&admissionregistrationv1.ValidatingWebhookConfiguration{},
		&admissionregistrationv1.MutatingWebhookConfiguration{}} {
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

// awaitService checks that our Service exists: if not, the installation continues without webhooks,
// and this replica is one of the last with them. Before the webhooks are first published it also
// waits until the Service has a ready endpoint.
//
// +kubebuilder:rbac:part=webhooks,groups=discovery.k8s.io,namespace=mainstay-system,resources=endpointslices,verbs=list
// +kubebuilder:rbac:part=webhooks,groups="",namespace=mainstay-system,resources=services,verbs=get
func (p *Publisher) awaitService(ctx context.Context, present bool) error {
	endpoint := p.options.Wanted.Endpoint
	if endpoint.Service == "" {
		return nil
	}
	err := p.options.Client.Get(ctx, client.ObjectKey{Namespace: endpoint.Namespace, Name: endpoint.Service}, &corev1.Service{})
	if apierrors.IsNotFound(err) {
		return waitingError{fmt.Errorf("waiting for Service %s/%s", endpoint.Namespace, endpoint.Service)}
	}
	if err != nil {
		return fmt.Errorf("reading Service %s/%s: %w", endpoint.Namespace, endpoint.Service, err)
	}
	if present {
		return nil
	}
	var found discoveryv1.EndpointSliceList
	err = p.options.Client.List(ctx, &found, client.InNamespace(endpoint.Namespace),
		client.MatchingLabels{discoveryv1.LabelServiceName: endpoint.Service})
	if err != nil {
		return fmt.Errorf("listing the endpoints of Service %s/%s: %w", endpoint.Namespace, endpoint.Service, err)
	}
	for _, slice := range found.Items {
		for _, candidate := range slice.Endpoints {
			if ptr.Deref(candidate.Conditions.Ready, false) {
				return p.awaitProxy(ctx)
			}
		}
	}
	return waitingError{fmt.Errorf("waiting until Service %s/%s has a ready endpoint", endpoint.Namespace, endpoint.Service)}
}

// awaitProxy waits until kube-proxy has noticed a new endpoint. No event ends it early.
func (p *Publisher) awaitProxy(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-p.options.Clock.After(proxyDelay):
		return nil
	}
}

// write applies the configurations that differ from the desired ones.
//
// +kubebuilder:rbac:part=webhooks,groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations;mutatingwebhookconfigurations,verbs=create
// +kubebuilder:rbac:part=webhooks,groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations;mutatingwebhookconfigurations,resourceNames=mainstay,verbs=patch
func (p *Publisher) write(ctx context.Context, owner *metav1.OwnerReference, bundle []byte) error {
	if err := p.writeValidating(ctx, bundle, owner); err != nil {
		return err
	}
	return p.writeMutating(ctx, bundle, owner)
}

func (p *Publisher) writeValidating(ctx context.Context, bundle []byte, owner *metav1.OwnerReference) error {
	var live admissionregistrationv1.ValidatingWebhookConfiguration
	if err := p.read(ctx, &live); err != nil {
		return err
	}
	wanted, release := p.options.Wanted.Validating(bundle), p.options.Release
	if later := live.Annotations[api.AnnotationRelease]; version.IsLater(later, release) {
		release, wanted.Webhooks = later, reachedAs(live.Webhooks, p.options.Wanted.Endpoint, bundle)
	}
	if equality.Semantic.DeepEqual(live.Webhooks, wanted.Webhooks) && isOwned(&live, owner) {
		return nil
	}
	complete(wanted, owner, release)
	return p.apply(ctx, "ValidatingWebhookConfiguration", wanted)
}

// writeMutating is writeValidating for the other type. Each has its own release annotation, because
// one configuration may be missing.
func (p *Publisher) writeMutating(ctx context.Context, bundle []byte, owner *metav1.OwnerReference) error {
	var live admissionregistrationv1.MutatingWebhookConfiguration
	if err := p.read(ctx, &live); err != nil {
		return err
	}
	wanted, release := p.options.Wanted.Mutating(bundle), p.options.Release
	if later := live.Annotations[api.AnnotationRelease]; version.IsLater(later, release) {
		release, wanted.Webhooks = later, mutatingReachedAs(live.Webhooks, p.options.Wanted.Endpoint, bundle)
	}
	if equality.Semantic.DeepEqual(live.Webhooks, wanted.Webhooks) && isOwned(&live, owner) {
		return nil
	}
	complete(wanted, owner, release)
	return p.apply(ctx, "MutatingWebhookConfiguration", wanted)
}

// reachedAs returns the webhooks of a later release, after a rollback, with our endpoint. We answer
// 404 to paths that we do not know, and no other server would do better.
func reachedAs(webhooks []admissionregistrationv1.ValidatingWebhook, endpoint Endpoint,
	bundle []byte) []admissionregistrationv1.ValidatingWebhook {
	changed := slices.Clone(webhooks)
	for i := range changed {
		changed[i].ClientConfig = endpoint.client(pathOf(changed[i].ClientConfig), bundle)
	}
	return changed
}

// mutatingReachedAs is reachedAs for the other type.
func mutatingReachedAs(webhooks []admissionregistrationv1.MutatingWebhook, endpoint Endpoint,
	bundle []byte) []admissionregistrationv1.MutatingWebhook {
	changed := slices.Clone(webhooks)
	for i := range changed {
		changed[i].ClientConfig = endpoint.client(pathOf(changed[i].ClientConfig), bundle)
	}
	return changed
}

// pathOf returns the path that is called, by a Service or by a URL.
func pathOf(config admissionregistrationv1.WebhookClientConfig) string {
	if config.Service != nil {
		return ptr.Deref(config.Service.Path, "")
	}
	if parsed, err := url.Parse(ptr.Deref(config.URL, "")); err == nil {
		return parsed.Path
	}
	return ""
}

// complete adds the owner and the release to a configuration.
func complete(configuration client.Object, owner *metav1.OwnerReference, release string) {
	configuration.SetAnnotations(map[string]string{api.AnnotationRelease: release})
	if owner != nil {
		configuration.SetOwnerReferences([]metav1.OwnerReference{*owner})
	}
}

// completed returns a bundle with the CAs that the API server trusts already and that another
// replica may still serve with. It adds them only if another program makes the certificate: our own
// Secret has them all.
func (p *Publisher) completed(ctx context.Context, bundle []byte) ([]byte, error) {
	if !p.options.External {
		return bundle, nil
	}
	var live admissionregistrationv1.ValidatingWebhookConfiguration
	if err := p.read(ctx, &live); err != nil {
		return nil, err
	}
	var trusted []byte
	for _, webhook := range live.Webhooks {
		trusted = webhook.ClientConfig.CABundle
	}
	return certificates.Unite(p.options.Clock.Now(), bundle, trusted), nil
}

// read reads a configuration from the cache; object stays empty if there is none.
func (p *Publisher) read(ctx context.Context, object client.Object) error {
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

// apply writes one configuration.
func (p *Publisher) apply(ctx context.Context, kind string, wanted client.Object) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
	if err != nil {
		return fmt.Errorf("rendering %s %s: %w", kind, Name, err)
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind(kind))
	unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp")
	if err := p.options.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(fieldManager),
		client.ForceOwnership); err != nil {
		return fmt.Errorf("applying %s %s: %w", kind, Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Published webhooks", "kind", kind)
	return nil
}

// Remove deletes the configurations of any installation: call Ours first.
//
// +kubebuilder:rbac:part=withdrawal;uninstall,groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations;mutatingwebhookconfigurations,resourceNames=mainstay,verbs=get;delete
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
