package appconfig

import (
	"fmt"
	"strings"
	"testing"
	"time"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

func manual(approved string) func(*configv1.AppConfigSpec) {
	return func(spec *configv1.AppConfigSpec) {
		spec.Rollout.Mode, spec.Rollout.Approved = configv1.RolloutManual, approved
	}
}

func rollback(spec *configv1.AppConfigSpec) { spec.Rollout.OnFailure = configv1.FailureRollback }

func pinned(revision int64) func(*configv1.AppConfigSpec) {
	return func(spec *configv1.AppConfigSpec) { spec.Revision = &revision }
}

// chooseCase is a case of Choose. want is: the chosen revision, the rendered one, why they differ,
// what is read.
type chooseCase struct {
	changes []func(*configv1.AppConfigSpec)
	world   *world
	want    string
}

// closed closes the maintenance window.
func closed(w *world) *world { w.IsOpen = false; return w }

func TestChoose(t *testing.T) {
	good, failed, back := configv1.AnnotationLastGood, configv1.AnnotationFailed, configv1.AnnotationPutBack
	type changes = []func(*configv1.AppConfigSpec)
	testChoose(t, map[string]chooseCase{
		"the first content":                     {world: newWorld(), want: "1 1"},
		"the first content, unapproved":         {changes: changes{manual("")}, world: newWorld(), want: "1 1"},
		"the first content, outside the window": {world: closed(newWorld()), want: "1 1"},
		"it has it":                             {world: newWorld().keeps("hello").has(1, "hello"), want: "1 1"},
		"it has it, but its revision was lost":  {world: newWorld().has(4, "hello"), want: "4 4"},
		"a new content":                         {changes: changes{says("bye")}, world: newWorld().keeps("hello").has(1, "hello"), want: "2 2"},
		"numbers are not used twice": {changes: changes{says("bye")}, world: newWorld().has(3, "hello", failed, "7", good, "2"),
			want: "8 8"},
		"nor is one that was pruned": {changes: changes{says("bye")},
			world: newWorld().keeps("a").has(1, "a", configv1.AnnotationHighest, "9"), want: "10 10"},
		"a number that somebody wrote has no next": {changes: changes{says("bye")},
			world: newWorld().keeps("a").has(1, "a", configv1.AnnotationHighest, "9223372036854775807", failed, "9223372036854775807"), want: "2 2"},
		"an earlier content again": {changes: changes{says("a")}, world: newWorld().keeps("a", "b").has(2, "b"), want: "1 1"},
		"edited by hand":           {world: newWorld().keeps("hello").has(1, "hello").edited("oops"), want: "1 1"},
		"its marks were removed":   {world: newWorld().keeps("hello").has(0, "hello"), want: "1 1"},

		"manual": {changes: changes{says("b"), manual("")}, world: newWorld().keeps("a").has(1, "a"),
			want: "1 2 AwaitingApproval"},
		"manual, another approved": {changes: changes{says("b"), manual(hash("x"))}, world: newWorld().keeps("a").has(1, "a"),
			want: "1 2 AwaitingApproval"},
		"manual, approved": {changes: changes{says("b"), manual(hash("b"))}, world: newWorld().keeps("a").has(1, "a"), want: "2 2"},
		"manual, edited by hand": {changes: changes{says("b"), manual("")}, world: newWorld().keeps("a").has(1, "a").edited("x"),
			want: "1 2 AwaitingApproval content a"},
		"manual, its revision was lost": {changes: changes{says("b"), manual("")}, world: newWorld().has(1, "a"),
			want: "1 2 AwaitingApproval content a"},
		"manual, all was lost": {changes: changes{says("b"), manual("")}, world: newWorld().has(1, "a").edited("x"),
			want: "1 2 AwaitingApproval lost"},
		"manual, its mark was edited": {changes: changes{says("b"), manual("")},
			world: newWorld().keeps("a").has(1, "a", configv1.AnnotationHash, "x"), want: "1 2 AwaitingApproval content a"},
		"outside the window": {changes: changes{says("b")}, world: closed(newWorld().keeps("a").has(1, "a")),
			want: "1 2 OutsideWindow"},
		"manual comes first": {changes: changes{says("b"), manual("")}, world: closed(newWorld().keeps("a").has(1, "a")),
			want: "1 2 AwaitingApproval"},

		"pinned": {changes: changes{says("c"), pinned(1)}, world: newWorld().keeps("a", "b").has(2, "b"),
			want: "1 3 Pinned content a"},
		"pinned, it has it": {changes: changes{says("c"), pinned(1)}, world: newWorld().keeps("a", "b").has(1, "a"),
			want: "1 3 Pinned"},
		"pinned to what is rendered": {changes: changes{says("b"), pinned(2)}, world: newWorld().keeps("a", "b").has(1, "a"),
			want: "2 2"},
		"pinned, unapproved, at any time": {changes: changes{says("c"), pinned(1), manual("")},
			world: closed(newWorld().keeps("a", "b").has(2, "b")), want: "1 3 Pinned content a"},
		"pinned to none": {changes: changes{says("c"), pinned(9)}, world: newWorld().keeps("a", "b").has(2, "b"),
			want: "2 3 Pinned missing"},
		"pinned to none, and there is none": {changes: changes{pinned(9)}, world: newWorld(), want: "1 1 missing"},
		"pinned to one whose content is not": {changes: changes{says("c"), pinned(1)}, world: newWorld().has(2, "b"),
			want: "2 3 Pinned missing content b"},

		"failed, stop": {changes: changes{says("b")}, world: newWorld().keeps("a", "b").has(2, "b", good, "1", failed, "2"),
			want: "2 2"},
		"failed, rollback": {changes: changes{says("b"), rollback},
			world: newWorld().keeps("a", "b").has(2, "b", good, "1", failed, "2"), want: "1 2 RolledBack content a"},
		"failing now, rollback": {changes: changes{says("b"), rollback},
			world: newWorld().keeps("a", "b").has(2, "b", good, "1").runs("web", "b", "a", workload.Failed,
				1), want: "1 2 RolledBack content a"},
		"rolled back": {changes: changes{says("b"), rollback},
			world: newWorld().keeps("a", "b").has(1, "a", good, "1", failed, "2", back, "true"), want: "1 2 RolledBack"},
		"rolled back by an earlier release": {changes: changes{says("b"), rollback},
			world: newWorld().keeps("a", "b").has(1, "a", good, "1", failed, "2"), want: "1 2 RolledBack content a"},
		"failed, at any time": {changes: changes{says("b"), rollback},
			world: closed(newWorld().keeps("a", "b").has(2, "b", good, "1", failed, "2")), want: "1 2 RolledBack content a"},
		"failed, none was good": {changes: changes{says("b"), rollback}, world: newWorld().keeps("a", "b").has(2, "b", failed, "2"),
			want: "2 2"},
		"failed, the good one was lost": {changes: changes{says("b"), rollback}, world: newWorld().has(2, "b", good, "1", failed, "2"),
			want: "2 2"},
		"rolled back, and another content": {changes: changes{says("c"), rollback},
			world: newWorld().keeps("a", "b").has(1, "a", good, "1", failed, "2"), want: "3 3"},
	})
}

// TestIsPutBack: a content that was put back stays so until the ConfigMap gets another one, so that
// the pods that still run the failed one wait for nothing.
func TestIsPutBack(t *testing.T) {
	good, failed, back := configv1.AnnotationLastGood, configv1.AnnotationFailed, configv1.AnnotationPutBack
	marked := func(marks ...string) *world {
		return newWorld().keeps("a", "b").has(1, "a", append(marks, good, "1", failed, "2")...)
	}
	for name, test := range map[string]struct {
		text  string
		world *world
		other func(*configv1.AppConfigSpec)
		want  bool
	}{
		"it is put back":                         {"b", newWorld().keeps("a", "b").has(2, "b", good, "1", failed, "2"), rollback, true},
		"it was put back":                        {"b", marked(back, "true"), rollback, true},
		"and the spec renders it now":            {"a", marked(back, "true"), rollback, true},
		"and another content waits for approval": {"c", marked(back, "true"), manual(""), true},
		"and another content follows":            {"c", marked(back, "true"), rollback, false},
		"the user took the failed one back": {"a", newWorld().keeps("a", "b").has(2, "b", good, "1", failed, "2"),
			func(*configv1.AppConfigSpec) {}, false},
		"it is good, and an earlier one failed": {"a", marked(), rollback, false},
	} {
		t.Run(name, func(t *testing.T) {
			config := newConfig(says(test.text), test.other)
			choice := Choose(config, test.world.Observed)
			equal(t, test.want, choice.IsPutBack)
			written := desiredConfigMap(config, choice, content(test.text), nil).Annotations
			equal(t, test.want, isPutBack(written))
		})
	}
}

func testChoose(t *testing.T, tests map[string]chooseCase) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			choice := Choose(newConfig(test.changes...), test.world.Observed)
			got := fmt.Sprint(choice.Chosen, " ", choice.Rendered)
			if choice.Pending != "" {
				got += " " + choice.Pending
			}
			if choice.IsMissing {
				got += " missing"
			}
			if choice.IsLost {
				got += " lost"
			}
			if choice.Kept != nil {
				got += " content " + choice.Kept["MESSAGE"]
			}
			equal(t, test.want, got)
			equal(t, "", choice.Problem)
		})
	}
}

