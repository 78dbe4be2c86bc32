package appconfig

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-platform/mainstay/api"
	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// statusLine returns a status in one line: the revision, the pods, what is pending, and each
// condition that is not in its usual state.
func statusLine(status configv1.AppConfigStatus) string {
	parts := []string{fmt.Sprintf("%d %s", status.Revision, status.PodSummary)}
	if status.Pending != nil {
		parts = append(parts, "pending "+status.Pending.Reason)
	}
	for _, condition := range status.Conditions {
		isUsual := condition.Status == metav1.ConditionFalse && condition.Type != configv1.ConditionReady
		if !isUsual {
			parts = append(parts, fmt.Sprintf("%s=%s %s", condition.Type, condition.Status, condition.Reason))
		}
	}
	return strings.Join(parts, ", ")
}

func TestStatus(t *testing.T) {
	main := plan.Ref{Kind: "ConfigMap", Namespace: "web", Name: "shop-config"}
	wrote := plan.Result{Changes: []plan.Change{{Ref: main, Operation: plan.Updated}}}
	good, failed := configv1.AnnotationLastGood, configv1.AnnotationFailed
	older := newWorld().runs("x", "a", "", workload.UpToDate, 3)
	older.Older = "first"
	of := func(owner types.UID) *world {
		taken := newWorld().has(1, "a")
		found := taken.Children[main]
		found.Ownership = plan.Foreign
		found.Object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "config.mainstay.dev/v1", Kind: "AppConfig", Name: "other",
			UID: owner, Controller: new(true)}})
		taken.Children[main], taken.Siblings = found, []types.UID{"uid-1", "uid-2"}
		return taken
	}
	type changes = []func(*configv1.AppConfigSpec)
	for name, test := range map[string]struct {
		changes changes
		world   *world
		result  plan.Result
		want    string
	}{
		"just made": {world: newWorld(), result: wrote, want: "1 0/0, Ready=True NoUsers"},
		"no users":  {world: newWorld().keeps("hello").has(1, "hello"), want: "1 0/0, Ready=True NoUsers"},
		"all run it": {world: newWorld().keeps("hello").has(1, "hello").runs("x", "hello", "a", workload.UpToDate, 3),
			want: "1 3/3, Ready=True UpToDate"},
		"just changed": {changes: changes{says("b")}, world: newWorld().keeps("a").has(1, "a").runs("x", "a", "",
			workload.UpToDate, 3), result: wrote, want: "2 0/3, Ready=False RollingOut, Progressing=True RollingOut"},
		"only marked": {changes: changes{says("a")}, world: newWorld().keeps("a").has(1, "a").runs("x", "a", "",
			workload.UpToDate, 3), result: wrote, want: "1 3/3, Ready=True UpToDate"},
		"one rolls": {changes: changes{says("b")}, world: newWorld().keeps("a", "b").has(2, "b").runs("x", "b", "a",
			workload.Rolling, 1).runs("y", "b", "a", workload.UpToDate, 3), want: "2 4/6, Ready=False RollingOut, Progressing=True RollingOut"},
		"one is paused": {changes: changes{says("b")}, world: newWorld().keeps("a", "b").has(2, "b").runs("x", "b", "a",
			workload.Rolling, 0).blocked().runs("y", "a", "", workload.Waiting, 3), want: "2 0/6, Ready=False Blocked"},
		"one is paused, another rolls": {changes: changes{says("b")}, world: newWorld().keeps("a", "b").has(2, "b").runs("x", "b", "a",
			workload.Rolling, 0).blocked().runs("y", "b", "a", workload.Rolling, 1),
			want: "2 1/6, Ready=False RollingOut, Progressing=True RollingOut"},
		"one waits": {changes: changes{says("b")}, world: newWorld().keeps("a", "b").has(2, "b").runs("x", "a", "",
			workload.Waiting, 3), want: "2 0/3, Ready=False Waiting"},
		"one fails": {changes: changes{says("b")}, world: newWorld().keeps("a", "b").has(2, "b", good, "1", failed,
			"2").runs("x", "b", "a", workload.Failed, 1), want: "2 1/3, Ready=False RolloutFailed, Degraded=True RolloutFailed"},
		"rolled back": {changes: changes{says("b"), rollback},
			world: newWorld().keeps("a", "b").has(1, "a", good, "1", failed, "2").runs("x", "a", "b", workload.UpToDate,
				3), want: "1 3/3, pending RolledBack, Ready=False RolledBack, Degraded=True RolledBack"},
		"manual": {changes: changes{says("b"), manual("")},
			world: newWorld().keeps("a").has(1, "a").runs("x", "a", "", workload.UpToDate,
				3), want: "1 3/3, pending AwaitingApproval, Ready=False AwaitingApproval"},
		"its content is lost": {changes: changes{says("b"), manual("")}, world: newWorld().has(1, "a").edited("x"),
			want: "1 0/0, pending AwaitingApproval, Ready=False ContentLost, Degraded=True ContentLost, Stalled=True ContentLost"},
		"outside the window": {changes: changes{says("b")}, world: closed(newWorld().keeps("a").has(1, "a")),
			want: "1 0/0, pending OutsideWindow, Ready=False OutsideWindow"},
		"pinned": {changes: changes{says("b"), pinned(1)},
			world: newWorld().keeps("a").has(1, "a").runs("x", "a", "", workload.UpToDate, 3), want: "1 3/3, pending Pinned, Ready=True Pinned"},
		"pinned to none": {changes: changes{says("b"), pinned(7)}, world: newWorld().keeps("a").has(1, "a"),
			want: "1 0/0, pending Pinned, Ready=False RevisionNotFound, Degraded=True RevisionNotFound, Stalled=True RevisionNotFound"},
		"another counts": {world: older, want: "0 0/0, Ready=False Conflict, Degraded=True Conflict, Stalled=True Conflict"},
		"it renders nothing": {changes: changes{says("{{ .Values.NO }}")},
			world: newWorld().keeps("a").has(1, "a").runs("x", "a", "", workload.UpToDate,
				3), want: "1 3/3, Ready=False InvalidSpec, Degraded=True InvalidSpec, Stalled=True InvalidSpec"},
		"it is pinned all the same": {changes: changes{says("{{ .Values.NO }}"), pinned(1)},
			world: newWorld().keeps("a", "b").has(1, "a").runs("x", "a", "", workload.UpToDate, 3), want: "1 3/3, Ready=True Pinned"},
		"it is pinned to none": {changes: changes{says("{{ .Values.NO }}"), pinned(9)},
			world: newWorld().keeps("a").has(1, "a").runs("x", "a", "", workload.UpToDate,
				3), want: "1 3/3, Ready=False InvalidSpec, Degraded=True InvalidSpec, Stalled=True InvalidSpec"},
		"a foreign ConfigMap": {world: newWorld(), result: plan.Result{Conflicts: []plan.Ref{main}},
			want: "0 0/0, Ready=False Conflict, Degraded=True Conflict, Stalled=True Conflict"},
		"one of another": {world: of("uid-2"), result: plan.Result{Conflicts: []plan.Ref{main}},
			want: "0 0/0, Ready=False Conflict, Degraded=True Conflict, Stalled=True Conflict"},
		"one of who is gone": {world: of("uid-0"), result: plan.Result{Conflicts: []plan.Ref{main}},
			want: "0 0/0, Ready=False Terminating"},
		"a ConfigMap that goes": {world: newWorld(), result: plan.Result{Terminating: []plan.Ref{main}},
			want: "0 0/0, Ready=False Terminating"},
		"refused": {world: newWorld(), result: plan.Result{Failure: &plan.Failure{Reason: api.ReasonRefused, Retry: true}},
			want: "0 0/0, Ready=False Refused, Degraded=True Refused"},
		"a write failed": {world: newWorld(), result: plan.Result{Failure: &plan.Failure{Reason: api.ReasonReconcileFailed,
			Transient: true}}, want: "0 0/0, Ready=Unknown ReconcileFailed"},
		"a Secret that is not there": {changes: changes{secret}, world: newWorld().needsSecret(), result: wrote,
			want: "1 0/0, Ready=True NoUsers, Degraded=True SecretMissing"},
		"a key that is not there": {changes: changes{secret}, world: newWorld().needsSecret().holdsKey("user"), result: wrote,
			want: "1 0/0, Ready=True NoUsers, Degraded=True SecretMissing"},
		"a Secret that has the key": {changes: changes{secret}, world: newWorld().needsSecret().holdsKey("password"), result: wrote,
			want: "1 0/0, Ready=True NoUsers"},
		"something worse than a Secret": {changes: changes{secret, says("{{ .Values.NO }}")}, world: newWorld().needsSecret(),
			want: "0 0/0, Ready=False InvalidSpec, Degraded=True InvalidSpec, Stalled=True InvalidSpec"},
		"a Secret that may not be read": {changes: changes{secret}, world: newWorld().needsSecret().ungranted(), result: wrote,
			want: "1 0/0, Ready=True NoUsers, SecretAccessNotGranted=True SecretAccessNotGranted"},
	} {
		t.Run(name, func(t *testing.T) {
			config := newConfig(test.changes...)
			status := test.world.status(config, test.result)
			equal(t, test.want, statusLine(status))
		})
	}
}

