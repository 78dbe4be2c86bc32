package configmonitor

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// severity orders what a verdict means.
type severity int

const (
	// working: everything runs the present content.
	working severity = iota
	// unknown: a change could not be made; nobody knows how things are until it could.
	unknown
	// underWay: it will, with nothing amiss.
	underWay
	// failed: something is wrong that needs a look.
	failed
	// stalled: nothing gets better until someone acts.
	stalled
)

// verdict is the one thing to say about a monitor.
type verdict struct {
	severity        severity
	reason, message string
	// access tells how to grant what may not be read, and flaps what changes without end; empty if it is not so.
	access, flaps string
}

// judge finds what there is to say about a monitor. The first row that applies counts:
//
//	what is the case                                 severity  reason
//	the spec can't be carried out                    stalled   InvalidSpec
//	the API server refused an eviction               failed    Refused
//	a call failed and is tried again                 unknown   ReconcileFailed
//	the Secret may not be read                       stalled   SecretAccessNotGranted
//	there is no such ConfigMap or Secret             failed    SourceMissing
//	nothing has the labels of spec.podSelector       underWay  NothingMatched
//	a restart came to nothing                        failed    RolloutFailed
//	the source changes without end                   failed    Flapping
//	an AppConfig's ConfigMap was edited by hand      underWay  EditedByHand
//	something is being restarted                     underWay  Restarting
//	workloads are paused, or wait for somebody       underWay  Blocked
//	restarts are held back for some time             underWay  Waiting
//	pods are left alone that run earlier contents    underWay  Skipped
//	none of these                                    working   UpToDate
//
// What is not there yet may come, so nothing that is missing is Stalled: an object that others wait for would be given up.
func judge(monitor *configv1.ConfigMonitor, observed Observed, s sum, failure *plan.Failure) verdict {
	source := workload.SourceOfMonitor(&monitor.Spec)
	v := verdict{}
	if s.flapping {
		v.flaps = flaps(source, observed.Source.Writers, s.unit)
	}
	say := func(severity severity, reason, format string, values ...any) verdict {
		v.severity, v.reason, v.message = severity, reason, fmt.Sprintf(format, values...)
		return v
	}
	switch {
	case failure != nil:
		return say(failureSeverity(*failure), failure.Reason, "%s", failure.Message)
	case observed.Source.Standing == workload.NotGranted:
		v.access = access(monitor.Namespace, source.Name)
		return say(stalled, configv1.ReasonSecretAccessNotGranted, "%s", v.access)
	case observed.Source.Standing == workload.Absent:
		return say(failed, configv1.ReasonSourceMissing, "there is no %s in this namespace: nothing is restarted until there is, and then only what was started with another content", source)
	case s.matched == 0:
		return say(underWay, configv1.ReasonNothingMatched, "%s", s.nothing(monitor.Spec.PodSelector))
	case len(s.failed) > 0:
		return say(failed, configv1.ReasonRolloutFailed, "%s", listed(s.failed, "; "))
	case s.flapping:
		return say(failed, configv1.ReasonFlapping, "%s", v.flaps)
	case s.putBack:
		return say(underWay, configv1.ReasonEditedByHand, "%s is not as its AppConfig made it, and is being put back: nothing is restarted for that", source)
	case len(s.restarting) > 0:
		return say(underWay, configv1.ReasonRestarting, "%s; being restarted: %s", s.progress(source), listed(s.restarting, ", "))
	case len(s.blocked) > 0:
		return say(underWay, configv1.ReasonBlocked, "%s", listed(s.blocked, "; "))
	case s.waiting > 0:
		return say(underWay, configv1.ReasonWaiting, "%s; waiting: %s", s.progress(source), s.reasons())
	case s.left > 0:
		return say(underWay, configv1.ReasonSkipped, "%s; left alone: %s", s.progress(source), s.reasons())
	}
	return say(working, configv1.ReasonUpToDate, "%s", s.progress(source))
}

func failureSeverity(failure plan.Failure) severity {
	switch {
	case failure.Transient:
		return unknown
	case failure.Stalled:
		return stalled
	default:
		return failed
	}
}

