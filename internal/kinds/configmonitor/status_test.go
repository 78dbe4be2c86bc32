package configmonitor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/configmonitor"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// deployment returns a Deployment with app=web whose pods were all started with a content.
func deployment(name, content string, change ...func(*workload.Target)) workload.Target {
	source := flags(content, noon)
	made := workload.Target{
		Ref: workload.TargetRef{Kind: "Deployment", Name: name}, Labels: map[string]string{"app": "web"}, Created: ago(time.Hour),
		Stamp:  workload.Stamp{Sources: map[string]workload.SeenSource{"ConfigMap/flags": {All: source.All()}}},
		Rolled: workload.Rolled{Complete: true, Pods: 2, Updated: 2, Ready: 2},
	}
	for _, apply := range change {
		apply(&made)
	}
	return made
}

func seen(change func(*workload.SeenSource)) func(*workload.Target) {
	return func(target *workload.Target) {
		entry := target.Stamp.Sources["ConfigMap/flags"]
		change(&entry)
		target.Stamp.Sources["ConfigMap/flags"] = entry
	}
}

func restarted(times int64, last time.Time) func(*workload.Target) {
	return func(target *workload.Target) {
		target.Stamp.RestartedAt = &last
		seen(func(s *workload.SeenSource) { s.Restarts, s.At = times, &last })(target)
	}
}

func rolling(target *workload.Target) { target.Rolled = workload.Rolled{Pods: 2, Updated: 1, Ready: 2} }
func stuck(target *workload.Target) {
	target.Rolled = workload.Rolled{Pods: 2, Updated: 1, Failed: "its deadline has passed"}
}
func refused(target *workload.Target) {
	target.Refusal = workload.Refusal{Message: "a policy says no", At: ago(time.Minute)}
}
func paused(target *workload.Target) {
	target.Rolled = workload.Rolled{Pods: 2, Blocked: "it is paused"}
}
func unstamped(target *workload.Target) { target.Stamp = workload.Stamp{} }
func done(target *workload.Target)      { target.Stamp.Done = true }

// conditionsOf returns the conditions that are not in their usual state, in a few words.
func conditionsOf(status configv1.ConfigMonitorStatus) string {
	var parts []string
	for _, condition := range status.Conditions {
		switch {
		case condition.Type != configv1.ConditionReady && condition.Status == metav1.ConditionFalse:
		default:
			parts = append(parts, fmt.Sprintf("%s=%s %s", condition.Type, condition.Status, condition.Reason))
		}
	}
	return strings.Join(parts, ", ")
}

// statusCase is one status, at noon.
type statusCase struct {
	change  func(*configv1.ConfigMonitorSpec)
	source  workload.Source
	targets []workload.Target
	failure *plan.Failure
	want    string
	// message is part of the message of Ready, numbers are matched, upToDate and restarts.
	message, numbers string
	skipped          []string
}

func (c statusCase) check(t *testing.T) {
	t.Helper()
	made := monitor()
	if c.change != nil {
		made = monitor(c.change)
	}
	snapshot := workload.Snapshot{Targets: c.targets, Demands: []workload.Demand{configmonitor.DemandOf(made)},
		Sources: map[workload.SourceRef]workload.Source{}}
	if c.source.State != workload.Absent {
		snapshot.Sources[c.source.Ref] = c.source
	}
	status, _ := statusOf(made, configmonitor.Observed{Now: noon, Source: c.source, Snapshot: snapshot},
		plan.Result{Failure: c.failure})
	if got := conditionsOf(status); got != c.want {
		t.Errorf("got %s, want %s", got, c.want)
	}
	if got := status.Conditions[0].Message; !strings.Contains(got, c.message) {
		t.Errorf("got %q, want %q in it", got, c.message)
	}
	if got := fmt.Sprint(status.Matched, status.UpToDate, status.Restarts); got != c.numbers {
		t.Errorf("got %s, want %s", got, c.numbers)
	}
	var skipped []string
	for _, one := range status.Skipped {
		skipped = append(skipped, one.Name+" "+one.Reason)
	}
	if diff := cmp.Diff(c.skipped, skipped); diff != "" {
		t.Error(diff)
	}
	if status.ObservedGeneration != 3 || status.Source != configmonitor.SourceOf(&made.Spec).String() {
		t.Errorf("it is about generation %d and %s", status.ObservedGeneration, status.Source)
	}
}

