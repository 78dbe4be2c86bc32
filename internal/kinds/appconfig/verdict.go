package appconfig

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// judgement is the one thing to say about an AppConfig.
type objectSummary struct {
	summary.Summary
	// rolling tells that pods are being replaced, whatever else is the matter.
	rolling bool
}

// judge finds what there is to say about an AppConfig. The first row that applies counts:
//
//	what is the case                                   severity  reason
//	the spec can't be carried out                      Stalled   InvalidSpec
//	the API server refused a ConfigMap                 Failed    Refused
//	a write failed and is tried again                  Unknown   ReconcileFailed
//	an older AppConfig is for the same application     Stalled   Conflict
//	the spec renders nothing in this namespace, and
//	  spec.revision names none that is kept            Stalled   InvalidSpec
//	a ConfigMap of an AppConfig that is gone is in
//	  the way                                          UnderWay  Terminating
//	another foreign one is                             Stalled   Conflict
//	a ConfigMap that was deleted is not gone yet       UnderWay  Terminating
//	spec.revision names none that is kept              Stalled   RevisionNotFound
//	the content that it should have is lost            Stalled   ContentLost
//	the rendered content failed and was rolled back    Failed    RolledBack
//	a workload's new pods don't come up in time        Failed    RolloutFailed
//	the content waits for approval                     Waiting   AwaitingApproval
//	the content waits for its window                   Waiting   OutsideWindow
//	the content was just written, or pods are
//	  being replaced                                   UnderWay  RollingOut
//	a workload waits                                   UnderWay  Waiting
//	no workload uses the ConfigMap                     Working   NoUsers
//	spec.revision chooses the content                  Working   Pinned
//	none of these                                      Working   UpToDate
func summarize(config *configv1.AppConfig, observed Observed, result plan.Result, has stored) objectSummary {
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
	j := objectSummary{rolling: len(in(workload.Rolling)) > 0 || has.justChanged && len(users) > 0}
	say := func(severity summary.Severity, reason, format string, values ...any) objectSummary {
		j.Summary = summary.Of(severity, reason, format, values...)
		return j
	}
	name := ConfigMapName(config)
	switch {
	case result.Failure != nil:
		j.Summary = summary.OfFailure(*result.Failure)
		return j
	case observed.Older != "":
		j.rolling = false
		return say(summary.Stalled, api.ReasonConflict,
			"AppConfig %s is for application %s too, and counts, for it is older or was first to make ConfigMap %s. Delete one of the two", observed.Older, config.Spec.Application, name)
	case choice.isBarred():
		return say(summary.Stalled, api.ReasonInvalidSpec, "%s", choice.Problem)
	case len(result.Conflicts) > 0 && !slices.ContainsFunc(result.Conflicts, func(at plan.Ref) bool { return !observed.isLeft(at) }):
		return say(summary.UnderWay, api.ReasonTerminating, "%s is of an AppConfig that is gone: it is being deleted, and will be made anew",
			plan.Join(result.Conflicts))
	case len(result.Conflicts) > 0:
		return say(summary.Stalled, api.ReasonConflict,
			"%s exists and was not made by this AppConfig: delete it, or let it be taken over with: kubectl annotate -n %s configmap %s %s=AppConfig/%s",
			plan.Join(result.Conflicts), config.Namespace, result.Conflicts[0].Name, api.AnnotationAdopt, config.Name)
	case len(result.Terminating) > 0:
		return say(summary.UnderWay, api.ReasonTerminating, "%s is still being deleted and will be made anew", plan.Join(result.Terminating))
	case choice.IsMissing:
		return say(summary.Stalled, configv1.ReasonRevisionNotFound,
			"spec.revision: %d is given, which is not kept: status.revisions lists those that are", *config.Spec.Revision)
	case choice.IsLost:
		return say(summary.Stalled, configv1.ReasonContentLost,
			"the content of revision %d, which ConfigMap %s should have, is lost: the ConfigMap was edited, and the one that kept the content is gone or was edited too. Have what spec renders rolled out, or name a revision of status.revisions in spec.revision", choice.Chosen, name)
	case choice.Pending == configv1.ReasonRolledBack:
		return say(summary.Failed, configv1.ReasonRolledBack,
			"the rollout of revision %d failed (%s), and revision %d was put back. The same content is not tried again by itself: change spec, or, if the content was not to blame, set spec.revision to %d until Ready is True, and then take it out",
			choice.Rendered, choice.Marks.Failure, choice.Chosen, choice.Rendered)
	case len(in(workload.Failed)) > 0 && !has.justChanged:
		return say(summary.Failed, configv1.ReasonRolloutFailed, "%s", conditions.FirstFew(in(workload.Failed), "; "))
	case choice.Pending == configv1.ReasonAwaitingApproval:
		return say(summary.Waiting, configv1.ReasonAwaitingApproval, "rollout.mode is Manual: set rollout.approved to %s to roll the content out",
			choice.Hash)
	case choice.Pending == configv1.ReasonOutsideWindow:
		return say(summary.Waiting, configv1.ReasonOutsideWindow, "the content is rolled out when rollout.window opens")
	case has.justChanged && len(users) > 0:
		return say(summary.UnderWay, configv1.ReasonRollingOut, "ConfigMap %s was just written, and %d workloads use it", name, len(users))
	}
	j = summarizeUsers(config, in, say)
	if choice.Problem != "" {
		j.Message += fmt.Sprintf("; without spec.revision this spec would be refused: %s", choice.Problem)
	}
	return j
}

