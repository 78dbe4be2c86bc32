package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// note returns a patch that writes an annotation on a Deployment.
func note(name, reason string) plan.Patch {
	return plan.Patch{
		Ref: plan.Ref{Group: "apps", Kind: "Deployment", Namespace: "web",
			Name: name}, APIVersion: "apps/v1", UID: types.UID("uid-" + name), Reason: reason, Message: "it is noted",
		Merge: plan.Annotation("note", "1"),
	}
}

// patchWith applies a plan of patches to the Deployments a, b, c and d. answers has the API
// server's errors, by name. It returns the result, the written objects, the events and the error.
func patchWith(t *testing.T, answers map[string]error, wanted plan.Plan) (result plan.Result, written, recorded []string, err error) {
	t.Helper()
	scheme := testRenderer(t).scheme
	builder := fake.NewClientBuilder().WithScheme(scheme)
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		builder = builder.WithObjects(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name,
			UID: types.UID("uid-" + name)}})
	}
	c := builder.WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, under client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if err := answers[object.GetName()]; err != nil {
				return err
			}
			return under.Patch(ctx, object, patch, options...)
		},
	}).Build()
	recorder := events.NewFakeRecorder(10)
	applier := New(c, children.Reader{Cached: c, Live: c, Scheme: scheme})
	applier.Recorder = recorder
	result, err = applier.Apply(t.Context(), owner(), "mainstay/test", wanted, nil)
	for _, name := range names {
		var stored appsv1.Deployment
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "web", Name: name}, &stored); err != nil {
			t.Fatal(err)
		}
		if stored.Annotations["note"] == "1" {
			written = append(written, name)
		}
	}
	close(recorder.Events)
	for event := range recorder.Events {
		recorded = append(recorded, event)
	}
	return result, written, recorded, err
}

// TestPatches: each patch is attempted, whatever the results of the others.
func TestPatches(t *testing.T) {
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	patches := []plan.Patch{note("a", ""), note("b", "Noted"), note("c", ""), note("d", "Noted")}
	forbidden := apierrors.NewForbidden(deployments, "b", errors.New("not\nyou"))
	another := apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "a",
		field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), "x", "it is immutable")})
	for name, test := range map[string]struct {
		answers  map[string]error
		withhold bool
		written  []string
		recorded []string
		refused  map[plan.Ref]string
		// unwritten are the patches that are retried.
		unwritten map[plan.Ref]string
		// fails are the names in the error.
		fails []string
	}{
		"all succeed":    {written: []string{"a", "b", "c", "d"}, recorded: []string{"Normal Noted it is noted", "Normal Noted it is noted"}},
		"one is refused": {answers: map[string]error{"b": forbidden}, written: []string{"a", "c", "d"}, recorded: []string{"Normal Noted it is noted"}, refused: map[plan.Ref]string{patches[1].Ref: `deployments.apps "b" is forbidden: not you`}},
		"some fail": {
			answers: map[string]error{"a": errors.New("no route"), "c": errors.New("no host")}, written: []string{"b", "d"},
			recorded:  []string{"Normal Noted it is noted", "Normal Noted it is noted"},
			unwritten: map[plan.Ref]string{patches[0].Ref: "no route", patches[2].Ref: "no host"},
		},
		"the network is down": {
			answers: map[string]error{"a": errors.New("no route"), "b": errors.New("no route"), "c": errors.New("no host"),
				"d": errors.New("no host")},
			fails: []string{
				"patching Deployment web/a: no route", "patching Deployment web/b: no route", "patching Deployment web/c: no host",
				"patching Deployment web/d: no host",
			},
		},
		"one is gone": {answers: map[string]error{"d": apierrors.NewNotFound(deployments, "d")}, written: []string{"a", "b", "c"},
			recorded: []string{"Normal Noted it is noted"}},
		"one was replaced": {
			answers: map[string]error{"a": another}, written: []string{"b", "c", "d"}, recorded: []string{"Normal Noted it is noted",
				"Normal Noted it is noted"},
		},
		"the plan is withheld": {withhold: true},
	} {
		t.Run(name, func(t *testing.T) {
			result, written, recorded, err := patchWith(t, test.answers, plan.Plan{Patches: patches, Withhold: test.withhold})
			if diff := cmp.Diff(test.written, written); diff != "" {
				t.Error(diff)
			}
			var patched []string
			for _, ref := range result.Patched {
				patched = append(patched, ref.Name)
			}
			if diff := cmp.Diff(test.written, patched); diff != "" {
				t.Errorf("the result names others: %s", diff)
			}
			if diff := cmp.Diff(test.recorded, recorded); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.refused, result.Refused); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.unwritten, result.Unwritten); diff != "" {
				t.Error(diff)
			}
			if got := fmt.Sprint(err); (err != nil || len(test.fails) > 0) && got != strings.Join(test.fails, "\n") {
				t.Errorf("it returned %q", got)
			}
		})
	}
}