func scaledTo0(rolled *workload.Rolled) { *rolled = workload.Rolled{} }

// ready returns a change of how many pods are ready.
func ready(pods int32) func(*workload.Rolled) {
	return func(rolled *workload.Rolled) { rolled.Ready = pods }
}

func TestMark(t *testing.T) {
	good, failed := configv1.AnnotationLastGood, configv1.AnnotationFailed
	for name, test := range map[string]struct {
		world *world
		want  Marks
	}{
		"nothing":  {newWorld(), Marks{}},
		"no users": {newWorld().has(2, "b", good, "1"), Marks{LastGood: 1}},
		"all run it": {newWorld().has(2, "b", good, "1").runs("x", "b", "a", workload.UpToDate, 3).runs("y", "b", "",
			workload.UpToDate, 3), Marks{LastGood: 2}},
		"all are scaled to 0": {newWorld().has(2, "b", good, "1").runs("x", "b", "a", workload.UpToDate, 3).rolled(scaledTo0),
			Marks{LastGood: 1}},
		"one is scaled to 0": {newWorld().has(2, "b", good, "1").runs("x", "b", "a", workload.UpToDate, 3).
			runs("y", "b", "a", workload.UpToDate, 3).rolled(scaledTo0), Marks{LastGood: 2}},
		"it was scaled up, and no pod is ready": {newWorld().has(2, "b", good, "1").runs("x", "b", "a", workload.UpToDate, 3).
			rolled(ready(0)), Marks{LastGood: 1}},
		"a restarted one has lost a pod since": {newWorld().has(2, "b", good, "1").runs("x", "b", "a", workload.UpToDate, 3).
			rolled(ready(2)), Marks{LastGood: 2}},
		"a new one is not ready": {newWorld().has(1, "b").runs("x", "b", "", workload.UpToDate, 3).rolled(ready(2)), Marks{}},
		"a new one is ready":     {newWorld().has(1, "b").runs("x", "b", "", workload.UpToDate, 3), Marks{LastGood: 1}},
		"a new one was available": {newWorld().has(1, "b").runs("x", "b", "", workload.UpToDate, 3).
			rolled(func(r *workload.Rolled) { r.Ready, r.Since = 2, time.Unix(1, 0) }), Marks{LastGood: 1}},
		"one rolls": {newWorld().has(2, "b", good, "1").runs("x", "b", "a", workload.UpToDate, 3).runs("y", "b", "a",
			workload.Rolling, 3), Marks{LastGood: 1}},
		"one waits": {newWorld().has(2, "b", good, "1").runs("x", "b", "a", workload.UpToDate, 3).runs("y", "a", "",
			workload.Waiting, 3), Marks{LastGood: 1}},
		"one failed": {newWorld().has(2, "b", good, "1", failed, "9").runs("x", "b", "a", workload.Failed, 1),
			Marks{LastGood: 1, Failed: []int64{9, 2}, Failure: "Deployment/x: it is Failed"}},
		"it is known to have failed": {newWorld().has(2, "b", good, "1", failed, "2").runs("x", "b", "a", workload.Failed, 1),
			Marks{LastGood: 1, Failed: []int64{2}}},
		"it came up late": {newWorld().has(2, "b", good, "1", failed, "2").runs("x", "b", "a", workload.UpToDate, 3),
			Marks{LastGood: 2, Failed: []int64{}}},
		"one fails by itself":              {newWorld().has(2, "b", good, "1").runs("x", "b", "", workload.Failed, 1), Marks{LastGood: 1}},
		"one fails with an earlier one":    {newWorld().has(2, "b", good, "1").runs("x", "a", "z", workload.Failed, 1), Marks{LastGood: 1}},
		"one fails with a good one, later": {newWorld().has(2, "b", good, "2").runs("x", "b", "a", workload.Failed, 1), Marks{LastGood: 2}},
		"edited by hand": {newWorld().has(2, "b", good, "1").edited("x").runs("x", "b", "a", workload.UpToDate, 3),
			Marks{LastGood: 1}},
		"annotations that are none": {newWorld().has(2, "b", good, "x", failed, "1,,-4,x"), Marks{Failed: []int64{1}}},
	} {
		t.Run(name, func(t *testing.T) {
			config := newConfig()
			equal(t, test.want, mark(test.world.current(config), test.world.users(config)))
		})
	}
}