// TestStatusOfRefusedRestarts: what the API server does not let restart is a failure.
func TestStatusOfRefusedRestarts(t *testing.T) {
	type changes = []func(*configv1.AppConfigSpec)
	main := plan.Ref{Kind: "ConfigMap", Namespace: "web", Name: "shop-config"}
	wrote := plan.Result{Changes: []plan.Change{{Ref: main, Operation: plan.Updated}}}
	for name, test := range map[string]struct {
		changes changes
		world   *world
		result  plan.Result
		want    string
	}{
		"a restart is refused": {changes: changes{says("b")}, world: newWorld().keeps("a", "b").has(2, "b").runs("x", "a", "",
			workload.Waiting, 3).denied(), want: "2 0/3, Ready=False RestartRefused, Degraded=True RestartRefused"},
		"a restart is refused, another rolls": {changes: changes{says("b")}, world: newWorld().keeps("a", "b").has(2, "b").runs("x", "a",
			"", workload.Waiting, 3).denied().runs("y", "b", "a", workload.Rolling, 1),
			want: "2 1/6, Ready=False RestartRefused, Progressing=True RollingOut, Degraded=True RestartRefused"},
		"the content has just changed, and a restart for another was refused": {changes: changes{says("b")},
			world: newWorld().keeps("a").has(1, "a").runs("x", "a", "", workload.Waiting, 3).denied(), result: wrote,
			want: "2 0/3, Ready=False RollingOut, Progressing=True RollingOut"},
	} {
		t.Run(name, func(t *testing.T) {
			equal(t, test.want, statusLine(test.world.status(newConfig(test.changes...), test.result)))
		})
	}
}

