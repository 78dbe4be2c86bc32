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

// objectSummary is the summary of a monitor.
type objectSummary struct {
	summary.Summary
	// access says how to grant access to a Secret that may not be read, and flaps which source flaps;
	// empty if that is not the case.
	access, flaps string
}

// summarize returns the summary of a monitor. The first matching row counts:
//
//	situation                                        severity  reason
//	the spec is invalid                              Stalled   InvalidSpec
//	the API server refused an eviction               Failed    Refused
//	a call failed and is retried                     Unknown   ReconcileFailed
//	the Secret may not be read                       Stalled   SecretAccessNotGranted
//	the ConfigMap or Secret does not exist           Failed    SourceMissing
//	nothing has the labels of spec.podSelector       UnderWay  NothingMatched
//	a restart failed                                 Failed    RolloutFailed
//	the source is flapping                           Failed    Flapping
//	the source was edited, and is being reverted     UnderWay  EditedByHand
//	something is being restarted                     UnderWay  Restarting
//	workloads are paused, or wait for a user         UnderWay  Blocked
//	restarts are delayed for some time               UnderWay  Waiting
//	pods with earlier contents are never evicted     UnderWay  Skipped
//	none of these                                    Working   UpToDate
//
// What does not exist yet may be created, so nothing missing is Stalled: tools that wait for the
// object would give up.
func summarize(monitor *configv1.ConfigMonitor, observed Observed, s totals, failure *plan.Failure) objectSummary {
	source := SourceOf(&monitor.Spec)
	j := objectSummary{}
	if s.flapping {
		j.flaps = flaps(source, observed.Source.Writers, s.unit)
	}
	say := func(severity summary.Severity, reason, format string, values ...any) objectSummary {
		j.Summary = summary.Of(severity, reason, format, values...)
		return j
	}
	switch {
	case failure != nil:
		j.Summary = summary.OfFailure(*failure)
		return j
	case observed.Source.State == workload.NotGranted:
		j.access = access(monitor.Namespace, source.Name)
		return say(summary.Stalled, configv1.ReasonSecretAccessNotGranted, "%s", j.access)
	case observed.Source.State == workload.Absent:
		return say(summary.Failed, configv1.ReasonSourceMissing,
			"%s does not exist in this namespace: nothing is restarted until it does, and then only what was started with another content", source)
	case s.matched == 0:
		return say(summary.UnderWay, configv1.ReasonNothingMatched, "%s", s.nothing(monitor.Spec.PodSelector))
	case len(s.failed) > 0:
		return say(summary.Failed, configv1.ReasonRolloutFailed, "%s", conditions.FirstFew(s.failed, "; "))
	case s.flapping:
		return say(summary.Failed, configv1.ReasonFlapping, "%s", j.flaps)
	case s.putBack:
		return say(summary.UnderWay, configv1.ReasonEditedByHand,
			"%s was edited by hand, and its %s is reverting it: nothing is restarted for that", source, observed.Source.Owner)
	case len(s.restarting) > 0:
		return say(summary.UnderWay, configv1.ReasonRestarting, "%s; being restarted: %s", s.progress(source),
			conditions.FirstFew(s.restarting, ", "))
	case len(s.blocked) > 0:
		return say(summary.UnderWay, configv1.ReasonBlocked, "%s", conditions.FirstFew(s.blocked, "; "))
	case s.waiting > 0:
		return say(summary.UnderWay, configv1.ReasonWaiting, "%s; waiting: %s", s.progress(source), s.reasons())
	case s.left > 0:
		return say(summary.UnderWay, configv1.ReasonSkipped, "%s; not evicted: %s", s.progress(source), s.reasons())
	}
	return say(summary.Working, configv1.ReasonUpToDate, "%s", s.progress(source))
}

// progress returns how many run the present content.
func (s totals) progress(source workload.SourceRef) string {
	return fmt.Sprintf("%d of %d %ss run the present content of %s", s.upToDate, s.matched, s.unit, source)
}

// nothing says that the selector selects nothing.
func (s totals) nothing(selector map[string]string) string {
	whose := "no Deployment, StatefulSet or DaemonSet of this namespace makes pods with"
	if s.unit == unitPod {
		whose = "no running pod of this namespace has"
	}
	return fmt.Sprintf("spec.podSelector selects nothing: %s %s", whose,
		metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: selector}))
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

// access returns how to let Mainstay read a Secret.
func access(namespace, secret string) string {
	return fmt.Sprintf("Secret %s may not be read: Mainstay reads Secrets only in the namespaces that its installation names. "+
		"To grant it, add %s to secrets.namespaces in the values of its Helm release; if it is there already, the Role was missing "+
		"when Mainstay started: its log says so", secret, namespace)
}

// flaps returns who changes a flapping source. The writers are sorted by name: they alternate, and
// the text must not change each time.
func flaps(source workload.SourceRef, writers []string, unit string) string {
	who := "by an unknown client"
	if len(writers) > 0 {
		who = "by " + strings.Join(slices.Sorted(slices.Values(writers)), ", ")
	}
	return fmt.Sprintf("%s changes again and again, %s: each %s is restarted at most once per cooldown", source, who, unit)
}

// conditions returns the conditions of the summary, and those that apply in addition. Progressing
// is True while something is being restarted, even if something is wrong.
func (j objectSummary) conditions(s totals) []metav1.Condition {
	progressing := conditions.False(configv1.ConditionProgressing, configv1.ReasonSettled, "nothing is being restarted")
	if len(s.restarting) > 0 {
		progressing = conditions.True(configv1.ConditionProgressing, configv1.ReasonRestarting,
			"being restarted: "+conditions.FirstFew(s.restarting, ", "))
	}
	all := j.Conditions(progressing)
	if j.access != "" {
		all = append(all, conditions.True(configv1.ConditionSecretAccessNotGranted, configv1.ReasonSecretAccessNotGranted, j.access))
	}
	if j.flaps != "" {
		all = append(all, conditions.True(configv1.ConditionFlapping, configv1.ReasonFlapping, j.flaps))
	}
	return all
}
