package appconfigcontroller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/appconfig"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/registration"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Observe reads everything that decisions about config depend on, from the cache. It reads from the
// API server only the namespace's labels, if the cache has no namespaces.
//
// +kubebuilder:rbac:groups=config.mainstay.dev,resources=appconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch
func (k kind) Observe(ctx context.Context, config *configv1.AppConfig) (appconfig.Observed, error) {
	var observed appconfig.Observed
	var err error
	observed.Place.Environments = k.environments
	if observed.Place.Labels, err = k.namespaces.labels(ctx, config.Namespace); err != nil {
		return observed, err
	}
	if observed.Older, observed.Siblings, err = k.observeSiblings(ctx, config); err != nil {
		return observed, err
	}
	if observed.Children, err = k.observeConfigMaps(ctx, config); err != nil {
		return observed, err
	}
	observed.Hashes = appconfig.HashesOf(observed.Children)
	if observed.Snapshot, err = k.workloads.Snapshot(ctx, config.Namespace); err != nil {
		return observed, err
	}
	now := k.clock.Now()
	observed.Now, observed.Plan = now, workload.Decide(observed.Snapshot, now)
	if observed.IsOpen, observed.WindowChanges, err = rollout.Open(config.Spec.Rollout.Window, now); err != nil {
		observed.IsOpen = false // the spec is invalid, and the status says so
	}
	observed.Rendering = k.rendering(config, observed)
	return observed, nil
}

// Complete reads when pod templates were created that are not those of Mainstay's last restart: the
// workload controller does not always record that they are younger than the content. It also reads
// the pods of workloads whose rollout makes no progress: the status says why, and a rollback
// records it.
func (k kind) Complete(ctx context.Context, config *configv1.AppConfig, observed *appconfig.Observed, _ appconfig.Choice) (bool, error) {
	reverted := observed.Reverted(config)
	// A time that is not known yet is read at the workload's next event: its controller observes it.
	if _, err := k.workloads.ReadTemplates(ctx, config.Namespace, observed.Snapshot.Targets, reverted); err != nil {
		return false, err
	}
	if len(reverted) > 0 {
		observed.Plan = workload.Decide(observed.Snapshot, observed.Now)
	}
	suspects, _ := observed.Suspects(config)
	observed.Causes = k.workloads.Causes(ctx, config.Namespace, observed.Snapshot.Targets, suspects, observed.Now)
	return len(observed.Causes)+len(reverted) > 0, nil
}

// rendering returns what a spec renders, from a cache. A content that will not be written is not
// rendered.
func (k kind) rendering(config *configv1.AppConfig, observed appconfig.Observed) *appconfig.Rendering {
	environment, problem := appconfig.EnvironmentIn(config, observed.Place)
	switch {
	case problem != nil:
		return nil // Choose reports it
	case observed.Older != "":
		return &appconfig.Rendering{Problem: "not rendered: another AppConfig is in effect"}
	case len(appconfig.Validate(config, k.environments)) > 0:
		return &appconfig.Rendering{Problem: "not rendered: the spec is invalid"}
	}
	return k.renderings.of(config, environment)
}

// observeSiblings returns the name of the AppConfig that is in effect for the application instead
// of this one, or "" if this one is, and the UIDs of all AppConfigs for it.
func (k kind) observeSiblings(ctx context.Context, config *configv1.AppConfig) (older string, all []types.UID, err error) {
	var siblings configv1.AppConfigList
	err = k.cached.List(ctx, &siblings, client.InNamespace(config.Namespace),
		client.MatchingFields{configMapIndex: config.ConfigMapName()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return "", nil, fmt.Errorf("listing the AppConfigs of namespace %s: %w", config.Namespace, err)
	}
	for i := range siblings.Items {
		if siblings.Items[i].DeletionTimestamp == nil {
			all = append(all, siblings.Items[i].UID)
		}
	}
	effective, err := effective(ctx, k.workloads.Sources, config.Namespace, siblings.Items)
	if err != nil {
		return "", nil, err
	}
	for _, one := range effective {
		if one.Name != config.Name {
			return one.Name, all, nil
		}
	}
	return "", all, nil
}

// observeConfigMaps finds the ConfigMap that pods use, and all with the AppConfig's label: those
// that it owns and that are not desired will be deleted.
func (k kind) observeConfigMaps(ctx context.Context, config *configv1.AppConfig) (plan.Children, error) {
	var labelled corev1.ConfigMapList
	err := k.cached.List(ctx, &labelled, client.InNamespace(config.Namespace), client.MatchingFields{labelIndex: config.Name},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the ConfigMaps of AppConfig %s/%s: %w", config.Namespace, config.Name, err)
	}
	main := config.ConfigMapName()
	possible := []plan.Object{named(main)}
	for i := range labelled.Items {
		if name := labelled.Items[i].Name; name != main {
			possible = append(possible, named(name))
		}
	}
	return k.children.Find(ctx, config, possible...)
}

func named(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// namespaces reads labels of namespaces.
type namespaces struct {
	// cached has the metadata of all namespaces; nil if the cache has none.
	cached client.Reader
	live   client.Reader
}

// namespacesOf returns a reader that asks the cache first if that has namespaces.
func namespacesOf(in registration.Input, live client.Reader) namespaces {
	if !in.HasNamespaces() {
		return namespaces{live: live}
	}
	return namespaces{cached: in.Manager.GetClient(), live: live}
}

// labels returns the labels of a namespace.
//
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
func (n namespaces) labels(ctx context.Context, name string) (map[string]string, error) {
	found, err := watch.ReadNamespace(ctx, n.cached, n.live, name)
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s, whose environment decides what an AppConfig renders: %w", name, err)
	}
	return found.Labels, nil
}
