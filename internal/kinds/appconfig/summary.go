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

// subject is an AppConfig to summarize.
type subject struct {
	config   *configv1.AppConfig
	observed Observed
	choice   Choice
	result   plan.Result
	has      stored
	// users are the workloads that use its ConfigMap.
	users []User
}

// problems are what keeps the content from being rolled out. The first rule that applies counts.
var problems = []summary.Rule[*subject]{
	summary.When(summary.Stalled, api.ReasonConflict, olderExists),
	summary.When(summary.Stalled, api.ReasonInvalidSpec, renderingBarred),
	summary.When(summary.UnderWay, api.ReasonTerminating, formerInTheWay),
	summary.When(summary.Stalled, api.ReasonConflict, foreignInTheWay),
	summary.When(summary.UnderWay, api.ReasonTerminating, terminating),
	summary.When(summary.Stalled, configv1.ReasonRevisionNotFound, revisionNotKept),
	summary.When(summary.Stalled, configv1.ReasonContentLost, contentLost),
	summary.When(summary.Failed, configv1.ReasonRolledBack, rolledBack),
	summary.When(summary.Failed, configv1.ReasonRolloutFailed, rolloutFailed),
	summary.When(summary.Failed, configv1.ReasonRestartRefused, restartRefused),
	summary.When(summary.Waiting, configv1.ReasonAwaitingApproval, awaitingApproval),
	summary.When(summary.Waiting, configv1.ReasonOutsideWindow, outsideWindow),
	summary.When(summary.UnderWay, configv1.ReasonRollingOut, justWritten),
}

// stages are what may be said if there is no problem: how far the workloads have come. The first
// rule that applies counts.
var stages = []summary.Rule[*subject]{
	summary.When(summary.UnderWay, configv1.ReasonRollingOut, rolling),
	summary.When(summary.UnderWay, configv1.ReasonBlocked, blocked),
	summary.When(summary.UnderWay, configv1.ReasonWaiting, waiting),
	summary.When(summary.Working, configv1.ReasonNoUsers, unused),
	summary.When(summary.Working, configv1.ReasonPinned, revisionChosen),
	summary.When(summary.Working, configv1.ReasonUpToDate, upToDate),
}

// summarize returns the summary of an AppConfig. A spec whose content can't be rendered may have no
// problem: then spec.revision chooses another content.
func (s *subject) summarize() summary.Summary {
	if s.result.Failure != nil {
		return summary.OfFailure(*s.result.Failure)
	}
	if problem := summary.First(s, problems); problem.Reason != "" {
		return problem
	}
	stage := summary.First(s, stages)
	if cause := s.cause(); cause != nil && stage.Reason == configv1.ReasonRollingOut {
		stage.Severity, stage.Reason = summary.Degraded, cause.Reason
	}
	if s.choice.Problem != "" {
		stage.Message += "; without spec.revision this spec would be refused: " + s.choice.Problem
	}
	return stage
}

// cause returns what is wrong with the pods of the first workload for which that is known; nil if
// nothing is. The message of the stage names each.
func (s *subject) cause() *workload.Problem {
	for _, user := range s.users {
		if user.Cause != nil {
			return user.Cause
		}
	}
	return nil
}

// in returns the workloads in one of these states, each with its message, but for blocked ones.
func (s *subject) in(states ...workload.State) []string {
	return s.which(func(user User) bool { return slices.Contains(states, user.State) && !user.Blocked })
}

// which returns the workloads that match, each with its message.
func (s *subject) which(matches func(User) bool) []string {
	var named []string
	for _, user := range s.users {
		if matches(user) {
			named = append(named, strings.TrimSuffix(fmt.Sprintf("%s: %s", user.Ref, user.Message), ": "))
		}
	}
	return named
}

