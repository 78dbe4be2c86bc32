// Package clusterinstrumentation decides what is specific to a ClusterInstrumentation: its scope.
// Package injection has everything else.
package clusterinstrumentation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/injection"
)

// Controller is the name of the kind's controller; its field manager is
// mainstay/clusterinstrumentation.
const Controller = "clusterinstrumentation"

// Default fills in omitted fields.
func Default(instrumentation *instrv1.ClusterInstrumentation) {
	injection.Default(&instrumentation.Spec.InstrumentationSpec)
}

// Validate validates a defaulted ClusterInstrumentation.
func Validate(instrumentation *instrv1.ClusterInstrumentation) field.ErrorList {
	return append(injection.Validate(&instrumentation.Spec.InstrumentationSpec), injection.ValidateScope(&instrumentation.Spec)...)
}
