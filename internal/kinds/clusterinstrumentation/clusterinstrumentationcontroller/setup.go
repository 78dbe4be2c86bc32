// Package clusterinstrumentationcontroller sets up the controller of the kind
// ClusterInstrumentation; package injector implements it.
package clusterinstrumentationcontroller

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/injection"
	"github.com/mainstay-platform/mainstay/internal/injection/injector"
	"github.com/mainstay-platform/mainstay/internal/kinds/clusterinstrumentation"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
)

// definition is the kind, for admission and the controller.
var definition = admission.Kind[*instrv1.ClusterInstrumentation]{
	Kind:       instrv1.GroupVersion.WithKind(injection.KindCluster),
	Resource:   "clusterinstrumentations",
	Scope:      admissionregistrationv1.ClusterScope,
	New:        func() *instrv1.ClusterInstrumentation { return &instrv1.ClusterInstrumentation{} },
	Default:    clusterinstrumentation.Default,
	Validate:   clusterinstrumentation.Validate,
	IsSameSpec: func(a, b *instrv1.ClusterInstrumentation) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) },
}

// CacheOptions returns what the cache keeps for this controller: all objects of the kind.
func CacheOptions() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{definition.New(): {Label: labels.Everything(), Transform: cache.TransformStripManagedFields()}}
}

// Setup adds the controller to the manager.
//
// +kubebuilder:rbac:groups=instrumentation.mainstay.dev,resources=clusterinstrumentations,verbs=list;watch;patch
// +kubebuilder:rbac:groups=instrumentation.mainstay.dev,resources=clusterinstrumentations/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,namespace=default,resources=events,verbs=create;patch
func Setup(manager ctrl.Manager, options injector.Options) error {
	return injector.Setup(manager, clusterinstrumentation.Controller, definition, options)
}

// Hooks returns the webhooks of the kind itself.
func Hooks(scheme *runtime.Scheme) []admission.Hook { return definition.Hooks(scheme) }
