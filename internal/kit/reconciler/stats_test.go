package reconciler

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/trace"
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

// TestTheLogCounts: the lines at the start and at the end of a reconcile have what the status
// counted before, and counts now. They are there at level 1 only (see TestReconcileRecords).
func TestTheLogCounts(t *testing.T) {
	before := &msappsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Generation: 7, ResourceVersion: "41"},
		Status: msappsv1.WebAppStatus{Phase: "Deploying", ReplicaSummary: "1/3", ReadyReplicas: 1}}
	after := &msappsv1.WebApp{Status: msappsv1.WebAppStatus{Phase: "Running", ReplicaSummary: "3/3", ReadyReplicas: 3}}
	var lines []string
	logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{Verbosity: 1})
	ctx := ctrl.LoggerInto(t.Context(), logger)
	cluster := fake.NewClientBuilder().Build()
	r := &Reconciler[*msappsv1.WebApp, struct{}, struct{}]{Name: "webapp", Client: cluster,
		Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0))}
	done := r.begin(ctx, before, trace.Span{})
	done.reported = after
	done.returned(nil)
	done.end(ctx)
	want := []string{
		`"level"=1 "msg"="Reconciling" "generation"=7 "resourceVersion"="41" "phase"="Deploying" "desired"=3 "ready"=1`,
		`"level"=1 "msg"="Reconciled" "generation"=7 "resourceVersion"="41" "phase"="Running" "desired"=3 "ready"=3 ` +
			`"duration"="0s" "result"="unchanged"`,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
}

// TestCounts: what each kind counts.
func TestCounts(t *testing.T) {
	instrumented := instrv1.InstrumentationStatus{Matched: 4, Injected: 3}
	running := msappsv1.WebAppStatus{ReplicaSummary: "2/10", ReadyReplicas: 2}
	for name, test := range map[string]struct {
		object Counting
		want   [2]int32
	}{
		"WebApp":                      {&msappsv1.WebApp{Status: running}, [2]int32{10, 2}},
		"WebApp without a Deployment": {&msappsv1.WebApp{}, [2]int32{0, 0}},
		"AppConfig":                   {&configv1.AppConfig{Status: configv1.AppConfigStatus{Pods: 5, UpdatedPods: 4}}, [2]int32{5, 4}},
		"ConfigMonitor":               {&configv1.ConfigMonitor{Status: configv1.ConfigMonitorStatus{Matched: 3, UpToDate: 1}}, [2]int32{3, 1}},
		"Instrumentation":             {&instrv1.Instrumentation{Status: instrumented}, [2]int32{4, 3}},
		"ClusterInstrumentation":      {&instrv1.ClusterInstrumentation{Status: instrumented}, [2]int32{4, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			if desired, ready := test.object.GetCounts(); [2]int32{desired, ready} != test.want {
				t.Errorf("%d desired, %d ready", desired, ready)
			}
		})
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
