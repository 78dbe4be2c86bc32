package appconfig

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/workload"
	"github.com/mainstay-platform/mainstay/test/golden"
)

// situation is one input of Desired.
type situation struct {
	changes []func(*configv1.AppConfigSpec)
	world   *world
}

func history(revisions int32) func(*configv1.AppConfigSpec) {
	return func(spec *configv1.AppConfigSpec) { spec.RevisionHistoryLimit = &revisions }
}

// situations returns all cases that testdata has a file for, by the file's name.
func situations() map[string]situation {
	type changes = []func(*configv1.AppConfigSpec)
	conflicting := newWorld()
	conflicting.Older = "shop-old"
	return map[string]situation{
		"first": {world: newWorld(), changes: changes{func(spec *configv1.AppConfigSpec) {
			spec.Environment = "prod"
			spec.Config = map[string]string{"HOST": "db", "URL": "http://{{ .Values.HOST }}/{{ .Environment }}"}
			spec.Files = map[string]string{"app.conf": "url = {{ .Values.URL }}\n"}
			spec.Environments = map[string]configv1.ConfigOverride{"production": {Config: map[string]string{"HOST": "db.prod"}},
				"dev": {Config: map[string]string{"HOST": "no"}}}
		}}},
		"settled":        {world: newWorld().keeps("hello").has(1, "hello")},
		"next":           {world: newWorld().keeps("a").has(1, "a").runs("x", "a", "", workload.UpToDate, 3), changes: changes{says("b")}},
		"waiting":        {world: newWorld().keeps("a").has(1, "a"), changes: changes{says("b"), manual("")}},
		"waiting-healed": {world: newWorld().keeps("a").has(1, "a").edited("x"), changes: changes{says("b"), manual("")}},
		"rolled-back": {
			world: newWorld().keeps("a", "b").has(2, "b", configv1.AnnotationLastGood, "1").runs("x", "b", "a", workload.Failed,
				1), changes: changes{says("b"), rollback},
		},
		"pruned": {
			// 7 is new, 6 is run, 5 was run, 4 and 3 are kept by the limit, 2 is pruned, 1 is good.
			world: newWorld().keeps("a", "b", "c", "d", "e", "f").has(6, "f", configv1.AnnotationLastGood, "1", configv1.AnnotationFailed,
				"2,3").runs("x", "f", "e", workload.Rolling, 1),
			changes: changes{says("g"), history(2)},
		},
		"no-history": {world: newWorld().keeps("a", "b", "c").has(3, "c"), changes: changes{says("d"), history(0)}},
		"back-without-history": {
			// 3 is pruned, and its number is not reused.
			world: newWorld().keeps("a", "b", "c").has(3, "c").runs("x", "c", "b", workload.UpToDate, 3), changes: changes{says("a"), history(0)},
		},
		"replaced": {
			// All pods run 2: those of 1 are gone.
			world:   newWorld().keeps("a", "b").has(2, "b", configv1.AnnotationLastGood, "1").runs("x", "b", "a", workload.UpToDate, 3),
			changes: changes{says("b"), history(0)},
		},
		"conflict": {world: conflicting},
		"bad-pinned": {
			world: newWorld().keeps("a", "b").has(2, "b"), changes: changes{says("{{ .Values.NO }}"), pinned(1)},
		},
		"bad": {world: newWorld().keeps("a").has(1, "a"), changes: changes{says("{{ .Values.NO }}")}},
	}
}

func (s situation) desired() plan.Plan {
	config := newConfig(s.changes...)
	return s.world.desired(config)
}

func TestDesired(t *testing.T) {
	var files []string
	for name, test := range situations() {
		t.Run(name, func(t *testing.T) {
			got := planText(t, test.desired())
			golden.Check(t, name+".yaml", []byte(got))
			for range 10 { // the order of Go's maps differs from run to run
				equal(t, got, planText(t, test.desired()))
			}
		})
		files = append(files, name+".yaml")
	}
	golden.CheckUnused(t, files)
}

// planText returns a plan as text, its children in their order.
func planText(t *testing.T, wanted plan.Plan) string {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "# hold: %t, keep: %s\n", wanted.Withhold, plan.Join(wanted.Keep))
	for _, child := range wanted.Children {
		content, err := yaml.Marshal(child.Object)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "---\n# %s, needs %s, retaken: %t\n%s", reflect.TypeOf(child.Object).Elem().Name(), plan.Join(child.Needs),
			child.ReclaimData, content)
	}
	return text.String()
}

// TestNumbersAreNotReused: without a history, a pruned content and a new one have different
// numbers.
func TestNumbersAreNotReused(t *testing.T) {
	back := newConfig(says("a"), history(0))
	went := newWorld().keeps("a", "b", "c").has(3, "c").desired(back)
	written := went.Children[len(went.Children)-1].Object.GetAnnotations()
	next := newConfig(says("d"), history(0))
	choice := Choose(next, newWorld().keeps("a").has(1, "a", configv1.AnnotationHighest, written[configv1.AnnotationHighest]).Observed)
	equal(t, 4, choice.Chosen)
}
