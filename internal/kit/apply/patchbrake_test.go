package apply

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/jsonpatch"
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
		result := write(note("a", ""))
		if len(result.Patched) > 0 || result.Slowed[note("a", "").Ref] == "" || result.SlowedFor <= 0 || result.SlowedFor > pause {
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

// TestPatchBrakeOfToggledContent: content that changes with each write is nobody's undoing.
func TestPatchBrakeOfToggledContent(t *testing.T) {
	scheme := testRenderer(t).scheme
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "a", UID: "uid-a"}}).Build()
	applier := New(c, children.Reader{Cached: c, Live: c, Scheme: scheme})
	patch := note("a", "")
	for i := range 4 * freeReverts {
		patch.Merge = plan.Annotation("note", []string{"on", "off"}[i%2])
		result, failures := applier.Patch(t.Context(), "mainstay/test", []plan.Patch{patch},
			func(int, *metav1.PartialObjectMetadata, plan.Object) {})
		if len(failures) > 0 || len(result.Patched) != 1 || len(result.Contested) > 0 {
			t.Fatalf("write %d: %+v, %v", i+1, result, failures)
		}
	}
}

// TestPatchBrakeOfNoChange: a patch that changes nothing, such as a retry of our own, does not
// count, however often it is sent.
func TestPatchBrakeOfNoChange(t *testing.T) {
	scheme := testRenderer(t).scheme
	stored := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "a", UID: "uid-a"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(stored).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, under client.WithWatch, object client.Object, _ client.Patch, _ ...client.PatchOption) error {
			var now appsv1.Deployment
			err := under.Get(ctx, client.ObjectKeyFromObject(object), &now)
			object.SetResourceVersion(now.ResourceVersion)
			return err
		},
	}).Build()
	applier := New(c, children.Reader{Cached: c, Live: c, Scheme: scheme})
	for i := range 2 * freeReverts {
		result, failures := applier.Patch(t.Context(), "mainstay/test", []plan.Patch{note("a", "")},
			func(int, *metav1.PartialObjectMetadata, plan.Object) {})
		if len(failures) > 0 || len(result.Patched) != 1 || len(result.Contested) > 0 || result.SlowedFor != 0 {
			t.Fatalf("write %d: %+v, %v", i+1, result, failures)
		}
	}
}

// TestKeyOf: patches of the same fields have the same key, and of the same content the same hash.
func TestKeyOf(t *testing.T) {
	one := plan.Patch{UID: "a", Merge: plan.Annotation("a/b", "1")}
	merge := func(content map[string]any) plan.Patch { return plan.Patch{UID: "a", Merge: content} }
	purpose := func(of, value string) plan.Patch {
		return plan.Patch{UID: "a", Merge: plan.Annotation("a", value), Purpose: of}
	}
	operations := func(path, value string) plan.Patch {
		return plan.Patch{UID: "a", Operations: []jsonpatch.Operation{{Op: "add", Path: path, Value: value}}}
	}
	for name, test := range map[string]struct {
		a, b               plan.Patch
		sameKey, sameValue bool
	}{
		"the same":        {one, one, true, true},
		"another version": {one, plan.Patch{UID: "a", Version: "7", Merge: one.Merge}, true, true},
		"another time": {merge(plan.Annotation("a", "2026-01-01T00:00:00Z")),
			merge(plan.Annotation("a", "2026-01-02T00:00:00Z")), true, true},
		"another content":      {one, merge(plan.Annotation("a/b", nil)), true, false},
		"another field":        {one, merge(plan.Annotation("a/c", "1")), false, false},
		"a slash in a name":    {one, merge(plan.Annotation("a", map[string]any{"b": "1"})), false, false},
		"another object":       {one, plan.Patch{UID: "b", Merge: one.Merge}, false, false},
		"the same purpose":     {purpose("3", "3"), purpose("3", "3+"), true, true},
		"another purpose":      {purpose("3", "3"), purpose("4", "3"), true, false},
		"another value at":     {operations("/a", "1"), operations("/a", "2"), true, false},
		"operations elsewhere": {operations("/a", "1"), operations("/b", "1"), false, false},
	} {
		key, hash, err := keyOf(test.a)
		another, other, err2 := keyOf(test.b)
		if err != nil || err2 != nil || (key == another) != test.sameKey || (hash == other) != test.sameValue {
			t.Errorf("%s: keys %v and %v, hashes %s and %s, errors %v and %v", name, key, another, hash, other, err, err2)
		}
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