// statusOf returns the status after the decision that follows from what was observed.
func statusOf(monitor *configv1.ConfigMonitor, observed configmonitor.Observed, result plan.Result) (configv1.ConfigMonitorStatus,
	time.Duration) {
	return configmonitor.Status(monitor, observed, configmonitor.Decide(monitor, observed), result)
}

func TestStatus(t *testing.T) {
	for name, test := range map[string]statusCase{
		"all is well": {
			source: blue, targets: []workload.Target{deployment("a", "blue", restarted(2, ago(time.Hour))),
				deployment("b", "blue", restarted(1, ago(time.Minute)))},
			want: "Ready=True UpToDate", message: "2 of 2 workloads run the current content of ConfigMap/flags", numbers: "2 2 3",
		},
		"one is not stamped yet": {
			source: flags("blue", ago(2*time.Hour)), targets: []workload.Target{deployment("a", "blue", unstamped)},
			want: "Ready=False Waiting", message: "Baseline (Deployment/a: the content that its pods were started with is being recorded",
			numbers: "1 0 0",
			skipped: []string{"Deployment/a Baseline"},
		},
		"one restarts": {
			source: blue, targets: []workload.Target{deployment("a", "blue"), deployment("b", "blue", restarted(1, ago(time.Second)), rolling)},
			want:    "Ready=False Restarting, Progressing=True Restarting",
			message: "1 of 2 workloads run the current content of ConfigMap/flags; being restarted: Deployment/b", numbers: "2 1 1",
		},
		"one starts for the first time": {
			source: blue, targets: []workload.Target{deployment("a", "blue"), deployment("b", "blue", rolling)},
			want:    "Ready=False Starting",
			message: "1 of 2 workloads run the current content of ConfigMap/flags; being rolled out by their owners: Deployment/b", numbers: "2 1 0",
		},
		"one is rolled out by its owner, long after it was restarted": {
			source: blue, targets: []workload.Target{deployment("a", "blue", restarted(1, ago(24*time.Hour)), done, rolling)},
			want:    "Ready=False Starting",
			message: "0 of 1 workloads run the current content of ConfigMap/flags; being rolled out by their owners: Deployment/a", numbers: "1 0 1",
		},
		"one is about to": {
			source: blue, targets: []workload.Target{deployment("a", "red")},
			want: "Ready=False Restarting, Progressing=True Restarting", message: "; to be restarted: Deployment/a", numbers: "1 0 0",
		},
		"one restarts, one is about to, and one starts": {
			source: blue, targets: []workload.Target{deployment("a", "blue", rolling), deployment("b", "red"),
				deployment("c", "blue", restarted(1, ago(time.Second)), rolling)},
			want:    "Ready=False Restarting, Progressing=True Restarting",
			message: "; being restarted: Deployment/c; to be restarted: Deployment/b", numbers: "3 0 1",
		},
		"many restart": {
			source: blue, targets: []workload.Target{deployment("a", "red"), deployment("b", "red"), deployment("c", "red"), deployment("d", "red"),
				deployment("e", "red")},
			want:    "Ready=False Restarting, Progressing=True Restarting",
			message: "; to be restarted: Deployment/a, Deployment/b, Deployment/c and 2 more", numbers: "5 0 0",
		},
		"one cools down": {
			source: blue, targets: []workload.Target{deployment("a", "red", restarted(1, ago(10*time.Second))), deployment("b", "blue")},
			want: "Ready=False Waiting", message: "waiting: Cooldown (Deployment/a: cooling down after the last restart until 2026-01-01T12:00:20Z)",
			numbers: "2 1 1", skipped: []string{"Deployment/a Cooldown"},
		},
		"one is paused": {
			source: blue, targets: []workload.Target{deployment("a", "blue", restarted(1, ago(time.Hour)), paused)},
			want: "Ready=False Blocked", message: "Deployment/a: it is paused", numbers: "1 0 1", skipped: []string{"Deployment/a Blocked"},
		},
	} {
		t.Run(name, test.check)
	}
}

func TestPhase(t *testing.T) {
	for want, target := range map[api.Phase]workload.Target{
		"Active":      deployment("a", "blue"),
		"Progressing": deployment("a", "red"),
		"Pending":     deployment("a", "blue", restarted(1, ago(time.Hour)), paused),
		"Failed":      deployment("a", "blue", restarted(1, ago(time.Minute)), stuck),
	} {
		snapshot := workload.Snapshot{Targets: []workload.Target{target}, Demands: []workload.Demand{configmonitor.DemandOf(monitor())},
			Sources: map[workload.SourceRef]workload.Source{blue.Ref: blue}}
		status, _ := statusOf(monitor(), configmonitor.Observed{Now: noon, Source: blue, Snapshot: snapshot}, plan.Result{})
		if status.Phase != want {
			t.Errorf("got %s, want %s", status.Phase, want)
		}
	}
}

