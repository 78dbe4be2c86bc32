package injection_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/injection"
	"github.com/mainstay-platform/mainstay/internal/injection/injectiontest"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// seenWorkloads returns one workload per name.
func seenWorkloads(names ...string) []injection.ObservedWorkload {
	var seen []injection.ObservedWorkload
	for _, name := range names {
		seen = append(seen, injection.ObservedWorkload{Workload: injection.Workload{Kind: "Deployment", Namespace: injectiontest.Namespace,
			Name: name, Template: &corev1.PodTemplateSpec{}}})
	}
	return seen
}

// summary returns each condition as "Ready=True:Injected".
func summary(conditions []metav1.Condition) string {
	text := ""
	for _, condition := range conditions {
		text += fmt.Sprintf("%s=%s:%s ", condition.Type, condition.Status, condition.Reason)
	}
	return text
}

// Each row of the table of summarize, with the rows below it true as well.
func TestStatus(t *testing.T) {
	agent := settingOf(t, instrumentation("java", first)).Agents[0]
	failed := *agent
	failed.Failed, failed.Because = agent.Revision, "Deployment/a: CrashLoop: it exits"
	done := injection.ReportedWorkload{Index: 0}
	going := injection.ReportedWorkload{Index: 1, State: instrv1.StatePending, Reason: instrv1.WorkloadRolling,
		Message: "its pods are being replaced", Progressing: true}
	waiting := injection.ReportedWorkload{Index: 2, State: instrv1.StatePending, Reason: "WaitingForOthers", Message: "waiting: 2 workloads are rolling out (maxParallel 2)"}
	overruled := injection.ReportedWorkload{Index: 3, State: instrv1.StateFailed, Reason: instrv1.WorkloadOverruled,
		Message: "Instrumentation/x takes precedence for container app"}
	bare := injection.ReportedWorkload{Index: 4, State: instrv1.StateFailed, Reason: instrv1.WorkloadTooLarge, Message: "no room"}
	broken := injection.ReportedWorkload{Index: 5, State: instrv1.StateFailed, Reason: "CrashLoop", Message: "it exits"}
	reported := func(all ...injection.ReportedWorkload) injection.Decision { return injection.Decision{Workloads: all} }
	const (
		still   = "Progressing=False:Settled "
		rolling = "Progressing=True:Injecting "
		healthy = "Degraded=False:Healthy "
	)
	for _, test := range []struct {
		name          string
		input         injection.StatusInput
		want, message string
	}{
		{"all", injection.StatusInput{Decision: reported(done)}, "Ready=True:Injected " + still + healthy, "1 of 1 workloads run with the agent"},
		{"none", injection.StatusInput{}, "Ready=True:NothingMatched " + still + healthy, "no workload is matched"},
		{"waiting", injection.StatusInput{Decision: reported(done, waiting)}, "Ready=False:Waiting " + still + healthy,
			"1 of 2 workloads run with the agent; waiting: WaitingForOthers (Deployment/c: waiting: 2 workloads are rolling out (maxParallel 2))"},
		{"being replaced", injection.StatusInput{Decision: reported(done, waiting, going)}, "Ready=False:Injecting " + rolling + healthy,
			"1 of 3 workloads run with the agent; being replaced: Deployment/b"},
		{"overruled", injection.StatusInput{Decision: reported(done, going, overruled)},
			"Ready=False:Overruled " + rolling + "Degraded=True:Overruled Overruled=True:Overruled ",
			"Deployment/d: Instrumentation/x takes precedence for container app"},
		{"bare", injection.StatusInput{Decision: reported(overruled, bare)}, "Ready=False:NotInjected " + still +
			"Degraded=True:NotInjected Overruled=True:Overruled ", "Deployment/e: no room"},
		{"refused by the API server", injection.StatusInput{Decision: reported(done), Refused: map[int]string{0: "forbidden"}},
			"Ready=False:NotInjected " + still + "Degraded=True:NotInjected ", "Deployment/a: forbidden"},
		{"broken", injection.StatusInput{Decision: reported(bare, broken)}, "Ready=False:RolloutFailed " + still + "Degraded=True:RolloutFailed ",
			"failing with the agent: Deployment/f: it exits"},
		{"failed", injection.StatusInput{Agent: &failed, Decision: reported(broken)},
			"Ready=False:CanaryFailed " + still + "Degraded=True:CanaryFailed Stalled=True:CanaryFailed ",
			"the revision failed on Deployment/a: CrashLoop: it exits; it was removed there, and no other workload gets it. " +
				"Change spec.agent or spec.matchers, or retry: kubectl annotate instrumentation java instrumentation.mainstay.dev/failed- -n shop"},
		{"just failed", injection.StatusInput{Decision: injection.Decision{Failure: "Deployment/a: it exits"}},
			"Ready=False:CanaryFailed " + still + "Degraded=True:CanaryFailed Stalled=True:CanaryFailed ",
			"the revision failed on Deployment/a: it exits; it is being removed there"},
		{"being deleted", injection.StatusInput{Agent: &failed, Deleting: true,
			Decision: injection.Decision{Leaving: 2, From: []int{0, 1}, Workloads: []injection.ReportedWorkload{broken}}},
			"Ready=False:Restoring Progressing=True:Restoring " + healthy, "the agent is being removed from 2 workloads: Deployment/a, Deployment/b"},
		{"opted out, and being restored", injection.StatusInput{Decision: injection.Decision{Leaving: 1, From: []int{1},
			Workloads: []injection.ReportedWorkload{done}}},
			"Ready=False:Restoring Progressing=True:Restoring " + healthy, "the agent is being removed from 1 workloads: Deployment/b"},
		{"one could not be written", injection.StatusInput{Decision: reported(done, broken), Unmade: map[int]string{0: "a webhook timed out"}},
			"Ready=False:RolloutFailed " + still + "Degraded=True:RolloutFailed ", "failing with the agent: Deployment/f: it exits"},
		{"nearly deleted", injection.StatusInput{Deleting: true}, "Ready=False:Restoring " + still + healthy, "the agent is removed from all workloads"},
		{"a deletion is refused", injection.StatusInput{Deleting: true, Decision: injection.Decision{Leaving: 1, From: []int{1}},
			Refused: map[int]string{1: "frozen"}},
			"Ready=False:Refused Progressing=True:Restoring Degraded=True:Refused ", "the agent can't be removed from Deployment/b: frozen"},
		{"a call failed", injection.StatusInput{Deleting: true, Failure: &plan.Failure{Reason: "ReconcileFailed", Message: "timeout",
			Transient: true}},
			"Ready=Unknown:ReconcileFailed " + still + healthy, "timeout"},
		{"the server refused", injection.StatusInput{Deleting: true, Failure: &plan.Failure{Reason: "Refused", Message: "no"}},
			"Ready=False:Refused " + still + "Degraded=True:Refused ", "no"},
		{"an invalid spec", injection.StatusInput{Failure: &plan.Failure{Reason: "InvalidSpec", Message: "spec.x", Stalled: true}},
			"Ready=False:InvalidSpec " + still + "Degraded=True:InvalidSpec Stalled=True:InvalidSpec ", "spec.x"},
	} {
		if test.input.Agent == nil && test.input.Failure == nil {
			test.input.Agent = agent
		}
		test.input.Seen = seenWorkloads("a", "b", "c", "d", "e", "f")
		expectStatus(t, test.name, test.input.Status(), test.want, test.message)
	}
}

