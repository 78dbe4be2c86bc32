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

// objectSummary is the summary of an AppConfig.
type objectSummary struct {
	summary.Summary
	// rolling reports that pods are being replaced, even if something is wrong.
	rolling bool
}

// Messages with details.
const (
	messageOlder = "AppConfig %s is for application %s too and takes precedence, because it is older or was first to create " +
		"ConfigMap %s: delete one of the two"
	messageForeign = "%s exists and was not created by this AppConfig: delete it, or allow taking it over with: " +
		"kubectl annotate -n %s configmap %s %s=AppConfig/%s"
	messageLost = "the content of revision %d, which ConfigMap %s should have, is lost: the ConfigMap was edited, and the one that " +
		"kept the content is gone or was edited too: let the rendered content be rolled out, or set spec.revision to one of " +
		"status.revisions"
	messageRolledBack = "the rollout of revision %d failed (%s), and revision %d was put back. The same content is not retried by " +
		"itself: change the spec, or, if the content was not the cause, set spec.revision to %d until Ready is True, and then remove it"
	messageApproval = "waiting for approval (rollout.mode is Manual): set rollout.approved to %s to roll out the content"
)

// summarize returns the summary of an AppConfig. The first matching row counts:
//
//	situation                                          severity  reason
//	the spec is invalid                                Stalled   InvalidSpec
//	the API server refused a ConfigMap                 Failed    Refused
//	a write failed and is retried                      Unknown   ReconcileFailed
//	another AppConfig is in effect for the application Stalled   Conflict
//	the spec renders nothing in this namespace, and
//	  spec.revision names no kept revision             Stalled   InvalidSpec
//	a ConfigMap of a deleted AppConfig is in the way   UnderWay  Terminating
//	another foreign ConfigMap is in the way            Stalled   Conflict
//	a deleted ConfigMap is not gone yet                UnderWay  Terminating
//	spec.revision names no kept revision               Stalled   RevisionNotFound
//	the desired content is lost                        Stalled   ContentLost
//	the rendered content failed and was rolled back    Failed    RolledBack
//	new pods of a workload do not become ready in time Failed    RolloutFailed
//	the content waits for approval                     Waiting   AwaitingApproval
//	the content waits for its window                   Waiting   OutsideWindow
//	the content was just written, or pods are
//	  being replaced                                   UnderWay  RollingOut
//	a workload waits                                   UnderWay  Waiting
//	no workload uses the ConfigMap                     Working   NoUsers
//	spec.revision chooses the content                  Working   Pinned
//	none of these                                      Working   UpToDate
func summarize(config *configv1.AppConfig, observed Observed, choice Choice, result plan.Result, has stored) objectSummary {
	users := observed.users(config)
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
	name := config.ConfigMapName()
	switch {
	case result.Failure != nil:
		j.Summary = summary.OfFailure(*result.Failure)
		return j
	case observed.Older != "":
		j.rolling = false
		return say(summary.Stalled, api.ReasonConflict, messageOlder, observed.Older, config.Spec.Application, name)
	case choice.isBarred():
		return say(summary.Stalled, api.ReasonInvalidSpec, "%s", choice.Problem)
	case len(result.Conflicts) > 0 && !slices.ContainsFunc(result.Conflicts, func(at plan.Ref) bool { return !observed.isLeft(at) }):
		return say(summary.UnderWay, api.ReasonTerminating, "%s belongs to a deleted AppConfig: it is being deleted and will be created again",
			plan.Join(result.Conflicts))
	case len(result.Conflicts) > 0:
		return say(summary.Stalled, api.ReasonConflict, messageForeign,
			plan.Join(result.Conflicts), config.Namespace, result.Conflicts[0].Name, api.AnnotationAdopt, config.Name)
	case len(result.Terminating) > 0:
		return say(summary.UnderWay, api.ReasonTerminating, "%s is still being deleted and will be created again", plan.Join(result.Terminating))
	case choice.IsMissing:
		return say(summary.Stalled, configv1.ReasonRevisionNotFound,
			"spec.revision: Invalid value: %d: this revision is not kept: must be one of status.revisions", *config.Spec.Revision)
	case choice.IsLost:
		return say(summary.Stalled, configv1.ReasonContentLost, messageLost, choice.Chosen, name)
	case choice.Pending == configv1.ReasonRolledBack:
		return say(summary.Failed, configv1.ReasonRolledBack, messageRolledBack,
			choice.Rendered, choice.Marks.Failure, choice.Chosen, choice.Rendered)
	case len(in(workload.Failed)) > 0 && !has.justChanged:
		return say(summary.Failed, configv1.ReasonRolloutFailed, "%s", conditions.FirstFew(in(workload.Failed), "; "))
	case choice.Pending == configv1.ReasonAwaitingApproval:
		return say(summary.Waiting, configv1.ReasonAwaitingApproval, messageApproval, choice.Hash)
	case choice.Pending == configv1.ReasonOutsideWindow:
		return say(summary.Waiting, configv1.ReasonOutsideWindow, "waiting for rollout.window to open")
	case has.justChanged && len(users) > 0:
		return say(summary.UnderWay, configv1.ReasonRollingOut, "ConfigMap %s was just written, and %d workloads use it", name, len(users))
	}
	j = summarizeUsers(config, in, say)
	if choice.Problem != "" {
		j.Message += fmt.Sprintf("; without spec.revision this spec would be refused: %s", choice.Problem)
	}
	return j
}

