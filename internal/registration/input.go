package registration

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/kit/apply"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/optionalapi"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
	"github.com/mainstay-platform/mainstay/internal/kit/recorder"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// Input is what the manager gives to the kinds.
type Input struct {
	Manager ctrl.Manager
	// Kinds are the enabled kinds.
	Kinds []Kind
	// Concurrency is how many objects of one kind are reconciled at once.
	Concurrency int
	Clock       clock.PassiveClock
	// Version is the API server's.
	Version *version.Info
	// Rules reads the rules that govern a namespace; nil while policies are off.
	Rules policy.Source
	// Environments are those that exist.
	Environments policy.Environments
	// Watched are the namespaces whose objects are admitted; none means all. Ungoverned are those
	// that Mainstay leaves alone: Kubernetes' own, and the manager's.
	Watched, Ungoverned []string
	// Reviewing is what all webhooks read through that the cache does not have.
	Reviewing client.Reader
	// HasWebhooks reports whether webhooks are served.
	HasWebhooks bool
	// MonitorLabels are the labels by which Prometheus selects ServiceMonitors.
	MonitorLabels map[string]string
	// RuleLabels are the labels by which Prometheus selects PrometheusRules.
	RuleLabels map[string]string
	// InstanceImage is the image with the program that database pods run.
	InstanceImage string
	// PgBouncerImage is the image of the poolers of PostgreSQLs; "" is none.
	PgBouncerImage string
	// PostgreSQLImages are the servers' images by their major version.
	PostgreSQLImages map[string]string
	// ValkeyImages are the servers' images of Caches by their major version.
	ValkeyImages map[string]string
	// Objects are the kinds of other projects whose objects may be components of stacks.
	Objects []ObjectKind
	// Workloads reads everything about workloads of others. It has no Sources while no kind restarts
	// workloads.
	Workloads observe.Reader
}

// HasNamespaces reports whether the cache has the metadata of namespaces.
func (in Input) HasNamespaces() bool {
	return slices.ContainsFunc(in.Kinds, func(k Kind) bool { return k.UsesNamespaces })
}

// Components returns the enabled kinds that can be components of stacks.
func (in Input) Components() []Component {
	var components []Component
	for _, k := range in.Kinds {
		if k.Composed != nil {
			components = append(components, k.Composed(in))
		}
	}
	for _, object := range in.Objects {
		components = append(components, object.component(in.Manager))
	}
	return components
}

// Review returns what admission says to objects of a kind, for a kind that makes such objects; nil
// if the kind is not enabled.
func (in Input) Review(kind schema.GroupKind) Review {
	at := slices.IndexFunc(in.Kinds, func(k Kind) bool { return k.GroupKind == kind })
	if at < 0 {
		return nil
	}
	return in.Kinds[at].Reviewed(in)
}

// Bindables returns the enabled kinds to which applications can be bound.
func (in Input) Bindables() component.Bindables {
	var found component.Bindables
	for _, k := range in.Kinds {
		if k.Bindable != nil {
			found = append(found, *k.Bindable)
		}
	}
	return found
}

// ObjectKind is a kind of another project whose objects may be components of stacks.
type ObjectKind struct {
	schema.GroupVersionKind
	// Resource is its name in URLs and in the name of its definition, such as rabbitmqclusters.
	Resource string
	// API says whether the kind can be used. It is nil while no kind that is on composes stacks.
	API *optionalapi.API
}

// Definition returns the name of the kind's CustomResourceDefinition.
func (k ObjectKind) Definition() string { return k.Resource + "." + k.Group }

// component returns the kind as a component of stacks. Its objects are not reviewed: what admission
// says to objects of another project is known only when they are written.
func (k ObjectKind) component(manager ctrl.Manager) Component {
	kind := component.NewExternal(k.GroupVersionKind, func() string { return k.missing(manager.GetRESTMapper()) })
	kind.Unlisted = func() string { return k.unlisted(manager.GetRESTMapper()) }
	return Component{
		Kind: kind, Object: kind.New().(client.Object),
		Review: func(context.Context, component.Object, component.Object) (admission.Review, error) {
			return admission.Review{}, nil
		},
	}
}

// missing returns why the cluster can't have objects of the kind in a namespace, or why they can't
// be read; "" if it can.
func (k ObjectKind) missing(mapper meta.RESTMapper) string {
	name := k.GroupVersion().String() + " " + k.Kind
	mapping, err := mapper.RESTMapping(k.GroupKind(), k.Version)
	switch {
	case meta.IsNoMatchError(err):
		return "the cluster does not serve " + name + ": install its definition"
	case err == nil && mapping.Scope.Name() != meta.RESTScopeNameNamespace:
		return "must be of a kind with a namespace"
	case k.API != nil && !k.API.Available():
		// A read through the cache would wait for what may never come, in every stack's reconcile.
		return cmp.Or(k.API.Problem(), name+" has appeared just now, and is used in a moment")
	}
	return "" // after an error it is unknown: reading the objects fails, and is tried again
}

// unlisted returns why objects of the kind, which there may be in a namespace, can't be read; "" if
// they can.
func (k ObjectKind) unlisted(mapper meta.RESTMapper) string {
	if k.API == nil || k.API.Problem() == "" {
		return ""
	}
	if mapping, err := mapper.RESTMapping(k.GroupKind(), k.Version); err == nil && mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return ""
	}
	return k.API.Problem()
}

// Children returns the reader of children.
func (in Input) Children() children.Reader {
	return children.Reader{Cached: in.Manager.GetClient(), Live: in.Manager.GetAPIReader(), Scheme: in.Manager.GetScheme()}
}

// Recorder returns the recorder of events of the controller of that name.
func (in Input) Recorder(name string) events.EventRecorder {
	return recorder.Bounded(in.Manager.GetEventRecorder("mainstay-" + name))
}

// Options returns the options of a controller.
func (in Input) Options() controller.Options {
	return controller.Options{MaxConcurrentReconciles: in.Concurrency, RateLimiter: errclass.RateLimiter[reconcile.Request]()}
}

// Complete sets what a reconciler has from the manager, and returns it: Client, Applier, Recorder
// and Clock.
func Complete[T reconciler.Object, O, D any](in Input, r *reconciler.Reconciler[T, O, D]) *reconciler.Reconciler[T, O, D] {
	r.Client, r.Clock = in.Manager.GetClient(), in.Clock
	r.Applier = apply.New(r.Client, in.Children())
	r.Recorder = in.Recorder(r.Name)
	return r
}
