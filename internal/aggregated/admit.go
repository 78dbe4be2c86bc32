package aggregated

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// A server asks every 5 to 15 minutes, at random, whether the cluster now has
// MutatingAdmissionPolicies. So two replicas hardly ever end at the same moment.
const (
	policiesPoll   = 5 * time.Minute
	policiesJitter = 2.0
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
		if err := config.AddPostStartHook("mainstay-mutating-policies", func(hook genericapiserver.PostStartHookContext) error {
			go awaitMutatingPolicies(hook, clients.Discovery(), func() { genericapiserver.RequestShutdown() })
			return nil
		}); err != nil {
			return fmt.Errorf("preparing admission: %w", err)
		}
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

// awaitMutatingPolicies calls end once the cluster has MutatingAdmissionPolicies, as after an
// upgrade. The plugin can't be added to a running server, and without it these policies would not
// apply to what we store.
func awaitMutatingPolicies(ctx context.Context, cluster discovery.DiscoveryInterface, end func()) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		has, err := hasMutatingPolicies(cluster)
		switch {
		case err != nil:
			klog.FromContext(ctx).Error(err, "Asking again later whether the cluster has MutatingAdmissionPolicies")
		case has:
			klog.FromContext(ctx).Info("Ending to be restarted, because the cluster now has MutatingAdmissionPolicies")
			stop()
			end()
		}
	}, policiesPoll, policiesJitter, true)
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
