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
		standing Ownership
		want     bool
	}{
		"ours":       {Ours, true},
		"consenting": {Consenting, true},
		"foreign":    {Foreign, false},
		"former":     {Former, false},
	} {
		t.Run(name, func(t *testing.T) {
			object, ok := Children{ref: {Object: &corev1.Service{}, Ownership: test.standing}}.Get(ref)
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
	result := Result{Changes: []Change{{Ref: Ref{Kind: "Service"}, Operation: Updated}}}
	if !result.Changed("Service") || result.Changed("Deployment") || (Result{}).Changed("Service") {
		t.Error("a change is told of its own kind only")
	}
}
