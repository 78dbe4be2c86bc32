package appconfig

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// severity orders what a verdict means.
type severity int

const (
	// working: every pod runs what the spec asks for.
	working severity = iota
	// unknown: a change could not be made; nobody knows how things are until it could.
	unknown
	// underWay: they will, with nothing amiss.
	underWay
	// waiting: they will, once somebody approves or a window opens.
	waiting
	// failed: something is wrong that needs a look.
	failed
	// stalled: nothing gets better until someone acts.
	stalled
)

// verdict is the one thing to say about an AppConfig.
type verdict struct {
	severity        severity
	reason, message string
	// rolling tells that pods are being replaced, whatever else is the matter.
	rolling bool
}

// judge finds what there is to say about an AppConfig. The first row that applies counts:
//
//	what is the case                                   severity  reason
//	the spec can't be carried out                      stalled   InvalidSpec
//	the API server refused a ConfigMap                 failed    Refused
//	a write failed and is tried again                  unknown   ReconcileFailed
//	an older AppConfig is for the same application     stalled   Conflict
//	the spec renders nothing in this namespace, and
//	  spec.revision names none that is kept            stalled   InvalidSpec
//	a ConfigMap of an AppConfig that is gone is in
//	  the way                                          underWay  Terminating
//	another foreign one is                             stalled   Conflict
//	a ConfigMap that was deleted is not gone yet       underWay  Terminating
//	spec.revision names none that is kept              stalled   RevisionNotFound
//	the content that it should have is lost            stalled   ContentLost
//	the rendered content failed and was rolled back    failed    RolledBack
//	a workload's new pods don't come up in time        failed    RolloutFailed
//	the content waits for approval                     waiting   AwaitingApproval
//	the content waits for its window                   waiting   OutsideWindow
//	the content was just written, or pods are
//	  being replaced                                   underWay  RollingOut
//	a workload waits                                   underWay  Waiting
//	no workload uses the ConfigMap                     working   NoUsers
//	spec.revision chooses the content                  working   Pinned
//	none of these                                      working   UpToDate
func judge(config *configv1.AppConfig, observed Observed, result plan.Result, has stored) verdict {
	users, choice := observed.users(config), observed.Choice
	in := func(states ...workload.State) []string {
		var named []string
		for _, user := range users {
			if slices.Contains(states, user.State) {
				named = append(named, strings.TrimSuffix(fmt.Sprintf("%s: %s", user.Ref, user.Message), ": "))
			}
		}
		return named
	}
	v := verdict{rolling: len(in(workload.Rolling)) > 0 || has.justChanged && len(users) > 0}
	say := func(severity severity, reason, format string, values ...any) verdict {
		v.severity, v.reason, v.message = severity, reason, fmt.Sprintf(format, values...)
		return v
	}
	name := ConfigMapName(config)
	switch {
	case result.Failure != nil:
		return say(failureSeverity(*result.Failure), result.Failure.Reason, "%s", result.Failure.Message)
	case observed.Older != "":
		v.rolling = false
		return say(stalled, api.ReasonConflict, "AppConfig %s is for application %s too, and counts, for it is older or was first to make ConfigMap %s. Delete one of the two", observed.Older, config.Spec.Application, name)
	case choice.isBarred():
		return say(stalled, api.ReasonInvalidSpec, "%s", choice.Problem)
	case len(result.Conflicts) > 0 && !slices.ContainsFunc(result.Conflicts, func(at plan.Ref) bool { return !observed.isLeft(at) }):
		return say(underWay, api.ReasonTerminating, "%s is of an AppConfig that is gone: it is being deleted, and will be made anew", plan.Join(result.Conflicts))
	case len(result.Conflicts) > 0:
		return say(stalled, api.ReasonConflict, "%s exists and was not made by this AppConfig: delete it, or let it be taken over with: kubectl annotate -n %s configmap %s %s=AppConfig/%s",
			plan.Join(result.Conflicts), config.Namespace, result.Conflicts[0].Name, api.AnnotationAdopt, config.Name)
	case len(result.Terminating) > 0:
		return say(underWay, api.ReasonTerminating, "%s is still being deleted and will be made anew", plan.Join(result.Terminating))
	case choice.IsMissing:
		return say(stalled, configv1.ReasonRevisionNotFound, "spec.revision: %d is given, which is not kept: status.revisions lists those that are", *config.Spec.Revision)
	case choice.IsLost:
		return say(stalled, configv1.ReasonContentLost, "the content of revision %d, which ConfigMap %s should have, is lost: the ConfigMap was edited, and the one that kept the content is gone or was edited too. Have what spec renders rolled out, or name a revision of status.revisions in spec.revision", choice.Chosen, name)
	case choice.Pending == configv1.ReasonRolledBack:
		return say(failed, configv1.ReasonRolledBack, "the rollout of revision %d failed (%s), and revision %d was put back. The same content is not tried again by itself: change spec, or, if the content was not to blame, set spec.revision to %d until Ready is True, and then take it out",
			choice.Rendered, choice.Marks.Failure, choice.Chosen, choice.Rendered)
	case len(in(workload.Failed)) > 0 && !has.justChanged:
		return say(failed, configv1.ReasonRolloutFailed, "%s", listedOf(in(workload.Failed)))
	case choice.Pending == configv1.ReasonAwaitingApproval:
		return say(waiting, configv1.ReasonAwaitingApproval, "rollout.mode is Manual: set rollout.approved to %s to roll the content out", choice.Hash)
	case choice.Pending == configv1.ReasonOutsideWindow:
		return say(waiting, configv1.ReasonOutsideWindow, "the content is rolled out when rollout.window opens")
	case has.justChanged && len(users) > 0:
		return say(underWay, configv1.ReasonRollingOut, "ConfigMap %s was just written, and %d workloads use it", name, len(users))
	}
	v = judgeUsers(config, in, say)
	if choice.Problem != "" {
		v.message += fmt.Sprintf("; without spec.revision this spec would be refused: %s", choice.Problem)
	}
	return v
}

