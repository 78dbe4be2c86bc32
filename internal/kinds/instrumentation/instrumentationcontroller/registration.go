package instrumentationcontroller

import (
	"context"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

// Registrations returns what Instrumentations and ClusterInstrumentations add to the manager. What
// one result of it adds shares its caches.
//
// +kubebuilder:rbac:groups=instrumentation.mainstay.dev,resources=instrumentations,verbs=list;watch;patch
// +kubebuilder:rbac:groups=instrumentation.mainstay.dev,resources=instrumentations/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:part=clusterinstrumentation,groups=instrumentation.mainstay.dev,resources=clusterinstrumentations,verbs=list;watch;patch
// +kubebuilder:rbac:part=clusterinstrumentation,groups=instrumentation.mainstay.dev,resources=clusterinstrumentations/status,verbs=patch
// +kubebuilder:rbac:part=clusterinstrumentation,groups=events.k8s.io,namespace=default,resources=events,verbs=create;patch
func Registrations() []registration.Kind {
	shared := newCaches()
	return []registration.Kind{
		register(shared, instrumentation.Controller, admission.Kind[*instrv1.Instrumentation]{
			Kind:       instrv1.GroupVersion.WithKind(injection.KindNamespaced),
			Resource:   "instrumentations",
			Scope:      admissionregistrationv1.NamespacedScope,
			New:        func() *instrv1.Instrumentation { return &instrv1.Instrumentation{} },
			IsSameSpec: func(a, b *instrv1.Instrumentation) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) },
		}),
		register(shared, instrumentation.ClusterController, admission.Kind[*instrv1.ClusterInstrumentation]{
			Kind:       instrv1.GroupVersion.WithKind(injection.KindCluster),
			Resource:   "clusterinstrumentations",
			Scope:      admissionregistrationv1.ClusterScope,
			New:        func() *instrv1.ClusterInstrumentation { return &instrv1.ClusterInstrumentation{} },
			IsSameSpec: func(a, b *instrv1.ClusterInstrumentation) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) },
		}),
	}
}

func register[T Object](shared caches, name string, definition admission.Kind[T]) registration.Kind {
	definition.Default, definition.Validate = instrumentation.Default[T], instrumentation.Validate[T]
	return registration.New(registration.Kind{
		Name:        name,
		AddToScheme: []func(*runtime.Scheme) error{instrv1.AddToScheme},
		Setup: func(_ context.Context, in registration.Input) error {
			return setup(in, name, definition, newReader(in, shared))
		},
		Hooks: func(in registration.Input) []admission.Hook {
			if on := scopes(in); on[len(on)-1].Name != name {
				return nil // one webhook serves both kinds
			}
			return []admission.Hook{workloadHook(in.Manager.GetScheme(), newReader(in, shared))}
		},
		Needs:          []watch.Need{watch.All(client.Object(definition.New()))},
		UsesNamespaces: true,
		UsesWorkloads:  true,
		PodTemplate:    injection.Strip,
		Metrics: func(in registration.Input, sources *metrics.Sources) {
			sources.Instrumented = newReader(in, shared).count
		},
	}, func(registration.Input) admission.Kind[T] { return definition })
}

// scopes returns which of the two kinds are on.
func scopes(in registration.Input) []registration.Kind {
	return slices.DeleteFunc(slices.Clone(in.Kinds), func(k registration.Kind) bool { return k.GroupKind.Group != instrv1.GroupVersion.Group })
}

// newReader returns the reader for injection. It knows the keys of ConfigMaps and Secrets only if
// another kind caches them.
func newReader(in registration.Input, shared caches) *Reader {
	reader := Reader{
		Cached: in.Manager.GetClient(), Live: in.Manager.GetAPIReader(), Reviewing: in.Reviewing, Ungoverned: in.Ungoverned, Rules: in.Rules,
		HasImageVolumes: hasImageVolumes(in.Version.Major, in.Version.Minor), caches: shared,
	}
	for _, kind := range bothKinds {
		if !slices.ContainsFunc(scopes(in), func(k registration.Kind) bool { return k.GroupKind.Kind == kind }) {
			reader.Off = append(reader.Off, kind)
		}
	}
	if in.Workloads.Sources != nil {
		reader.Source = in.Workloads.Source
	}
	return &reader
}

// imageVolumes is the minor version of Kubernetes 1 from which image volumes are on by default
// (KEP-4639).
const imageVolumes = 35

// hasImageVolumes reports whether an API server of this version has them. The minor version of a
// provider may end with "+".
func hasImageVolumes(major, minor string) bool {
	first, _ := strconv.Atoi(major)
	second, _ := strconv.Atoi(strings.TrimRight(minor, "+"))
	return first > 1 || first == 1 && second >= imageVolumes
}
