// Package clusterinstrumentation decides what is particular to a ClusterInstrumentation: its scope. All else is in package injection.
package clusterinstrumentation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/injection"
)

// Controller is the name of the kind's controller; its field manager is mainstay/clusterinstrumentation.
const Controller = "clusterinstrumentation"

// Default fills in what the spec leaves out.
func Default(instrumentation *instrv1.ClusterInstrumentation) {
	injection.Default(&instrumentation.Spec.InstrumentationSpec)
}

// Validate checks a defaulted ClusterInstrumentation.
func Validate(instrumentation *instrv1.ClusterInstrumentation) field.ErrorList {
	return append(injection.Validate(&instrumentation.Spec.InstrumentationSpec), injection.ValidateScope(&instrumentation.Spec)...)
}