// TestEventsOfPatches: a patch whose IsDone returns false has no event. It is written all the same.
func TestEventsOfPatches(t *testing.T) {
	noted := func(is bool) func(plan.Object) bool {
		return func(written plan.Object) bool { return is == (written.GetAnnotations()["note"] == "1") }
	}
	come, missing := note("a", "Come"), note("b", "Missing")
	come.IsDone, missing.IsDone = noted(true), noted(false)
	_, written, recorded, err := patchWith(t, nil, plan.Plan{Patches: []plan.Patch{come, missing}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b"}, written); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"Normal Come it is noted"}, recorded); diff != "" {
		t.Error(diff)
	}
}

// TestPatchesOfAnUnknownKind: such a patch is not written, because it could not be awaited.
func TestPatchesOfAnUnknownKind(t *testing.T) {
	patch := note("a", "")
	patch.APIVersion = "example.com/v1"
	if _, written, _, err := patchWith(t, nil, plan.Plan{Patches: []plan.Patch{patch}}); err == nil || len(written) > 0 {
		t.Errorf("it is written: %q, %v", written, err)
	}
}

// TestPatchesThatTheCacheLacks: a patch that the cache does not show in time was written. Its event
// is recorded, unless it depends on the object.
func TestPatchesThatTheCacheLacks(t *testing.T) {
	scheme := testRenderer(t).scheme
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "a", UID: "uid-a"}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "b", UID: "uid-b"}}).Build()
	applier := New(c, children.Reader{Cached: fake.NewClientBuilder().WithScheme(scheme).Build(), Live: c, Scheme: scheme})
	recorder := events.NewFakeRecorder(10)
	applier.Recorder = recorder
	patches := []plan.Patch{note("a", "Noted"), note("b", "Noted")}
	patches[1].IsDone = func(plan.Object) bool { return true }
	result, err := applier.Apply(t.Context(), owner(), "mainstay/test", plan.Plan{Patches: patches}, nil)
	if err != nil || len(result.Patched) != 2 || len(result.Unwritten) != 2 {
		t.Errorf("got %+v, %v", result, err)
	}
	if len(recorder.Events) != 1 {
		t.Errorf("%d events were recorded", len(recorder.Events))
	}
}

// TestPatchesAfterChildren: a refused child blocks the patches.
func TestPatchesAfterChildren(t *testing.T) {
	scheme := testRenderer(t).scheme
	var tried []string
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "a",
		UID: "uid-a"}}).
		WithInterceptorFuncs(interceptor.Funcs{
			Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
				tried = append(tried, "child")
				return apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, "shop", nil)
			},
			Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				tried = append(tried, "patch")
				return nil
			},
		}).Build()
	wanted := plan.Plan{Children: []plan.Child{{Object: deployment()}}, Patches: []plan.Patch{note("a", "")}}
	found := plan.Children{{Kind: "Deployment", Namespace: "web", Name: "shop"}: {Ownership: plan.Absent}}
	if _, err := New(c, children.Reader{Cached: c, Live: c, Scheme: scheme}).Apply(t.Context(), owner(), "mainstay/test", wanted,
		found); err == nil {
		t.Error("the refusal is not returned")
	}
	if diff := cmp.Diff([]string{"child"}, tried); diff != "" {
		t.Error(diff)
	}
}
