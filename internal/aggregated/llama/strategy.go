package llama

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	registryrest "k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/utils/clock"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
)

// Strategy tells the library's registry how to create and change Llamas.
type Strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	clock clock.PassiveClock
}

var (
	_ registryrest.RESTCreateStrategy  = Strategy{}
	_ registryrest.RESTUpdateStrategy  = Strategy{}
	_ registryrest.RESTDeleteStrategy  = Strategy{}
	_ registryrest.ResetFieldsStrategy = Strategy{}
	_ registryrest.RESTUpdateStrategy  = StatusStrategy{}
	_ registryrest.ResetFieldsStrategy = StatusStrategy{}
)

// NewStrategy returns a Strategy with the types of a scheme.
func NewStrategy(typer runtime.ObjectTyper, clock clock.PassiveClock) Strategy {
	return Strategy{ObjectTyper: typer, NameGenerator: names.SimpleNameGenerator, clock: clock}
}

// NamespaceScoped returns true.
func (Strategy) NamespaceScoped() bool { return true }

// AllowCreateOnUpdate returns false: an update of a deleted Llama is an error.
func (Strategy) AllowCreateOnUpdate(context.Context) bool { return false }

// AllowUnconditionalUpdate returns true: an update without resourceVersion replaces the Llama.
func (Strategy) AllowUnconditionalUpdate(context.Context) bool { return true }

// Canonicalize has nothing to do.
func (Strategy) Canonicalize(runtime.Object) {}

// PrepareForCreate runs before a new Llama is validated and stored.
func (s Strategy) PrepareForCreate(_ context.Context, object runtime.Object) {
	if made, is := object.(*farmv1alpha1.Llama); is {
		PrepareForCreate(made, s.now())
	}
}

// PrepareForUpdate runs before a changed Llama is validated and stored.
func (s Strategy) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
	if changed, was, are := both(object, old); are {
		PrepareForUpdate(changed, was, s.now())
	}
}

// Validate returns the errors of a new Llama.
func (Strategy) Validate(_ context.Context, object runtime.Object) field.ErrorList {
	if made, is := object.(*farmv1alpha1.Llama); is {
		return Validate(made)
	}
	return nil
}

// ValidateUpdate returns the errors of a changed Llama.
func (Strategy) ValidateUpdate(_ context.Context, object, old runtime.Object) field.ErrorList {
	if changed, was, are := both(object, old); are {
		return ValidateUpdate(changed, was)
	}
	return nil
}

// WarningsOnCreate returns no warnings.
func (Strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

// WarningsOnUpdate returns no warnings.
func (Strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// GetResetFields returns the fields that a write of the Llama itself does not set, so that the
// client does not become their field manager.
func (Strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return fields(fieldpath.MakePathOrDie("status"))
}

func (s Strategy) now() metav1.Time { return metav1.NewTime(s.clock.Now()) }

// StatusStrategy is the strategy of the status subresource.
type StatusStrategy struct{ Strategy }

// PrepareForUpdate takes the status only.
func (s StatusStrategy) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
	if changed, was, are := both(object, old); are {
		PrepareForStatusUpdate(changed, was, s.now())
	}
}

// GetResetFields returns the fields that a write of the status does not set.
func (StatusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return fields(fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("metadata", "labels"),
		fieldpath.MakePathOrDie("metadata", "annotations"),
		fieldpath.MakePathOrDie("metadata", "ownerReferences"), fieldpath.MakePathOrDie("metadata", "finalizers"))
}

func fields(paths ...fieldpath.Path) map[fieldpath.APIVersion]*fieldpath.Set {
	return map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(farmv1alpha1.GroupVersion.String()): fieldpath.NewSet(paths...)}
}

func both(object, old runtime.Object) (*farmv1alpha1.Llama, *farmv1alpha1.Llama, bool) {
	changed, is := object.(*farmv1alpha1.Llama)
	was, were := old.(*farmv1alpha1.Llama)
	return changed, was, is && were
}
