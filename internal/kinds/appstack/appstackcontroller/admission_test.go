package appstackcontroller

import (
	"slices"
	"testing"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/install/crds"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
)

// TestCheckSchema: what a schema refuses is reported, unless it was so before, or what was
// before can't be checked any more. All components of a request share one budget.
func TestCheckSchema(t *testing.T) {
	kind := component.Kind{Kind: msappsv1.GroupVersion.WithKind("WebApp")}
	app := func(port int32, arguments int) *msappsv1.WebApp {
		return &msappsv1.WebApp{Spec: msappsv1.WebAppSpec{Image: "a", Port: port, Args: slices.Repeat([]string{"x"}, arguments)}}
	}
	var spent crds.Budget
	if _, err := checkSchema(kind, app(80, 2900), nil, &spent); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		object, before *msappsv1.WebApp
		budget         *crds.Budget
		want           int
	}{
		"a new one":             {app(70000, 0), nil, &crds.Budget{}, 1},
		"a new defect":          {app(70000, 0), app(80, 0), &crds.Budget{}, 1},
		"an old defect":         {app(70000, 1), app(70000, 0), &crds.Budget{}, 0},
		"the former is too big": {app(70000, 0), app(70000, 3000), &crds.Budget{}, 0},
		"too little is left":    {app(70000, 200), nil, &spent, 0},
	} {
		var before component.Object
		if test.before != nil {
			before = test.before
		}
		problems, err := checkSchema(kind, test.object, before, test.budget)
		if err != nil || len(problems) != test.want {
			t.Errorf("%s: %v, %v", name, problems, err)
		}
	}
}
