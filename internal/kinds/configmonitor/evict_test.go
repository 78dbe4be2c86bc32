package configmonitor_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/configmonitor"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/workload"
	"github.com/mainstay-platform/mainstay/test/fuzz"
)

func evicting(s *configv1.ConfigMonitorSpec) { s.Strategy = configv1.StrategyEvict }

// recorded returns the record of a content for which everything was done long ago.
func recorded(source workload.Source, change ...func(*configmonitor.Record)) configmonitor.Record {
	made := configmonitor.DecideEvictions(&monitor(evicting).Spec, source, configmonitor.Record{}, []corev1.Pod{pod("old", noon)}, noon).Record
	for _, apply := range change {
		apply(&made)
	}
	return made
}

func beganAt(at time.Time) func(*configmonitor.Record) {
	return func(r *configmonitor.Record) { r.Began, r.Streak, r.Done = &at, 1, false }
}

// summary returns a decision in a few words: which pods are evicted, which are skipped and why, and
// the requeue time.
func summary(e configmonitor.Evictions) string {
	var parts []string
	for _, victim := range e.Evict {
		parts = append(parts, "evict "+victim.Name)
	}
	for _, skipped := range e.Skipped {
		parts = append(parts, skipped.Name+" "+skipped.Reason)
	}
	if e.Record.Done {
		parts = append(parts, "done")
	}
	if e.RequeueAfter > 0 {
		parts = append(parts, e.RequeueAfter.String())
	}
	return strings.Join(parts, ", ")
}

// evictionCase is one decision, at noon.
type evictionCase struct {
	change func(*configv1.ConfigMonitorSpec)
	source workload.Source
	record configmonitor.Record
	pods   []corev1.Pod
	want   string
}

// The source's content before and after a change, and pods from before and after it.
var (
	red, blue     = flags("red", ago(time.Hour)), flags("blue", ago(time.Minute))
	before, after = ago(10 * time.Minute), ago(10 * time.Second)
)

func (c evictionCase) check(t *testing.T) {
	t.Helper()
	changes := []func(*configv1.ConfigMonitorSpec){evicting}
	if c.change != nil {
		changes = append(changes, c.change)
	}
	got := configmonitor.DecideEvictions(&monitor(changes...).Spec, c.source, c.record, c.pods, noon)
	if summary(got) != c.want {
		t.Errorf("got %q, want %q", summary(got), c.want)
	}
}

// TestEvictionsBegun: which content evictions are for.
func TestEvictionsBegun(t *testing.T) {
	for name, test := range map[string]evictionCase{
		"first, all are younger": {source: blue, pods: []corev1.Pod{pod("a", after)}, want: "done"},
		"first, one is older":    {source: blue, pods: []corev1.Pod{pod("a", before), pod("b", after)}, want: "evict a, 2s"},
		"first, in one second":   {source: blue, pods: []corev1.Pod{pod("a", ago(time.Minute))}, want: "done"},
		"first, the window is closed": {
			change: func(s *configv1.ConfigMonitorSpec) { s.Window = &rolloutv1.Window{Start: "22:00", End: "23:00"} },
			source: blue, pods: []corev1.Pod{pod("a", before)}, want: "Pod/a OutsideWindow, 10h0m0s",
		},
		"no pod is selected": {source: blue, want: "1m0s"},

		"changed": {source: blue, record: recorded(red), pods: []corev1.Pod{pod("a", before), pod("b", after)},
			want: "evict a, 2s"},
		"changed, in one second": {source: blue, record: recorded(red), pods: []corev1.Pod{pod("a", ago(time.Minute))},
			want: "evict a, 2s"},
		"changed, all are younger": {source: blue, record: recorded(red), pods: []corev1.Pod{pod("b", after)}, want: "done"},
		"changed without a later time": {source: flags("blue", ago(time.Hour)), record: recorded(red),
			pods: []corev1.Pod{pod("a", before), pod("b", after)}, want: "evict a, evict b, 2s"},
		"changed within the cooldown": {source: blue, record: recorded(red, beganAt(ago(10*time.Second))), pods: []corev1.Pod{pod("a", before)},
			want: "Pod/a Cooldown, 20s"},
		"changed after the cooldown": {source: blue, record: recorded(red, beganAt(ago(31*time.Second))), pods: []corev1.Pod{pod("a", before)},
			want: "evict a, 2s"},
		"changed in vain": {source: blue, record: recorded(red, beganAt(ago(10*time.Second))), pods: []corev1.Pod{pod("a", after)},
			want: "done"},
		"changed and changed back": {source: flags("red", ago(time.Second)), record: recorded(red), pods: []corev1.Pod{pod("a", before)},
			want: "done"},
		"a Secret's key was lost": {source: keyed(blue, "new"), record: recorded(keyed(red, "old")),
			pods: []corev1.Pod{pod("a", before), pod("b", after)}, want: "evict a, 2s"},
		"something else is watched now": {change: func(s *configv1.ConfigMonitorSpec) { s.Keys = []string{"COLOUR"} }, source: red,
			record: recorded(red), pods: []corev1.Pod{pod("a", before)}, want: "done"},
		"changed within the debounce": {
			change: func(s *configv1.ConfigMonitorSpec) { s.Debounce = seconds(60) },
			source: blue, record: recorded(red, beganAt(ago(45*time.Second))), pods: []corev1.Pod{pod("a", before)}, want: "Pod/a Debounce, 15s",
		},

		"a key that does not matter changed": {
			change: func(s *configv1.ConfigMonitorSpec) { s.Keys = []string{"COLOUR"} },
			source: with(red, "NOISE", "2"), record: keysRecorded(with(red, "NOISE", "1")), pods: []corev1.Pod{pod("a", before)}, want: "done",
		},
		"a key that matters came": {
			change: func(s *configv1.ConfigMonitorSpec) { s.Keys = []string{"COLOUR"} },
			source: blue, record: keysRecorded(workload.Source{Ref: red.Ref, State: workload.Present,
				Changed: ago(time.Hour)}), pods: []corev1.Pod{pod("a", before)}, want: "evict a, 2s",
		},
	} {
		t.Run(name, test.check)
	}
}