func expectStatus(t *testing.T, name string, status instrv1.InstrumentationStatus, want, message string) {
	t.Helper()
	if got := summary(status.Conditions); got != want {
		t.Errorf("%s: %s\nwanted %s", name, got, want)
	}
	if got := status.Conditions[0].Message; got != message {
		t.Errorf("%s: it says %q\nwanted %q", name, got, message)
	}
	if sum := status.Injected + status.Pending + status.Failed; sum != status.Matched {
		t.Errorf("%s: %d are matched, the parts are %d", name, status.Matched, sum)
	}
}

// A variable that a container lacks may be set in its image.
func TestStatusOfVariablesInImages(t *testing.T) {
	setting := settingOf(t, instrumentation("java", nil))
	for name, test := range map[string]struct {
		env  []corev1.EnvVar
		want string
	}{
		"lacks it": {nil, "; variables of images can't be seen: if an image sets JAVA_TOOL_OPTIONS, its value is replaced"},
		"has it":   {[]corev1.EnvVar{{Name: "JAVA_TOOL_OPTIONS", Value: "-Xmx1g"}}, ""},
	} {
		input := injection.StatusInput{Agent: setting.Agents[0], Seen: seenWorkloads("a"),
			Decision: injection.Decision{Workloads: []injection.ReportedWorkload{{Index: 0}}}}
		*input.Seen[0].Template = template(container("app", test.env...))
		compose(setting, input.Seen[0].Template, nil)
		expectStatus(t, name, input.Status(), "Ready=True:Injected Progressing=False:Settled Degraded=False:Healthy ",
			"1 of 1 workloads run with the agent"+test.want)
	}
}

