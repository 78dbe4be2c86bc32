// Package instrumentation has the defaults and the validation of an Instrumentation and a
// ClusterInstrumentation, which differ in their scope only.
//
// Package injection decides what is injected into a pod template, and package agentrollout when a
// workload gets it.
package instrumentation

import (
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

// Names of the controllers of the two kinds; their field managers are mainstay/instrumentation and
// mainstay/clusterinstrumentation.
const (
	Controller        = "instrumentation"
	ClusterController = "clusterinstrumentation"
)

// Compile returns the Agent of an object. It repeats the checks of the webhooks, because objects
// may be stored that no webhook has seen.
func Compile(object injection.Object) *injection.Agent {
	spec := object.GetSpec().DeepCopy()
	defaultSpec(spec)
	return injection.NewAgent(object, spec, conditions.FirstProblems(validate(object, spec)).ToAggregate())
}
