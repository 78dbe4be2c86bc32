package workload

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// flags returns a ConfigMap with one key per pair.
func flags(pairs ...string) Source {
	source := Source{Ref: SourceRef{ConfigMap, "flags"}, State: Present, Keys: map[string]string{}, Created: noon.Add(-time.Hour),
		Changed: noon.Add(-time.Minute)}
	for i := 0; i < len(pairs); i += 2 {
		source.Keys[pairs[i]] = HashKey([]byte(pairs[i+1]))
	}
	return source
}

// web returns a Deployment, two hours old, that has been stamped with sources, and says when it
// last made progress.
func web(name string, stamped ...Source) Target {
	target := Target{
		Ref: TargetRef{"Deployment", name}, Created: noon.Add(-2 * time.Hour), Template: new(noon.Add(-2 * time.Hour)),
		Labels: map[string]string{"app": "web"},
		Rolled: Rolled{Complete: true, Progressed: noon.Add(-2 * time.Hour), Pods: 2, Updated: 2, Ready: 2},
	}
	for _, source := range stamped {
		target.Stamp.set(source.Ref.String(), SeenSource{All: source.All()})
	}
	return target
}

// watching returns a demand for all workloads labelled app=web.
func watching(change ...func(*Demand)) Demand {
	demand := Demand{Origin: "ConfigMonitor/flags", Source: SourceRef{ConfigMap, "flags"},
		Scope: Scope{Selector: labels.SelectorFromSet(labels.Set{"app": "web"})}, Cooldown: DefaultCooldown}
	for _, c := range change {
		c(&demand)
	}
	return demand
}

// outline is a plan in short: what restarts, what is only stamped, and the status of each target.
type outline struct {
	Restarts, Stamps []string
	Statuses         map[string]string
	Ask              int
	RequeueAfter     time.Duration
}

func outlineOf(s Snapshot, p RestartPlan) outline {
	got := outline{Statuses: map[string]string{}, Ask: len(p.Ask), RequeueAfter: p.RequeueAfter}
	for _, patch := range p.Patches {
		name := s.Targets[patch.Target].Ref.Name
		if patch.RestartedFor != "" {
			got.Restarts = append(got.Restarts, name)
		} else {
			got.Stamps = append(got.Stamps, name)
		}
	}
	for _, status := range p.Statuses {
		got.Statuses[s.Targets[status.Target].Ref.Name] = string(status.State) + " " + status.Reason
	}
	return got
}

// decideCase is one target, one source and one demand, and the decision.
type decideCase struct {
	target Target
	source Source
	demand Demand
	want   outline
}

var before, after = flags("a", "1", "b", "1"), flags("a", "2", "b", "1")

// changedWeb returns a workload that was started with the previous content.
func changedWeb(change ...func(*Target)) Target {
	target := web("web", before)
	for _, c := range change {
		c(&target)
	}
	return target
}

func restarted(ago time.Duration, streak int) func(*Target) {
	return func(target *Target) {
		at := noon.Add(-ago)
		target.Stamp.RestartedAt = &at
		target.Stamp.set("ConfigMap/flags", SeenSource{All: before.All(), At: &at, Restarts: 1, Streak: streak})
	}
}

// unstamped returns a workload without a stamp, with the creation time of its template.
func unstamped(template time.Duration) Target {
	target := web("web")
	target.Template = new(noon.Add(template))
	return target
}

func with(source Source, change func(*Source)) Source {
	change(&source)
	return source
}

