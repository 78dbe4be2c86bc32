// Package appconfigcontroller reads and writes for the kind AppConfig; package appconfig decides. It writes ConfigMaps and
// no workload: those are the workload controller's.
package appconfigcontroller

import (
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/appconfig"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// kind brings AppConfig to the loop.
type kind struct {
	cached, live client.Reader
	namespaces   namespaces
	children     children.Reader
	workloads    observe.Reader
	clock        clock.PassiveClock
	renderings   *renderings
}

var _ reconciler.Kind[*configv1.AppConfig, appconfig.Observed] = kind{}

// New is an empty AppConfig.
func (kind) New() *configv1.AppConfig { return &configv1.AppConfig{} }

// Admit fills in defaults and validates. What the templates render depends on the namespace: that is part of what is
// observed.
func (kind) Admit(config *configv1.AppConfig) error {
	appconfig.Default(config)
	if problems := appconfig.Validate(config); len(problems) > 0 {
		return errclass.InvalidSpecError{Err: problems.ToAggregate()}
	}
	return nil
}

// Children are those that the observation found.
func (kind) Children(observed appconfig.Observed) plan.Children { return observed.Children }

// Desired is what should exist.
func (kind) Desired(config *configv1.AppConfig, observed appconfig.Observed) plan.Plan {
	return appconfig.Desired(config, observed)
}

// Report sets the status.
func (kind) Report(into, config *configv1.AppConfig, observed appconfig.Observed, result plan.Result) time.Duration {
	status, lookAgain := appconfig.Status(config, observed, result)
	into.Status = status
	return lookAgain
}

// Trouble names the conditions that are bad news when True.
func (kind) ProblemConditions() []string {
	return []string{configv1.ConditionDegraded, configv1.ConditionStalled, configv1.ConditionSecretAccessNotGranted}
}