// TestStatusWhileSourcesAreBehind: as long as workloads are compared with an earlier content than
// the ConfigMap has, none counts as up to date or failed, and the status is computed again soon.
func TestStatusWhileSourcesAreBehind(t *testing.T) {
	const next = "2 0/3, Ready=False RollingOut, Progressing=True RollingOut"
	for name, test := range map[string]struct {
		// compared is the content that workloads were compared with, and declared what its ConfigMap has
		// according to its annotations.
		compared, declared string
		state              workload.State
		want               string
		again              time.Duration
	}{
		"they ran the earlier content":       {"a", "a", workload.UpToDate, next, time.Second},
		"they failed with the earlier one":   {"a", "a", workload.Failed, next, time.Second},
		"it has caught up":                   {"b", "b", workload.Waiting, "2 0/3, Ready=False Waiting", 0},
		"an edit by hand is seen there only": {"x", "b", workload.Left, "2 0/3, Ready=False Waiting", 0},
	} {
		t.Run(name, func(t *testing.T) {
			config, w := newConfig(says("b")), newWorld().keeps("a", "b").has(2, "b").runs("x", "a", "", test.state, 3)
			ref := workload.SourceRef{Kind: workload.ConfigMap, Name: "shop-config"}
			w.Snapshot.Sources[ref] = workload.Source{
				Ref: ref, State: workload.Present, Keys: map[string]string{"MESSAGE": workload.HashText(test.compared)},
				Declaration: workload.Declaration{Owner: Kind, Declared: hash(test.declared)},
			}
			status, again := Status(config, w.Observed, Choose(config, w.Observed), plan.Result{})
			equal(t, test.want, statusLine(status))
			equal(t, test.again, again)
		})
	}
}

func TestPhase(t *testing.T) {
	world := func() *world { return newWorld().keeps("a", "b").has(2, "b") }
	for want, status := range map[api.Phase]configv1.AppConfigStatus{
		"Active":      world().runs("x", "b", "a", workload.UpToDate, 3).status(newConfig(says("b")), plan.Result{}),
		"Progressing": world().runs("x", "b", "a", workload.Rolling, 1).status(newConfig(says("b")), plan.Result{}),
		"Pending":     world().runs("x", "a", "", workload.Waiting, 3).status(newConfig(says("b")), plan.Result{}),
		"Failed":      world().runs("x", "b", "a", workload.Failed, 1).status(newConfig(says("b")), plan.Result{}),
	} {
		equal(t, want, status.Phase)
	}
}

func secret(spec *configv1.AppConfigSpec) {
	spec.SecretRefs = []configv1.SecretRef{{Name: "PASSWORD", Secret: "db", Key: "password"}}
}

var database = workload.SourceRef{Kind: workload.Secret, Name: "db"}

