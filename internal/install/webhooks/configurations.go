// Package webhooks publishes our webhooks to the API server: where they are, and for which requests
// it calls them.
package webhooks

import (
	"cmp"
	"net/url"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
)

const (
	// Name is the name of both configurations. A cluster has one Mainstay, as it has one set of
	// definitions.
	Name = "mainstay"
	// ConvertPath is the path of the conversion webhook.
	ConvertPath = "/convert"
	// timeout is how many seconds the API server waits for the answer of a webhook. An answer takes
	// milliseconds, but on a busy node it was seen to miss 2 s, which cost an injected workload two
	// rollouts; and several webhooks in a row must stay below the 30 s of a request.
	timeout = 5
	// servicePort is the Service's port.
	servicePort = 443
)

// kind is the kind of one of the two configurations.
type kind string

const (
	validating kind = "ValidatingWebhookConfiguration"
	mutating   kind = "MutatingWebhookConfiguration"
)

// kinds are both, in the order in which they are read and written.
var kinds = []kind{validating, mutating}

// empty returns a configuration with a name only, to be read, watched or deleted.
func (k kind) empty() client.Object {
	named := metav1.ObjectMeta{Name: Name}
	if k == mutating {
		return &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: named}
	}
	return &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: named}
}

// Endpoint is how the API server reaches the webhooks.
type Endpoint struct {
	// Namespace and Service name the Service. They are empty if URL is set.
	Namespace, Service string
	// URL is https://host:port, for a manager outside the cluster.
	URL string
}

// Names returns the names that the serving certificate must have.
func (e Endpoint) Names() []string {
	if e.URL != "" {
		if parsed, err := url.Parse(e.URL); err == nil {
			return []string{parsed.Hostname()}
		}
	}
	return []string{e.Service + "." + e.Namespace + ".svc"} // the name with which API servers call a Service
}

// client returns the client configuration for one path.
func (e Endpoint) client(path string, bundle []byte) admissionregistrationv1.WebhookClientConfig {
	if e.URL != "" {
		return admissionregistrationv1.WebhookClientConfig{URL: new(strings.TrimSuffix(e.URL, "/") + path), CABundle: bundle}
	}
	return admissionregistrationv1.WebhookClientConfig{
		Service: &admissionregistrationv1.ServiceReference{Namespace: e.Namespace, Name: e.Service, Path: &path,
			Port: ptr.To[int32](servicePort)},
		CABundle: bundle,
	}
}

// Conversion returns the client configuration of the conversion webhook.
func (e Endpoint) Conversion(bundle []byte) apiextensionsv1.WebhookClientConfig {
	config := e.client(ConvertPath, bundle)
	conversion := apiextensionsv1.WebhookClientConfig{URL: config.URL, CABundle: bundle}
	if service := config.Service; service != nil {
		conversion.Service = &apiextensionsv1.ServiceReference{Namespace: service.Namespace, Name: service.Name, Path: service.Path,
			Port: service.Port}
	}
	return conversion
}

// Wanted is the input of the configurations.
type Wanted struct {
	Hooks    []admission.Hook
	Endpoint Endpoint
	// Watched are the namespaces for which the webhooks are called; none means all.
	Watched []string
	// Ungoverned are the namespaces for which the webhooks are not called.
	Ungoverned []string
	// TimeoutSeconds is how long the API server waits for each webhook; 0 means 5 s.
	TimeoutSeconds int32
}

// governed selects the watched namespaces without the ungoverned ones. The webhooks are called for
// cluster-scoped objects in any case.
func (w Wanted) governed() *metav1.LabelSelector {
	selector := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: w.Ungoverned,
	}}}
	if len(w.Watched) > 0 {
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: w.Watched,
		})
	}
	return selector
}

// configuration returns the configuration of one kind. It sets all fields that the API server would
// default, so that it can be compared with the stored one. The type of the mutating kind serves for
// both: its webhooks have one field more.
func (w Wanted) configuration(kind kind, bundle []byte) *admissionregistrationv1.MutatingWebhookConfiguration {
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{
		Name: Name, Labels: map[string]string{api.LabelManagedBy: api.ManagedBy, api.LabelPartOf: api.ManagedBy},
	}}
	for _, hook := range w.Hooks {
		if hook.Mutating != (kind == mutating) {
			continue
		}
		webhook := admissionregistrationv1.MutatingWebhook{
			Name:                    hook.Name,
			ClientConfig:            w.Endpoint.client(hook.Path, bundle),
			Rules:                   hook.Rules,
			FailurePolicy:           new(cmp.Or(hook.FailurePolicy, admissionregistrationv1.Fail)),
			MatchPolicy:             ptr.To(admissionregistrationv1.Equivalent),
			NamespaceSelector:       w.governed(),
			ObjectSelector:          &metav1.LabelSelector{},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          new(cmp.Or(w.TimeoutSeconds, timeout)),
			AdmissionReviewVersions: []string{"v1"},
			MatchConditions:         hook.Conditions,
		}
		if hook.Mutating {
			// The object may need another change after a later webhook has changed it.
			webhook.ReinvocationPolicy = ptr.To(admissionregistrationv1.IfNeededReinvocationPolicy)
		}
		configuration.Webhooks = append(configuration.Webhooks, webhook)
	}
	return configuration
}
