package instrumentationcontroller

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/agentrollout"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/policy/policyreader"
	"github.com/mainstay-platform/mainstay/internal/registration"
	"github.com/mainstay-platform/mainstay/internal/workload"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// gather is for how long changes of workloads and their surroundings are batched before a
// reconcile: when an Instrumentation is created, hundreds of workloads change at once.
const gather = 500 * time.Millisecond

// setup adds the controller of one kind, of this name, to the manager.
//
// +kubebuilder:rbac:part=injection,groups="",resources=namespaces,verbs=get;list;watch
func setup[T Object](in registration.Input, name string, definition admission.Kind[T], reader *Reader) error {
	r := registration.Complete(in, &reconciler.Reconciler[T, Observed, agentrollout.Decision]{
		Name:              name,
		New:               definition.New,
		Kind:              kind[T]{reader: reader, clock: in.Clock, isDirect: !in.HasWebhooks},
		Finalizer:         injection.Finalizer,
		ProblemConditions: []string{instrv1.ConditionDegraded, instrv1.ConditionStalled, instrv1.ConditionOverruled},
	})
	r.Applier.Recorder = r.Recorder
	concerned := concerned{reader, definition.Kind.Kind}
	written := builder.WithPredicates(predicate.Or(watch.SpecChanged(), predicate.AnnotationChangedPredicate{}))
	under := ctrl.NewControllerManagedBy(in.Manager).
		Named(name).
		For(definition.New(), written).
		Watches(watch.Namespace(), watch.Later(concerned.byNamespace, gather),
			builder.WithPredicates(predicate.Or(predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{})))
	// A ClusterInstrumentation, too, may overrule Instrumentations, as long as an earlier revision of
	// it is kept or retained in a container.
	for _, rival := range scopes(in) {
		under = under.Watches(rival.Object, watch.Later(concerned.byRival, gather), written)
	}
	for _, object := range observe.Workloads() {
		under = under.Watches(object, watch.Later(concerned.byWorkload, gather),
			builder.WithPredicates(predicate.Or(observe.ConcernsWorkload(), predicate.LabelChangedPredicate{})))
	}
	if in.Rules != nil {
		everywhere := func(ctx context.Context, _ client.Object) []reconcile.Request { return concerned.all(ctx, "") }
		under = under.Watches(&mspolicyv1.PlatformPolicy{}, watch.Later(everywhere, gather),
			builder.WithPredicates(policyreader.Changed()))
	}
	if sources := in.Workloads.Sources; sources != nil {
		for _, kind := range sources.Kinds() {
			changed := watch.Later(concerned.bySource(kind), gather)
			under = under.WatchesRawSource(sources.Watch(kind, changed, watch.ContentChanged()))
		}
	}
	return under.WithOptions(in.Options()).Complete(r)
}

// concerned finds the Instrumentations of one kind that a change concerns.
type concerned struct {
	reader *Reader
	kind   string
}

// agents returns the agents of the kind in a namespace. If they can't be read, it logs the error
// and returns none.
func (c concerned) agents(ctx context.Context, namespace string) []*injection.Agent {
	agents, err := c.reader.agents(ctx, namespace)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Looking for the Instrumentations that a change concerns")
		return nil
	}
	return slices.DeleteFunc(agents, func(agent *injection.Agent) bool { return agent.Kind != c.kind })
}

// all returns the requests for the agents of a namespace.
func (c concerned) all(ctx context.Context, namespace string) []reconcile.Request {
	var requests []reconcile.Request
	for _, agent := range c.agents(ctx, namespace) {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: agent.Namespace, Name: agent.Name}})
	}
	return requests
}

func (c concerned) byNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	return c.all(ctx, namespace.GetName())
}

func (c concerned) byRival(ctx context.Context, rival client.Object) []reconcile.Request {
	return c.all(ctx, rival.GetNamespace())
}

// byWorkload returns requests for the Instrumentations that match a workload, for those that are in
// it, whether or not they still exist, and for those that match nothing: their status names the
// workloads of the namespace.
func (c concerned) byWorkload(ctx context.Context, object client.Object) []reconcile.Request {
	w := workloadOf(object, observe.KindOfWorkload(object), observe.PodTemplate(object))
	var requests []reconcile.Request
	add := func(identity injection.Identity) {
		request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: identity.Namespace, Name: identity.Name}}
		if !slices.Contains(requests, request) {
			requests = append(requests, request)
		}
	}
	agents := c.agents(ctx, w.Namespace)
	var namespace *metav1.PartialObjectMetadata
	if c.kind == injection.KindCluster && len(agents) > 0 {
		namespace = watch.Namespace()
		if c.reader.Cached.Get(ctx, client.ObjectKey{Name: w.Namespace}, namespace) != nil {
			namespace = nil // too new for the cache
		}
	}
	for _, agent := range agents {
		isCovered := namespace == nil || agent.Covers(w.Namespace, namespace.Labels)
		if isCovered && agent.Concerns(w) {
			add(agent.Identity)
		}
	}
	for _, injected := range injection.Injected(w.Template.Annotations) {
		identity := injected.Identity(w.Namespace)
		if identity.Kind == c.kind && identity.ID() == injected.ID { // users can write records
			add(identity)
		}
	}
	for _, agent := range agents {
		if c.kind == injection.KindNamespaced && c.matchesNothing(ctx, agent.Identity) {
			add(agent.Identity)
		}
	}
	return requests
}

// matchesNothing reports whether the status of an Instrumentation says that it matches nothing.
func (c concerned) matchesNothing(ctx context.Context, identity injection.Identity) bool {
	var object instrv1.Instrumentation
	key := client.ObjectKey{Namespace: identity.Namespace, Name: identity.Name}
	if c.reader.Cached.Get(ctx, key, &object, client.UnsafeDisableDeepCopy) != nil {
		return false // it is gone, or will be looked at when it can be read
	}
	ready := meta.FindStatusCondition(object.Status.Conditions, instrv1.ConditionReady)
	return ready != nil && ready.Reason == instrv1.ReasonNothingMatched
}

// bySource returns requests for all agents of a namespace if some workload takes all variables of
// the ConfigMap or Secret: one of the variables may be one that an agent extends.
func (c concerned) bySource(kind workload.SourceKind) handler.MapFunc {
	return func(ctx context.Context, source client.Object) []reconcile.Request {
		requests := c.all(ctx, source.GetNamespace())
		if len(requests) == 0 {
			return nil
		}
		found, err := c.reader.workloads(ctx, source.GetNamespace())
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Looking for the workloads that a change concerns")
			return nil
		}
		for i := range found {
			if takesAll(&found[i].Template.Spec, kind, source.GetName()) {
				return requests
			}
		}
		return nil
	}
}

// takesAll reports whether some container takes all variables of a ConfigMap or Secret.
func takesAll(spec *corev1.PodSpec, kind workload.SourceKind, name string) bool {
	for i := range spec.Containers {
		for _, source := range spec.Containers[i].EnvFrom {
			isConfigMap := kind == workload.ConfigMap && source.ConfigMapRef != nil && source.ConfigMapRef.Name == name
			isSecret := kind == workload.Secret && source.SecretRef != nil && source.SecretRef.Name == name
			if isConfigMap || isSecret {
				return true
			}
		}
	}
	return false
}
