package configmonitor

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// subject is a monitor to summarize.
type subject struct {
	totals
	monitor *configv1.ConfigMonitor
	source  workload.SourceRef
	// seen is what was observed of the source.
	seen *workload.Source
}

// rules are what may be said about a monitor whose reconcile completed. The first that applies
// counts. What does not exist yet may be created, so nothing missing is Stalled: tools that wait
// for the object would give up.
var rules = []summary.Rule[*subject]{
	summary.When(summary.Stalled, configv1.ReasonSecretAccessNotGranted, accessNotGranted),
	summary.When(summary.Failed, configv1.ReasonSourceMissing, sourceMissing),
	summary.When(summary.UnderWay, configv1.ReasonNothingMatched, nothingMatched),
	summary.When(summary.Failed, configv1.ReasonRolloutFailed, restartFailed),
	summary.When(summary.Failed, configv1.ReasonRestartRefused, restartRefused),
	summary.When(summary.Failed, configv1.ReasonFlapping, flapping),
	summary.When(summary.UnderWay, configv1.ReasonEditedByHand, editedByHand),
	summary.When(summary.UnderWay, configv1.ReasonRestarting, restarting),
	summary.When(summary.UnderWay, configv1.ReasonStarting, starting),
	summary.When(summary.UnderWay, configv1.ReasonBlocked, blocked),
	summary.When(summary.UnderWay, configv1.ReasonWaiting, waiting),
	summary.When(summary.UnderWay, configv1.ReasonSkipped, neverEvicted),
	summary.When(summary.Working, configv1.ReasonUpToDate, (*subject).progress),
}

// summarize returns the summary of a monitor.
func (s *subject) summarize(failure *plan.Failure) summary.Summary {
	if failure != nil {
		return summary.OfFailure(*failure)
	}
	one := summary.First(s, rules)
	if s.cause != nil && (one.Reason == configv1.ReasonRestarting || one.Reason == configv1.ReasonStarting) {
		return summary.Of(summary.Degraded, s.cause.Reason, "%s; %s", s.progress(), conditions.FirstFew(s.broken, "; "))
	}
	return one
}

// accessNotGranted: the Secret may not be read.
func accessNotGranted(s *subject) string {
	return summary.If(s.seen.State == workload.NotGranted, "Secret %s cannot be read: Mainstay reads Secrets only in the namespaces that "+
		"its installation names. To grant it, add %s to secrets.namespaces in the values of its Helm release; if it is there already, "+
		"the Role was missing when Mainstay started: its log says so", s.source.Name, s.monitor.Namespace)
}

// sourceMissing: the ConfigMap or Secret does not exist.
func sourceMissing(s *subject) string {
	return summary.If(s.seen.State == workload.Absent, "%s does not exist in this namespace: nothing is restarted until it does, and then "+
		"only %ss that were started with other content", s.source, s.unit)
}

// nothingMatched: nothing has the labels of spec.podSelector.
func nothingMatched(s *subject) string {
	whose := "no Deployment, StatefulSet or DaemonSet of this namespace makes pods with"
	if s.unit == unitPod {
		whose = "no running pod of this namespace has"
	}
	there := ""
	if len(s.there) > 0 {
		there = ": there are " + conditions.FirstFew(s.there, ", ")
	}
	return summary.If(s.matched == 0, "spec.podSelector selects nothing: %s %s%s", whose,
		metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: s.monitor.Spec.PodSelector}), there)
}

// restartFailed: what was restarted does not become ready.
func restartFailed(s *subject) string { return conditions.FirstFew(s.failed, "; ") }

// restartRefused: the API server does not let a workload restart.
func restartRefused(s *subject) string { return conditions.FirstFew(s.refused, "; ") }

// flapping: the source changes too often. The writers are sorted by name: they alternate, and the
// text must not change each time.
func flapping(s *subject) string {
	who := "by an unknown client"
	if len(s.seen.Writers) > 0 {
		who = "by " + strings.Join(slices.Sorted(slices.Values(s.seen.Writers)), ", ")
	}
	return summary.If(s.isFlapping, "%s changes again and again, %s: each %s is restarted at most once per cooldown", s.source, who, s.unit)
}

// editedByHand: the source was edited, and is being reverted.
func editedByHand(s *subject) string {
	return summary.If(s.putBack, "%s was edited by hand, and its %s is reverting it: nothing is restarted for that", s.source, s.seen.Owner)
}

// restarting: something is being restarted, or is to be at once.
func restarting(s *subject) string {
	return summary.If(s.isRestarting(), "%s; %s", s.progress(), s.underWay())
}

// isRestarting reports whether something is being restarted, or is to be at once.
func (s *totals) isRestarting() bool { return len(s.restarting)+len(s.due) > 0 }

// underWay names what is being restarted, and what is to be.
func (s *totals) underWay() string {
	var parts []string
	if len(s.restarting) > 0 {
		parts = append(parts, "being restarted: "+conditions.FirstFew(s.restarting, ", "))
	}
	if len(s.due) > 0 {
		parts = append(parts, "to be restarted: "+conditions.FirstFew(s.due, ", "))
	}
	return strings.Join(parts, "; ")
}

// starting: pods are replaced or started, and nothing was restarted.
func starting(s *subject) string {
	return summary.If(len(s.starting) > 0, "%s; being rolled out by their owners: %s", s.progress(), conditions.FirstFew(s.starting, ", "))
}

// blocked: workloads are paused, or wait for a user.
func blocked(s *subject) string { return conditions.FirstFew(s.blocked, "; ") }

// waiting: restarts are delayed for some time.
func waiting(s *subject) string {
	return summary.If(s.waiting > 0, "%s; waiting: %s", s.progress(), s.reasons())
}

// neverEvicted: pods with earlier contents are left as they are.
func neverEvicted(s *subject) string {
	return summary.If(s.left > 0, "%s; not evicted: %s", s.progress(), s.reasons())
}

// progress returns how many run the present content.
func (s *subject) progress() string {
	return fmt.Sprintf("%d of %d %ss run the current content of %s", s.upToDate, s.matched, s.unit, s.source)
}

// reasons returns why things are skipped, each reason once, with the first thing that it concerns.
func (s totals) reasons() string {
	var parts []string
	seen := map[string]bool{}
	for _, skipped := range s.skipped {
		if !seen[skipped.Reason] {
			seen[skipped.Reason] = true
			parts = append(parts, fmt.Sprintf("%s (%s: %s)", skipped.Reason, skipped.Name, skipped.Message))
		}
	}
	return conditions.FirstFew(parts, ", ")
}

// conditions returns the conditions of the summary, and those that apply in addition. Progressing
// is True while something is being restarted, even if something is wrong.
func (s *subject) conditions(failure *plan.Failure) []metav1.Condition {
	progressing := conditions.False(configv1.ConditionProgressing, configv1.ReasonSettled, "nothing is being restarted")
	if s.isRestarting() {
		progressing = conditions.True(configv1.ConditionProgressing, configv1.ReasonRestarting, s.underWay())
	}
	one := s.summarize(failure)
	all := one.Conditions(progressing)
	if one.Reason == configv1.ReasonSecretAccessNotGranted {
		all = append(all, conditions.True(configv1.ConditionSecretAccessNotGranted, one.Reason, one.Message))
	}
	if s.isFlapping {
		all = append(all, conditions.True(configv1.ConditionFlapping, configv1.ReasonFlapping, flapping(s)))
	}
	return all
}
