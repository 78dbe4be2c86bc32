package apply

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestBrake: the same values are written ten times at once, and then after pauses of up to a
// minute. Other values, other children, and five quiet minutes are free again.
func TestBrake(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	pass := func(by time.Duration) { clock.SetTime(clock.Now().Add(by)) }
	brake := newBrake(clock)
	child, other := plan.Ref{Kind: "Service", Name: "shop"}, plan.Ref{Kind: "Service", Name: "web"}
	for i := range freeReverts {
		if pause := brake.pause(child, "a"); pause != 0 || put(brake, child) {
			t.Fatalf("write %d waits for %s", i+1, pause)
		}
	}
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		if pause := brake.pause(child, "a"); pause != want*time.Second {
			t.Errorf("the pause is %s, want %s", pause, want*time.Second)
		}
		pass(want * time.Second)
		if pause := brake.pause(child, "a"); pause != 0 || !put(brake, child) {
			t.Errorf("after it the pause is %s", pause)
		}
	}
	if brake.pause(child, "b") != 0 || brake.pause(other, "a") != 0 {
		t.Error("other values or another child wait too")
	}
	pass(forgetAfter + time.Second)
	if brake.pause(child, "a") != 0 {
		t.Error("it is never forgotten")
	}
}

// put writes the values a, and reports whether that was slowed.
func put(brake *brake, child plan.Ref) bool {
	slowed, _ := brake.written(child, "a", "", false)
	return slowed
}

// TestBrakeOfDeletions: a child that someone else deletes again and again is created ten times
// more, and then after pauses. Until then the result names it, and what needs it waits.
func TestBrakeOfDeletions(t *testing.T) {
	scheme := testRenderer(t).scheme
	c := fake.NewClientBuilder().WithScheme(scheme).Build()
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	reader := children.Reader{Cached: c, Live: c, Scheme: scheme}
	applier := New(c, reader)
	applier.brake = newBrake(clock)
	named := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name}}
	}
	ref := plan.Ref{Kind: "ConfigMap", Namespace: "web", Name: "shop"}
	run := func() plan.Result {
		t.Helper()
		found, err := reader.Find(t.Context(), owner(), named("shop"), named("needs"))
		if err != nil {
			t.Fatal(err)
		}
		wanted := plan.Plan{Children: []plan.Child{{Object: named("shop")}, {Object: named("needs"), Needs: []plan.Ref{ref}}}}
		result, err := applier.Apply(t.Context(), owner(), "mainstay/test", wanted, found)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	gone := func(names ...string) {
		t.Helper()
		for _, name := range names {
			if err := c.Delete(t.Context(), named(name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 1 + freeReverts {
		if result := run(); !result.Created(ref) || len(result.SlowedChildren)+len(result.Contested) > 0 {
			t.Fatalf("creation %d: %+v", i+1, result)
		}
		gone("shop")
	}
	gone("needs")
	result := run()
	told := plan.Contest{Ref: ref, IsDeletion: true}
	if len(result.Changes) > 0 || !slices.Equal(result.SlowedChildren, []plan.Contest{told}) || result.SlowedFor != time.Second {
		t.Errorf("it does not wait: %+v", result)
	}
	clock.SetTime(clock.Now().Add(time.Second))
	result = run()
	if len(result.Changes) != 2 || !slices.Contains(result.Contested, told) || !slices.Contains(result.SlowedChildren, told) {
		t.Errorf("it is not created again, or not told: %+v", result)
	}
}