// judgeUsers is what workloads have to say.
func summarizeUsers(config *configv1.AppConfig, in func(...workload.State) []string,
	say func(summary.Severity, string, string, ...any) objectSummary) objectSummary {
	users := len(in(workload.UpToDate, workload.Rolling, workload.Waiting, workload.Left, workload.Failed))
	switch rolling, waiting := in(workload.Rolling), in(workload.Waiting, workload.Left); {
	case len(rolling) > 0:
		return say(summary.UnderWay, configv1.ReasonRollingOut, "%d of %d workloads are being rolled: %s", len(rolling), users,
			conditions.FirstFew(rolling, "; "))
	case len(waiting) > 0:
		return say(summary.UnderWay, configv1.ReasonWaiting, "%d of %d workloads wait: %s", len(waiting), users,
			conditions.FirstFew(waiting, "; "))
	case users == 0:
		return say(summary.Working, configv1.ReasonNoUsers,
			"ConfigMap %s is written; no Deployment, StatefulSet or DaemonSet of the namespace uses it", ConfigMapName(config))
	case config.Spec.Revision != nil:
		return say(summary.Working, configv1.ReasonPinned, "all pods of %s run revision %d, as spec.revision says", workloadsOf(users),
			*config.Spec.Revision)
	default:
		return say(summary.Working, configv1.ReasonUpToDate, "all pods of %s run the content", workloadsOf(users))
	}
}

// conditions are those of the verdict, and what else is so. Progressing is True while pods are being replaced. Degraded is True, too, with the
// reason SecretMissing, where missing names what is not there of spec.secretRefs: that says nothing about Ready, for the ConfigMap is as it
// should be, and the pods that need the Secret wait for it by themselves. secrets are those that may not be read.
func (j objectSummary) conditions(missing, secrets []string, namespace string) []metav1.Condition {
	progressing := conditions.False(configv1.ConditionProgressing, configv1.ReasonSettled, "no pods are being replaced")
	switch {
	case j.rolling:
		progressing = conditions.True(configv1.ConditionProgressing, configv1.ReasonRollingOut, "pods are being replaced")
	case j.Severity != summary.Working:
		progressing = conditions.False(configv1.ConditionProgressing, j.Reason, j.Message)
	}
	all := j.Conditions(progressing)
	if len(missing) > 0 && !j.IsProblem() {
		isDegraded := func(one metav1.Condition) bool { return one.Type == configv1.ConditionDegraded }
		all[slices.IndexFunc(all, isDegraded)] = conditions.True(configv1.ConditionDegraded, configv1.ReasonSecretMissing,
			fmt.Sprintf("spec.secretRefs names what is not in this namespace: %s. Pods that need it do not start",
				conditions.FirstFew(missing, "; ")))
	}
	if len(secrets) > 0 {
		all = append(all, conditions.True(configv1.ConditionSecretAccessNotGranted, configv1.ReasonSecretAccessNotGranted,
			fmt.Sprintf("a change of Secret %s rolls nothing, for the Secrets of this namespace may not be read: name %s in secrets.namespaces of the chart", strings.Join(secrets, ", "), namespace)))
	}
	return all
}

// workloadsOf is a number of workloads, in words.
func workloadsOf(count int) string {
	if count == 1 {
		return "one workload"
	}
	return fmt.Sprintf("%d workloads", count)
}
