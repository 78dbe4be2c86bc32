package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-platform/mainstay/internal/kit/jsonpatch"
)

func TestRef(t *testing.T) {
	refs := []Ref{{Kind: "Deployment", Namespace: "web", Name: "shop"}, {Kind: "Namespace", Name: "web"}}
	if got := Join(refs); got != "Deployment web/shop, Namespace web" {
		t.Errorf("got %q", got)
	}
	if got := Join(nil); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestGet(t *testing.T) {
	ref := Ref{Kind: "Service", Namespace: "web", Name: "shop"}
	for name, test := range map[string]struct {
		ownership Ownership
		want      bool
	}{
		"ours":       {Ours, true},
		"consenting": {Consenting, true},
		"foreign":    {Foreign, false},
		"former":     {Former, false},
	} {
		t.Run(name, func(t *testing.T) {
			object, ok := Children{ref: {Object: &corev1.Service{}, Ownership: test.ownership}}.Get(ref)
			if ok != test.want || (object != nil) != test.want {
				t.Errorf("got %v, %t", object, ok)
			}
		})
	}
	if _, ok := (Children)(nil).Get(ref); ok {
		t.Error("nothing has something")
	}
	if (Found{}).Ownership != Foreign {
		t.Error("an object of which nothing is known must be taken for foreign")
	}
}

func TestChanged(t *testing.T) {
	one, other := Ref{Kind: "Service", Namespace: "web", Name: "shop"}, Ref{Kind: "Service", Namespace: "web", Name: "api"}
	elsewhere := Ref{Group: "example.com", Kind: "Service", Namespace: "web", Name: "shop"}
	result := Result{Changes: []Change{{Ref: one, Operation: Updated}, {Ref: other, Operation: Created}}}
	if !result.Changed(one) || !result.Changed(other) || result.Changed(elsewhere) || (Result{}).Changed(one) {
		t.Error("a change is reported of another object than the one that was written")
	}
	if result.Created(one) || !result.Created(other) || result.Created(elsewhere) {
		t.Error("an update is reported as a creation, or a creation is not reported")
	}
}

func TestBlocks(t *testing.T) {
	needed := Ref{Group: "apps", Kind: "Deployment", Namespace: "web", Name: "shop"}
	for name, test := range map[string]struct {
		result Result
		want   bool
	}{
		"nothing is in the way": {},
		"in conflict":           {result: Result{Conflicts: []Ref{needed}}, want: true},
		"being deleted":         {result: Result{Terminating: []Ref{needed}}, want: true},
		"waited for":            {result: Result{Waits: []Wait{{For: needed}}}, want: true},
		"another is waited for": {result: Result{Waits: []Wait{{For: Ref{Kind: "Deployment", Namespace: "web", Name: "shop"}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.result.Blocks([]Ref{needed}); got != test.want {
				t.Errorf("%t, want %t", got, test.want)
			}
		})
	}
}

// TestBody: what is sent is for one object, and for one version of it if the patch names it.
func TestBody(t *testing.T) {
	note := map[string]any{"metadata": map[string]any{"annotations": map[string]any{"note": nil}}, "spec": map[string]any{"replicas": 1}}
	change := []jsonpatch.Operation{{Op: "remove", Path: "/metadata/annotations/note"}}
	for name, test := range map[string]struct {
		patch Patch
		form  types.PatchType
		want  string
	}{
		"a merge patch": {Patch{UID: "1", Merge: note}, types.MergePatchType,
			`{"metadata":{"annotations":{"note":null},"uid":"1"},"spec":{"replicas":1}}`},
		"of a version": {Patch{UID: "1", Version: "7", Merge: note}, types.MergePatchType,
			`{"metadata":{"annotations":{"note":null},"resourceVersion":"7","uid":"1"},"spec":{"replicas":1}}`},
		"of nothing else": {Patch{UID: "1"}, types.MergePatchType, `{"metadata":{"uid":"1"}}`},
		"a JSON patch": {Patch{UID: "1", Operations: change}, types.JSONPatchType,
			`[{"op":"replace","path":"/metadata/uid","value":"1"},{"op":"remove","path":"/metadata/annotations/note"}]`},
		"a JSON patch of a version": {Patch{UID: "1", Version: "7", Operations: change}, types.JSONPatchType,
			`[{"op":"replace","path":"/metadata/uid","value":"1"},{"op":"replace","path":"/metadata/resourceVersion","value":"7"},` +
				`{"op":"remove","path":"/metadata/annotations/note"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // it does not change the patch
				if form, body, err := test.patch.Body(); err != nil || form != test.form || string(body) != test.want {
					t.Errorf("got %s %s, %v; want %s", form, body, err, test.want)
				}
			}
		})
	}
	if _, _, err := (Patch{Merge: note}).Body(); err == nil {
		t.Error("a patch for any object of the name is sent")
	}
}