// isRolling reports whether pods are being replaced, even if something is wrong.
func (s *subject) isRolling() bool {
	if s.observed.Older != "" && s.result.Failure == nil {
		return false // they use the other AppConfig
	}
	return len(s.in(workload.Rolling)) > 0 || s.has.justChanged && len(s.users) > 0
}

// olderExists: another AppConfig is in effect for the application.
func olderExists(s *subject) string {
	return summary.If(s.observed.Older != "", "AppConfig %s is for application %s too and takes precedence, because it is older or was "+
		"first to create ConfigMap %s: delete one of the two", s.observed.Older, s.config.Spec.Application, s.config.ConfigMapName())
}

// renderingBarred: the spec renders nothing in this namespace, and spec.revision names no kept
// revision.
func renderingBarred(s *subject) string {
	if !s.choice.isBarred() {
		return ""
	}
	return s.choice.Problem
}

// formerInTheWay: ConfigMaps of a deleted AppConfig, and no others, are in the way.
func formerInTheWay(s *subject) string {
	refs := s.result.Conflicts
	hasOthers := slices.ContainsFunc(refs, func(at plan.Ref) bool { return !s.observed.isLeft(at) })
	return summary.If(len(refs) > 0 && !hasOthers, "%s belongs to a deleted AppConfig: it is being deleted and will be created again",
		plan.Join(refs))
}

// foreignInTheWay: another foreign ConfigMap is in the way.
func foreignInTheWay(s *subject) string {
	refs := s.result.Conflicts
	if len(refs) == 0 {
		return ""
	}
	return fmt.Sprintf("%s exists and was not created by this AppConfig: delete it, or allow taking it over with: "+
		"%s", plan.Join(refs), plan.AdoptCommand(refs, "AppConfig/"+s.config.Name))
}

// terminating: a deleted ConfigMap is not gone yet.
func terminating(s *subject) string {
	return summary.If(len(s.result.Terminating) > 0, "%s is still being deleted and will be created again", plan.Join(s.result.Terminating))
}

// revisionNotKept: spec.revision names no kept revision.
func revisionNotKept(s *subject) string {
	if !s.choice.IsMissing {
		return ""
	}
	var kept []int64
	for _, revision := range s.observed.revisions(s.config) {
		kept = append(kept, revision.Number)
	}
	return fmt.Sprintf("spec.revision: Invalid value: %d: this revision is not kept: %s", *s.config.Spec.Revision, acceptedRevisions(kept))
}

// contentLost: the content that the ConfigMap should have is lost.
func contentLost(s *subject) string {
	return summary.If(s.choice.IsLost, "the content of revision %d, which ConfigMap %s should have, is lost: the ConfigMap was edited, "+
		"and the ConfigMap of that revision is gone or was edited too: let the rendered content be rolled out, or set spec.revision to "+
		"one of status.revisions", s.choice.Chosen, s.config.ConfigMapName())
}

// rolledBack: the rendered content failed, and an earlier one was put back.
func rolledBack(s *subject) string {
	return summary.If(s.choice.Pending == configv1.ReasonRolledBack, "the rollout of revision %d failed (%s), and revision %d was put "+
		"back. The same content is not rolled out again automatically: change the spec, or, if the content was not the cause, set spec.revision to %d "+
		"until Ready is True, and then remove it", s.choice.Rendered, s.choice.Marks.Failure, s.choice.Chosen, s.choice.Rendered)
}

// rolloutFailed: new pods of a workload do not become ready in time.
func rolloutFailed(s *subject) string {
	if s.has.justChanged {
		return ""
	}
	return conditions.FirstFew(s.in(workload.Failed), "; ")
}

// restartRefused: the API server does not let a workload restart, for the content or for a Secret.
func restartRefused(s *subject) string {
	if s.has.justChanged {
		return ""
	}
	return conditions.FirstFew(s.observed.refused(s.config), "; ")
}

// awaitingApproval: a user has to approve the content.
func awaitingApproval(s *subject) string {
	return summary.If(s.choice.Pending == configv1.ReasonAwaitingApproval,
		"waiting for approval (rollout.mode is Manual): set rollout.approved to %s to roll out the content", s.choice.Hash)
}

