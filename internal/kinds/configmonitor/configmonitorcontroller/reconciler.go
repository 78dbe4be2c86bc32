// Package configmonitorcontroller reads and writes for the kind ConfigMonitor; package
// configmonitor decides. Package workloadcontroller restarts workloads; this package only reports
// on them. It evicts pods itself.
package configmonitorcontroller

import (
	"time"

	"k8s.io/utils/clock"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/configmonitor"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// kind implements the reconciler's interface for ConfigMonitor. It has no children.
type kind struct {
	reader observe.Reader
	clock  clock.PassiveClock
}

var _ reconciler.Kind[*configv1.ConfigMonitor, configmonitor.Observed] = kind{}

// New returns an empty ConfigMonitor.
func (kind) New() *configv1.ConfigMonitor { return &configv1.ConfigMonitor{} }

// Admit fills in defaults and validates.
func (kind) Admit(monitor *configv1.ConfigMonitor) error {
	configmonitor.Default(monitor)
	if problems := configmonitor.Validate(monitor); len(problems) > 0 {
		return errclass.InvalidSpecError{Err: problems.ToAggregate()}
	}
	return nil
}

// Children returns nil: there are none.
func (kind) Children(configmonitor.Observed) plan.Children { return nil }

// Desired returns an empty plan.
func (kind) Desired(*configv1.ConfigMonitor, configmonitor.Observed) plan.Plan { return plan.Plan{} }

// Report sets the status.
func (kind) Report(into, monitor *configv1.ConfigMonitor, observed configmonitor.Observed, result plan.Result) time.Duration {
	status, requeueAfter := configmonitor.Status(monitor, observed, result)
	status.FirstReadyTime = into.Status.FirstReadyTime
	into.Status = status
	return requeueAfter
}

// ProblemConditions names the conditions that mean a problem when True.
func (kind) ProblemConditions() []string {
	return []string{
		configv1.ConditionDegraded, configv1.ConditionStalled,
		configv1.ConditionFlapping, configv1.ConditionSecretAccessNotGranted,
	}
}
