// Package instrumentation decides what is particular to an Instrumentation. All that it has in common with a ClusterInstrumentation,
// which is nearly everything, is in package injection.
package instrumentation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/injection"
)

// Controller is the name of the kind's controller; its field manager is mainstay/instrumentation.
const Controller = "instrumentation"

// Default fills in what the spec leaves out.
func Default(instrumentation *instrv1.Instrumentation) { injection.Default(&instrumentation.Spec) }

// Validate checks a defaulted Instrumentation.
func Validate(instrumentation *instrv1.Instrumentation) field.ErrorList {
	return injection.Validate(&instrumentation.Spec)
}
