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

// admit has what is written pass the cluster's admission: its webhooks and policies hold for what we keep, too.
//
// What it watches is watched apart from what the library's readiness rests on. A policy of anybody may name parameters of a kind that we may not
// read: that policy then fails, as its failurePolicy says, and not the server.
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

// hasMutatingPolicies: there are none, of v1, before Kubernetes 1.36. The plugin would wait for them for ever.
func hasMutatingPolicies(cluster discovery.DiscoveryInterface) (bool, error) {
	found, err := cluster.ServerResourcesForGroupVersion(admissionregistrationv1.SchemeGroupVersion.String())
	if err != nil {
		return false, fmt.Errorf("asking which kinds of admission the cluster has: %w", err)
	}
	return slices.ContainsFunc(found.APIResources,
		func(resource metav1.APIResource) bool { return resource.Name == "mutatingadmissionpolicies" }), nil
}

// startAdmission begins to watch with the server, which is not ready before all is known once.
func startAdmission(config *genericapiserver.RecommendedConfig, watched informers.SharedInformerFactory) error {
	var known atomic.Bool
	config.AddReadyzChecks(healthz.NamedCheck("admission", func(*http.Request) error {
		if !known.Load() {
			return errors.New("waiting for the admission webhooks and policies of the cluster")
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
