package observe

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
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

// granted reports whether the Secrets of a namespace may be read. If it is false, the cache must
// not be asked for a Secret: it would start to watch Secrets.
func (a SecretAccess) granted(namespace string) bool { return slices.Contains(a.Namespaces, namespace) }

// helmReleases is the type of the Secrets in which Helm stores the manifests of its releases: they
// are large and many, and no pod uses them.
const helmReleases = corev1.SecretType("helm.sh/release.v1")

const (
	// annotatedIndex finds the ConfigMaps and Secrets that select pods with their own annotation.
	annotatedIndex = "metadata.annotations." + configv1.AnnotationPodSelector
	annotatedValue = "given"
)

// Sources is a cache of all ConfigMaps and Secrets that pods may use, including those that Mainstay
// did not create. It is separate from the manager's cache because it holds hashes: each value is
// replaced by its hash before it is stored. The manager's cache has the ConfigMaps that Mainstay
// created, with their values.
type Sources struct {
	cache  cache.Cache
	reader client.Reader
	access SecretAccess
}

// NewSources returns a cache that has not started: of the ConfigMaps in some namespaces (none means
// all), and of the Secrets of the granted namespaces. newCache makes a cache from its options.
//
// The rights to Secrets are granted in each of these namespaces.
//
// +kubebuilder:rbac:part=configuration,groups="",resources=configmaps,verbs=list;watch
// +kubebuilder:rbac:part=secrets,groups="",resources=secrets,verbs=get;list;watch
func NewSources(ctx context.Context, namespaces []string, access SecretAccess, newCache func(cache.Options) (cache.Cache, error)) (*Sources,
	error) {
	byObject := map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Label: labels.Everything(), Transform: hashConfigMap}}
	if len(access.Namespaces) > 0 {
		within := map[string]cache.Config{}
		for _, namespace := range access.Namespaces {
			within[namespace] = cache.Config{}
		}
		byObject[&corev1.Secret{}] = cache.ByObject{
			Namespaces: within,
			Label:      labels.Everything(),
			Field:      fields.OneTermNotEqualSelector("type", string(helmReleases)),
			Transform:  hashSecret(access.Hasher),
		}
	}
	made, err := newCache(watch.Default(byObject, namespaces))
	if err != nil {
		return nil, fmt.Errorf("making the cache of ConfigMaps and Secrets: %w", err)
	}
	sources := &Sources{cache: made, reader: made, access: access}
	for _, kind := range sources.Kinds() {
		if err := made.IndexField(ctx, emptySource(kind), annotatedIndex, annotated); err != nil {
			return nil, fmt.Errorf("adding the index %s of %s: %w", annotatedIndex, kind, err)
		}
	}
	return sources, nil
}

// ControllerOf returns the UID of a ConfigMap's controller; "" if it has none or does not exist.
func (s *Sources) ControllerOf(ctx context.Context, configMap client.ObjectKey) (types.UID, error) {
	found, err := s.configMap(ctx, configMap)
	if err != nil {
		return "", err
	}
	if controller := metav1.GetControllerOf(found); controller != nil {
		return controller.UID, nil
	}
	return "", nil
}

// AnnotationsOf returns our annotations of a ConfigMap; nil if it has none or does not exist. They
// share memory with the cache and must not be modified.
func (s *Sources) AnnotationsOf(ctx context.Context, configMap client.ObjectKey) (map[string]string, error) {
	found, err := s.configMap(ctx, configMap)
	if err != nil {
		return nil, err
	}
	return found.Annotations, nil
}

// configMap reads a ConfigMap; an empty one if it does not exist.
func (s *Sources) configMap(ctx context.Context, key client.ObjectKey) (*corev1.ConfigMap, error) {
	var found corev1.ConfigMap
	if err := s.reader.Get(ctx, key, &found, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading ConfigMap %s: %w", key, err)
	}
	return &found, nil
}

// Kinds returns the kinds that the cache has: ConfigMap, and Secret if some may be read.
func (s *Sources) Kinds() []workload.SourceKind {
	if len(s.access.Namespaces) == 0 {
		return []workload.SourceKind{workload.ConfigMap}
	}
	return []workload.SourceKind{workload.ConfigMap, workload.Secret}
}

// Watch returns the changes of one of Kinds. Of the objects in events, the name, the namespace, and
// our labels and annotations are valid.
func (s *Sources) Watch(kind workload.SourceKind, handler handler.EventHandler, passes ...predicate.Predicate) source.Source {
	return source.Kind(s.cache, emptySource(kind), handler, passes...)
}

// Start fills the cache, and updates it until ctx ends.
func (s *Sources) Start(ctx context.Context) error { return s.cache.Start(ctx) }

// GetCache returns the cache, for the manager: it starts controllers when the cache is filled.
func (s *Sources) GetCache() cache.Cache { return s.cache }

// annotated returns the values of annotatedIndex.
func annotated(source client.Object) []string {
	if _, given := source.GetAnnotations()[configv1.AnnotationPodSelector]; given {
		return []string{annotatedValue}
	}
	return nil
}

func emptySource(kind workload.SourceKind) client.Object {
	if kind == workload.Secret {
		return &corev1.Secret{}
	}
	return &corev1.ConfigMap{}
}
