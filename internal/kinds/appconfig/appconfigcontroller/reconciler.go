// Package appconfigcontroller reads and writes for the kind AppConfig; package appconfig decides.
// It writes ConfigMaps but no workloads: the workload controller does that.
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
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// kind implements the reconciler's interface for AppConfig.
type kind struct {
	cached, live client.Reader
	namespaces   namespaces
	children     children.Reader
	workloads    observe.Reader
	clock        clock.PassiveClock
	renderings   *renderings
	environments policy.Environments
}

var (
	_ reconciler.Kind[*configv1.AppConfig, appconfig.Observed, appconfig.Choice]       = kind{}
	_ reconciler.Completing[*configv1.AppConfig, appconfig.Observed, appconfig.Choice] = kind{}
)

// Admit fills in defaults and validates. What the templates render depends on the namespace and is
// checked in Choose.
func (k kind) Admit(config *configv1.AppConfig) error {
	appconfig.Default(config)
	return errclass.InvalidSpec(appconfig.Validate(config, k.environments))
}

// Decide chooses the content of the ConfigMap.
func (kind) Decide(config *configv1.AppConfig, observed appconfig.Observed) appconfig.Choice {
	return appconfig.Choose(config, observed)
}

// Desired returns what should exist.
func (kind) Desired(config *configv1.AppConfig, observed appconfig.Observed, choice appconfig.Choice) plan.Plan {
	return appconfig.Desired(config, observed, choice)
}

// Report sets the status.
func (kind) Report(into, config *configv1.AppConfig, observed appconfig.Observed, choice appconfig.Choice,
	result plan.Result) time.Duration {
	status, requeueAfter := appconfig.Status(config, observed, choice, result)
	into.Status = status
	return requeueAfter
}