// progress says how many run the present content.
func (s sum) progress(source workload.Ref) string {
	return fmt.Sprintf("%d of %d %ss run the present content of %s", s.upToDate, s.matched, s.unit, source)
}

// nothing says that the selector selects nothing.
func (s sum) nothing(selector map[string]string) string {
	whose := "no Deployment, StatefulSet or DaemonSet of this namespace makes pods with"
	if s.unit == unitPod {
		whose = "no running pod of this namespace has"
	}
	return fmt.Sprintf("spec.podSelector selects nothing: %s %s", whose, metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: selector}))
}

// maxNamed is how many are named in a message: it has to stay short, and steady while hundreds are under way.
const maxNamed = 3

// listed names the first few.
func listed(names []string, separator string) string {
	if len(names) <= maxNamed {
		return strings.Join(names, separator)
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], separator), len(names)-maxNamed)
}

// reasons says why things are skipped, each reason once, with the first that it concerns.
func (s sum) reasons() string {
	var parts []string
	seen := map[string]bool{}
	for _, skipped := range s.skipped {
		if !seen[skipped.Reason] {
			seen[skipped.Reason] = true
			parts = append(parts, fmt.Sprintf("%s (%s: %s)", skipped.Reason, skipped.Name, skipped.Message))
		}
	}
	return listed(parts, ", ")
}

// access says how to let Mainstay read a Secret.
func access(namespace, secret string) string {
	return fmt.Sprintf("Secret %s may not be read: Mainstay reads Secrets only in the namespaces that its installation names. "+
		"To grant it, add %s to secrets.namespaces in the values of its Helm release; if it is there already, the Role was missing when Mainstay started: its log says so", secret, namespace)
}

// flaps says who changes a source without end. The writers are in the order of their names: they take turns, and the text must
// not change each time.
func flaps(source workload.Ref, writers []string, unit string) string {
	who := "nobody knows by whom"
	if len(writers) > 0 {
		who = "by " + strings.Join(slices.Sorted(slices.Values(writers)), ", ")
	}
	return fmt.Sprintf("%s changes again and again, %s: each %s is restarted at most once per cooldown", source, who, unit)
}

// conditions are the verdict as conditions:
//
//	severity   Ready    Degraded  Stalled
//	working    True     False     -
//	unknown    Unknown  False     -
//	underWay   False    False     -
//	failed     False    True      -
//	stalled    False    True      True
//
// Progressing is True while something is being restarted, whatever else is the matter.
func (v verdict) conditions(s sum) []metav1.Condition {
	of := func(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
	}
	ready := of(configv1.ConditionReady, metav1.ConditionFalse, v.reason, v.message)
	switch v.severity {
	case working:
		ready.Status = metav1.ConditionTrue
	case unknown:
		ready.Status = metav1.ConditionUnknown
	}
	progressing := of(configv1.ConditionProgressing, metav1.ConditionFalse, configv1.ReasonSettled, "nothing is being restarted")
	if len(s.restarting) > 0 {
		progressing.Status, progressing.Reason, progressing.Message = metav1.ConditionTrue, configv1.ReasonRestarting, "being restarted: "+listed(s.restarting, ", ")
	}
	degraded := of(configv1.ConditionDegraded, metav1.ConditionFalse, configv1.ReasonHealthy, "nothing is wrong")
	if v.severity >= failed {
		degraded.Status, degraded.Reason, degraded.Message = metav1.ConditionTrue, v.reason, v.message
	}
	all := []metav1.Condition{ready, progressing, degraded}
	if v.severity == stalled {
		all = append(all, of(configv1.ConditionStalled, metav1.ConditionTrue, v.reason, v.message))
	}
	if v.access != "" {
		all = append(all, of(configv1.ConditionSecretAccessNotGranted, metav1.ConditionTrue, configv1.ReasonSecretAccessNotGranted, v.access))
	}
	if v.flaps != "" {
		all = append(all, of(configv1.ConditionFlapping, metav1.ConditionTrue, configv1.ReasonFlapping, v.flaps))
	}
	return all
}
