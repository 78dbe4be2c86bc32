package agentrollout_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/agentrollout"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/instrumentationtest"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// seenWorkloads returns one workload per name.
func seenWorkloads(names ...string) []agentrollout.ObservedWorkload {
	var seen []agentrollout.ObservedWorkload
	for _, name := range names {
		w := injection.Workload{Kind: "Deployment", Namespace: instrumentationtest.Namespace, Name: name, Template: &corev1.PodTemplateSpec{}}
		seen = append(seen, agentrollout.ObservedWorkload{Workload: w})
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

// Each of the rules, with those after it applying as well.
func TestStatus(t *testing.T) {
	agent := settingOf(t, namespaced("java", first)).Agents[0]
	failed := *agent
	failed.Failed, failed.Because = agent.Revision, "Deployment/a: CrashLoop: it exits"
	done := agentrollout.ReportedWorkload{Index: 0}
	going := agentrollout.ReportedWorkload{Index: 1, State: instrv1.StatePending, Reason: instrv1.WorkloadRolling,
		Message: "its pods are being replaced", Progressing: true}
	unpulled := going
	unpulled.Reason, unpulled.Message = "ImagePullFailed", "1 of 3 pods: no such image"
	waiting := agentrollout.ReportedWorkload{Index: 2, State: instrv1.StatePending, Reason: "WaitingForOthers",
		Message: "waiting: 2 workloads are rolling out (maxParallel 2)"}
	overruled := agentrollout.ReportedWorkload{Index: 3, State: instrv1.StateFailed, Reason: instrv1.WorkloadOverruled,
		Message: "Instrumentation/x takes precedence for container app"}
	bare := agentrollout.ReportedWorkload{Index: 4, State: instrv1.StateFailed, Reason: instrv1.WorkloadTooLarge, Message: "no room"}
	broken := agentrollout.ReportedWorkload{Index: 5, State: instrv1.StateFailed, Reason: "CrashLoop", Message: "it exits"}
	reported := func(all ...agentrollout.ReportedWorkload) agentrollout.Decision {
		return agentrollout.Decision{Workloads: all}
	}
	const (
		still   = "Progressing=False:Settled "
		rolling = "Progressing=True:Injecting "
		healthy = "Degraded=False:Healthy "
	)
	for _, test := range []struct {
		name          string
		input         agentrollout.StatusInput
		want, message string
	}{
		{"all", agentrollout.StatusInput{Decision: reported(done)}, "Ready=True:Injected " + still + healthy, "1 of 1 workloads run with the agent"},
		{"none", agentrollout.StatusInput{}, "Ready=False:NothingMatched " + still + healthy,
			"no workload is matched: spec.matchers matches none of the workloads of this namespace, or they opt out: " +
				"Deployment/a, Deployment/b, Deployment/c and 3 more"},
		{"an image can't be pulled", agentrollout.StatusInput{Decision: reported(done, unpulled)},
			"Ready=False:ImagePullFailed " + rolling + "Degraded=True:ImagePullFailed ",
			"an image can't be pulled for 1 of 2 workloads: Deployment/b: 1 of 3 pods: no such image"},
		{"waiting", agentrollout.StatusInput{Decision: reported(done, waiting)}, "Ready=False:Waiting " + still + healthy,
			"1 of 2 workloads run with the agent; waiting: WaitingForOthers (Deployment/c: waiting: 2 workloads are rolling out (maxParallel 2))"},
		{"being replaced", agentrollout.StatusInput{Decision: reported(done, waiting, going)}, "Ready=False:Injecting " + rolling + healthy,
			"1 of 3 workloads run with the agent; being replaced: Deployment/b"},
		{"overruled", agentrollout.StatusInput{Decision: reported(done, going, overruled)},
			"Ready=False:Overruled " + rolling + "Degraded=True:Overruled Overruled=True:Overruled ",
			"Deployment/d: Instrumentation/x takes precedence for container app"},
		{"bare", agentrollout.StatusInput{Decision: reported(overruled, bare)}, "Ready=False:NotInjected " + still +
			"Degraded=True:NotInjected Overruled=True:Overruled ", "Deployment/e: no room"},
		{"refused by the API server", agentrollout.StatusInput{Decision: reported(done), Refused: map[int]string{0: "forbidden"}},
			"Ready=False:NotInjected " + still + "Degraded=True:NotInjected ", "Deployment/a: forbidden"},
		{"broken", agentrollout.StatusInput{Decision: reported(bare, broken)}, "Ready=False:RolloutFailed " + still + "Degraded=True:RolloutFailed ",
			"failing with the agent: Deployment/f: it exits"},
		{"failed", agentrollout.StatusInput{Agent: &failed, Decision: reported(broken)},
			"Ready=False:CanaryFailed " + still + "Degraded=True:CanaryFailed Stalled=True:CanaryFailed ",
			"the revision failed on Deployment/a: CrashLoop: it exits; it was removed there, and no other workload gets it. " +
				"Change spec.agent or spec.matchers, or retry: kubectl annotate instrumentation java instrumentation.mainstay.dev/failed- -n shop"},
		{"just failed", agentrollout.StatusInput{Decision: agentrollout.Decision{Failure: "Deployment/a: it exits"}},
			"Ready=False:CanaryFailed " + still + "Degraded=True:CanaryFailed Stalled=True:CanaryFailed ",
			"the revision failed on Deployment/a: it exits; it is being removed there"},
		{"being deleted", agentrollout.StatusInput{Agent: &failed, Deleting: true,
			Decision: agentrollout.Decision{Leaving: 2, From: []int{0, 1}, Workloads: []agentrollout.ReportedWorkload{broken}}},
			"Ready=False:Restoring Progressing=True:Restoring " + healthy,
			"the agent is being removed from 2 workloads: Deployment/a, Deployment/b"},
		{"opted out, and being restored", agentrollout.StatusInput{Decision: agentrollout.Decision{Leaving: 1, From: []int{1},
			Workloads: []agentrollout.ReportedWorkload{done}}},
			"Ready=False:Restoring Progressing=True:Restoring " + healthy, "the agent is being removed from 1 workloads: Deployment/b"},
		{"one could not be written", agentrollout.StatusInput{Decision: reported(done, broken), Unmade: map[int]string{0: "a webhook timed out"}},
			"Ready=False:RolloutFailed " + still + "Degraded=True:RolloutFailed ", "failing with the agent: Deployment/f: it exits"},
		{"nearly deleted", agentrollout.StatusInput{Deleting: true}, "Ready=False:Restoring " + still + healthy,
			"the agent is removed from all workloads"},
		{"a deletion is refused", agentrollout.StatusInput{Deleting: true, Decision: agentrollout.Decision{Leaving: 1, From: []int{1}},
			Refused: map[int]string{1: "frozen"}},
			"Ready=False:Refused Progressing=True:Restoring Degraded=True:Refused ", "the agent can't be removed from Deployment/b: frozen"},
		{"a call failed", agentrollout.StatusInput{Deleting: true, Failure: &plan.Failure{Reason: "ReconcileFailed", Message: "timeout",
			Transient: true}},
			"Ready=Unknown:ReconcileFailed " + still + healthy, "timeout"},
		{"the server refused", agentrollout.StatusInput{Deleting: true, Failure: &plan.Failure{Reason: "Refused", Message: "no"}},
			"Ready=False:Refused " + still + "Degraded=True:Refused ", "no"},
		{"an invalid spec", agentrollout.StatusInput{Failure: &plan.Failure{Reason: "InvalidSpec", Message: "spec.x", Stalled: true}},
			"Ready=False:InvalidSpec " + still + "Degraded=True:InvalidSpec Stalled=True:InvalidSpec ", "spec.x"},
	} {
		if test.input.Agent == nil && test.input.Failure == nil {
			test.input.Agent = agent
		}
		test.input.Identity = agent.Identity
		test.input.Seen = seenWorkloads("a", "b", "c", "d", "e", "f")
		expectStatus(t, test.name, test.input.Status(), test.want, test.message)
	}
}

// A StatefulSet does not replace pods that are not ready when the agent is removed. The message
// names it for as long as Mainstay is concerned with it.
func TestStatusNamesWhosePodsAreToBeDeleted(t *testing.T) {
	agent := *settingOf(t, namespaced("java", first)).Agents[0]
	agent.Failed, agent.Because = agent.Revision, "StatefulSet/a: CrashLoop: it exits"
	const advice = "; delete the pods of StatefulSet/a that do not become ready: " +
		"Kubernetes does not replace them (podManagementPolicy OrderedReady)"
	input := agentrollout.StatusInput{Identity: agent.Identity, Agent: &agent, Seen: seenWorkloads("a", "b"),
		Decision: agentrollout.Decision{Workloads: []agentrollout.ReportedWorkload{
			{Index: 0, State: instrv1.StateFailed, Reason: instrv1.WorkloadCanaryFailed, Unreplaced: true},
			{Index: 1, State: instrv1.StateFailed, Reason: instrv1.WorkloadCanaryFailed},
		}}}
	input.Seen[0].Kind = "StatefulSet"
	expectStatus(t, "failed", input.Status(),
		"Ready=False:CanaryFailed Progressing=False:Settled Degraded=True:CanaryFailed Stalled=True:CanaryFailed ",
		"the revision failed on StatefulSet/a: CrashLoop: it exits; it was removed there, and no other workload gets it"+advice+
			". Change spec.agent or spec.matchers, or retry: kubectl annotate instrumentation java instrumentation.mainstay.dev/failed- -n shop")
	input.Deleting, input.Decision = true, agentrollout.Decision{Leaving: 2, From: []int{0, 1}}
	input.Seen[0].Rolled = workload.Rolled{Ordered: true, Pods: 3, Updated: 1, Ready: 2}
	expectStatus(t, "leaving", input.Status(), "Ready=False:Restoring Progressing=True:Restoring Degraded=False:Healthy ",
		"the agent is being removed from 2 workloads: StatefulSet/a, Deployment/b"+advice)
}

func TestPhase(t *testing.T) {
	for want, reported := range map[api.Phase]agentrollout.ReportedWorkload{
		"Active":      {},
		"Progressing": {State: instrv1.StatePending, Reason: instrv1.WorkloadRolling, Progressing: true},
		"Pending":     {State: instrv1.StatePending, Reason: "OutsideWindow"},
		"Failed":      {State: instrv1.StateFailed, Reason: "CrashLoop"},
	} {
		input := agentrollout.StatusInput{Identity: injection.IdentityOf(namespaced("java", nil)), Seen: seenWorkloads("a"),
			Decision: agentrollout.Decision{Workloads: []agentrollout.ReportedWorkload{reported}}}
		if got := input.Status().Phase; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
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
	setting := settingOf(t, namespaced("java", nil))
	for name, test := range map[string]struct {
		env  []corev1.EnvVar
		want string
	}{
		"lacks it": {nil, "; variables of images can't be seen: if an image sets JAVA_TOOL_OPTIONS, its value is replaced"},
		"has it":   {[]corev1.EnvVar{{Name: "JAVA_TOOL_OPTIONS", Value: "-Xmx1g"}}, ""},
	} {
		input := agentrollout.StatusInput{Identity: setting.Agents[0].Identity, Agent: setting.Agents[0], Seen: seenWorkloads("a"),
			Decision: agentrollout.Decision{Workloads: []agentrollout.ReportedWorkload{{Index: 0}}}}
		*input.Seen[0].Template = template(container("app", test.env...))
		compose(setting, input.Seen[0].Template, nil)
		expectStatus(t, name, input.Status(), "Ready=True:Injected Progressing=False:Settled Degraded=False:Healthy ",
			"1 of 1 workloads run with the agent"+test.want)
	}
}

// A workload that could not be written is pending, and says why; the others are reported as they
// are.
func TestStatusOfUnwrittenWorkloads(t *testing.T) {
	input := agentrollout.StatusInput{
		Identity: injection.IdentityOf(namespaced("java", nil)), Seen: seenWorkloads("a", "b"), Unmade: map[int]string{0: "a webhook timed out"},
		Decision: agentrollout.Decision{Workloads: []agentrollout.ReportedWorkload{{Index: 0, State: instrv1.StatePending,
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
	input := agentrollout.StatusInput{
		Identity: injection.Identity{Kind: injection.KindCluster, Name: "java"}, Deleting: true, Seen: seenWorkloads("a"),
		Decision: agentrollout.Decision{Leaving: 1, From: []int{0}}, Refused: map[int]string{0: "frozen"},
	}
	status := input.Status()
	want := []instrv1.WorkloadStatus{{
		Namespace: instrumentationtest.Namespace, Name: "Deployment/a", State: instrv1.StateFailed, Reason: instrv1.WorkloadRefused,
		Message: "the agent can't be removed: frozen",
	}}
	if !slices.Equal(status.Workloads, want) || status.Failed != 0 {
		t.Errorf("%d have failed: %v", status.Failed, status.Workloads)
	}
}

// The status stays small: it lists 50 workloads, failed ones first, and messages name 3.
func TestStatusIsBounded(t *testing.T) {
	var names []string
	var decision agentrollout.Decision
	for i := range 120 {
		names = append(names, fmt.Sprintf("web-%03d", i))
		reported := agentrollout.ReportedWorkload{Index: i, State: instrv1.StatePending, Reason: instrv1.WorkloadRolling, Progressing: true}
		if i >= 90 {
			reported = agentrollout.ReportedWorkload{Index: i, State: instrv1.StateFailed, Reason: "CrashLoop", Message: "it exits"}
		}
		decision.Workloads = append(decision.Workloads, reported)
	}
	input := agentrollout.StatusInput{Identity: injection.IdentityOf(cluster("java", nil)), Seen: seenWorkloads(names...), Decision: decision}
	status := input.Status()
	if len(status.Workloads) != 50 || status.Workloads[29].State != instrv1.StateFailed || status.Workloads[30].State != instrv1.StatePending {
		t.Errorf("%d are listed: %v", len(status.Workloads), status.Workloads)
	}
	if first := status.Workloads[0]; first.Name != "Deployment/web-090" || first.Namespace != instrumentationtest.Namespace {
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
