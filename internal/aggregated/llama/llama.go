// Package llama has all decisions about Llamas, the example of a resource that our own API server
// stores. Its functions are pure.
package llama

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/aggregated/table"
)

// Columns returns the columns that kubectl prints.
func Columns() []table.Column[farmv1alpha1.Llama] {
	return []table.Column[farmv1alpha1.Llama]{
		table.Name[farmv1alpha1.Llama](),
		column("Weight", "number", "In kilograms.", func(l *farmv1alpha1.Llama) any { return l.Spec.Weight }),
		column("Height", "number", "In metres.", func(l *farmv1alpha1.Llama) any { return l.Spec.Height }),
		column("Ready", "string", "Whether it is stored.", func(l *farmv1alpha1.Llama) any { return ready(l) }),
		table.Age[farmv1alpha1.Llama](),
	}
}

func column(name, kind, description string, cell func(*farmv1alpha1.Llama) any) table.Column[farmv1alpha1.Llama] {
	return table.Column[farmv1alpha1.Llama]{
		TableColumnDefinition: metav1.TableColumnDefinition{Name: name, Type: kind, Description: description}, Cell: cell,
	}
}

func ready(llama *farmv1alpha1.Llama) string {
	condition := meta.FindStatusCondition(llama.Status.Conditions, farmv1alpha1.ConditionReady)
	if condition == nil {
		return string(metav1.ConditionUnknown)
	}
	return string(condition.Status)
}

// PrepareForCreate sets the fields that belong to the server: the generation and the status.
func PrepareForCreate(llama *farmv1alpha1.Llama, now metav1.Time) {
	llama.Generation = 1
	llama.Status = farmv1alpha1.LlamaStatus{}
	keep(llama, now)
}

// PrepareForUpdate keeps the old status, except for what the server itself says about the new spec.
func PrepareForUpdate(llama, old *farmv1alpha1.Llama, now metav1.Time) {
	llama.Status = *old.Status.DeepCopy()
	llama.Generation = old.Generation
	if !equality.Semantic.DeepEqual(llama.Spec, old.Spec) {
		llama.Generation++
	}
	keep(llama, now)
}

// PrepareForStatusUpdate takes the status only, in which the condition Ready stays the server's.
func PrepareForStatusUpdate(llama, old *farmv1alpha1.Llama, now metav1.Time) {
	status := llama.Status
	llama.Spec, llama.Labels, llama.Annotations = old.Spec, old.Labels, old.Annotations
	llama.OwnerReferences, llama.Finalizers, llama.Generation = old.OwnerReferences, old.Finalizers, old.Generation
	llama.Status = status
	if was := meta.FindStatusCondition(old.Status.Conditions, farmv1alpha1.ConditionReady); was != nil {
		meta.RemoveStatusCondition(&llama.Status.Conditions, farmv1alpha1.ConditionReady)
		llama.Status.Conditions = append([]metav1.Condition{*was}, llama.Status.Conditions...)
	}
	keep(llama, now)
}

// keep sets the conditions of a stored Llama. It is stored with these conditions or not at all.
func keep(llama *farmv1alpha1.Llama, now metav1.Time) {
	meta.SetStatusCondition(&llama.Status.Conditions, metav1.Condition{
		Type: farmv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: farmv1alpha1.ReasonKept,
		Message:            "the Llama is stored by the farm's API server",
		ObservedGeneration: llama.Generation, LastTransitionTime: now,
	})
}

// Unreadable sets the conditions of a Llama whose record can't be decoded.
func Unreadable(llama *farmv1alpha1.Llama, err error) {
	llama.Status.Conditions = []metav1.Condition{{
		Type: farmv1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: farmv1alpha1.ReasonUnreadable,
		LastTransitionTime: llama.CreationTimestamp,
		Message:            fmt.Sprintf("the LlamaRecord of this name can't be read, replace the Llama or delete it: %v", err),
	}}
}

// ValidateUpdate returns the errors of a changed Llama. A Llama that is being deleted does not need
// to become valid.
func ValidateUpdate(llama, old *farmv1alpha1.Llama) field.ErrorList {
	if old.DeletionTimestamp != nil && equality.Semantic.DeepEqual(llama.Spec, old.Spec) {
		return validateStatus(llama)
	}
	return Validate(llama)
}

// Validate returns the errors of a Llama.
func Validate(llama *farmv1alpha1.Llama) field.ErrorList {
	spec := field.NewPath("spec")
	problems := validatePositive(spec.Child("weight"), llama.Spec.Weight)
	problems = append(problems, validatePositive(spec.Child("height"), llama.Spec.Height)...)
	for _, problem := range apivalidation.NameIsDNSSubdomain(llama.Name, false) {
		problems = append(problems, field.Invalid(field.NewPath("metadata", "name"), llama.Name, problem))
	}
	return append(problems, validateStatus(llama)...)
}

func validateStatus(llama *farmv1alpha1.Llama) field.ErrorList {
	return metav1validation.ValidateConditions(llama.Status.Conditions, field.NewPath("status", "conditions"))
}

// validatePositive also refuses 0, which is the value of an unset field.
func validatePositive(path *field.Path, given float64) field.ErrorList {
	if given > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, given, fmt.Sprintf("must be greater than 0, for example %s: 1.5", path))}
}