// TestEvictionsLimited: how many are evicted at a time.
func TestEvictionsLimited(t *testing.T) {
	for name, test := range map[string]evictionCase{
		"one at a time": {change: limited(1), source: blue,
			pods: []corev1.Pod{pod("a", before), pod("b", before),
				pod("c", before, unready)}, want: "evict c, Pod/a WaitingForOthers, Pod/b WaitingForOthers, 2s"},
		"one that terminates counts": {change: limited(2), source: blue, record: under(blue, 3),
			pods: []corev1.Pod{pod("a", before, terminating), pod("b", before), pod("c", before)}, want: "evict b, Pod/c WaitingForOthers, 2s"},
		"its replacement counts once": {change: limited(2), source: blue, record: under(blue, 3),
			pods: []corev1.Pod{pod("a", before, terminating), pod("d", after, unready), pod("b", before),
				pod("c", before)}, want: "evict b, Pod/c WaitingForOthers, 2s"},
		"one that is missing counts": {change: limited(1), source: blue, record: under(blue, 3),
			pods: []corev1.Pod{pod("b", before), pod("c", before)}, want: "Pod/b WaitingForOthers, Pod/c WaitingForOthers, 2s"},
		"but not for ever": {change: limited(1), source: blue,
			record: under(blue, 3, beganAt(ago(time.Minute)), func(r *configmonitor.Record) { r.At = new(ago(30 * time.Second)) }),
			pods:   []corev1.Pod{pod("b", before), pod("c", before)}, want: "evict b, Pod/c WaitingForOthers, 2s"},
		"one that is missing counts, although its eviction was not recorded": {change: limited(1), source: blue,
			record: recorded(blue, beganAt(ago(5*time.Second)), func(r *configmonitor.Record) { r.Pods = 3 }),
			pods:   []corev1.Pod{pod("b", before), pod("c", before)}, want: "Pod/b WaitingForOthers, Pod/c WaitingForOthers, 2s"},
		"the next after it has come": {change: limited(1), source: blue, record: under(blue, 3),
			pods: []corev1.Pod{pod("d", after), pod("b", before), pod("c", before)}, want: "evict b, Pod/c WaitingForOthers, 2s"},
		"the last is not ready":        {source: blue, record: under(blue, 1), pods: []corev1.Pod{pod("d", after, unready)}, want: "2s"},
		"the last is ready":            {source: blue, record: under(blue, 1), pods: []corev1.Pod{pod("d", after)}, want: "done"},
		"the window closes on the way": {change: func(s *configv1.ConfigMonitorSpec) { s.Window = &rolloutv1.Window{Start: "11:00", End: "11:59"} }, source: blue, record: under(blue, 2), pods: []corev1.Pod{pod("b", before), pod("d", after)}, want: "Pod/b OutsideWindow, 23h0m0s"},
		"none comes up, the rest is held": {change: limited(1), source: blue, record: hanging(blue, 3),
			pods: []corev1.Pod{pod("d", after, unready), pod("b", before)}, want: "Pod/b WaitingForOthers, 1m0s"},
		"none comes up, but another may go": {change: limited(2), source: blue, record: hanging(blue, 3),
			pods: []corev1.Pod{pod("d", after, unready), pod("b", before)}, want: "evict b, 2s"},
		"one does not end": {change: limited(1), source: blue, record: hanging(blue, 3),
			pods: []corev1.Pod{pod("a", before, terminating), pod("b", before),
				pod("c", before)}, want: "Pod/b WaitingForOthers, Pod/c WaitingForOthers, 1m0s"},
		"not twice in one second": {source: blue, record: under(blue, 1), pods: []corev1.Pod{pod("again", ago(time.Minute))},
			want: "done"},
	} {
		t.Run(name, test.check)
	}
}

