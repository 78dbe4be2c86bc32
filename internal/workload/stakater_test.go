package workload

import (
	"fmt"
	"strings"
	"testing"
)

// TestStakaterWork: an expression that costs all that one workload may do still matches. With one
// less, it does not, and that is a problem.
func TestStakaterWork(t *testing.T) {
	const key, expression, name = "configmap.reloader.stakater.com/reload", "fl.*", "flags"
	whole := newStakaterPatterns()
	if whole.left != 1<<20 {
		t.Errorf("%d may be done", whole.left)
	}
	if !whole.listed(key, expression, name) {
		t.Fatal("the expression matches nothing")
	}
	for left, want := range map[int]bool{1<<20 - whole.left: true, 1<<20 - whole.left - 1: false} {
		patterns := newStakaterPatterns()
		patterns.left = left
		if got := patterns.listed(key, expression, name); got != want || (patterns.problem == nil) != want {
			t.Errorf("with %d left it matches: %t, %v", left, got, patterns.problem)
		}
	}
	spent := newStakaterPatterns()
	spent.left = 0
	if !spent.listed(key, "app.conf,fl.gs", "fl.gs") || spent.problem != nil {
		t.Errorf("names are not taken literally: %v", spent.problem)
	}
}

// TestProblemsOfStakater: what is beyond a limit, or no expression, is named in one short sentence
// that is the same in every pass. The rest counts.
func TestProblemsOfStakater(t *testing.T) {
	const listed, excluded = "configmap.reloader.stakater.com/reload", "secrets.exclude.reloader.stakater.com/reload"
	names := func(count int) string {
		var all strings.Builder
		for i := range count {
			fmt.Fprintf(&all, "name-%d, ,", i)
		}
		return all.String()
	}
	uses := func(count int) map[SourceRef]Use {
		all := map[SourceRef]Use{{Secret, "db"}: {}, {ConfigMap, "flags"}: {}}
		for i := range count - len(all) {
			all[SourceRef{Secret, fmt.Sprintf("s%03d", i)}] = Use{}
		}
		return all
	}
	const literal = `counts only as a name, and not as a regular expression`
	for name, test := range map[string]struct {
		annotations map[string]string
		uses        int
		// demands is how many are left.
		demands int
		want    string
	}{
		"as many entries as count": {map[string]string{listed: names(249) + "fl.*"}, 2, 250, ""},
		"an entry too many":        {map[string]string{listed: names(250) + "fl.*"}, 2, 250, "[" + listed + "]: Too many: must have at most 250 entries: only the first"},
		"excluded, too many":       {map[string]string{stakaterAuto: "true", excluded: names(250) + "db"}, 2, 2, "[" + excluded + "]: Too many: must have at most 250 entries"},
		"as long as may be":        {map[string]string{listed: "fl.*|" + strings.Repeat("x", 989)}, 2, 1, ""},
		"a byte too long":          {map[string]string{listed: "fl.*|" + strings.Repeat("x", 990)}, 2, 0, literal},
		"too large":                {map[string]string{listed: `(aaaaaaaaaaa){1000},flags`}, 2, 1, "compiles to 13"},
		"too much work":            {map[string]string{listed: strings.Repeat(`((a|b){9}){90}c*,`, 100) + "fl.*"}, 2, 0, "cost too much together"},
		"no expression":            {map[string]string{listed: "*,flags"}, 2, 1, `Invalid value: "*": ` + literal},
		"sources that are used":    {map[string]string{stakaterAuto: "true"}, 251, 250, "the pods use 251 ConfigMaps and Secrets"},
		"as many as count":         {map[string]string{stakaterAuto: "true"}, 250, 250, ""},
	} {
		t.Run(name, func(t *testing.T) {
			target := web("web")
			target.Uses, target.Annotations = uses(test.uses), test.annotations
			got, err := OfStakater(&target, nil)
			if len(got) != test.demands || (err == nil) != (test.want == "") || !strings.Contains(fmt.Sprint(err), test.want) ||
				len(fmt.Sprint(err)) > 500 {
				t.Errorf("%d demands, %v", len(got), err)
			}
			for range 10 {
				if _, again := OfStakater(&target, nil); fmt.Sprint(again) != fmt.Sprint(err) {
					t.Fatalf("it says %v, and then %v", err, again)
				}
			}
		})
	}
}
