// Package registration is how kinds join the manager. Each controller package exports a function
// Registration that returns what its kind adds, and package setup gives the same Input to all.
// Neither this package nor what it imports knows a kind.
package registration

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// Kind is what one kind adds to the manager. All but Name, AddToScheme, Setup, and what New sets,
// is optional.
type Kind struct {
	// Name enables and disables the kind. It is the same in --kinds, in the chart's values and, except
	// for a second scope of a kind, among the folders of internal/kinds.
	Name string
	// GroupKind, Version (that in which objects are read) and Resource are those of its definition,
	// Object is an empty object. New sets them.
	GroupKind schema.GroupKind
	Version   string
	Resource  string
	Object    client.Object
	// AddToScheme adds the types that the kind reads and writes, besides those of Kubernetes itself.
	AddToScheme []func(*runtime.Scheme) error
	// Setup adds its controller to the manager.
	Setup func(context.Context, Input) error
	// Hooks returns its webhooks. New puts those for its own objects before them.
	Hooks func(Input) []admission.Hook
	// Needs are what it reads from the shared cache where that differs from watch.Default.
	Needs []watch.Need
	// Awaited are the names of other projects' definitions that the kind uses if they are there.
	Awaited []string
	// UsesNamespaces reports whether it reads the metadata of namespaces, which are then cached.
	UsesNamespaces bool
	// UsesWorkloads reports whether it reads and patches workloads of others, which are then cached.
	UsesWorkloads bool
	// PodTemplate returns what it reads of their pod templates in addition to what restarts need.
	PodTemplate func(*corev1.PodTemplateSpec) corev1.PodTemplateSpec
	// Demands reads what it demands of workloads; nil for a kind that restarts none.
	Demands *observe.DemandReader
	// Governed reads from the cache what policies check in each object; nil if no rules apply to them.
	Governed func(context.Context, Input) ([]policy.Object, error)
	// Metrics sets the sources of metrics that only this kind has.
	Metrics func(Input, *metrics.Sources)
	// Component says how the kind is a component of stacks; nil for a kind that can't be one.
	Component *component.Traits
	// Composed returns that with the kind's functions. New sets it if Component is set.
	Composed func(Input) Component
	// Reviewed returns what admission says to objects of the kind. New sets it.
	Reviewed func(Input) Review
	// Bindable is the kind as one to which applications can be bound. New sets it if Component has a
	// Binding.
	Bindable *component.Bindable
	// Binds reports whether it reads objects of the kinds to which applications can be bound, which
	// are then cached.
	Binds bool
	// Composes reports whether it creates objects of the kinds that are components, which are then
	// cached with their managed fields.
	Composes bool
	// Converter is set if the kind has several versions. Objects are converted even while it is off.
	Converter func(*runtime.Scheme) (conversion.Converter, error)
	// KeepUnknown returns an object that the Converter has made, as JSON, with the fields of its
	// source that this release does not know: those of a later one. It is nil for a kind with one
	// version.
	KeepUnknown func(source, converted []byte) ([]byte, error)
}

// Component is a kind that is a component of stacks.
type Component struct {
	component.Kind
	// Object is an empty object.
	Object client.Object
	Review Review
}

// Review returns what admission would say to an object that is to be created, or changed from
// before (nil: it does not exist).
type Review func(ctx context.Context, object, before component.Object) (admission.Review, error)

// New returns the kind with what follows from its admission. admitted must accept an empty Input.
func New[T client.Object](kind Kind, admitted func(Input) admission.Kind[T]) Kind {
	definition := admitted(Input{})
	kind.GroupKind, kind.Version, kind.Resource = definition.Kind.GroupKind(), definition.Kind.Version, definition.Resource
	kind.Object = definition.New()
	kind.Reviewed = func(in Input) Review { return admitted(in).ReviewComponent }
	if traits := kind.Component; traits != nil {
		kind.Composed = func(in Input) Component {
			admits := admitted(in)
			return Component{Kind: admits.Component(*traits), Object: admits.New(), Review: admits.ReviewComponent}
		}
		if traits.Binding != nil {
			kind.Bindable = &component.Bindable{Binding: *traits.Binding, Kind: definition.Kind,
				New: func() component.Object { return definition.New() }}
		}
	}
	more := kind.Hooks
	kind.Hooks = func(in Input) []admission.Hook {
		hooks := admitted(in).Hooks(in.Manager.GetScheme())
		if more != nil {
			hooks = append(hooks, more(in)...)
		}
		return hooks
	}
	return kind
}

// Definition returns the name of the kind's CustomResourceDefinition.
func (k Kind) Definition() string { return k.Resource + "." + k.GroupKind.Group }