// whatIsCompared returns the cases of Decide's table.
func whatIsCompared() map[string]decideCase {
	return map[string]decideCase{
		"equal: nothing": {web("web", after), after, watching(), outline{Statuses: map[string]string{"web": "UpToDate "}}},
		"changed: one restart": {changedWeb(), after, watching(),
			outline{Restarts: []string{"web"}, Statuses: map[string]string{"web": "Rolling Rolling"}}},
		"not selected: nothing": {changedWeb(func(w *Target) { w.Labels = nil }), after, watching(),
			outline{Stamps: []string{"web"}, Statuses: map[string]string{}}},
		"deleted: nothing, the stamp stays": {changedWeb(), Source{Ref: after.Ref}, watching(),
			outline{Statuses: map[string]string{"web": "Left SourceMissing"}}},
		"unreadable: nothing, the stamp stays": {changedWeb(), with(after, func(s *Source) { s.State = NotGranted }), watching(),
			outline{Statuses: map[string]string{"web": "Left SecretAccessNotGranted"}}},
		"edited by hand: it is reverted": {changedWeb(), with(after, func(s *Source) { s.Declared = before.All() }), watching(),
			outline{Statuses: map[string]string{"web": "Left EditedByHand"}}},
		"as its AppConfig made it": {changedWeb(), with(after, func(s *Source) { s.Declared = after.All() }), watching(),
			outline{Restarts: []string{"web"}, Statuses: map[string]string{"web": "Rolling Rolling"}}},
		"all was seen, and now only a key matters": {changedWeb(), after, watching(func(d *Demand) { d.Keys = []string{"b"} }),
			outline{Ask: 0, Restarts: []string{"web"}, Statuses: map[string]string{"web": "Rolling Rolling"}}},
		"never seen, older than the workload": {web("web"), with(after, func(s *Source) { s.Changed = noon.Add(-3 * time.Hour) }),
			watching(), outline{Stamps: []string{"web"}, Statuses: map[string]string{"web": "UpToDate "}}},
		"never seen, the template is not known": {func() Target { w := web("web"); w.Template = nil; return w }(), after, watching(),
			outline{Ask: 1, Statuses: map[string]string{"web": "Waiting Baseline"}}},
		"never seen, older than the template": {unstamped(-30 * time.Second), after, watching(),
			outline{Stamps: []string{"web"}, Statuses: map[string]string{"web": "UpToDate "}}},
		"never seen, in the same second": {unstamped(-time.Minute), after, watching(),
			outline{Stamps: []string{"web"}, Statuses: map[string]string{"web": "UpToDate "}}},
		"never seen, newer than the template": {unstamped(-61 * time.Second), after, watching(),
			outline{Restarts: []string{"web"}, Statuses: map[string]string{"web": "Rolling Rolling"}}},
		"never seen, and there were no pods": {func() Target { w := web("web"); w.Template = &time.Time{}; return w }(), after, watching(),
			outline{Stamps: []string{"web"}, Statuses: map[string]string{"web": "UpToDate "}}},
		"the pods are unready, and were ready before": {
			func() Target {
				w := unstarted()
				w.Template, w.Rolled.Since, w.Rolled.Pods = new(w.Created), w.Created, 2
				return w
			}(), with(after, func(s *Source) { s.Created = s.Changed }), watching(),
			outline{Restarts: []string{"web"}, Statuses: map[string]string{"web": "Rolling Rolling"}}},
		"there are no pods, and there were": {
			func() Target { w := unstarted(); w.Template, w.Rolled.Since = new(w.Created), w.Created; return w }(),
			with(after, func(s *Source) { s.Created = s.Changed }), watching(),
			outline{Stamps: []string{"web"}, Statuses: map[string]string{"web": "UpToDate "}}},
		"the pods waited for it": {unstarted(), with(after, func(s *Source) { s.Created = s.Changed }), watching(),
			outline{Stamps: []string{"web"}, Statuses: map[string]string{"web": "UpToDate "}}},
	}
}

// replacing returns a workload that uses a source which was created after its present template.
// The pods of the template before are ready.
func replacing(change ...func(*Target)) Target {
	target := unstarted()
	target.Template = new(noon.Add(-2 * time.Minute))
	target.Rolled = Rolled{Progressed: noon.Add(-2 * time.Minute), Pods: 3, Updated: 1, Ready: 2}
	for _, c := range change {
		c(&target)
	}
	return target
}

// whenNewPodsWaited returns cases of rolling updates whose new pods can't start without the source.
func whenNewPodsWaited() map[string]decideCase {
	restarts := outline{Restarts: []string{"web"}, Statuses: map[string]string{"web": "Rolling Rolling"}}
	created := with(after, func(s *Source) { s.Created = s.Changed })
	return map[string]decideCase{
		"old pods are ready, and the new ones waited for it": {replacing(), created, watching(),
			outline{Stamps: []string{"web"}, Statuses: map[string]string{"web": "Rolling Rolling"}}},
		"the new pods had started": {
			replacing(func(w *Target) { w.Rolled.Complete, w.Rolled.Since = true, w.Rolled.Progressed }), created, watching(), restarts},
		"a new pod is ready": {replacing(func(w *Target) { w.Rolled.Ready = 3 }), created, watching(), restarts},
		"it has changed since the new pods could start": {replacing(), with(created, func(s *Source) { s.Created = noon.Add(-90 * time.Second) }),
			watching(), restarts},
		"the new pods can start without it":     {replacing(func(w *Target) { w.Uses = nil }), created, watching(), restarts},
		"the rollout is of an earlier template": {replacing(func(w *Target) { w.Rolled.Unseen = true }), created, watching(), restarts},
		"it does not say whether its rollout is complete": {replacing(func(w *Target) { w.Rolled.Progressed = time.Time{} }), created, watching(),
			restarts},
	}
}

