package webhooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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
	"github.com/mainstay-platform/mainstay/internal/install/loop"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/optionalapi"
	"github.com/mainstay-platform/mainstay/internal/kit/pki"
	"github.com/mainstay-platform/mainstay/internal/kit/transport/retrytransport"
	"github.com/mainstay-platform/mainstay/internal/version"
)

// fieldManager owns the fields that we write of the configurations.
var fieldManager = naming.Manager("webhooks")

// NewCache returns a cache of the two configurations and of the metadata of definitions, and of
// nothing that must be converted when read. It survives an API server that is down. The mapper must
// not: discovery takes no context, so with retries it could outlast the process.
//
// +kubebuilder:rbac:part=webhooks,groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations;mutatingwebhookconfigurations,resourceNames=mainstay,verbs=list;watch
// +kubebuilder:rbac:part=webhooks,groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
func NewCache(config *rest.Config, scheme *runtime.Scheme, mapper meta.RESTMapper) (cache.Cache, error) {
	named := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", Name), Transform: writersOnly}
	made, err := cache.New(retrytransport.Config(config, "webhooks"), cache.Options{Scheme: scheme, Mapper: mapper,
		ByObject: map[client.Object]cache.ByObject{
			validating.empty(): named, mutating.empty(): named, optionalapi.Definition(): {Transform: optionalapi.NameOnly},
		}})
	if err != nil {
		return nil, fmt.Errorf("making a cache of the webhook configurations: %w", err)
	}
	return made, nil
}

// watch wakes the loop when an object changes that the Publisher keeps.
func (p *Publisher) watch(ctx context.Context) ([]toolscache.InformerSynced, error) {
	isOurs := func(changed any) bool {
		// Definitions of other projects change often.
		definition, ok := changed.(*metav1.PartialObjectMetadata)
		return !ok || strings.HasSuffix(definition.Name, "."+api.Domain)
	}
	return p.loop.Informers(ctx, p.options.Cache, isOurs, validating.empty(), mutating.empty(), optionalapi.Definition())
}

// AnotherError is the error that the configurations belong to another installation. A cluster can
// have one only: a definition has one conversion webhook, and a PlatformPolicy one status.
type AnotherError struct {
	// ClusterRole is the owner of the other installation's objects.
	ClusterRole string
	// Namespace is where the other installation is, if its ClusterRole has the name of ours.
	Namespace string
}

// Error returns a message with the remedy.
func (e AnotherError) Error() string {
	if e.Namespace != "" {
		return fmt.Sprintf("webhook configuration %s calls a Service in namespace %s, which is of another installation of Mainstay: "+
			"a cluster can have only one. Uninstall that one, or if it is gone: "+
			"kubectl delete validatingwebhookconfigurations,mutatingwebhookconfigurations %s", Name, e.Namespace, Name)
	}
	return fmt.Sprintf("webhook configuration %s belongs to ClusterRole %s, which is of another installation of Mainstay: a cluster can have only one. "+
		"Uninstall that one, or delete the ClusterRole if it is left over", Name, e.ClusterRole)
}

// Ours returns an AnotherError if a configuration is owned by a ClusterRole other than role. A
// configuration without such an owner is ours. If role is empty, all are.
func Ours(ctx context.Context, reader client.Reader, role string) error {
	return OursIn(ctx, reader, role, "")
}

// OursIn is Ours for a manager that starts in a namespace: it also returns an AnotherError if all
// webhooks call a Service of another namespace that exists, where an installation with the same
// name is. If that Service is gone, the installation has moved here. A running manager must not ask
// that: it restores webhooks that another client has edited. If namespace is empty, it is not
// compared.
//
// +kubebuilder:rbac:part=webhooks,groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations;mutatingwebhookconfigurations,resourceNames=mainstay,verbs=get
func OursIn(ctx context.Context, reader client.Reader, role, namespace string) error {
	if role == "" {
		return nil
	}
	for _, kind := range kinds {
		live, err := read(ctx, reader, kind)
		if err != nil {
			return err
		}
		for _, owner := range live.OwnerReferences {
			if owner.Kind != "ClusterRole" {
				continue
			}
			if owner.Name != role {
				return AnotherError{ClusterRole: owner.Name}
			}
			if other, err := elsewhere(ctx, reader, live.Webhooks, namespace); err != nil || other != "" {
				return cmp.Or(err, error(AnotherError{ClusterRole: owner.Name, Namespace: other}))
			}
		}
	}
	return nil
}