// outsideWindow: the content waits for its window.
func outsideWindow(s *subject) string {
	return summary.If(s.choice.Pending == configv1.ReasonOutsideWindow, "waiting for rollout.window to open")
}

// justWritten: the content was written just now: what is known about workloads is older.
func justWritten(s *subject) string {
	return summary.If(s.has.justChanged && len(s.users) > 0, "ConfigMap %s has new content: %d workloads use it and get it next",
		s.config.ConfigMapName(), len(s.users))
}

// rolling: pods are being replaced.
func rolling(s *subject) string { return s.some("are rolling out", s.in(workload.Rolling)) }

// blocked: workloads are paused, or a user must delete their pods.
func blocked(s *subject) string {
	return s.some("are blocked", s.which(func(user User) bool { return user.Blocked }))
}

// waiting: workloads will be restarted later, or not at all.
func waiting(s *subject) string {
	return s.some("are waiting", s.in(workload.Waiting, workload.Left))
}

// some says what the workloads in a list do; "" if there are none.
func (s *subject) some(what string, found []string) string {
	return summary.If(len(found) > 0, "%d of %d workloads %s: %s", len(found), len(s.users), what, conditions.FirstFew(found, "; "))
}

// unused: no workload uses the ConfigMap.
func unused(s *subject) string {
	return summary.If(len(s.users) == 0, "ConfigMap %s is written; no Deployment, StatefulSet or DaemonSet of the namespace uses it",
		s.config.ConfigMapName())
}

// revisionChosen: spec.revision chooses the content.
func revisionChosen(s *subject) string {
	if s.config.Spec.Revision == nil {
		return ""
	}
	return fmt.Sprintf("all pods of %s run revision %d, as spec.revision says", workloadsOf(len(s.users)), *s.config.Spec.Revision)
}

// upToDate: none of the others.
func upToDate(s *subject) string {
	return fmt.Sprintf("all pods of %s run the content", workloadsOf(len(s.users)))
}

// conditions returns the conditions of the summary, and those that apply in addition. Progressing
// is True while pods are being replaced. missing names what spec.secretRefs refers to but does not
// exist: then Degraded is True, with the reason SecretMissing, but Ready does not change, because
// the ConfigMap is as desired, and the pods that need the Secret wait for it themselves. secrets
// are those that may not be read.
func (s *subject) conditions(missing, secrets []string) []metav1.Condition {
	one := s.summarize()
	progressing := conditions.False(configv1.ConditionProgressing, configv1.ReasonSettled, "no pods are being replaced")
	switch {
	case s.isRolling():
		progressing = conditions.True(configv1.ConditionProgressing, configv1.ReasonRollingOut, "pods are being replaced")
	case one.Severity != summary.Working:
		progressing = conditions.False(configv1.ConditionProgressing, one.Reason, one.Message)
	}
	all := one.Conditions(progressing)
	if len(missing) > 0 && !one.IsProblem() {
		isDegraded := func(of metav1.Condition) bool { return of.Type == configv1.ConditionDegraded }
		all[slices.IndexFunc(all, isDegraded)] = conditions.True(configv1.ConditionDegraded, configv1.ReasonSecretMissing,
			fmt.Sprintf("spec.secretRefs refers to Secrets or keys that do not exist in this namespace: %s. Pods that need them do not start",
				conditions.FirstFew(missing, "; ")))
	}
	if len(secrets) > 0 {
		all = append(all, conditions.True(configv1.ConditionSecretAccessNotGranted, configv1.ReasonSecretAccessNotGranted,
			fmt.Sprintf("changes of Secret %s restart nothing, because Mainstay has no right to read the Secrets of this namespace: add %s to "+
				"secrets.namespaces in the chart's values", strings.Join(secrets, ", "), s.config.Namespace)))
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