// needsSecret adds a demand for what secret names; the Secret does not exist until holdsKey or
// ungranted.
func (w *world) needsSecret() *world {
	w.Snapshot.Demands = append(w.Snapshot.Demands, workload.Demand{
		Origin: Origin("shop"), Source: database, Keys: []string{"password"}, Scope: workload.Scope{Users: true},
	})
	return w
}

func (w *world) holdsKey(key string) *world {
	w.Snapshot.Sources[database] = workload.Source{Ref: database, State: workload.Present, Keys: map[string]string{key: "hash"}}
	return w
}

func (w *world) ungranted() *world {
	w.Snapshot.Sources[database] = workload.Source{Ref: database, State: workload.NotGranted}
	return w
}

func TestStatusOfRevisions(t *testing.T) {
	config := newConfig(says("d"))
	world := newWorld().keeps("a", "b", "c", "d").
		has(4, "d", configv1.AnnotationLastGood, "2", configv1.AnnotationFailed, "3").
		runs("x", "d", "b", workload.Rolling, 1).runs("y", "b", "", workload.Waiting, 3)
	status := world.status(config, plan.Result{})
	var got []string
	for _, revision := range status.Revisions {
		got = append(got, fmt.Sprint(revision.Revision, " ", revision.State, " ", revision.Pods, " ", revision.ConfigMap))
	}
	equal(t, []string{"4 Current 1 shop-config-4", "3 Failed 0 shop-config-3", "2 Good 5 shop-config-2", "1 Old 0 shop-config-1"}, got)
	equal(t, []configv1.WorkloadStatus{
		{Kind: "Deployment", Name: "x", State: "Rolling", Revision: 4, UpdatedPods: 1, Pods: 3, Message: "it is Rolling"},
		{Kind: "Deployment", Name: "y", State: "Waiting", Revision: 2, Pods: 3, Message: "it is Waiting"},
	}, status.Workloads)
}

// TestStatusOfARevertedTemplate: pods whose template was changed back after the restart count for
// the content before, although all of them have the present template.
func TestStatusOfARevertedTemplate(t *testing.T) {
	config := newConfig(says("b"))
	status := newWorld().keeps("a", "b").has(2, "b").runs("x", "b", "a", workload.Waiting, 3).reverted().status(config, plan.Result{})
	equal(t, "2 0/3, Ready=False Waiting", statusLine(status))
	equal(t, []configv1.WorkloadStatus{{Kind: "Deployment", Name: "x", State: "Waiting", Pods: 3, Message: "it is Waiting"}}, status.Workloads)
	var pods []int32
	for _, revision := range status.Revisions {
		pods = append(pods, revision.Pods)
	}
	equal(t, []int32{0, 3}, pods)
}

func TestRequeueAfter(t *testing.T) {
	for name, test := range map[string]struct {
		pending       string
		again, window time.Duration
		want          time.Duration
	}{
		"never":                        {want: 0},
		"as workloads ask":             {again: time.Minute, window: time.Second, want: time.Minute},
		"when the window opens":        {pending: configv1.ReasonOutsideWindow, window: time.Hour, want: time.Hour},
		"what comes first":             {pending: configv1.ReasonOutsideWindow, again: time.Minute, window: time.Hour, want: time.Minute},
		"the window, if that is first": {pending: configv1.ReasonOutsideWindow, again: time.Hour, window: time.Minute, want: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			equal(t, test.want, requeueAfter(Observed{Plan: workload.RestartPlan{RequeueAfter: test.again}, WindowChanges: test.window},
				Choice{Pending: test.pending}))
		})
	}
}

// TestStatusRemembersMarks: the marks of a ConfigMap that is gone stay in the status until it is
// written again.
func TestStatusRemembersMarks(t *testing.T) {
	config := newConfig(says("b"), rollback)
	config.Status = configv1.AppConfigStatus{Revision: 1, Hash: hash("a"), LastGood: 1,
		Revisions: []configv1.RevisionStatus{{Revision: 2, State: configv1.RevisionFailed}}}
	refused := plan.Result{Failure: &plan.Failure{Reason: api.ReasonRefused, Retry: true}}
	for _, text := range []string{"b", "{{ .Values.NO }}", "b"} {
		says(text)(&config.Spec)
		config.Status = newWorld().keeps("a", "b").status(config, refused)
		equal(t, 0, config.Status.Revision)
		equal(t, 1, config.Status.LastGood)
		equal(t, []configv1.RevisionStatus{
			{Revision: 2, Hash: hash("b"), ConfigMap: "shop-config-2", State: configv1.RevisionFailed},
			{Revision: 1, Hash: hash("a"), ConfigMap: "shop-config-1", State: configv1.RevisionGood},
		}, config.Status.Revisions)
	}
}