// TestEvictionsInTurns: if there are more pods than are tried in one pass, each is among the first
// of some pass. Those that are not ready stay before the others.
func TestEvictionsInTurns(t *testing.T) {
	spec := monitor(evicting, limited(1)).Spec
	all := []corev1.Pod{pod("z", before, unready)}
	for i := range 30 {
		all = append(all, pod(fmt.Sprintf("web-%02d", i), before))
	}
	order := func(after time.Duration, all []corev1.Pod) (names []string) {
		e := configmonitor.DecideEvictions(&spec, blue, configmonitor.Record{}, all, noon.Add(after))
		for _, victim := range slices.Concat(e.Evict, e.Instead) {
			names = append(names, victim.Name)
		}
		return names
	}
	tried := map[string]bool{}
	for pass := range 4 {
		names := order(time.Duration(pass)*10*time.Second, all)
		if len(names) != len(all) || names[0] != "z" {
			t.Errorf("pass %d tries %v", pass, names)
		}
		for _, name := range names[:configmonitor.MaxFailed] {
			tried[name] = true
		}
		if diff := cmp.Diff(names, order(time.Duration(pass)*10*time.Second+9*time.Second, all)); diff != "" {
			t.Errorf("pass %d, nine seconds later: %s", pass, diff)
		}
	}
	if len(tried) != len(all) {
		t.Errorf("only %d pods are tried: %v", len(tried), tried)
	}
	if names := order(10*time.Second, all[1:11]); !slices.IsSorted(names) {
		t.Errorf("few pods are tried in the order %v", names)
	}
}

// TestEvictionsOfManyUnready: pods that are not ready come first, but however many they are, each
// ready pod is among the first of some pass, too.
func TestEvictionsOfManyUnready(t *testing.T) {
	var all []corev1.Pod
	for i := range 12 {
		all = append(all, pod(fmt.Sprintf("broken-%02d", i), before, unready))
	}
	for i := range 5 {
		all = append(all, pod(fmt.Sprintf("web-%02d", i), before))
	}
	for name, test := range map[string]struct {
		change func(*configv1.ConfigMonitorSpec)
		// first is how many that are not ready come first.
		first int
	}{
		"all at once":      {func(*configv1.ConfigMonitorSpec) {}, 5},
		"one at a time":    {limited(1), 5},
		"eight at a time":  {limited(8), 8},
		"twenty at a time": {limited(20), 9},
	} {
		t.Run(name, func(t *testing.T) {
			spec := monitor(evicting, test.change).Spec
			tried := map[string]bool{}
			for pass := range 5 {
				e := configmonitor.DecideEvictions(&spec, blue, configmonitor.Record{}, all, noon.Add(time.Duration(pass)*10*time.Second))
				victims := slices.Concat(e.Evict, e.Instead)
				first := slices.IndexFunc(victims, func(v configmonitor.Victim) bool { return strings.HasPrefix(v.Name, "web-") })
				if len(victims) != len(all) || first != test.first {
					t.Fatalf("pass %d tries %v", pass, victims)
				}
				for _, victim := range victims[:configmonitor.MaxFailed] {
					tried[victim.Name] = true
				}
			}
			if len(tried) != len(all) {
				t.Errorf("only %d pods are tried: %v", len(tried), tried)
			}
		})
	}
}