// TestMarkAfterALaterImageChange: a later image change fails no revision. The owner of a
// StatefulSet begins a rollout long after that of the content was complete.
func TestMarkAfterALaterImageChange(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	restarted := now.Add(-7 * 24 * time.Hour)
	w := newWorld().keeps("a", "b").has(2, "b", configv1.AnnotationLastGood, "1")
	source := w.Snapshot.Demands[0].Source
	w.Snapshot.Sources[source] = workload.Source{Ref: source, State: workload.Present,
		Keys: map[string]string{"MESSAGE": workload.HashText("b")}}
	w.Snapshot.Targets = []workload.Target{{
		Ref: workload.TargetRef{Kind: "StatefulSet", Name: "store"}, Uses: map[workload.SourceRef]workload.Use{source: {}},
		Stamp: workload.Stamp{RestartedAt: &restarted, Done: true, Sources: map[string]workload.SeenSource{
			source.String(): {All: hash("b"), Was: hash("a"), At: &restarted},
		}},
		Rolled: workload.Rolled{Pods: 3, Updated: 1},
	}}
	w.Plan, w.Now = workload.Decide(w.Snapshot, now), now
	config := newConfig(says("b"))
	equal(t, Marks{LastGood: 1}, Choose(config, w.Observed).Marks)
	equal(t, "2 1/3, Ready=False RollingOut, Progressing=True RollingOut", statusLine(w.status(config, plan.Result{})))
}