func TestStatusOfProblems(t *testing.T) {
	absent, denied := flags("", noon), workload.Source{Ref: workload.SourceRef{Kind: workload.Secret, Name: "database"},
		State: workload.NotGranted}
	absent.State = workload.Absent
	edited := flags("blue", ago(time.Minute))
	edited.Declaration = workload.Declaration{Owner: "AppConfig", Declared: "another"}
	for name, test := range map[string]statusCase{
		"one failed": {
			source: blue, targets: []workload.Target{deployment("a", "blue", restarted(1, ago(time.Minute)), stuck), deployment("b", "blue")},
			want: "Ready=False RolloutFailed, Degraded=True RolloutFailed", message: "Deployment/a: its deadline has passed", numbers: "2 1 1",
		},
		"a restart is refused": {
			source: blue, targets: []workload.Target{deployment("a", "red", refused), deployment("b", "blue")},
			want:    "Ready=False RestartRefused, Degraded=True RestartRefused",
			message: "Deployment/a: the API server refuses the restart: a policy says no", numbers: "2 1 0",
			skipped: []string{"Deployment/a RestartRefused"},
		},
		"a restart is refused, and another goes on": {
			change: func(s *configv1.ConfigMonitorSpec) { s.MaxParallel = new(int32(1)) },
			source: blue, targets: []workload.Target{deployment("a", "red", refused), deployment("b", "red")},
			want:    "Ready=False RestartRefused, Progressing=True Restarting, Degraded=True RestartRefused",
			message: "Deployment/a: the API server refuses the restart: a policy says no", numbers: "2 0 0",
			skipped: []string{"Deployment/a RestartRefused"},
		},
		"it flaps": {
			source: blue, targets: []workload.Target{deployment("a", "blue", restarted(9, ago(time.Second)),
				seen(func(s *workload.SeenSource) { s.Streak = 4 }))},
			want:    "Ready=False Flapping, Degraded=True Flapping, Flapping=True Flapping",
			message: "ConfigMap/flags changes again and again, by argocd, kubectl-edit: each workload is restarted at most once per cooldown",
			numbers: "1 1 9",
		},
		"nothing is selected": {
			source: blue, targets: []workload.Target{deployment("a", "red", func(target *workload.Target) { target.Labels = nil })},
			want: "Ready=False NothingMatched", message: "spec.podSelector selects nothing: no Deployment, StatefulSet or DaemonSet of this namespace makes pods with app=web: there are Deployment/a", numbers: "0 0 0",
		},
		"the source is missing": {
			source: absent, targets: []workload.Target{deployment("a", "red")},
			want: "Ready=False SourceMissing, Degraded=True SourceMissing", message: "ConfigMap/flags does not exist", numbers: "1 0 0",
		},
		"the source is being reverted": {
			source: edited, targets: []workload.Target{deployment("a", "red")},
			want: "Ready=False EditedByHand", message: "its AppConfig is reverting it", numbers: "1 0 0",
		},
		"the Secret may not be read": {
			change: func(s *configv1.ConfigMonitorSpec) { s.ConfigMap, s.Secret = "", "database" },
			source: denied, targets: []workload.Target{deployment("a", "red")},
			want:    "Ready=False SecretAccessNotGranted, Degraded=True SecretAccessNotGranted, Stalled=True SecretAccessNotGranted, SecretAccessNotGranted=True SecretAccessNotGranted",
			message: "add shop to secrets.namespaces in the values of its Helm release", numbers: "1 0 0",
		},
		"the spec can't be carried out": {
			source: blue, failure: &plan.Failure{Reason: "InvalidSpec", Message: "spec.window", Stalled: true},
			want: "Ready=False InvalidSpec, Degraded=True InvalidSpec, Stalled=True InvalidSpec", message: "spec.window", numbers: "0 0 0",
		},
		"a call failed": {
			source: blue, targets: []workload.Target{deployment("a", "blue")}, failure: &plan.Failure{Reason: "ReconcileFailed", Transient: true},
			want: "Ready=Unknown ReconcileFailed", numbers: "1 1 0",
		},
	} {
		t.Run(name, test.check)
	}
}

