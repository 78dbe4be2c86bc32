package render_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mainstay-platform/mainstay/internal/render"
)

// TestBudget: objects of one request render and check together what one may; those before the end
// of it, and all without a budget, are not affected.
func TestBudget(t *testing.T) {
	path := field.NewPath("spec")
	renders := func(budget *render.Budget) bool {
		config := map[string]string{"A": "{{ range 9000 }}" + strings.Repeat("{{ $a := upper `x` }}", 20) + "{{ end }}"}
		_, problems := render.Render(render.Input{Path: path, Values: templates("config", config),
			Texts: templates("files", nil), Budget: budget})
		return len(problems) == 0
	}
	checks := func(budget *render.Budget) bool {
		read, problem := render.ReadSchema([]byte(`{"properties":{"A":{"allOf":[`+strings.Repeat(`{"maxLength":2000000},`, 49)+`{}]}}}`),
			path.Child("schema"), budget)
		if problem != nil {
			return false
		}
		config := map[string]string{"A": strings.Repeat("x", 1<<20)}
		return len(read.Check(config, templates("config", config))) == 0
	}
	for name, does := range map[string]func(*render.Budget) bool{"renders": renders, "checks": checks} {
		budget, done := render.NewBudget(), 0
		for range 4 {
			if !does(nil) {
				t.Fatalf("%s: refused without a budget", name)
			}
			if does(budget) != !budget.IsSpent() {
				t.Errorf("%s: what the budget has stopped is not told from what is wrong", name)
			}
			if !budget.IsSpent() {
				done++
			}
		}
		if done < 1 || done > 3 {
			t.Errorf("%s: %d of 4 are within the budget of one", name, done)
		}
	}
	if render.BudgetOf(t.Context()) != nil || render.BudgetOf(render.WithBudget(t.Context())) == nil {
		t.Error("a context has a budget only if it was given one")
	}
}
