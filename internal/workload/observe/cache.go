package observe

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/workload"
)

// SecretAccess says whose Secrets may be read, and how their values are hashed. Its zero value reads none.
type SecretAccess struct {
	// Namespaces are those whose Secrets may be read; none means that no Secret is ever read.
	Namespaces []string
	// Hasher hashes their values under the installation's key.
	Hasher workload.Hasher
}

// NewSecretAccess reads the Secrets of some namespaces, and hashes their values under a key.
func NewSecretAccess(namespaces []string, key []byte) SecretAccess {
	return SecretAccess{Namespaces: namespaces, Hasher: workload.NewHasher(key)}
}

// Granted tells whether the Secrets of a namespace may be read. Where they may not, the cache knows nothing of Secrets and must not be
// asked for one: it would begin to watch them.
func (a SecretAccess) Granted(namespace string) bool { return slices.Contains(a.Namespaces, namespace) }

// helmReleases are the Secrets in which Helm keeps the manifests of its releases: large, many, and no pod uses one.
const helmReleases = corev1.SecretType("helm.sh/release.v1")

// WorkloadCacheOptions say what the cache holds of workloads, for all kinds that have to do with other people's: all of them, in part. more is
// what else is kept of pod templates than restarts need; nil for nothing.
//
// +kubebuilder:rbac:part=workload,groups=apps,resources=deployments;statefulsets;daemonsets,verbs=list;watch
func WorkloadCacheOptions(more func(*corev1.PodTemplateSpec) corev1.PodSpec) map[client.Object]cache.ByObject {
	strip := stripper{more}
	return map[client.Object]cache.ByObject{
		&appsv1.Deployment{}:  {Label: labels.Everything(), Transform: strip.deployment},
		&appsv1.StatefulSet{}: {Label: labels.Everything(), Transform: strip.statefulSet},
		&appsv1.DaemonSet{}:   {Label: labels.Everything(), Transform: strip.daemonSet},
	}
}

// ConfigurationCacheOptions say what the cache must hold for a Reader beside the workloads: all ConfigMaps, and of the namespaces that are opted in
// the Secrets. Everything that Mainstay has not made is held in part only, of ConfigMaps and Secrets no value at all.
//
// The rights to Secrets are granted in these namespaces one by one.
//
// +kubebuilder:rbac:part=configuration,groups="",resources=configmaps,verbs=list;watch
// +kubebuilder:rbac:part=secrets,groups="",resources=secrets,verbs=get;list;watch
func ConfigurationCacheOptions(secrets SecretAccess) map[client.Object]cache.ByObject {
	options := map[client.Object]cache.ByObject{
		&corev1.ConfigMap{}: {Label: labels.Everything(), Transform: hashConfigMap},
	}
	if len(secrets.Namespaces) == 0 {
		return options
	}
	within := map[string]cache.Config{}
	for _, namespace := range secrets.Namespaces {
		within[namespace] = cache.Config{}
	}
	options[&corev1.Secret{}] = cache.ByObject{
		Namespaces: within,
		Label:      labels.Everything(),
		Field:      fields.OneTermNotEqualSelector("type", string(helmReleases)),
		Transform:  hashSecret(secrets.Hasher),
	}
	return options
}
