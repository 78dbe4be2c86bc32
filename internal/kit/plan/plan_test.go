package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
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