// TestEvictionsAfterAScaleUp: a pod that came after the content was recorded counts too, so that
// one is missing when another of them has gone.
func TestEvictionsAfterAScaleUp(t *testing.T) {
	spec := monitor(evicting, limited(1)).Spec
	all := []corev1.Pod{pod("a", before), pod("b", before), pod("c", after)}
	first := configmonitor.DecideEvictions(&spec, blue, under(blue, 2), all, noon)
	if got, want := summary(first), "evict a, Pod/b WaitingForOthers, 2s"; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	record := configmonitor.ParseRecord(first.Record.AfterEvicting(1, noon).String())
	gone := configmonitor.DecideEvictions(&spec, blue, record, all[1:], noon.Add(2*time.Second))
	if got, want := summary(gone), "Pod/b WaitingForOthers, 2s"; got != want {
		t.Errorf("while a is missing: got %q, want %q", got, want)
	}
}

// TestEvictionsChosen: which pods are ever evicted.
func TestEvictionsChosen(t *testing.T) {
	for name, test := range map[string]evictionCase{
		"unowned": {source: blue, pods: []corev1.Pod{pod("a", before, unowned)}, want: "Pod/a Unowned, 1m0s"},
		"nobody's, allowed": {change: func(s *configv1.ConfigMonitorSpec) { s.AllowUnowned = true }, source: blue,
			pods: []corev1.Pod{pod("a", before, unowned)}, want: "evict a, 2s"},
		"a Job's": {source: blue, pods: []corev1.Pod{pod("a", before, ownedBy("Job"))}, want: "Pod/a Unowned, 1m0s"},
		"a Job's, allowed": {change: func(s *configv1.ConfigMonitorSpec) { s.AllowUnowned = true }, source: blue,
			pods: []corev1.Pod{pod("a", before, ownedBy("Job"))}, want: "evict a, 2s"},
		"a Deployment's": {source: blue, pods: []corev1.Pod{pod("a", before, ownedBy("ReplicaSet"))}, want: "evict a, 2s"},
		"a node's": {change: func(s *configv1.ConfigMonitorSpec) { s.AllowUnowned = true }, source: blue,
			pods: []corev1.Pod{pod("a", before, ownedBy("Node"))}, want: "Pod/a StaticPod, 1m0s"},
		"a mirror": {source: blue, pods: []corev1.Pod{pod("a", before,
			func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} })}, want: "Pod/a StaticPod, 1m0s"},
		"unowned, younger": {source: blue, pods: []corev1.Pod{pod("a", after, unowned)}, want: "done"},
		"finished":         {source: blue, pods: []corev1.Pod{pod("a", before, finished), pod("b", after)}, want: "done"},
		"going by itself":  {source: blue, pods: []corev1.Pod{pod("a", before, terminating), pod("b", after)}, want: "done"},
		"unowned, and others": {source: blue, pods: []corev1.Pod{pod("a", before, unowned), pod("b", before)},
			want: "evict b, Pod/a Unowned, 2s"},
	} {
		t.Run(name, test.check)
	}
}

func limited(n int32) func(*configv1.ConfigMonitorSpec) {
	return func(s *configv1.ConfigMonitorSpec) { s.MaxParallel = &n }
}

// with adds a key to a source.
func with(source workload.Source, key, value string) workload.Source {
	keys := map[string]string{key: workload.HashKey([]byte(value))}
	maps.Copy(keys, source.Keys)
	source.Keys = keys
	return source
}

// keyed returns a source whose hashes are under a key.
func keyed(source workload.Source, id string) workload.Source {
	source.KeyID = id
	return source
}

// keysRecorded returns the record of a monitor for which one key is relevant.
func keysRecorded(source workload.Source) configmonitor.Record {
	spec := monitor(evicting, func(s *configv1.ConfigMonitorSpec) { s.Keys = []string{"COLOUR"} }).Spec
	return configmonitor.DecideEvictions(&spec, source, configmonitor.Record{}, []corev1.Pod{pod("old", noon)}, noon).Record
}

// under returns the record of a content for which pods are being evicted; the last one was evicted
// a moment ago.
func under(source workload.Source, pods int, change ...func(*configmonitor.Record)) configmonitor.Record {
	return recorded(source, append([]func(*configmonitor.Record){beganAt(ago(20 * time.Second)), func(r *configmonitor.Record) {
		r.Pods, r.At, r.Evicted = pods, new(ago(5*time.Second)), 1
	}}, change...)...)
}