// whenItGoes returns cases of changed sources and of blockers.
func whenItGoes() map[string]decideCase {
	return map[string]decideCase{
		"restarted recently: it cools down": {changedWeb(restarted(10*time.Second, 1)), after, watching(),
			outline{RequeueAfter: 20 * time.Second, Statuses: map[string]string{"web": "Waiting Cooldown"}}},
		"another key changed": {
			func() Target {
				w := web("web")
				w.Stamp.set("ConfigMap/flags", SeenSource{Keys: map[string]string{"b": before.Key("b")}})
				return w
			}(), after, watching(func(d *Demand) { d.Keys = []string{"b"} }), outline{Statuses: map[string]string{"web": "UpToDate "}}},
		"the key went away": {
			func() Target {
				w := web("web")
				w.Stamp.set("ConfigMap/flags", SeenSource{Keys: map[string]string{"c": before.Key("b")}})
				return w
			}(), after, watching(func(d *Demand) { d.Keys = []string{"c"} }),
			outline{Restarts: []string{"web"}, Statuses: map[string]string{"web": "Rolling Rolling"}}},
		"restarted long ago": {changedWeb(restarted(30*time.Second, 1)), after, watching(),
			outline{Restarts: []string{"web"}, Statuses: map[string]string{"web": "Rolling Rolling"}}},
		"no cooldown is asked for": {changedWeb(restarted(time.Second, 1)), after, watching(func(d *Demand) { d.Cooldown = 0 }),
			outline{Restarts: []string{"web"}, Statuses: map[string]string{"web": "Rolling Rolling"}}},
		"it flaps: it cools down all the same": {changedWeb(restarted(time.Second, 4)), after, watching(func(d *Demand) { d.Cooldown = 0 }),
			outline{RequeueAfter: 29 * time.Second, Statuses: map[string]string{"web": "Waiting Cooldown"}}},
		"changes are collected": {changedWeb(restarted(time.Minute, 1)), after,
			watching(func(d *Demand) { d.Debounce = 2 * time.Minute }), outline{RequeueAfter: time.Minute,
				Statuses: map[string]string{"web": "Waiting Debounce"}}},
		"back to what it was while it cools down": {func() Target { w := web("web", before); restarted(time.Second, 1)(&w); return w }(), before,
			watching(), outline{Statuses: map[string]string{"web": "UpToDate "}}},
		"outside its window": {changedWeb(), after,
			watching(func(d *Demand) { d.Rollout.Window = &rolloutv1.Window{Start: "13:00", End: "14:00"} }), outline{RequeueAfter: time.Hour,
				Statuses: map[string]string{"web": "Waiting OutsideWindow"}}},
		"its own deadline has passed": {func() Target { w := web("web", after); w.Rolled = Rolled{Failed: "no"}; return w }(), after,
			watching(), outline{Statuses: map[string]string{"web": "Failed RolloutFailed"}}},
	}
}