// TestMarkAfterAnUndo: kubectl rollout undo makes a failed content no good one. The StatefulSet
// counts as complete at once.
func TestMarkAfterAnUndo(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	w := newWorld().keeps("a", "b").has(2, "b", configv1.AnnotationLastGood, "1", configv1.AnnotationFailed, "2")
	source := w.Snapshot.Demands[0].Source
	w.Snapshot.Sources[source] = workload.Source{Ref: source, State: workload.Present,
		Keys: map[string]string{"MESSAGE": workload.HashText("b")}}
	w.Snapshot.Targets = []workload.Target{{
		Ref: workload.TargetRef{Kind: "StatefulSet", Name: "store"}, Uses: map[workload.SourceRef]workload.Use{source: {}},
		Stamp: workload.Stamp{RestartedAt: &now, For: workload.HashText("shop-config=b#1"), Sources: map[string]workload.SeenSource{
			source.String(): {All: hash("b"), Was: hash("a"), At: &now},
		}},
		Rolled: workload.Rolled{Complete: true, Pods: 3, Updated: 3, Ready: 3},
	}}
	w.Plan, w.Now = workload.Decide(w.Snapshot, now), now
	equal(t, Marks{LastGood: 1, Failed: []int64{2}}, Choose(newConfig(says("b")), w.Observed).Marks)
}