// elsewhere returns the namespace that all webhooks call, unless it is the given one, that is
// empty, or no Service of theirs is there. Webhooks of a manager outside the cluster call none.
func elsewhere(ctx context.Context, reader client.Reader, webhooks []admissionregistrationv1.MutatingWebhook,
	namespace string) (string, error) {
	var called client.ObjectKey
	for i := range webhooks {
		service := webhooks[i].ClientConfig.Service
		if namespace == "" || service == nil || service.Namespace == namespace ||
			called.Namespace != "" && service.Namespace != called.Namespace {
			return "", nil
		}
		called = client.ObjectKey{Namespace: service.Namespace, Name: service.Name}
	}
	if called.Namespace == "" {
		return "", nil
	}
	err := reader.Get(ctx, called, &corev1.Service{})
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil && !apierrors.IsForbidden(err):
		return "", fmt.Errorf("looking for the Service of another installation: %w", err)
	}
	return called.Namespace, nil
}

// isPresent reports whether one of the configurations exists, so that the API server calls the
// webhooks.
func (p *Publisher) isPresent(ctx context.Context) (bool, error) {
	for _, kind := range kinds {
		if live, err := p.read(ctx, kind); err != nil || live.ResourceVersion != "" {
			return err == nil, err
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
		return loop.Waiting(fmt.Errorf("waiting for Service %s/%s", endpoint.Namespace, endpoint.Service))
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
	return loop.Waiting(fmt.Errorf("waiting until Service %s/%s has a ready endpoint", endpoint.Namespace, endpoint.Service))
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

// write applies the configurations that differ from the desired ones. If the live configuration
// is of a later release, as after a rollback, its webhooks are kept, and only directed to our
// endpoint.
//
// +kubebuilder:rbac:part=webhooks,groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations;mutatingwebhookconfigurations,verbs=create
// +kubebuilder:rbac:part=webhooks,groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations;mutatingwebhookconfigurations,resourceNames=mainstay,verbs=patch
func (p *Publisher) write(ctx context.Context, owner *metav1.OwnerReference, bundle []byte) error {
	for _, kind := range kinds {
		live, err := p.read(ctx, kind)
		if err != nil {
			return err
		}
		wanted, release := p.options.Wanted.configuration(kind, bundle), p.options.Release
		// Each has its own release annotation, because one configuration may be missing.
		if later := live.Annotations[api.AnnotationRelease]; version.IsLater(later, release) {
			release, wanted.Webhooks = later, reachedAs(live.Webhooks, p.options.Wanted.Endpoint, bundle)
		}
		if equality.Semantic.DeepEqual(live.Webhooks, wanted.Webhooks) && children.IsOwned(live, owner) {
			p.lastDesired[kind] = lastDesired{wanted.Webhooks, ourWrite(live)}
			continue
		}
		complete(wanted, owner, release)
		if err := p.apply(ctx, kind, wanted); err != nil {
			return err
		}
		p.lastDesired[kind] = lastDesired{webhooks: wanted.Webhooks}
	}
	return nil
}

// reachedAs returns the webhooks of a later release, after a rollback, with our endpoint. Requests
// to paths that we do not have are admitted (admission.Unserved).
func reachedAs(webhooks []admissionregistrationv1.MutatingWebhook, endpoint Endpoint,
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
	live, err := p.read(ctx, validating)
	if err != nil {
		return nil, err
	}
	var trusted []byte
	for _, webhook := range live.Webhooks {
		trusted = webhook.ClientConfig.CABundle
	}
	return pki.UniteBundles(p.options.Clock.Now(), bundle, trusted), nil
}

// read returns a configuration from the cache, which is empty if there is none.
func (p *Publisher) read(ctx context.Context, kind kind) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	return read(ctx, p.options.Cache, kind)
}

// read returns a configuration, which is empty if there is none. Like Wanted, it returns both kinds
// in the type of the mutating one.
func read(ctx context.Context, reader client.Reader, kind kind) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	object, live := kind.empty(), &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := reader.Get(ctx, client.ObjectKeyFromObject(object), object); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the webhook configurations: %w", err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(content, live)
	}
	if err != nil {
		return nil, fmt.Errorf("converting %s %s: %w", kind, Name, err)
	}
	return live, nil
}

// apply writes one configuration.
func (p *Publisher) apply(ctx context.Context, kind kind, wanted client.Object) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
	if err != nil {
		return fmt.Errorf("rendering %s %s: %w", kind, Name, err)
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind(string(kind)))
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
	for _, kind := range kinds {
		if err := c.Delete(ctx, kind.empty()); client.IgnoreNotFound(err) != nil {
			problems = append(problems, fmt.Errorf("deleting webhook configuration %s: %w", Name, err))
		}
	}
	return errors.Join(problems...)
}