// summarizeUsers returns the summary that follows from the workloads.
func summarizeUsers(config *configv1.AppConfig, in func(...workload.State) []string,
	say func(summary.Severity, string, string, ...any) objectSummary) objectSummary {
	users := len(in(workload.UpToDate, workload.Rolling, workload.Waiting, workload.Left, workload.Failed))
	switch rolling, waiting := in(workload.Rolling), in(workload.Waiting, workload.Left); {
	case len(rolling) > 0:
		return say(summary.UnderWay, configv1.ReasonRollingOut, "%d of %d workloads are rolling out: %s", len(rolling), users,
			conditions.FirstFew(rolling, "; "))
	case len(waiting) > 0:
		return say(summary.UnderWay, configv1.ReasonWaiting, "%d of %d workloads are waiting: %s", len(waiting), users,
			conditions.FirstFew(waiting, "; "))
	case users == 0:
		return say(summary.Working, configv1.ReasonNoUsers,
			"ConfigMap %s is written; no Deployment, StatefulSet or DaemonSet of the namespace uses it", config.ConfigMapName())
	case config.Spec.Revision != nil:
		return say(summary.Working, configv1.ReasonPinned, "all pods of %s run revision %d, as spec.revision says", workloadsOf(users),
			*config.Spec.Revision)
	default:
		return say(summary.Working, configv1.ReasonUpToDate, "all pods of %s run the content", workloadsOf(users))
	}
}

// conditions returns the conditions of the summary, and those that apply in addition. Progressing
// is True while pods are being replaced. missing names what spec.secretRefs refers to but does not
// exist: then Degraded is True, with the reason SecretMissing, but Ready does not change, because
// the ConfigMap is as desired, and the pods that need the Secret wait for it themselves. secrets
// are those that may not be read.
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
			fmt.Sprintf("spec.secretRefs refers to what does not exist in this namespace: %s. Pods that need it do not start",
				conditions.FirstFew(missing, "; ")))
	}
	if len(secrets) > 0 {
		all = append(all, conditions.True(configv1.ConditionSecretAccessNotGranted, configv1.ReasonSecretAccessNotGranted,
			fmt.Sprintf("changes of Secret %s restart nothing, because the Secrets of this namespace may not be read: add %s to "+
				"secrets.namespaces in the chart's values", strings.Join(secrets, ", "), namespace)))
	}
	return all
}

// workloadsOf returns a number of workloads, in words.
func workloadsOf(count int) string {
	if count == 1 {
		return "one workload"
	}
	return fmt.Sprintf("%d workloads", count)
}