// TestRecall: a ConfigMap that was deleted by hand, or lost its annotations, comes back as it was,
// and the rows apply as if it had been there.
func TestRecall(t *testing.T) {
	type changes = []func(*configv1.AppConfigSpec)
	goneBack := configv1.AppConfigStatus{Revision: 1, Hash: hash("a"), LastGood: 1, Revisions: []configv1.RevisionStatus{
		{Revision: 2, State: configv1.RevisionFailed}, {Revision: 1, State: configv1.RevisionCurrent},
	}}
	for name, test := range map[string]struct {
		changes changes
		status  configv1.AppConfigStatus
		world   *world
		want    string
		marks   Marks
	}{
		"nothing is kept": {changes{says("b"), manual("")}, goneBack, newWorld(), "1", Marks{}},
		"manual": {changes{says("b"), manual("")}, configv1.AppConfigStatus{}, newWorld().keeps("a"),
			"1 AwaitingApproval a", Marks{}},
		"manual, approved": {changes{says("b"), manual(hash("b"))}, configv1.AppConfigStatus{}, newWorld().keeps("a"), "2",
			Marks{}},
		"outside the window": {changes{says("b")}, configv1.AppConfigStatus{}, closed(newWorld().keeps("a")),
			"1 OutsideWindow a", Marks{}},
		"at any time": {changes{says("b")}, configv1.AppConfigStatus{}, newWorld().keeps("a"), "2", Marks{}},
		"it was put back": {changes{says("b"), rollback}, goneBack, newWorld().keeps("a", "b"), "1 RolledBack a",
			Marks{1, []int64{2}, "its pods did not become ready"}},
		"it was put back, and lost marks": {changes{says("b"), rollback}, goneBack, newWorld().keeps("a", "b").has(0, "a"),
			"1 RolledBack a", Marks{1, []int64{2}, "its pods did not become ready"}},
		"what the status has": {changes{says("c"), manual("")}, configv1.AppConfigStatus{Revision: 1, Hash: hash("a")},
			newWorld().keeps("a", "b"), "1 AwaitingApproval a", Marks{}},
		"the status has another": {changes{says("c"), manual("")}, configv1.AppConfigStatus{Revision: 1, Hash: hash("x")},
			newWorld().keeps("a", "b"), "2 AwaitingApproval b", Marks{}},
		"what pods run": {
			changes{says("d"), manual("")}, configv1.AppConfigStatus{}, newWorld().keeps("a", "b", "c").runs("x", "b", "a", workload.Left,
				3).runs("y", "a", "", workload.Left, 3),
			"2 AwaitingApproval b", Marks{},
		},
		"what pods run has failed": {
			changes{says("c"), manual("")}, configv1.AppConfigStatus{LastGood: 1, Revisions: goneBack.Revisions}, newWorld().keeps("a",
				"b").runs("x", "b", "a", workload.Left, 3),
			"1 AwaitingApproval a", Marks{1, []int64{2}, "its pods did not become ready"},
		},
		"the last good one": {changes{says("c"), manual("")}, configv1.AppConfigStatus{LastGood: 1}, newWorld().keeps("a", "b"),
			"1 AwaitingApproval a", Marks{LastGood: 1}},
		"it exists: no need": {changes{says("c"), manual("")}, goneBack, newWorld().keeps("a", "b").has(2, "b"), "2 AwaitingApproval", Marks{}},
	} {
		t.Run(name, func(t *testing.T) {
			config := newConfig(test.changes...)
			config.Status = test.status
			choice := Choose(config, test.world.Observed)
			got := fmt.Sprint(choice.Chosen)
			for _, part := range []string{choice.Pending, choice.Kept["MESSAGE"]} {
				if part != "" {
					got += " " + part
				}
			}
			equal(t, test.want, got)
			equal(t, test.marks, choice.Marks)
		})
	}
}

// TestSameKeyIsAlwaysTheFirst: of several keys that are in config and in files, the same one is
// reported each time.
func TestSameKeyIsAlwaysTheFirst(t *testing.T) {
	config := newConfig(func(spec *configv1.AppConfigSpec) {
		spec.Config, spec.Files = map[string]string{}, map[string]string{}
		for _, key := range []string{"A", "B", "C", "D", "E"} {
			spec.Config[key], spec.Files[key] = "x", "y"
		}
	})
	for range 20 {
		if got := RenderingIn(config, policy.None, policy.Environments{}).Problem; !strings.Contains(got, "spec.files.A") {
			t.Fatalf("got %s", got)
		}
	}
}