// TestStatusIsOfItsOwnDemand: other demands on the same workloads are not reported here.
func TestStatusIsOfItsOwnDemand(t *testing.T) {
	mine, others := monitor(), monitor(func(s *configv1.ConfigMonitorSpec) {
		s.ConfigMap, s.PodSelector = "other", map[string]string{"app": "other"}
	})
	others.Name = "other"
	snapshot := workload.Snapshot{
		Targets: []workload.Target{deployment("a", "blue"),
			deployment("b", "red", func(target *workload.Target) { target.Labels = map[string]string{"app": "other"} })},
		Demands: []workload.Demand{configmonitor.DemandOf(others), configmonitor.DemandOf(mine)},
		Sources: map[workload.SourceRef]workload.Source{{Kind: workload.ConfigMap, Name: "flags"}: flags("blue", noon)},
	}
	status, _ := statusOf(mine, configmonitor.Observed{Now: noon, Source: flags("blue", noon), Snapshot: snapshot}, plan.Result{})
	if got := conditionsOf(status); got != "Ready=True UpToDate" || status.Matched != 1 {
		t.Errorf("got %s, %d matched", got, status.Matched)
	}
}

func TestStatusTimes(t *testing.T) {
	made, changed := monitor(), ago(time.Minute)
	snapshot := workload.Snapshot{
		Demands: []workload.Demand{configmonitor.DemandOf(made)}, Sources: map[workload.SourceRef]workload.Source{{Kind: workload.ConfigMap,
			Name: "flags"}: flags("blue", changed)},
		Targets: []workload.Target{deployment("a", "blue", restarted(1, ago(90*time.Second))),
			deployment("b", "red", restarted(1, ago(10*time.Second+300*time.Millisecond)))},
	}
	status, again := statusOf(made, configmonitor.Observed{Now: noon, Source: flags("blue", changed), Snapshot: snapshot},
		plan.Result{})
	if !status.LastChange.Time.Equal(changed) || !status.LastRestart.Time.Equal(ago(11*time.Second)) {
		t.Errorf("changed %s, restarted %s", status.LastChange, status.LastRestart)
	}
	if again != 20*time.Second-300*time.Millisecond {
		t.Errorf("it is looked at again after %s", again)
	}
	_, again = statusOf(made, configmonitor.Observed{Now: noon, Source: flags("blue", changed), Unasked: true}, plan.Result{})
	if again != 2*time.Second {
		t.Errorf("what nobody has asked is asked after %s", again)
	}
}

func TestStatusNamesTwenty(t *testing.T) {
	made := monitor(func(s *configv1.ConfigMonitorSpec) { s.MaxParallel = new(int32(1)) })
	snapshot := workload.Snapshot{
		Demands: []workload.Demand{configmonitor.DemandOf(made)}, Sources: map[workload.SourceRef]workload.Source{{Kind: workload.ConfigMap,
			Name: "flags"}: flags("blue", noon)},
	}
	for i := range 30 {
		snapshot.Targets = append(snapshot.Targets, deployment(fmt.Sprintf("d%02d", i), "red"))
	}
	status, _ := statusOf(made, configmonitor.Observed{Now: noon, Source: flags("blue", noon), Snapshot: snapshot}, plan.Result{})
	if len(status.Skipped) != 20 || status.Skipped[0].Name != "Deployment/d01" || status.Matched != 30 {
		t.Errorf("%d are skipped, %+v; %d matched", len(status.Skipped), status.Skipped, status.Matched)
	}
}

