package instrumentationcontroller

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/agentrollout"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/internal/workload"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// Reader reads what injection decisions depend on. It writes nothing, and is safe for concurrent
// use.
type Reader struct {
	// Cached has workloads, the metadata of namespaces, and the objects of kinds that are on.
	Cached client.Reader
	// Live reads from the API server, for the controllers. Reviewing does so for the webhook.
	Live, Reviewing client.Reader
	// Off are the disabled kinds. Their objects are not read.
	Off []string
	// Ungoverned are namespaces into which nothing is injected.
	Ungoverned []string
	// Rules reads the rules that govern a namespace; nil if there are no policies.
	Rules policy.Source
	// Source reads which keys a ConfigMap or Secret has; nil if the cache has neither.
	Source func(ctx context.Context, namespace string, ref workload.SourceRef) (workload.Source, error)
	// HasImageVolumes reports that the cluster supports image volumes.
	HasImageVolumes bool

	caches
}

// caches are what the readers of one manager share.
type caches struct {
	// compiled caches agents by UID.
	compiled *lru.Cache
	// removals are the last removals of agents from workloads, by removalKey.
	removals *lru.Cache
}

// maxCompiled is far more than a cluster has in practice.
const maxCompiled = 10_000

func newCaches() caches { return caches{lru.New(maxCompiled), lru.New(maxCompiled)} }

// bothKinds are the names of the two kinds.
var bothKinds = []string{injection.KindNamespaced, injection.KindCluster}

// version is an agent compiled from one version of its object.
type version struct {
	resourceVersion string
	agent           *injection.Agent
}

// agent returns the compiled object. It compiles each version of an object once.
func (r *Reader) agent(object injection.Object) *injection.Agent {
	if found, isKnown := r.compiled.Get(object.GetUID()); isKnown {
		if known := found.(version); known.resourceVersion == object.GetResourceVersion() {
			return known.agent
		}
	}
	agent := instrumentation.Compile(object)
	r.compiled.Add(object.GetUID(), version{object.GetResourceVersion(), agent})
	return agent
}

// objects returns all objects; of the Instrumentations those of one namespace, unless namespace is
// empty. They belong to the cache and must not be modified.
func (r *Reader) objects(ctx context.Context, namespace string) ([]Object, error) {
	var objects []Object
	if !slices.Contains(r.Off, injection.KindNamespaced) {
		var list instrv1.InstrumentationList
		if err := r.Cached.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing Instrumentations: %w", err)
		}
		for i := range list.Items {
			objects = append(objects, &list.Items[i])
		}
	}
	if !slices.Contains(r.Off, injection.KindCluster) {
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

// agents returns the compiled objects, sorted by precedence.
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

// setting returns the context of a namespace, for the given agents. live is for a namespace that is
// too new for the cache. If its rules can't be read, that is in the context, and no error.
func (r *Reader) setting(ctx context.Context, live client.Reader, namespace string,
	agents []*injection.Agent) (*injection.NamespaceContext, error) {
	setting := &injection.NamespaceContext{HasImageVolumes: r.HasImageVolumes, Keys: r.keys(ctx, namespace), Off: r.Off}
	if slices.Contains(r.Ungoverned, namespace) {
		return setting, nil
	}
	found, err := watch.ReadNamespace(ctx, r.Cached, live, namespace)
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s, whose labels and annotations select what is injected: %w", namespace, err)
	}
	setting.Declines = injection.OptsOut(found.Annotations)
	for _, agent := range agents {
		if agent.Covers(namespace, found.Labels) {
			setting.Agents = append(setting.Agents, agent)
		}
	}
	if r.Rules != nil && len(setting.Agents) > 0 {
		setting.Rules, setting.RulesUnknown = r.Rules(ctx, namespace)
	}
	return setting, nil
}

// keys returns a lookup in the cache. A source that can't be read is Unknown.
func (r *Reader) keys(ctx context.Context, namespace string) injection.KeyLookup {
	if r.Source == nil {
		return nil
	}
	return func(kind, name, key string) injection.Presence {
		source, err := r.Source(ctx, namespace, workload.SourceRef{Kind: workload.SourceKind(kind), Name: name})
		if err != nil || source.State != workload.Present {
			return injection.Unknown
		}
		if _, has := source.Keys[key]; !has || slices.Contains(source.Binary, key) {
			return injection.Absent
		}
		return injection.Present
	}
}

// seen is a workload from the cache, with what only the controllers need.
type seen struct {
	agentrollout.ObservedWorkload
	selector *metav1.LabelSelector
}

// workloads returns the workloads of a namespace, or of all if it is empty, sorted by namespace,
// kind and name: the cache has no order, and messages name the first. They share memory with the
// cache and must not be modified.
func (r *Reader) workloads(ctx context.Context, namespace string) ([]seen, error) {
	objects, err := observe.ListWorkloads(ctx, r.Cached, namespace)
	if err != nil {
		return nil, err
	}
	found := make([]seen, len(objects))
	for i, one := range objects {
		w := *workloadOf(one, observe.KindOfWorkload(one), observe.PodTemplate(one))
		found[i] = seen{agentrollout.ObservedWorkload{Workload: w, UID: one.GetUID(), Rolled: observe.Rolled(one)}, observe.Selector(one)}
	}
	slices.SortFunc(found, func(a, b seen) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return found, nil
}

// workloadOf returns the object as an injection.Workload.
func workloadOf(object client.Object, kind string, template *corev1.PodTemplateSpec) *injection.Workload {
	return &injection.Workload{
		Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(),
		Labels: object.GetLabels(), Annotations: object.GetAnnotations(), Template: template,
	}
}

// settle sets the context of each workload to that of its namespace.
func (r *Reader) settle(ctx context.Context, found []seen, agents []*injection.Agent) error {
	settings := map[string]*injection.NamespaceContext{}
	for i := range found {
		one := &found[i]
		if settings[one.Namespace] == nil {
			setting, err := r.setting(ctx, r.Live, one.Namespace, agents)
			if err == nil {
				err = setting.RulesUnknown
			}
			if apierrors.IsNotFound(err) {
				setting, err = &injection.NamespaceContext{}, nil // the namespace is gone, and the workload will be
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
