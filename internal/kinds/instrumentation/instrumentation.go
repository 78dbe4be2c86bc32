// Package instrumentation decides what is specific to an Instrumentation. Package injection has
// what it shares with ClusterInstrumentation, which is nearly everything.
package instrumentation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/injection"
)

// Controller is the name of the kind's controller; its field manager is mainstay/instrumentation.
const Controller = "instrumentation"

// Default fills in omitted fields.
func Default(instrumentation *instrv1.Instrumentation) { injection.Default(&instrumentation.Spec) }

// Validate validates a defaulted Instrumentation.
func Validate(instrumentation *instrv1.Instrumentation) field.ErrorList {
	return injection.Validate(&instrumentation.Spec)
}
