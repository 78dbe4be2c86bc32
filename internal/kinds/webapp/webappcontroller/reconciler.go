// Package webappcontroller reads and writes for the kind WebApp; package webapp decides.
package webappcontroller

import (
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/webapp"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/loop"
	"github.com/mainstay-platform/mainstay/internal/kit/optional"
	"github.com/mainstay-platform/mainstay/internal/kit/outcome"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// kind brings WebApp to the loop.
type kind struct {
	cached   client.Reader
	live     client.Reader
	children children.Reader
	routes   *optional.API
	clock    clock.PassiveClock
}

var _ loop.Kind[*appsv1.WebApp, webapp.Observed] = kind{}

// New is an empty WebApp.
func (kind) New() *appsv1.WebApp { return &appsv1.WebApp{} }

// Admit fills in defaults and validates.
func (kind) Admit(app *appsv1.WebApp) error {
	webapp.Default(app)
	if problems := webapp.Validate(app); len(problems) > 0 {
		return outcome.InvalidSpecError{Err: problems.ToAggregate()}
	}
	return nil
}

// Children are those that the observation found.
func (kind) Children(observed webapp.Observed) plan.Children { return observed.Children }

// Desired is what should exist.
func (kind) Desired(app *appsv1.WebApp, observed webapp.Observed) plan.Plan {
	return webapp.Desired(app, observed)
}

// Report sets the status.
func (kind) Report(into, app *appsv1.WebApp, observed webapp.Observed, result plan.Result) time.Duration {
	status, lookAgain := webapp.Status(app, observed, result)
	into.Status = status
	return lookAgain
}

// Trouble names the conditions that are bad news when True.
func (kind) Trouble() []string {
	return []string{appsv1.ConditionDegraded, appsv1.ConditionStalled}
}
