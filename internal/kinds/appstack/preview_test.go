package appstack

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestPreview: the summary counts every component once, and a sentence tells what becomes of each
// that does not stay as it is.
func TestPreview(t *testing.T) {
	before := newStack(web("db"), web("api", "db"), web("old"))
	db2 := one("db", "webApp", `{"image":"r.io/web:2"}`)
	taken := func(w world) {
		w.make(t, web("new"), "")
		ref := kinds[0].Ref("web", "shop-new")
		w.found[ref] = plan.Found{Object: w.found[ref].Object, Ownership: plan.Foreign}
	}
	adopted := func(w world) {
		taken(w)
		ref := kinds[0].Ref("web", "shop-new")
		w.found[ref] = plan.Found{Object: w.found[ref].Object, Ownership: plan.Consenting}
	}
	for name, test := range map[string]struct {
		spec   []platformv1.Component
		change func(w world)
		want   []string
	}{
		"everything at once": {[]platformv1.Component{db2, web("api", "db"), web("new"), web("front", "new")}, nil, []string{
			"4 components: 2 created, 1 changed, 1 deleted, 1 unchanged",
			"component db: WebApp shop-db is changed: spec.image",
			"component new: WebApp shop-new is created",
			"component front: WebApp shop-front is created once these are ready: new",
			"component old: WebApp shop-old is deleted"}},
		"a name is taken": {[]platformv1.Component{web("db"), web("api", "db"), web("old"), web("new")}, taken, []string{
			"4 components: 1 left alone, because their names are taken, 3 unchanged",
			"component new: WebApp shop-new exists and was not created by this AppStack: it is left alone"}},
		"one is adopted": {[]platformv1.Component{web("db"), web("api", "db"), web("old"), web("new")}, adopted, []string{
			"4 components: 1 adopted, 3 unchanged", "component new: WebApp shop-new is adopted"}},
		"only one is left": {[]platformv1.Component{web("db")}, nil, []string{"1 component: 2 deleted, 1 unchanged",
			"component api: WebApp shop-api is deleted", "component old: WebApp shop-old is deleted"}},
		"nothing": {before.Spec.Components, nil, []string{"no component is created, changed or deleted"}},
		"paused": {[]platformv1.Component{db2}, func(w world) { w.stack.Spec.Paused = true },
			[]string{"spec.paused is true: nothing is created, changed or deleted"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := world{newStack(test.spec...), plan.Children{}}
			for _, c := range before.Spec.Components {
				w.make(t, c, "")
			}
			if test.change != nil {
				test.change(w)
			}
			summary, sentences := Preview(w.stack, before, w.observed())
			if diff := cmp.Diff(test.want, append([]string{summary}, sentences...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
