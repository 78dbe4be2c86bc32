// Package configmonitorcontroller reads and writes for the kind ConfigMonitor; package
// configmonitor decides. Package workloadcontroller restarts workloads; this package only reports
// on them. It evicts pods itself.
package configmonitorcontroller

import (
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/configmonitor"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// kind implements the reconciler's interface for ConfigMonitor. It has no children.
type kind struct {
	client client.Client
	live   client.Reader
	reader observe.Reader
	clock  clock.PassiveClock
}

var _ reconciler.Kind[*configv1.ConfigMonitor, configmonitor.Observed, configmonitor.Decision] = kind{}

// Admit fills in defaults and validates.
func (kind) Admit(monitor *configv1.ConfigMonitor) error {
	configmonitor.Default(monitor)
	return errclass.InvalidSpec(configmonitor.Validate(monitor))
}

// Decide returns the restarts to report, or the pods to evict.
func (kind) Decide(monitor *configv1.ConfigMonitor, observed configmonitor.Observed) configmonitor.Decision {
	return configmonitor.Decide(monitor, observed)
}

// Desired returns an empty plan.
func (kind) Desired(_ *configv1.ConfigMonitor, _ configmonitor.Observed, _ configmonitor.Decision) plan.Plan {
	return plan.Plan{}
}

// Report sets the status.
func (kind) Report(into, monitor *configv1.ConfigMonitor, observed configmonitor.Observed, decided configmonitor.Decision,
	result plan.Result) time.Duration {
	status, requeueAfter := configmonitor.Status(monitor, observed, decided, result)
	status.FirstReadyTime = into.Status.FirstReadyTime
	into.Status = status
	return requeueAfter
}