func TestDecide(t *testing.T) {
	cases := whatIsCompared()
	maps.Copy(cases, whenItGoes())
	maps.Copy(cases, whenNewPodsWaited())
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			snapshot := Snapshot{Targets: []Target{test.target}, Demands: []Demand{test.demand},
				Sources: map[SourceRef]Source{test.source.Ref: test.source}}
			if diff := cmp.Diff(test.want, outlineOf(snapshot, Decide(snapshot, noon))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// unstarted returns a workload without ready pods, because what they need was created later.
func unstarted() Target {
	target := web("web")
	target.Template, target.Rolled = nil, Rolled{Complete: true}
	target.Uses = map[SourceRef]Use{{ConfigMap, "flags"}: {Required: true}}
	return target
}

// carryOut applies a plan to the targets of a snapshot.
func carryOut(s Snapshot, p RestartPlan) {
	for _, patch := range p.Patches {
		target := &s.Targets[patch.Target]
		target.Stamp = ParseStamp(patch.Observed)
		if patch.RestartedFor != "" {
			target.RestartedFor = patch.RestartedFor
		}
	}
}

func TestDecideSettles(t *testing.T) {
	source := flags("a", "2")
	snapshot := Snapshot{Targets: []Target{web("web", flags("a", "1"))},
		Demands: []Demand{watching(), watching(func(d *Demand) { d.Origin, d.Keys = "ConfigMonitor/a", []string{"a"} })},
		Sources: map[SourceRef]Source{source.Ref: source}}
	first := Decide(snapshot, noon)
	if len(first.Patches) != 1 || first.Patches[0].RestartedFor != "flags="+source.All()+"#1" {
		t.Fatalf("two demands give %+v", first.Patches)
	}
	if diff := cmp.Diff([]string{"ConfigMonitor/flags", "ConfigMonitor/a"}, first.Patches[0].For); diff != "" {
		t.Error(diff)
	}
	carryOut(snapshot, first)
	if again := Decide(snapshot, noon.Add(time.Hour)); len(again.Patches) > 0 {
		t.Errorf("once more: %+v", again.Patches)
	}
	// Without demands the annotation is deleted.
	snapshot.Demands = nil
	last := Decide(snapshot, noon)
	if len(last.Patches) != 1 || last.Patches[0].Observed != "" || last.Patches[0].RestartedFor != "" {
		t.Errorf("without demands: %+v", last.Patches)
	}
}

func TestTokenAlwaysDiffers(t *testing.T) {
	source := flags("a", "1")
	target := web("web", flags("a", "2"))
	target.RestartedFor = "flags=" + source.All() + "#1"
	snapshot := Snapshot{Targets: []Target{target}, Demands: []Demand{watching()}, Sources: map[SourceRef]Source{source.Ref: source}}
	plan := Decide(snapshot, noon)
	if len(plan.Patches) != 1 || plan.Patches[0].RestartedFor != target.RestartedFor+"+" {
		t.Fatalf("got %+v", plan.Patches)
	}
	if purpose := plan.Patches[0].Purpose(); purpose != target.RestartedFor {
		t.Errorf("the same restart has another purpose: %s", purpose)
	}
}

func TestMaxParallel(t *testing.T) {
	before, after := flags("a", "1"), flags("a", "2")
	snapshot := Snapshot{
		Targets: []Target{web("a", before), web("b", before), web("c", before)},
		Demands: []Demand{watching(func(d *Demand) { d.Rollout.MaxParallel = new(int32(1)) })},
		Sources: map[SourceRef]Source{after.Ref: after},
	}
	now := noon
	for i, name := range []string{"a", "b", "c"} {
		plan := Decide(snapshot, now)
		if got := outlineOf(snapshot, plan); len(got.Restarts) != 1 || got.Restarts[0] != name {
			t.Fatalf("round %d: %+v", i, got)
		}
		carryOut(snapshot, plan)
		snapshot.Targets[i].Rolled = Rolled{Pods: 2, Updated: 1}
		if got := outlineOf(snapshot, Decide(snapshot, now.Add(time.Minute))); len(got.Restarts) > 0 {
			t.Fatalf("round %d, while it rolls: %+v", i, got)
		}
		if got := outlineOf(snapshot, Decide(snapshot, now.Add(time.Hour))); len(got.Restarts) > 0 ||
			got.Statuses[name] != "Failed RolloutFailed" {
			t.Fatalf("round %d, after its time: %+v", i, got)
		}
		snapshot.Targets[i].Rolled = Rolled{Complete: true, Pods: 2, Updated: 2}
		now = now.Add(time.Minute)
	}
}

func TestFlappingIsReported(t *testing.T) {
	snapshot := Snapshot{Targets: []Target{web("web", flags("a", "0"))}, Demands: []Demand{watching()}}
	now := noon
	for round := range 5 {
		source := flags("a", string(rune('1'+round)))
		snapshot.Sources = map[SourceRef]Source{source.Ref: source}
		plan := Decide(snapshot, now)
		if len(plan.Patches) != 1 {
			t.Fatalf("round %d: %+v", round, plan)
		}
		if flapping := plan.Statuses[0].Flapping; flapping != (round >= 4) {
			t.Errorf("round %d: flapping %t", round, flapping)
		}
		carryOut(snapshot, plan)
		now = now.Add(DefaultCooldown)
	}
	if calm := Decide(snapshot, now.Add(time.Hour)); calm.Statuses[0].Flapping {
		t.Error("flapping is reported long after the last restart")
	}
}

// TestDemandsAreBounded: however long an annotation is, a workload has at most maxSources demands,
// each source once, and the problem is one short sentence.
func TestDemandsAreBounded(t *testing.T) {
	var different strings.Builder
	uses := map[SourceRef]Use{}
	for i := range 2 * maxSources {
		fmt.Fprintf(&different, "name-%d,", i)
		uses[SourceRef{ConfigMap, fmt.Sprintf("name-%d", i)}] = Use{}
	}
	for name, test := range map[string]struct {
		annotation string
		want       int
		problem    string
	}{
		"one name":        {strings.Repeat("a,", 100_000) + "a", 1, ""},
		"different names": {different.String(), maxSources, "must have at most 250 names"},
		"invalid names":   {strings.Repeat("a/b/"+strings.Repeat("c", 1000)+",", 200), 0, "and 198 more"},
		"auto":            {"auto", maxSources, "the pods use 500 ConfigMaps and Secrets: only the first 250 by name are used"},
	} {
		t.Run(name, func(t *testing.T) {
			target := web("web")
			target.Uses, target.Annotations = uses, map[string]string{configv1.AnnotationReload: test.annotation}
			got, err := OfWorkload(&target)
			if len(got) != test.want || (err == nil) != (test.problem == "") || !strings.Contains(fmt.Sprint(err), test.problem) ||
				len(fmt.Sprint(err)) > 1000 {
				t.Errorf("%d demands, %v", len(got), err)
			}
		})
	}
	target := web("web")
	target.Uses, target.Annotations = uses, map[string]string{
		"configmap.reloader.stakater.com/reload": different.String() + "name-1+," + strings.Repeat(`(?i)(\pL{9}){9},`, 1000) + "name-.*",
	}
	if got, err := OfStakater(&target, nil); len(got) != maxSources || err == nil || len(err.Error()) > 1000 {
		t.Errorf("expressions of Stakater Reloader: %d demands, %v", len(got), err)
	}
	long := map[string]string{configv1.AnnotationPodSelector: strings.Repeat("a,", maxSelector)}
	_, asked, err := OfSource(SourceRef{ConfigMap, "flags"}, long)
	if asked || err == nil || len(err.Error()) > 1000 {
		t.Errorf("a long selector: %v, %v", asked, err)
	}
}

func TestOfWorkload(t *testing.T) {
	uses := map[SourceRef]Use{{ConfigMap, "flags"}: {Keys: []string{"a"}}, {Secret, "db"}: {}}
	names := func(demands []Demand) []string {
		var found []string
		for _, d := range demands {
			text := d.Source.String()
			for _, key := range d.Keys {
				text += "#" + key
			}
			found = append(found, text)
		}
		return found
	}
	for name, test := range map[string]struct {
		value   string
		want    []string
		problem bool
	}{
		"nothing": {"", nil, false},
		"off":     {"false", nil, false},
		"auto":    {"auto", []string{"ConfigMap/flags#a", "Secret/db"}, false},
		"a list":  {"flags, secret/db,configMap/other", []string{"ConfigMap/flags", "Secret/db", "ConfigMap/other"}, false},
		"wrong":   {"flags, job/x", []string{"ConfigMap/flags"}, true},
		"twice":   {"flags,flags", []string{"ConfigMap/flags"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			target := web("web")
			target.Uses, target.Annotations = uses, map[string]string{configv1.AnnotationReload: test.value}
			got, err := OfWorkload(&target)
			if diff := cmp.Diff(test.want, names(got)); diff != "" || (err != nil) != test.problem {
				t.Errorf("%v %s", err, diff)
			}
		})
	}
	for name, test := range map[string]struct {
		annotations map[string]string
		marks       map[SourceRef]map[string]string
		want        []string
	}{
		"auto":             {map[string]string{"reloader.stakater.com/auto": "true"}, nil, []string{"ConfigMap/flags#a", "Secret/db"}},
		"auto of one kind": {map[string]string{"secret.reloader.stakater.com/auto": "true"}, nil, []string{"Secret/db"}},
		"named": {map[string]string{"configmap.reloader.stakater.com/reload": "flags,other"}, nil,
			[]string{"ConfigMap/flags#a", "ConfigMap/other"}},
		"an expression": {map[string]string{"configmap.reloader.stakater.com/reload": "fl.*"}, nil, []string{"ConfigMap/flags#a"}},
		"search and match": {map[string]string{"reloader.stakater.com/search": "true"},
			map[SourceRef]map[string]string{{Secret, "db"}: {"reloader.stakater.com/match": "true"}}, []string{"Secret/db"}},
		"ignored": {map[string]string{"reloader.stakater.com/auto": "true"},
			map[SourceRef]map[string]string{{Secret, "db"}: {"reloader.stakater.com/ignore": "true"}}, []string{"ConfigMap/flags#a"}},
		"named and ignored": {map[string]string{"configmap.reloader.stakater.com/reload": "other"},
			map[SourceRef]map[string]string{{ConfigMap, "other"}: {"reloader.stakater.com/ignore": "true"}}, nil},
		"excluded": {map[string]string{"reloader.stakater.com/auto": "true", "secrets.exclude.reloader.stakater.com/reload": "db"},
			nil, []string{"ConfigMap/flags#a"}},
		"nothing of the kind": {map[string]string{"a": "true"}, nil, nil},
	} {
		t.Run("Stakater: "+name, func(t *testing.T) {
			target := web("web")
			target.Uses, target.Annotations = uses, test.annotations
			got, err := OfStakater(&target, test.marks)
			if diff := cmp.Diff(test.want, names(got)); diff != "" || err != nil {
				t.Errorf("%v %s", err, diff)
			}
		})
	}
}

// TestCompletionIsRemembered for a workload that does not remember it: a later failure of its pods
// is no failed rollout.
func TestCompletionIsRemembered(t *testing.T) {
	snapshot := Snapshot{Targets: []Target{web("agent", before)}, Demands: []Demand{watching()},
		Sources: map[SourceRef]Source{after.Ref: after}}
	carryOut(snapshot, Decide(snapshot, noon))
	target := &snapshot.Targets[0]
	target.Rolled = Rolled{Forgets: true, Pods: 3, Updated: 3}
	if got := outlineOf(snapshot, Decide(snapshot, noon.Add(time.Hour))); got.Statuses["agent"] != "Failed RolloutFailed" ||
		len(got.Stamps) > 0 {
		t.Errorf("it never came up: %+v", got)
	}
	target.Rolled.Complete = true
	done := Decide(snapshot, noon.Add(time.Minute))
	if got := outlineOf(snapshot, done); got.Statuses["agent"] != "UpToDate " || len(got.Stamps) != 1 {
		t.Fatalf("it came up: %+v", got)
	}
	carryOut(snapshot, done)
	if again := Decide(snapshot, noon.Add(time.Minute)); len(again.Patches) > 0 {
		t.Errorf("once more: %+v", again.Patches)
	}
	target.Rolled.Complete = false
	if got := outlineOf(snapshot, Decide(snapshot, noon.Add(time.Hour))); got.Statuses["agent"] != "UpToDate " || len(got.Stamps) > 0 {
		t.Errorf("a pod was lost later: %+v", got)
	}
}

// TestRestartedWithout: pods that are started while another of their sources is missing have to be
// restarted when it is back.
func TestRestartedWithout(t *testing.T) {
	other := Source{Ref: SourceRef{ConfigMap, "other"}, State: Present, Keys: map[string]string{"x": HashKey([]byte("1"))}}
	for name, test := range map[string]struct {
		required bool
		want     bool
	}{
		"they can do without":   {false, true},
		"they can't: they wait": {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			target := web("web", before, other)
			target.Uses = map[SourceRef]Use{other.Ref: {Required: test.required}}
			snapshot := Snapshot{
				Targets: []Target{target}, Sources: map[SourceRef]Source{after.Ref: after},
				Demands: []Demand{watching(), {Origin: "Deployment/web", Source: other.Ref, Scope: Scope{Target: &TargetRef{"Deployment", "web"}}}},
			}
			plan := Decide(snapshot, noon)
			if len(plan.Patches) != 1 || plan.Patches[0].RestartedFor == "" {
				t.Fatalf("got %+v", plan.Patches)
			}
			carryOut(snapshot, plan)
			snapshot.Sources[other.Ref] = other
			if got := outlineOf(snapshot, Decide(snapshot, noon.Add(time.Hour))); (len(got.Restarts) == 1) != test.want {
				t.Errorf("it is back: %+v", got)
			}
		})
	}
}

// TestRestartedWithoutForSeveral has two demands on the missing source, for all of it and for one
// key.
func TestRestartedWithoutForSeveral(t *testing.T) {
	other := Source{Ref: SourceRef{ConfigMap, "other"}, State: Present, Keys: map[string]string{"x": HashKey([]byte("1"))}}
	demand := Demand{Origin: "Deployment/web", Source: other.Ref, Scope: Scope{Target: &TargetRef{"Deployment", "web"}}}
	ofKey := demand
	ofKey.Keys = []string{"x"}
	for name, demands := range map[string][]Demand{"all first": {demand, ofKey}, "the key first": {ofKey, demand}, "the key alone": {ofKey}} {
		t.Run(name, func(t *testing.T) {
			target := web("web", before, other)
			target.Stamp.Sources[other.Ref.String()] = SeenSource{All: other.All(), Keys: map[string]string{"x": other.Key("x")}}
			snapshot := Snapshot{Targets: []Target{target}, Sources: map[SourceRef]Source{after.Ref: after},
				Demands: append([]Demand{watching()}, demands...)}
			carryOut(snapshot, Decide(snapshot, noon))
			snapshot.Sources[other.Ref] = other
			if got := outlineOf(snapshot, Decide(snapshot, noon.Add(time.Hour))); len(got.Restarts) != 1 {
				t.Errorf("it is back: %+v", got)
			}
		})
	}
}

// TestRevertedTemplate: after kubectl rollout undo of a StatefulSet or DaemonSet, which brings back
// the template alone (of a Deployment: TestUndoneDeployment), or when an owner has replaced it,
// pods run the content only if they were started since it changed. Nothing is restarted for that,
// which could be a fight; the next change restarts them.
func TestRevertedTemplate(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Target)
		// want is the state, and stamps the number of writes.
		want   string
		stamps int
	}{
		"as it was restarted": {func(*Target) {}, "UpToDate ", 0},
		"the age of the template is not known": {func(w *Target) { w.RestartedFor, w.Template = "", nil },
			"Waiting TemplateReverted", 0},
		"changed back to an older template": {func(w *Target) { w.RestartedFor = "flags=x#1" }, "Waiting TemplateReverted", 0},
		"a younger template": {func(w *Target) { w.RestartedFor, w.Template = "", new(noon.Add(time.Minute)) },
			"UpToDate ", 1},
		"restarted by an earlier release": {func(w *Target) { w.RestartedFor, w.Stamp.For = "", "" }, "UpToDate ", 0},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := Snapshot{Targets: []Target{web("web", before)}, Demands: []Demand{watching()},
				Sources: map[SourceRef]Source{after.Ref: after}}
			carryOut(snapshot, Decide(snapshot, noon))
			test.change(&snapshot.Targets[0])
			hence := noon.Add(time.Hour)
			plan := Decide(snapshot, hence)
			if got := outlineOf(snapshot, plan); got.Statuses["web"] != test.want || len(got.Restarts) > 0 || len(got.Stamps) != test.stamps {
				t.Errorf("got %+v", got)
			}
			carryOut(snapshot, plan)
			snapshot.Targets[0].Template = nil // a settled workload is not asked again
			again := outlineOf(snapshot, Decide(snapshot, hence))
			if again.Statuses["web"] != test.want || len(again.Restarts)+len(again.Stamps) > 0 ||
				(again.Ask > 0) != strings.HasPrefix(test.want, "Waiting") {
				t.Errorf("once more: %+v", again)
			}
			next := flags("a", "3", "b", "1")
			snapshot.Sources[next.Ref] = next
			if got := outlineOf(snapshot, Decide(snapshot, hence)); len(got.Restarts) != 1 {
				t.Errorf("after the next change: %+v", got)
			}
		})
	}
}

// TestRevertedForAnotherSource: a workload that was never restarted for a source runs it, whatever
// its template.
func TestRevertedForAnotherSource(t *testing.T) {
	target := web("web", after)
	target.Stamp.RestartedAt, target.Stamp.For, target.Template = new(noon.Add(-time.Hour)), HashText("other=x#1"), nil
	snapshot := Snapshot{Targets: []Target{target}, Demands: []Demand{watching()}, Sources: map[SourceRef]Source{after.Ref: after}}
	if got := outlineOf(snapshot, Decide(snapshot, noon)); got.Statuses["web"] != "UpToDate " || len(got.Restarts) > 0 || got.Ask > 0 {
		t.Errorf("got %+v", got)
	}
}
