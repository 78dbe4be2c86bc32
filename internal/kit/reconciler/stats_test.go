package reconciler

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

func TestPassResult(t *testing.T) {
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	ending := apierrors.NewForbidden(deployments, "web", errors.New("the namespace is being deleted"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	deployment := plan.Ref{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	written := plan.Result{Changes: []plan.Change{{Ref: deployment, Operation: plan.Updated}}}
	for name, test := range map[string]struct {
		result            plan.Result
		applied, returned error
		want              metrics.Result
	}{
		"nothing to do":                    {plan.Result{}, nil, nil, metrics.Unchanged},
		"written":                          {written, nil, nil, metrics.Changed},
		"a spec that can't be carried out": {plan.Result{}, errclass.InvalidSpecError{Err: errors.New("no")}, nil, metrics.Terminal},
		"against a policy, and reported":   {written, errclass.PolicyError{Violations: "no"}, nil, metrics.Terminal},
		"refused":                          {written, apierrors.NewForbidden(deployments, "web", errors.New("quota")), nil, metrics.Blocked},
		"a patch is refused": {plan.Result{Patched: []plan.Ref{deployment}, Refused: map[plan.Ref]string{deployment: "no"}}, nil,
			nil, metrics.Blocked},
		"a patch fails, others succeed": {plan.Result{Patched: []plan.Ref{deployment},
			Unwritten: map[plan.Ref]string{deployment: "no route"}}, nil, nil, metrics.Transient},
		"a patch succeeds": {plan.Result{Patched: []plan.Ref{deployment}}, nil, nil, metrics.Changed},
		"no network":       {plan.Result{}, nil, errors.New("no route"), metrics.Transient},
		"refused, and then the status fails": {plan.Result{}, apierrors.NewForbidden(deployments, "web", errors.New("quota")),
			errors.New("no route"), metrics.Transient},
		"another client wrote in between": {plan.Result{}, nil, fmt.Errorf("status: %w", apierrors.NewConflict(deployments, "web", nil)),
			metrics.Conflict},
		"the namespace is terminating": {plan.Result{}, ending, ending, metrics.Stopped},
		"this process is stopping":     {plan.Result{}, nil, fmt.Errorf("reading: %w", context.Canceled), metrics.Stopped},
	} {
		t.Run(name, func(t *testing.T) {
			done := &stats{}
			done.applied(test.result, test.applied)
			done.returned(test.returned)
			if got := done.result(); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
	if got := new(stats).result(); got != metrics.Panicked {
		t.Errorf("a reconcile that never returned is %s", got)
	}
}

// TestFirstReady: it is set once, and never changes.
func TestFirstReady(t *testing.T) {
	at := func(seconds int64) *metav1.Time { return new(metav1.NewTime(time.Unix(seconds, 0))) }
	ready := func(status metav1.ConditionStatus, since int64) []metav1.Condition {
		if status == "" {
			return nil
		}
		return []metav1.Condition{{Type: "Ready", Status: status, LastTransitionTime: *at(since)}}
	}
	for name, test := range map[string]struct {
		before, after metav1.ConditionStatus
		known, want   *metav1.Time
	}{
		"new, not ready":                 {"", "False", nil, nil},
		"new, ready at once":             {"", "True", nil, at(100)},
		"ready for the first time":       {"False", "True", nil, at(100)},
		"known after all":                {"Unknown", "True", nil, at(100)},
		"no longer ready":                {"True", "False", at(50), at(50)},
		"ready again":                    {"False", "True", at(50), at(50)},
		"without a record, still ready":  {"True", "True", nil, nil},
		"without a record, and it ended": {"True", "Unknown", nil, at(10)},
	} {
		t.Run(name, func(t *testing.T) {
			stored := &msappsv1.WebApp{Status: msappsv1.WebAppStatus{Conditions: ready(test.before, 10), FirstReadyTime: test.known}}
			if got := firstReady(stored, ready(test.after, 100), *at(100)); !got.Equal(test.want) {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}