func TestStatusOfEvictions(t *testing.T) {
	blue := flags("blue", ago(time.Minute))
	blue.Owner = "AppConfig"
	for name, test := range map[string]struct {
		evictions configmonitor.Evictions
		failure   *plan.Failure
		want      string
		message   string
	}{
		"all is well": {configmonitor.Evictions{Matched: 3, UpToDate: 3}, nil, "Ready=True UpToDate",
			"3 of 3 pods run the current content of ConfigMap/flags"},
		"some go": {configmonitor.Evictions{Matched: 3, UpToDate: 1, Restarting: []string{"Pod/a"}, Waiting: 1}, nil,
			"Ready=False Restarting, Progressing=True Restarting", "being restarted: Pod/a"},
		"a budget holds": {configmonitor.Evictions{Matched: 1, Waiting: 1,
			Skipped: []configv1.Skipped{{Name: "Pod/a", Reason: "DisruptionBudget",
				Message: "later"}}}, nil, "Ready=False Waiting", "waiting: DisruptionBudget (Pod/a: later)"},
		"some are never evicted": {configmonitor.Evictions{Matched: 1, Left: 1, Skipped: []configv1.Skipped{{Name: "Pod/a", Reason: "Unowned",
			Message: "no"}}}, nil, "Ready=False Skipped", "not evicted: Unowned (Pod/a: no)"},
		"nothing is selected": {configmonitor.Evictions{}, nil, "Ready=False NothingMatched", "no running pod of this namespace has app=web"},
		"some do not come up": {configmonitor.Evictions{Matched: 1, UpToDate: 1, Restarting: []string{"Pod/a"},
			Failed: []string{"Pod/a: not ready"}}, nil, "Ready=False RolloutFailed, Progressing=True Restarting, Degraded=True RolloutFailed",
			"Pod/a: not ready"},
		"it flaps": {configmonitor.Evictions{Matched: 1, UpToDate: 1, Flapping: true}, nil,
			"Ready=False Flapping, Degraded=True Flapping, Flapping=True Flapping", "each pod is restarted at most once per cooldown"},
		"it is reverted": {configmonitor.Evictions{Matched: 1, UpToDate: 1, PutBack: true}, nil, "Ready=False EditedByHand",
			"its AppConfig is reverting it"},
		"it is refused": {configmonitor.Evictions{Matched: 1}, &plan.Failure{Reason: "Refused", Message: "forbidden"},
			"Ready=False Refused, Degraded=True Refused", "forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			made := monitor(evicting)
			test.evictions.Record = configmonitor.Record{Evicted: 7, At: new(ago(time.Minute))}
			test.evictions.RequeueAfter = 3 * time.Second
			status, again := configmonitor.Status(made, configmonitor.Observed{Now: noon, Source: blue},
				configmonitor.Decision{Evictions: &test.evictions, Failure: test.failure}, plan.Result{})
			if got := conditionsOf(status); got != test.want || !strings.Contains(status.Conditions[0].Message, test.message) {
				t.Errorf("got %s: %s; want %s: %s", got, status.Conditions[0].Message, test.want, test.message)
			}
			if status.Restarts != 7 || !status.LastRestart.Time.Equal(ago(time.Minute)) || again != 3*time.Second {
				t.Errorf("%d restarts, the last at %s, again after %s", status.Restarts, status.LastRestart, again)
			}
		})
	}
}

// TestCauseOfARestart: while a restart makes no progress, the reason is what is wrong with the
// pods.
func TestCauseOfARestart(t *testing.T) {
	const cause = "1 of 3 pods: image x:9 can't be pulled"
	for name, test := range map[string]struct {
		target        workload.Target
		want, message string
	}{
		"restarted": {deployment("a", "blue", rolling, restarted(1, ago(time.Minute))),
			"Ready=False ImagePullFailed, Progressing=True Restarting, Degraded=True ImagePullFailed",
			"0 of 1 workloads run the current content of ConfigMap/flags; Deployment/a: 1 of 2 pods are replaced: " + cause},
		"by its owner": {deployment("a", "blue", rolling), "Ready=False ImagePullFailed, Degraded=True ImagePullFailed",
			"0 of 1 workloads run the current content of ConfigMap/flags; Deployment/a: 1 of 2 pods are replaced: " + cause},
		"failed": {deployment("a", "blue", stuck, restarted(1, ago(time.Minute))), "Ready=False RolloutFailed, Degraded=True RolloutFailed",
			"Deployment/a: its deadline has passed, and 1 of 2 pods are replaced: " + cause},
		"up to date": {deployment("a", "blue"), "Ready=True UpToDate", "1 of 1 workloads run the current content of ConfigMap/flags"},
	} {
		t.Run(name, func(t *testing.T) {
			origin := workload.OriginOf(configmonitor.Kind, "flags")
			source := flags("blue", ago(time.Hour))
			observed := configmonitor.Observed{Now: noon, Source: source}
			observed.Causes = workload.Causes{0: {Reason: api.ReasonImagePullFailed, Message: cause}}
			observed.Snapshot = workload.Snapshot{
				Targets: []workload.Target{test.target}, Sources: map[workload.SourceRef]workload.Source{source.Ref: source},
				Demands: []workload.Demand{{Origin: origin, Source: source.Ref, Scope: workload.Scope{Target: &test.target.Ref}}},
			}
			status, _ := configmonitor.Status(monitor(), observed, configmonitor.Decide(monitor(), observed), plan.Result{})
			if diff := cmp.Diff([]string{test.want, test.message}, []string{conditionsOf(status), status.Conditions[0].Message}); diff != "" {
				t.Error(diff)
			}
		})
	}
}
