package reconciler

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/apply"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

// TestDeletionIsReported: an object that is being deleted says so, and what it waits for, whether
// we keep it or another client does. A second reconcile writes nothing.
func TestDeletionIsReported(t *testing.T) {
	degraded := conditions.True(conditions.Degraded, "CrashLoop", "it crashes")
	degraded.ObservedGeneration = 3
	for name, test := range map[string]struct {
		stored  *mspolicyv1.PlatformPolicy
		message string
	}{
		"in the foreground": {ending(metav1.FinalizerDeleteDependents),
			"it is being deleted, and waits for the finalizer foregroundDeletion (Kubernetes deletes its children first)"},
		"with orphans": {ending(metav1.FinalizerOrphanDependents),
			"it is being deleted, and waits for the finalizer orphan (Kubernetes detaches its children first)"},
		"others' finalizers": {ending(theirFinalizer, "a/1", "b/2", "c/3"),
			"it is being deleted, and waits for the finalizers example.com/theirs, a/1, b/2 and 1 more"},
		"our finalizer": {ending(ourFinalizer), ""},
	} {
		t.Run(name, func(t *testing.T) {
			test.stored.Generation, test.stored.Status.ObservedGeneration = 4, 3
			test.stored.Status.Phase, test.stored.Status.Conditions = "Active", []metav1.Condition{degraded}
			r := &Reconciler[*mspolicyv1.PlatformPolicy, struct{}, struct{}]{Kind: &lasting{}, Finalizer: ourFinalizer}
			now, again := reconcileTwice(t, r, test.stored)
			if now.Status.Phase != "Deleting" || now.ResourceVersion != again.ResourceVersion {
				t.Errorf("phase %q, then written again: %t", now.Status.Phase, now.ResourceVersion != again.ResourceVersion)
			}
			if test.message == "" {
				return
			}
			for _, kind := range []string{conditions.Ready, conditions.Progressing} {
				if found := condition(now, kind); found.Reason != "Deleting" || found.Message != test.message || found.ObservedGeneration != 4 {
					t.Errorf("%s: got %+v", kind, found)
				}
			}
			if found := condition(now, conditions.Degraded); found.Message != degraded.Message || found.ObservedGeneration != 3 {
				t.Errorf("Degraded: got %+v", found)
			}
			if now.Status.ObservedGeneration != 4 {
				t.Errorf("the status is of generation %d", now.Status.ObservedGeneration)
			}
		})
	}
}

func condition(object *mspolicyv1.PlatformPolicy, kind string) metav1.Condition {
	for _, one := range object.Status.Conditions {
		if one.Type == kind {
			return one
		}
	}
	return metav1.Condition{}
}

// reconcileTwice returns the object after the first and after the second reconcile.
func reconcileTwice(t *testing.T, r *Reconciler[*mspolicyv1.PlatformPolicy, struct{}, struct{}],
	stored *mspolicyv1.PlatformPolicy) (first, second *mspolicyv1.PlatformPolicy) {
	t.Helper()
	scheme := schemeOf(t, mspolicyv1.AddToScheme)
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&mspolicyv1.PlatformPolicy{}).WithObjects(stored).Build()
	r.Name, r.New, r.Client, r.Recorder = "simple", newObject, cluster, events.NewFakeRecorder(10)
	r.Applier = apply.New(cluster, children.Reader{Cached: cluster, Live: cluster, Scheme: scheme})
	r.Clock = clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	after := func() *mspolicyv1.PlatformPolicy {
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(stored)}); err != nil {
			t.Fatal(err)
		}
		now := newObject()
		if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(stored), now); err != nil {
			t.Fatal(err)
		}
		return now
	}
	return after(), after()
}
