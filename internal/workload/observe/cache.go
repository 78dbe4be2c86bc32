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

// SecretAccess says which Secrets may be read, and how their values are hashed. Its zero value
// allows none.
type SecretAccess struct {
	// Namespaces are the namespaces whose Secrets may be read. If there are none, no Secret is ever
	// read.
	Namespaces []string
	// Hasher hashes values under the installation's key.
	Hasher workload.Hasher
}

// NewSecretAccess returns the access to the Secrets of some namespaces, whose values are hashed
// under a key.
func NewSecretAccess(namespaces []string, key []byte) SecretAccess {
	return SecretAccess{Namespaces: namespaces, Hasher: workload.NewHasher(key)}
}

// Granted reports whether the Secrets of a namespace may be read. If it is false, the cache must
// not be asked for a Secret: it would start to watch Secrets.
func (a SecretAccess) Granted(namespace string) bool { return slices.Contains(a.Namespaces, namespace) }

// helmReleases is the type of the Secrets in which Helm stores the manifests of its releases: they
// are large and many, and no pod uses them.
const helmReleases = corev1.SecretType("helm.sh/release.v1")

// WorkloadCacheOptions returns what the cache keeps of workloads: all workloads, reduced to what
// all kinds together need. more returns what is kept of pod templates in addition to what restarts
// need; nil means nothing.
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

// ConfigurationCacheOptions returns what the cache must keep for a Reader in addition to workloads:
// all ConfigMaps, and the Secrets of granted namespaces. Objects that Mainstay did not create are
// reduced, and values of ConfigMaps and Secrets are replaced by hashes.
//
// The rights to Secrets are granted in each of these namespaces.
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