// hanging returns the same, where the last pod was evicted long ago.
func hanging(source workload.Source, pods int) configmonitor.Record {
	return under(source, pods, beganAt(ago(time.Hour)), func(r *configmonitor.Record) { r.At = new(ago(time.Hour)) })
}

// TestEvictionsToTheEnd: a content, from the first decision to rest, with a manager that forgets
// everything in between.
func TestEvictionsToTheEnd(t *testing.T) {
	spec := monitor(evicting, limited(1)).Spec
	source := flags("blue", ago(time.Minute))
	pods := []corev1.Pod{pod("a", ago(time.Hour)), pod("b", ago(time.Hour)), pod("c", ago(time.Hour))}
	annotation := ""
	evicted := 0
	for step := range 20 {
		now := noon.Add(time.Duration(step) * 2 * time.Second)
		record := configmonitor.ParseRecord(annotation)
		if rest, rests := configmonitor.Rest(&spec, source, record, now); rests {
			if evicted != 3 || rest.UpToDate != 3 || rest.Record.Evicted != 3 {
				t.Fatalf("it rests after %d evictions: %+v", evicted, rest)
			}
			return
		}
		e := configmonitor.DecideEvictions(&spec, source, record, pods, now)
		if len(e.Evict) > 1 {
			t.Fatalf("step %d: %d go at once", step, len(e.Evict))
		}
		for _, victim := range e.Evict {
			for i := range pods {
				if pods[i].Name == victim.Name {
					pods[i] = pod(victim.Name, now)
					pods[i].UID = types.UID(victim.Name + "-again")
					evicted++
				}
			}
		}
		annotation = e.Record.AfterEvicting(len(e.Evict), now).String()
	}
	t.Fatalf("it never settles; %d were evicted: %s", evicted, annotation)
}

func TestRest(t *testing.T) {
	blue := flags("blue", ago(time.Minute))
	absent, denied, edited := blue, blue, blue
	absent.State, denied.State, edited.Declared = workload.Absent, workload.NotGranted, "another"
	for name, test := range map[string]struct {
		source workload.Source
		record configmonitor.Record
		want   bool
	}{
		"done":                {blue, recorded(blue), true},
		"done for another":    {blue, recorded(flags("red", ago(time.Hour))), false},
		"under way":           {blue, under(blue, 1), false},
		"never observed":      {blue, configmonitor.Record{}, false},
		"absent":              {absent, recorded(flags("red", ago(time.Hour))), true},
		"not granted":         {denied, configmonitor.Record{}, true},
		"is being put back":   {edited, recorded(flags("red", ago(time.Hour))), true},
		"done, under its key": {keyed(blue, "a"), recorded(keyed(blue, "a")), true},
		"done, another key":   {keyed(blue, "b"), recorded(keyed(blue, "a")), false},
	} {
		t.Run(name, func(t *testing.T) {
			rest, rests := configmonitor.Rest(&monitor(evicting).Spec, test.source, test.record, noon)
			if rests != test.want || rest.PutBack != (test.source.Declared != "") {
				t.Errorf("rests: %t, is being put back: %t", rests, rest.PutBack)
			}
		})
	}
	if _, rests := configmonitor.Rest(&monitor(evicting, func(s *configv1.ConfigMonitorSpec) { s.PodSelector["tier"] = "front" }).Spec, blue,
		recorded(blue), noon); rests {
		t.Error("other pods are selected, and they are not read")
	}
}

// TestEvictionsFlap: a flapping source is reported, and slowed down even without a cooldown.
func TestEvictionsFlap(t *testing.T) {
	spec := monitor(evicting, func(s *configv1.ConfigMonitorSpec) { s.Cooldown = seconds(0) }).Spec
	record, evictions := configmonitor.Record{}, 0
	var last configmonitor.Evictions
	for second := range 120 {
		now := noon.Add(time.Duration(second) * time.Second)
		source := flags(now.String(), now)
		last = configmonitor.DecideEvictions(&spec, source, record, []corev1.Pod{pod("a", now.Add(-time.Second))}, now)
		evictions += len(last.Evict)
		record = last.Record.AfterEvicting(len(last.Evict), now)
	}
	// Four at once, and then one every half minute.
	if evictions != 4+3 || !last.Flapping {
		t.Errorf("%d evictions, flapping: %t", evictions, last.Flapping)
	}
	quiet := noon.Add(10 * time.Minute)
	if got := configmonitor.DecideEvictions(&spec, flags("last", quiet), record, []corev1.Pod{pod("a", quiet.Add(-time.Second))},
		quiet); got.Flapping {
		t.Error("it still flaps after minutes of quiet")
	}
}

