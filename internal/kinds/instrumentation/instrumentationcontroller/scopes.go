package instrumentationcontroller

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
)

// Scope is one of the two kinds.
type Scope struct {
	// Name is the name of the controller, Resource that of the definition.
	Name, Resource string
	Kind           schema.GroupVersionKind
	// Object is an empty object.
	Object client.Object
	// Setup adds the controller to the manager.
	Setup func(ctrl.Manager, Options) error
	// Hooks returns the webhooks of the kind itself.
	Hooks func(*runtime.Scheme) []admission.Hook
}

// Needs returns what the controller reads from the cache: all objects of the kind.
func (s Scope) Needs() []watch.Need { return []watch.Need{watch.All(s.Object)} }

// Scopes returns both kinds.
//
// +kubebuilder:rbac:groups=instrumentation.mainstay.dev,resources=instrumentations,verbs=list;watch;patch
// +kubebuilder:rbac:groups=instrumentation.mainstay.dev,resources=instrumentations/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:part=clusterinstrumentation,groups=instrumentation.mainstay.dev,resources=clusterinstrumentations,verbs=list;watch;patch
// +kubebuilder:rbac:part=clusterinstrumentation,groups=instrumentation.mainstay.dev,resources=clusterinstrumentations/status,verbs=patch
// +kubebuilder:rbac:part=clusterinstrumentation,groups=events.k8s.io,namespace=default,resources=events,verbs=create;patch
func Scopes() []Scope {
	return []Scope{
		scopeOf(instrumentation.Controller, admission.Kind[*instrv1.Instrumentation]{
			Kind:       instrv1.GroupVersion.WithKind(injection.KindNamespaced),
			Resource:   "instrumentations",
			Scope:      admissionregistrationv1.NamespacedScope,
			New:        func() *instrv1.Instrumentation { return &instrv1.Instrumentation{} },
			IsSameSpec: func(a, b *instrv1.Instrumentation) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) },
		}),
		scopeOf(instrumentation.ClusterController, admission.Kind[*instrv1.ClusterInstrumentation]{
			Kind:       instrv1.GroupVersion.WithKind(injection.KindCluster),
			Resource:   "clusterinstrumentations",
			Scope:      admissionregistrationv1.ClusterScope,
			New:        func() *instrv1.ClusterInstrumentation { return &instrv1.ClusterInstrumentation{} },
			IsSameSpec: func(a, b *instrv1.ClusterInstrumentation) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) },
		}),
	}
}

func scopeOf[T Object](name string, definition admission.Kind[T]) Scope {
	definition.Default, definition.Validate = instrumentation.Default[T], instrumentation.Validate[T]
	return Scope{
		Name: name, Resource: definition.Resource, Kind: definition.Kind, Object: definition.New(), Hooks: definition.Hooks,
		Setup: func(manager ctrl.Manager, options Options) error { return setup(manager, name, definition, options) },
	}
}
