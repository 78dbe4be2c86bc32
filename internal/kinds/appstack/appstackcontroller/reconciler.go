// Package appstackcontroller reads and writes for the kind AppStack; package appstack decides.
package appstackcontroller

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/appstack"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
)

// kind implements the reconciler's interface for AppStack.
type kind struct {
	observer
	live  client.Reader
	clock clock.PassiveClock
}

var (
	_ reconciler.Kind[*platformv1.AppStack, appstack.Observed, appstack.Decision]       = kind{}
	_ reconciler.Acting[*platformv1.AppStack, appstack.Observed, appstack.Decision]     = kind{}
	_ reconciler.Finalizing[*platformv1.AppStack, appstack.Observed, appstack.Decision] = kind{}
)

// Admit fills in defaults, validates, and adds what bindings say to the dependencies.
func (k kind) Admit(stack *platformv1.AppStack) error {
	appstack.Default(stack)
	problems := appstack.Validate(stack, k.kinds)
	*stack = *appstack.WithBindings(stack, k.kinds)
	return errclass.InvalidSpec(problems)
}

// Observe reads the components.
func (k kind) Observe(ctx context.Context, stack *platformv1.AppStack) (appstack.Observed, error) {
	return k.observe(ctx, stack)
}

// Decide chooses what is done about each component.
func (kind) Decide(stack *platformv1.AppStack, observed appstack.Observed) appstack.Decision {
	return appstack.Decide(stack, observed)
}

// Act writes nothing. Before a component is deleted because the spec does not have it, it makes
// sure that this is the latest spec: the cache may lag behind an edit that has brought it back.
//
// +kubebuilder:rbac:groups=platform.mainstay.dev,resources=appstacks,verbs=get;list;watch
func (k kind) Act(ctx context.Context, _, stack *platformv1.AppStack, _ appstack.Observed, decided *appstack.Decision) error {
	if !decided.Deletes(stack) {
		return nil
	}
	var latest platformv1.AppStack
	if err := k.live.Get(ctx, client.ObjectKeyFromObject(stack), &latest); err != nil {
		return fmt.Errorf("reading the latest spec before components are deleted: %w", err)
	}
	if latest.UID != stack.UID || latest.Generation != stack.Generation {
		return apierrors.NewConflict(schema.GroupResource{Resource: resource}, stack.Name, errors.New("its spec has changed meanwhile"))
	}
	return nil
}

// Desired is what should exist.
func (kind) Desired(stack *platformv1.AppStack, _ appstack.Observed, decided appstack.Decision) plan.Plan {
	return appstack.Desired(stack, decided)
}

// Released reports whether no component is left of a stack that is being deleted.
func (kind) Released(_ *platformv1.AppStack, _ appstack.Observed, decided appstack.Decision, _ plan.Result) bool {
	return appstack.Released(decided)
}

// Report sets the status.
func (k kind) Report(into, stack *platformv1.AppStack, observed appstack.Observed, decided appstack.Decision,
	result plan.Result) time.Duration {
	status := appstack.Status(stack, observed, decided, result)
	status.FirstReadyTime = into.Status.FirstReadyTime
	appstack.WaitingSince(status.Components, into.Status.Components, metav1.NewTime(k.clock.Now()).Rfc3339Copy())
	into.Status = status
	return 0
}