func TestBlockedByBudget(t *testing.T) {
	blue := flags("blue", ago(time.Minute))
	e := configmonitor.DecideEvictions(&monitor(evicting).Spec, blue, configmonitor.Record{},
		[]corev1.Pod{pod("b", ago(time.Hour)), pod("a", ago(time.Hour), unowned)}, noon)
	e.BlockedByBudget(e.Evict[0], "later")
	want := []configv1.Skipped{
		{Name: "Pod/a", Reason: "Unowned", Message: "no controller would recreate it: set spec.allowUnowned to evict it anyway"},
		{Name: "Pod/b", Reason: "DisruptionBudget", Message: "later"},
	}
	if diff := cmp.Diff(want, e.Skipped); diff != "" || e.RequeueAfter != 10*time.Second || len(e.Restarting) != 0 {
		t.Errorf("%s, again after %s, restarting %v", diff, e.RequeueAfter, e.Restarting)
	}
}

// FuzzParseRecord: any annotation is parsed or ignored, and what was parsed is written in the same
// form.
func FuzzParseRecord(f *testing.F) {
	for _, seed := range []string{"", "{}", "null", `{"of":1}`, `[]`, recorded(flags("red", noon)).String()} {
		f.Add(seed)
	}
	fuzz.AddBombs(f, `{"of":"x","hash":"a:b","changed":"2026-01-01T00:00:00Z","same":["1"],"streak":3}`)
	f.Fuzz(func(t *testing.T, text string) {
		defer fuzz.Budget(t, text)()
		record := configmonitor.ParseRecord(text)
		again := configmonitor.ParseRecord(record.String())
		if record.Of != "" && again.String() != record.String() {
			t.Errorf("%q is read as %+v and then as %+v", text, record, again)
		}
		configmonitor.DecideEvictions(&monitor(evicting).Spec, flags("blue", ago(time.Minute)), record, []corev1.Pod{pod("a", ago(time.Hour))},
			noon)
	})
}

// TestDecide checks the table of Decide, beyond what Rest and DecideEvictions decide.
func TestDecide(t *testing.T) {
	blue := flags("blue", ago(time.Minute))
	unreadable := &plan.Failure{Reason: "Refused", Message: "pods is forbidden"}
	old := []corev1.Pod{pod("old", ago(time.Hour))}
	invalid := func(s *configv1.ConfigMonitorSpec) { s.PodSelector = nil }
	for name, test := range map[string]struct {
		monitor  *configv1.ConfigMonitor
		observed configmonitor.Observed
		reads    bool
		evicts   int
		failure  *plan.Failure
	}{
		"an invalid spec":           {monitor: monitor(evicting, invalid), observed: configmonitor.Observed{Source: blue, Pods: &old}},
		"nothing to compare":        {monitor: monitor(evicting), observed: configmonitor.Observed{Pods: &old}},
		"the pods are not read yet": {monitor: monitor(evicting), observed: configmonitor.Observed{Source: blue}, reads: true},
		"the pods can't be read": {monitor: monitor(evicting), observed: configmonitor.Observed{Source: blue, Unreadable: unreadable},
			failure: unreadable},
		"there are none":                  {monitor: monitor(evicting), observed: configmonitor.Observed{Source: blue, Pods: &[]corev1.Pod{}}},
		"one is older than the content":   {monitor: monitor(evicting), observed: configmonitor.Observed{Source: blue, Pods: &old}, evicts: 1},
		"with Rollout pods do not matter": {monitor: monitor(), observed: configmonitor.Observed{Source: blue}},
	} {
		t.Run(name, func(t *testing.T) {
			test.observed.Now = noon
			decided := configmonitor.Decide(test.monitor, test.observed)
			evicts := 0
			if decided.Evictions != nil {
				evicts = len(decided.Evictions.Evict)
			}
			if (decided.Evictions != nil) != (test.monitor.Spec.Strategy == configv1.StrategyEvict) {
				t.Errorf("the evictions are %v", decided.Evictions)
			}
			if decided.ReadPods != test.reads || evicts != test.evicts || decided.Failure != test.failure {
				t.Errorf("it reads pods: %t, evicts %d, fails with %v", decided.ReadPods, evicts, decided.Failure)
			}
		})
	}
}