// judgeUsers is what workloads have to say.
func judgeUsers(config *configv1.AppConfig, in func(...workload.State) []string, say func(severity, string, string, ...any) verdict) verdict {
	users := len(in(workload.UpToDate, workload.Rolling, workload.Waiting, workload.Left, workload.Failed))
	switch rolling, waiting := in(workload.Rolling), in(workload.Waiting, workload.Left); {
	case len(rolling) > 0:
		return say(underWay, configv1.ReasonRollingOut, "%d of %d workloads are being rolled: %s", len(rolling), users, listedOf(rolling))
	case len(waiting) > 0:
		return say(underWay, configv1.ReasonWaiting, "%d of %d workloads wait: %s", len(waiting), users, listedOf(waiting))
	case users == 0:
		return say(working, configv1.ReasonNoUsers, "ConfigMap %s is written; no Deployment, StatefulSet or DaemonSet of the namespace uses it", ConfigMapName(config))
	case config.Spec.Revision != nil:
		return say(working, configv1.ReasonPinned, "all pods of %s run revision %d, as spec.revision says", workloadsOf(users), *config.Spec.Revision)
	default:
		return say(working, configv1.ReasonUpToDate, "all pods of %s run the content", workloadsOf(users))
	}
}

// listedOf names the first few.
func listedOf(named []string) string {
	const most = 3
	if more := len(named) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(named[:most], "; "), more)
	}
	return strings.Join(named, "; ")
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

// conditions are the verdict as conditions:
//
//	severity   Ready    Degraded  Stalled
//	working    True     False     -
//	unknown    Unknown  False     -
//	underWay   False    False     -
//	waiting    False    False     -
//	failed     False    True      -
//	stalled    False    True      True
//
// Progressing is True while pods are being replaced. Degraded is True, too, with the reason SecretMissing, where missing names
// what is not there of spec.secretRefs: that says nothing about Ready, for the ConfigMap is as it should be, and the pods that need the
// Secret wait for it by themselves. secrets are those that may not be read.
func (v verdict) conditions(missing, secrets []string, namespace string) []metav1.Condition {
	ready := metav1.Condition{Type: configv1.ConditionReady, Status: truth(v.severity == working), Reason: v.reason, Message: v.message}
	if v.severity == unknown {
		ready.Status = metav1.ConditionUnknown
	}
	progressing := metav1.Condition{Type: configv1.ConditionProgressing, Status: metav1.ConditionFalse, Reason: configv1.ReasonSettled, Message: "no pods are being replaced"}
	switch {
	case v.rolling:
		progressing.Status, progressing.Reason, progressing.Message = metav1.ConditionTrue, configv1.ReasonRollingOut, "pods are being replaced"
	case v.severity != working:
		progressing.Reason, progressing.Message = v.reason, v.message
	}
	degraded := metav1.Condition{Type: configv1.ConditionDegraded, Status: metav1.ConditionFalse, Reason: configv1.ReasonHealthy, Message: "nothing is wrong"}
	switch {
	case v.severity >= failed:
		degraded.Status, degraded.Reason, degraded.Message = metav1.ConditionTrue, v.reason, v.message
	case len(missing) > 0:
		degraded.Status, degraded.Reason = metav1.ConditionTrue, configv1.ReasonSecretMissing
		degraded.Message = fmt.Sprintf("spec.secretRefs names what is not in this namespace: %s. Pods that need it do not start", listedOf(missing))
	}
	all := []metav1.Condition{ready, progressing, degraded}
	if v.severity == stalled {
		all = append(all, metav1.Condition{Type: configv1.ConditionStalled, Status: metav1.ConditionTrue, Reason: v.reason, Message: v.message})
	}
	if len(secrets) > 0 {
		all = append(all, metav1.Condition{
			Type: configv1.ConditionSecretAccessNotGranted, Status: metav1.ConditionTrue, Reason: configv1.ReasonSecretAccessNotGranted,
			Message: fmt.Sprintf("a change of Secret %s rolls nothing, for the Secrets of this namespace may not be read: name %s in secrets.namespaces of the chart", strings.Join(secrets, ", "), namespace),
		})
	}
	return all
}

func truth(is bool) metav1.ConditionStatus {
	if is {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// workloadsOf is a number of workloads, in words.
func workloadsOf(count int) string {
	if count == 1 {
		return "one workload"
	}
	return fmt.Sprintf("%d workloads", count)
}
