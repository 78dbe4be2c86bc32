package platformpolicycontroller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/platformpolicy"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// byName indexes objects, which the field selector of the fake client needs.
func byName(object client.Object) []string { return []string{object.GetName()} }

// testAuditor returns an auditor of a cluster with a pod of a ReplicaSet and two others, the number
// of its requests, and what makes them fail.
func testAuditor() (*auditor, *clocktesting.FakeClock, *int, *error) {
	pod := func(name string, owners ...metav1.OwnerReference) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, OwnerReferences: owners}}
	}
	requests, failure := 0, error(nil)
	live := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).
		WithObjects(pod("of-web", metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", Controller: new(true)}),
			pod("a"), pod("b")).
		WithIndex(&corev1.Pod{}, "metadata.name", byName).WithIndex(&appsv1.ReplicaSet{}, "metadata.name", byName).
		WithIndex(&batchv1.Job{}, "metadata.name", byName).WithIndex(&corev1.ReplicationController{}, "metadata.name", byName).
		WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				requests++
				if failure != nil {
					return failure
				}
				return c.List(ctx, list, options...)
			},
		}).Build()
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	return &auditor{live: live, clock: clock}, clock, &requests, &failure
}

func setOf(stored mspolicyv1.PlatformPolicy) policy.Set {
	return policy.Set{Policies: []mspolicyv1.PlatformPolicy{stored}}
}

// TestAuditor: an audit is eight lists, and one for each object without a controller. It is
// repeated after ten minutes, or after a pause if policies or labels have changed.
func TestAuditor(t *testing.T) {
	auditor, clock, requests, failure := testAuditor()
	stored := mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base", Generation: 1}}
	stored.Spec.Workloads = mspolicyv1.WorkloadsAudit
	stored.Spec.Rules = []mspolicyv1.Rule{{Environment: "*", RequiredLabels: []string{"team"}}}
	observed := platformpolicy.Observed{Namespaces: map[string]map[string]string{"prod": nil}, Policies: setOf(stored)}
	check := func(about string, made int, next time.Duration) {
		t.Helper()
		before := *requests
		found, due, err := auditor.audit(t.Context(), observed)
		if err != nil {
			t.Fatal(about, err)
		}
		observed.Audit = found
		status := platformpolicy.Status(&stored, observed, plan.Result{})
		if got := fmt.Sprint(*requests-before, due, status.Objects, status.Violations); got != fmt.Sprint(made, next, 2, 2) {
			t.Errorf("%s: %s", about, got)
		}
	}
	check("the first time", 8+2, 10*time.Minute)
	clock.Step(4 * time.Minute)
	check("later", 0, 6*time.Minute)
	observed.Policies.Policies[0].Generation = 2
	check("a changed policy", 8+2, 10*time.Minute)
	observed.Namespaces["prod"] = map[string]string{"a": "b"}
	clock.Step(10 * time.Second)
	check("a changed label, too soon", 0, 20*time.Second)
	clock.Step(20 * time.Second)
	*failure = errors.New("too busy")
	check("a failure leaves what was known", 1, 30*time.Second)
	check("a failure is not repeated at once", 0, 30*time.Second)
	if status := platformpolicy.Status(&stored, observed, plan.Result{}); !meta.IsStatusConditionTrue(status.Conditions, "AuditIncomplete") {
		t.Errorf("the conditions are %v", status.Conditions)
	}
	*failure = nil
	clock.Step(30 * time.Second)
	check("a changed label", 8+2, 10*time.Minute)
	clock.Step(10 * time.Minute)
	check("after ten minutes", 8+2, 10*time.Minute)
}

// TestAuditorWithoutRights: the reconcile goes on when no audit has ever succeeded, and the status
// says why. One that has no time left ends.
func TestAuditorWithoutRights(t *testing.T) {
	auditor, _, _, failure := testAuditor()
	*failure = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no right"))
	found, due, err := auditor.audit(t.Context(), platformpolicy.Observed{})
	if err != nil || due != 30*time.Second {
		t.Fatal(due, err)
	}
	status := platformpolicy.Status(&mspolicyv1.PlatformPolicy{}, platformpolicy.Observed{Audit: found}, plan.Result{})
	condition := meta.FindStatusCondition(status.Conditions, mspolicyv1.ConditionAuditIncomplete)
	if condition == nil || !strings.Contains(condition.Message, "pods is forbidden: no right") {
		t.Errorf("the conditions are %v", status.Conditions)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	auditor.last = nil
	if _, _, err := auditor.audit(ended, platformpolicy.Observed{}); err == nil {
		t.Error("an audit without time succeeds")
	}
}

// TestAuditorWithTooMany: the first objects are read, and the status says that there are more.
func TestAuditorWithTooMany(t *testing.T) {
	made := make([]client.Object, maxAlone+1)
	for i := range made {
		made[i] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: fmt.Sprintf("p%04d", i)}}
	}
	live := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(made...).
		WithIndex(&corev1.Pod{}, "metadata.name", byName).Build()
	stored := mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base"}}
	stored.Spec.Workloads = mspolicyv1.WorkloadsAudit
	stored.Spec.Rules = []mspolicyv1.Rule{{Environment: "*", RequiredLabels: []string{"team"}}}
	observed := platformpolicy.Observed{Namespaces: map[string]map[string]string{"prod": nil}, Policies: setOf(stored)}
	auditor := &auditor{live: live, clock: clocktesting.NewFakeClock(time.Now())}
	var err error
	if observed.Audit, _, err = auditor.audit(t.Context(), observed); err != nil {
		t.Fatal(err)
	}
	status := platformpolicy.Status(&stored, observed, plan.Result{})
	condition := meta.FindStatusCondition(status.Conditions, mspolicyv1.ConditionAuditIncomplete)
	if status.Objects != maxAlone || condition == nil || condition.Reason != mspolicyv1.ReasonTooManyObjects {
		t.Errorf("%d objects, %v", status.Objects, condition)
	}
}