// TestRolledBackSaysHowToTryAgain: a status that stalls for ever says how to go on, and that works.
func TestRolledBackSaysHowToTryAgain(t *testing.T) {
	good, failed := configv1.AnnotationLastGood, configv1.AnnotationFailed
	back := newWorld().keeps("a", "b").has(1, "a", good, "1", failed, "2").runs("x", "a", "b", workload.UpToDate, 3)
	config := newConfig(says("b"), rollback)
	status := back.status(config, plan.Result{})
	if message := status.Conditions[0].Message; !strings.Contains(message, "set spec.revision to 2 until Ready is True") {
		t.Error(message)
	}
	config = newConfig(says("b"), rollback, pinned(2))
	tried := newWorld().keeps("a", "b").has(2, "b", good, "1", failed, "2").runs("x", "b", "a", workload.UpToDate, 3)
	choice := Choose(config, tried.Observed)
	equal(t, Marks{LastGood: 2, Failed: []int64{}}, choice.Marks)
	equal(t, 2, choice.Chosen)
}

// TestRefused: the message names each workload once, also if its restart is for a Secret.
func TestRefused(t *testing.T) {
	w := newWorld().keeps("a").has(1, "a").runs("x", "a", "", workload.Waiting, 3).denied().runs("y", "a", "", workload.UpToDate, 3).
		needsSecret()
	for _, target := range []int{0, 1} {
		w.Plan.Statuses = append(w.Plan.Statuses, workload.TargetStatus{Demand: 1, Target: target, State: workload.Waiting,
			Reason: workload.ReasonRefused, Message: "it is Waiting"})
	}
	config := newConfig(says("a"), secret)
	equal(t, []string{"Deployment/x: it is Waiting", "Deployment/y: it is Waiting"}, w.refused(config))
	equal(t, "Deployment/x: it is Waiting; Deployment/y: it is Waiting", w.status(config, plan.Result{}).Conditions[0].Message)
}

func TestMissing(t *testing.T) {
	config := newConfig(secret)
	equal(t, []string{"Secret db"}, newWorld().needsSecret().missing(config))
	equal(t, []string{"key password of Secret db"}, newWorld().needsSecret().holdsKey("user").missing(config))
}

// TestRevisionNotKept: the message names the revisions that are kept, the newest first.
func TestRevisionNotKept(t *testing.T) {
	config := newConfig(says("b"), pinned(77))
	message := newWorld().keeps("a", "b").has(1, "a").status(config, plan.Result{}).Conditions[0].Message
	if want := "spec.revision: Invalid value: 77: this revision is not kept: must be one of 2, 1"; message != want {
		t.Errorf("%q, want %q", message, want)
	}
}

// TestCauseOfARollout: while a rollout makes no progress, the reason is what is wrong with the
// pods, and a rollback records it.
func TestCauseOfARollout(t *testing.T) {
	cause := workload.Causes{0: {Reason: api.ReasonImagePullFailed, Message: "1 of 3 pods: image x:9 can't be pulled"}}
	config := newConfig(says("b"))
	w := newWorld().keeps("a", "b").has(2, "b", configv1.AnnotationLastGood, "1").runs("x", "b", "a", workload.Rolling, 1)
	w.Causes = cause
	status := w.status(config, plan.Result{})
	equal(t, "2 1/3, Ready=False ImagePullFailed, Progressing=True RollingOut, Degraded=True ImagePullFailed", statusLine(status))
	const because = "it is Rolling: 1 of 3 pods: image x:9 can't be pulled"
	equal(t, because, status.Workloads[0].Message)
	equal(t, "1 of 1 workloads are rolling out: Deployment/x: "+because, status.Conditions[0].Message)

	w = newWorld().keeps("a", "b").has(2, "b", configv1.AnnotationLastGood, "1").runs("x", "b", "a", workload.Failed, 1)
	w.Causes = cause
	equal(t, "Deployment/x: it is Failed: 1 of 3 pods: image x:9 can't be pulled", Choose(config, w.Observed).Marks.Failure)
	equal(t, configv1.ReasonRolloutFailed, w.status(config, plan.Result{}).Conditions[0].Reason)

	w = newWorld().keeps("hello").has(1, "hello").runs("x", "hello", "a", workload.UpToDate, 3)
	w.Causes = cause
	equal(t, "1 3/3, Ready=True UpToDate", statusLine(w.status(newConfig(), plan.Result{})))
}