// A workload that could not be written is pending, and says why; the others are reported as they
// are.
func TestStatusOfUnwrittenWorkloads(t *testing.T) {
	input := injection.StatusInput{
		Agent: settingOf(t, instrumentation("java", nil)).Agents[0], Seen: seenWorkloads("a",
			"b"), Unmade: map[int]string{0: "a webhook timed out"},
		Decision: injection.Decision{Workloads: []injection.ReportedWorkload{{Index: 0, State: instrv1.StatePending,
			Reason: instrv1.WorkloadAsked, Progressing: true}, {Index: 1}}},
	}
	status := input.Status()
	expectStatus(t, "unmade", status, "Ready=False:Waiting Progressing=False:Settled Degraded=False:Healthy ",
		"1 of 2 workloads run with the agent; waiting: Asked (Deployment/a: could not be written, retrying: a webhook timed out)")
	want := []instrv1.WorkloadStatus{{
		Name: "Deployment/a", State: instrv1.StatePending, Reason: instrv1.WorkloadAsked,
		Message: "could not be written, retrying: a webhook timed out",
	}}
	if !slices.Equal(status.Workloads, want) || status.Injected != 1 {
		t.Errorf("%d are injected: %v", status.Injected, status.Workloads)
	}
}

// A workload that is no longer matched, and from which the agent can't be removed, is named but not
// counted.
func TestStatusNamesWhatIsStuck(t *testing.T) {
	input := injection.StatusInput{
		Identity: injection.Identity{Kind: injection.KindCluster, Name: "java"}, Deleting: true, Seen: seenWorkloads("a"),
		Decision: injection.Decision{Leaving: 1, From: []int{0}}, Refused: map[int]string{0: "frozen"},
	}
	status := input.Status()
	want := []instrv1.WorkloadStatus{{
		Namespace: injectiontest.Namespace, Name: "Deployment/a", State: instrv1.StateFailed, Reason: instrv1.WorkloadRefused,
		Message: "the agent can't be removed: frozen",
	}}
	if !slices.Equal(status.Workloads, want) || status.Failed != 0 {
		t.Errorf("%d have failed: %v", status.Failed, status.Workloads)
	}
}

// The status stays small: it lists 50 workloads, failed ones first, and messages name 3.
func TestStatusIsBounded(t *testing.T) {
	var names []string
	var decision injection.Decision
	for i := range 120 {
		names = append(names, fmt.Sprintf("web-%03d", i))
		reported := injection.ReportedWorkload{Index: i, State: instrv1.StatePending, Reason: instrv1.WorkloadRolling, Progressing: true}
		if i >= 90 {
			reported = injection.ReportedWorkload{Index: i, State: instrv1.StateFailed, Reason: "CrashLoop", Message: "it exits"}
		}
		decision.Workloads = append(decision.Workloads, reported)
	}
	input := injection.StatusInput{Agent: settingOf(t, cluster("java", nil)).Agents[0], Seen: seenWorkloads(names...), Decision: decision}
	status := input.Status()
	if len(status.Workloads) != 50 || status.Workloads[29].State != instrv1.StateFailed || status.Workloads[30].State != instrv1.StatePending {
		t.Errorf("%d are listed: %v", len(status.Workloads), status.Workloads)
	}
	if first := status.Workloads[0]; first.Name != "Deployment/web-090" || first.Namespace != injectiontest.Namespace {
		t.Errorf("the first is %v", first)
	}
	const want = "failing with the agent: Deployment/web-090 in shop: it exits; Deployment/web-091 in shop: it exits; Deployment/web-092 in shop: it exits and 27 more"
	if got := status.Conditions[0].Message; got != want {
		t.Errorf("it says %q", got)
	}
	if status.Matched != 120 || status.Pending != 90 || status.Failed != 30 || status.Injected != 0 {
		t.Errorf("matched %d, pending %d, failed %d, injected %d", status.Matched, status.Pending, status.Failed, status.Injected)
	}
}
