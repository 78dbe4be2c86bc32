package injector

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/injection"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/workload"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// Reader reads what injection rests on. It is safe for use by many goroutines, and writes nothing.
type Reader struct {
	// Cached holds workloads, the metadata of namespaces, and of the two kinds those that are on.
	Cached client.Reader
	// Live asks the API server.
	Live client.Reader
	// Namespaced and Cluster tell which of the kinds are on: of one that is off nothing is read.
	Namespaced, Cluster bool
	// Ungoverned are namespaces into which nothing is injected.
	Ungoverned []string
	// Source reads which keys a ConfigMap or Secret has; nil where nobody keeps them in the cache.
	Source func(ctx context.Context, namespace string, ref workload.SourceRef) (workload.Source, error)
	// HasImageVolumes tells that the cluster can mount images.
	HasImageVolumes bool

	// off are the kinds that are off.
	off []string
	// compiled remembers agents by UID.
	compiled *lru.Cache
	// takenOut remembers when something was taken out of a workload: see pace.
	takenOut *lru.Cache
}

// maxCompiled is far above what anybody has.
const maxCompiled = 10_000

// NewReader completes a Reader.
func NewReader(reader Reader) *Reader {
	reader.compiled, reader.takenOut = lru.New(maxCompiled), lru.New(maxCompiled)
	if !reader.Namespaced {
		reader.off = append(reader.off, injection.KindNamespaced)
	}
	if !reader.Cluster {
		reader.off = append(reader.off, injection.KindCluster)
	}
	return &reader
}

// version is an agent of one version of its object.
type version struct {
	resourceVersion string
	agent           *injection.Agent
}

// agent makes an object ready to be asked, once for each of its versions.
func (r *Reader) agent(object injection.Object) *injection.Agent {
	if found, isKnown := r.compiled.Get(object.GetUID()); isKnown {
		if known := found.(version); known.resourceVersion == object.GetResourceVersion() {
			return known.agent
		}
	}
	agent := injection.Compile(object)
	r.compiled.Add(object.GetUID(), version{object.GetResourceVersion(), agent})
	return agent
}

// objects are all that there are; of the Instrumentations those of one namespace, unless it is empty. They are the cache's: nobody may change them.
func (r *Reader) objects(ctx context.Context, namespace string) ([]described, error) {
	var objects []described
	if r.Namespaced {
		var list instrv1.InstrumentationList
		if err := r.Cached.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing Instrumentations: %w", err)
		}
		for i := range list.Items {
			objects = append(objects, &list.Items[i])
		}
	}
	if r.Cluster {
		var list instrv1.ClusterInstrumentationList
		if err := r.Cached.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing ClusterInstrumentations: %w", err)
		}
		for i := range list.Items {
			objects = append(objects, &list.Items[i])
		}
	}
	return objects, nil
}

// agents are the objects, made ready to be asked, in their order.
func (r *Reader) agents(ctx context.Context, namespace string) ([]*injection.Agent, error) {
	objects, err := r.objects(ctx, namespace)
	if err != nil {
		return nil, err
	}
	var agents []*injection.Agent
	for _, object := range objects {
		agents = append(agents, r.agent(object))
	}
	injection.Sort(agents)
	return agents, nil
}

// setting is what is around the workloads of a namespace, of the agents given.
func (r *Reader) setting(ctx context.Context, namespace string, agents []*injection.Agent) (*injection.NamespaceContext, error) {
	setting := &injection.NamespaceContext{HasImageVolumes: r.HasImageVolumes, Keys: r.keys(ctx, namespace), Off: r.off}
	if slices.Contains(r.Ungoverned, namespace) {
		return setting, nil
	}
	found := watch.Namespace()
	err := r.Cached.Get(ctx, client.ObjectKey{Name: namespace}, found)
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, client.ObjectKey{Name: namespace}, found)
	}
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s, whose labels and annotations say what is injected: %w", namespace, err)
	}
	setting.Declines = injection.OptsOut(found.Annotations)
	for _, agent := range agents {
		if agent.Covers(namespace, found.Labels) {
			setting.Agents = append(setting.Agents, agent)
		}
	}
	return setting, nil
}

// keys looks keys up in the cache. What can't be read is not known.
func (r *Reader) keys(ctx context.Context, namespace string) injection.KeyLookup {
	if r.Source == nil {
		return nil
	}
	return func(kind, name, key string) injection.Presence {
		source, err := r.Source(ctx, namespace, workload.SourceRef{Kind: workload.SourceKind(kind), Name: name})
		if err != nil || source.Standing != workload.Present {
			return injection.Unknown
		}
		if _, has := source.Keys[key]; !has || slices.Contains(source.Binary, key) {
			return injection.Absent
		}
		return injection.Present
	}
}

// seen is a workload of the cache, with what only the controllers need.
type seen struct {
	injection.ObservedWorkload
	selector *metav1.LabelSelector
}

// workloads are those of a namespace, of all if it is empty, by namespace, kind and name: the cache has them in no order, and messages name the first.
// They share memory with the cache: nobody may change them.
func (r *Reader) workloads(ctx context.Context, namespace string) ([]seen, error) {
	var found []seen
	add := func(object client.Object, selector *metav1.LabelSelector) {
		if object.GetDeletionTimestamp() != nil {
			return
		}
		w := workloadOf(object, observe.KindOfWorkload(object), observe.PodTemplate(object))
		found = append(found, seen{injection.ObservedWorkload{Workload: *w, UID: object.GetUID(), Rolled: observe.Rolled(object)}, selector})
	}
	var deployments appsv1.DeploymentList
	var statefulSets appsv1.StatefulSetList
	var daemonSets appsv1.DaemonSetList
	for _, list := range []client.ObjectList{&deployments, &statefulSets, &daemonSets} {
		if err := r.Cached.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing %T: %w", list, err)
		}
	}
	for i := range deployments.Items {
		add(&deployments.Items[i], deployments.Items[i].Spec.Selector)
	}
	for i := range statefulSets.Items {
		add(&statefulSets.Items[i], statefulSets.Items[i].Spec.Selector)
	}
	for i := range daemonSets.Items {
		add(&daemonSets.Items[i], daemonSets.Items[i].Spec.Selector)
	}
	slices.SortFunc(found, func(a, b seen) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return found, nil
}

// workloadOf is an object as far as injection is concerned.
func workloadOf(object client.Object, kind string, template *corev1.PodTemplateSpec) *injection.Workload {
	return &injection.Workload{
		Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(),
		Labels: object.GetLabels(), Annotations: object.GetAnnotations(), Template: template,
	}
}

// settle gives each workload the setting of its namespace.
func (r *Reader) settle(ctx context.Context, found []seen, agents []*injection.Agent) error {
	settings := map[string]*injection.NamespaceContext{}
	for i := range found {
		one := &found[i]
		if settings[one.Namespace] == nil {
			setting, err := r.setting(ctx, one.Namespace, agents)
			if apierrors.IsNotFound(err) {
				setting, err = &injection.NamespaceContext{}, nil // the namespace has gone, and the workload goes
			}
			if err != nil {
				return err
			}
			settings[one.Namespace] = setting
		}
		one.Context = settings[one.Namespace]
	}
	return nil
}
