// Package webappcontroller reads and writes for the kind WebApp; package webapp decides.
package webappcontroller

import (
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/webapp"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/optionalapi"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// kind implements the reconciler's interface for WebApp.
type kind struct {
	cached   client.Reader
	live     client.Reader
	children children.Reader
	// routes and monitors are the optional APIs.
	routes, monitors *optionalapi.API
	// monitorLabels are those of ServiceMonitors.
	monitorLabels map[string]string
	// rules reads the policies that govern a namespace; nil without policies.
	rules policy.Source
	// bindables are the kinds to which apps can be bound.
	bindables component.Bindables
	clock     clock.PassiveClock
}

var _ reconciler.Kind[*msappsv1.WebApp, webapp.Observed, struct{}] = kind{}

// Admit fills in defaults and validates.
func (k kind) Admit(app *msappsv1.WebApp) error {
	webapp.Default(app)
	return errclass.InvalidSpec(append(webapp.Validate(app), webapp.ValidateBindings(app, k.bindables)...))
}

// Decide returns nothing: what is to be done follows from the desired state.
func (kind) Decide(*msappsv1.WebApp, webapp.Observed) struct{} { return struct{}{} }

// Desired is what should exist.
func (kind) Desired(app *msappsv1.WebApp, observed webapp.Observed, _ struct{}) plan.Plan {
	return webapp.Desired(app, observed)
}

// Report sets the status.
func (kind) Report(into, app *msappsv1.WebApp, observed webapp.Observed, _ struct{}, result plan.Result) time.Duration {
	status, requeueAfter := webapp.Status(app, observed, result)
	into.Status = status
	return requeueAfter
}
