package apply

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestPatchBrake: a patch that is undone again and again is written ten times at once, and then
// after pauses; other patches of the object, and other objects, are not slowed.
func TestPatchBrake(t *testing.T) {
	scheme := testRenderer(t).scheme
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "a", UID: "uid-a"}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "b", UID: "uid-b"}}).Build()
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	applier := New(c, children.Reader{Cached: c, Live: c, Scheme: scheme})
	applier.brake = newBrake(clock)
	write := func(patches ...plan.Patch) plan.Result {
		t.Helper()
		for i := range patches { // it says when it is written, and for which version
			patches[i].Merge = plan.Annotation("note", patches[i].Message+" "+clock.Now().Format(time.RFC3339))
		}
		result, failures := applier.Patch(t.Context(), "mainstay/test", patches,
			func(int, *metav1.PartialObjectMetadata, plan.Object) {})
		if len(failures) > 0 {
			t.Fatal(failures)
		}
		return result
	}
	for i := range freeReverts {
		if result := write(note("a", "")); len(result.Patched) != 1 || len(result.Contested) > 0 || result.SlowedFor != 0 {
			t.Fatalf("write %d: %+v", i+1, result)
		}
		clock.SetTime(clock.Now().Add(time.Second))
	}
	for _, pause := range []time.Duration{2 * time.Second, 4 * time.Second} {
		clock.SetTime(clock.Now().Add(time.Second))
		if pause == 2*time.Second { // the first pause has passed
			write(note("a", ""))
		}
		if result := write(note("a", "")); len(result.Patched) > 0 || result.SlowedFor <= 0 || result.SlowedFor > pause {
			t.Errorf("it is not slowed: %+v", result)
		}
		clock.SetTime(clock.Now().Add(pause))
		if result := write(note("a", "")); len(result.Patched) != 1 || len(result.Contested) != 1 || result.Contested[0].Ref.Name != "a" {
			t.Errorf("it is not told: %+v", result)
		}
	}
	other := note("a", "")
	other.Message = "another"
	result := write(note("a", ""), other, note("b", ""))
	if len(result.Patched) != 2 || len(result.Contested) > 0 || result.SlowedFor == 0 {
		t.Errorf("others are slowed too: %+v", result)
	}
	var stored appsv1.Deployment
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "web", Name: "b"}, &stored); err != nil || stored.Annotations["note"] == "" {
		t.Errorf("got %v, %v", stored.Annotations, err)
	}
}

// TestLastOther: the latest other manager of the object itself is named, if it wrote since we did.
// One that wrote before us is not, however lately: it may have nothing to do with our fields.
func TestLastOther(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	applier := &Applier{brake: newBrake(clocktesting.NewFakePassiveClock(now))}
	entry := func(manager, subresource string, ago time.Duration) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, Time: &metav1.Time{Time: now.Add(-ago)}}
	}
	const ours = "mainstay/test"
	for name, test := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    string
	}{
		"only others of long ago": {[]metav1.ManagedFieldsEntry{entry("kubectl", "", time.Hour), entry("controller", "status", 0)}, ""},
		"one before us":           {[]metav1.ManagedFieldsEntry{entry("kubectl", "", time.Minute), entry(ours, "", time.Second)}, ""},
		"one within our second":   {[]metav1.ManagedFieldsEntry{entry("fighter", "", 0), entry(ours, "", 0)}, "fighter"},
		"several since": {[]metav1.ManagedFieldsEntry{entry(ours, "", time.Hour), entry("kubectl", "", time.Minute),
			entry("fighter", "", time.Second)}, "fighter"},
		"another of ours":       {[]metav1.ManagedFieldsEntry{entry("mainstay/another", "", 0), entry(ours, "", 0)}, "mainstay/another"},
		"it has taken all over": {[]metav1.ManagedFieldsEntry{entry("kubectl", "", time.Hour), entry("fighter", "", time.Second)}, "fighter"},
	} {
		object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ManagedFields: test.entries}}
		if got := applier.lastOther(ours, object); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
