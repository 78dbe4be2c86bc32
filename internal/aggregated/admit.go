package aggregated

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

// admit sends writes through the cluster's admission: its webhooks and policies apply to what we
// store, too.
//
// It has its own informers, apart from those that the library's readiness depends on. A policy may
// name parameters of a kind that we may not read: that policy then fails as its failurePolicy says,
// and the server keeps working.
//
// +kubebuilder:rbac:part=admission,groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:part=admission,groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,verbs=list;watch
// +kubebuilder:rbac:part=admission,groups=admissionregistration.k8s.io,resources=mutatingadmissionpolicies;mutatingadmissionpolicybindings,verbs=list;watch
// +kubebuilder:rbac:part=admission,groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,verbs=list;watch
func admit(config *genericapiserver.RecommendedConfig) error {
	clients, err := kubernetes.NewForConfig(config.ClientConfig)
	if err != nil {
		return fmt.Errorf("preparing admission: %w", err)
	}
	anything, err := dynamic.NewForConfig(config.ClientConfig)
	if err != nil {
		return fmt.Errorf("preparing admission: %w", err)
	}
	options := genericoptions.NewAdmissionOptions()
	has, err := hasMutatingPolicies(clients.Discovery())
	if err != nil {
		return err
	}
	if !has {
		options.DisablePlugins = append(options.DisablePlugins, mutating.PluginName)
	}
	watched := informers.NewSharedInformerFactory(clients, 0)
	if err := options.ApplyTo(&config.Config, watched, clients, anything, utilfeature.DefaultFeatureGate,
		config.EffectiveVersion); err != nil {
		return fmt.Errorf("preparing admission: %w", err)
	}
	return startAdmission(config, watched)
}

// hasMutatingPolicies reports whether the cluster has MutatingAdmissionPolicies of v1, which exist
// since Kubernetes 1.36. Without them the plugin would wait for ever.
func hasMutatingPolicies(cluster discovery.DiscoveryInterface) (bool, error) {
	found, err := cluster.ServerResourcesForGroupVersion(admissionregistrationv1.SchemeGroupVersion.String())
	if err != nil {
		return false, fmt.Errorf("reading which kinds of admission the cluster has: %w", err)
	}
	return slices.ContainsFunc(found.APIResources,
		func(resource metav1.APIResource) bool { return resource.Name == "mutatingadmissionpolicies" }), nil
}

// startAdmission starts the informers with the server, which is not ready before they have synced.
func startAdmission(config *genericapiserver.RecommendedConfig, watched informers.SharedInformerFactory) error {
	var known atomic.Bool
	config.AddReadyzChecks(healthz.NamedCheck("admission", func(*http.Request) error {
		if !known.Load() {
			return errors.New("waiting for the cache of the cluster's admission webhooks and policies")
		}
		return nil
	}))
	return config.AddPostStartHook("mainstay-admission", func(hook genericapiserver.PostStartHookContext) error {
		watched.Start(hook.Done())
		go func(ctx context.Context) {
			watched.WaitForCacheSync(ctx.Done())
			known.Store(ctx.Err() == nil)
		}(hook)
		return nil
	})
}
