package postgresql

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// rules are what may be said about a PostgreSQL. The first one that applies counts.
var rules = []summary.Rule[*subject]{
	summary.When(summary.Stalled, api.ReasonConflict, foreignInTheWay),
	summary.When(summary.Waiting, databasev1.ReasonPausedByUser, withheld),
	summary.When(summary.UnderWay, api.ReasonTerminating, terminating),
	summary.When(summary.Stalled, api.ReasonConflict, foreignData),
	summary.When(summary.Degraded, api.ReasonConflict, foreignReplica),
	summary.When(summary.Stalled, databasev1.ReasonImageNotConfigured, withoutImage),
	summary.When(summary.Failed, databasev1.ReasonInstanceProblem, refusedVolume),
	summary.When(summary.UnderWay, databasev1.ReasonCreating, creating),
	summary.When(summary.UnderWay, databasev1.ReasonSwitchingOver, handingOver),
	summary.When(summary.Degraded, databasev1.ReasonFailingOver, withoutPrimary),
	summary.When(summary.UnderWay, databasev1.ReasonScaling, scaling),
	summary.When(summary.UnderWay, databasev1.ReasonUpdating, replacing),
	summary.When(summary.UnderWay, databasev1.ReasonUpdating, starting),
	summary.When(summary.Degraded, databasev1.ReasonInstanceNotReady, notReady),
	summary.When(summary.Degraded, databasev1.ReasonInstanceProblem, complaining),
	summary.When(summary.UnderWay, databasev1.ReasonUpdating, written),
	summary.When(summary.Waiting, databasev1.ReasonOutsideWindow, outsideWindow),
	summary.When(summary.Working, databasev1.ReasonAvailable, available),
}

// summarize returns the summary. What is wrong with pods, if that is known, says more than that an
// instance is not ready, or that there is no primary.
func (s *subject) summarize() summary.Summary {
	if s.result.Failure != nil {
		return summary.OfFailure(*s.result.Failure)
	}
	one := summary.First(s, rules)
	switch one.Reason {
	case databasev1.ReasonFailingOver, databasev1.ReasonInstanceNotReady, databasev1.ReasonCreating, databasev1.ReasonUpdating,
		databasev1.ReasonScaling:
		if problem := workload.FindProblem(s.evidence()); problem != nil && problem.Reason != api.ReasonPodsNotReady {
			severity := summary.Failed
			if problem.Reason == api.ReasonUnschedulable {
				severity = summary.Degraded
			}
			return summary.Of(severity, problem.Reason, "%s", problem.Message)
		}
	}
	return one
}

func foreignInTheWay(s *subject) string {
	refs := s.result.Conflicts
	return summary.If(len(refs) > 0, "%s exists and was not created by this PostgreSQL: delete it, choose another name, or allow taking it "+
		"over with: %s", plan.Join(refs), adoptCommand(refs, s.db.Name))
}

func adoptCommand(refs []plan.Ref, name string) string {
	if len(refs) == 0 {
		return ""
	}
	return plan.AdoptCommand(refs, "PostgreSQL/"+name)
}

func withheld(s *subject) string {
	return summary.If(len(s.result.Withheld) > 0, "spec.paused is true and withholds a change of %s", plan.Join(s.result.Withheld))
}

func terminating(s *subject) string {
	return summary.If(len(s.result.Terminating) > 0, "%s is still being deleted and will be created again", plan.Join(s.result.Terminating))
}

func withoutImage(s *subject) string {
	return summary.If(image(s.db, s.observed) == "", "spec.image: Required value: this installation has no image for PostgreSQL %s: set "+
		"spec.image, or databaseImages.postgresql of the chart's values", s.db.Spec.Version)
}

// refusedVolume: an instance can't go on with what is on its volume, and says why.
func refusedVolume(s *subject) string {
	for _, instance := range s.instances {
		if instance.Report.State == "Ended" && instance.Report.Problem != "" {
			return fmt.Sprintf("%s: %s", instance.Pod.Name, instance.Report.Problem)
		}
	}
	return ""
}

// creating: it has never had a primary, or one with a database for the application.
func creating(s *subject) string {
	switch {
	case s.wasReady() || s.primary != nil && s.primary.Report.Provided:
		return ""
	case s.primary != nil:
		return fmt.Sprintf("the database is being created: %s has not created the role and database of the Secret %s yet",
			describe(*s.primary), ApplicationName(s.db.Name))
	}
	return fmt.Sprintf("the database is being created: %s", s.states())
}

// withoutPrimary: the instances elect one, or can't.
func withoutPrimary(s *subject) string {
	return summary.If(s.primary == nil, "%s", s.withAcceptance("no instance takes writes: "+s.states()))
}

// states says what each instance does.
func (s *subject) states() string {
	if len(s.instances) == 0 {
		return "there are no pods yet"
	}
	var said []string
	for _, instance := range s.instances {
		said = append(said, describe(instance))
	}
	return conditions.First(MaxReplicas, said, ", ")
}

func describe(instance Instance) string {
	state, report := "no report yet", instance.Report
	if report.State != "" {
		state = report.State
	}
	if report.Percent > 0 {
		state = fmt.Sprintf("%s, %d %%", state, report.Percent)
	}
	if report.Problem != "" {
		state += ": " + report.Problem
	}
	return fmt.Sprintf("%s (%s)", instance.Pod.Name, state)
}

func scaling(s *subject) string {
	said := fmt.Sprintf("spec.replicas is %d, and %s there", s.db.Spec.Replicas, counted(len(s.instances)))
	switch {
	case s.decided.Replicas > s.db.Spec.Replicas:
		return said + ": " + s.decided.Waits
	case len(s.instances) != int(s.db.Spec.Replicas):
		return said
	}
	return ""
}

// counted returns how many instances are, in words.
func counted(count int) string {
	if count == 1 {
		return "1 instance is"
	}
	return fmt.Sprintf("%d instances are", count)
}

// replacing: pods are of an earlier template.
func replacing(s *subject) string {
	switch {
	case s.decided.Refused != "":
		return fmt.Sprintf("%s can't be replaced now: %s", s.decided.Evict.Name, s.decided.Refused)
	case s.decided.Evict != nil:
		return s.decided.Evict.Name + " is being replaced"
	}
	return s.decided.Waits
}

// startsFor is how long a new pod may take until that is a problem.
const startsFor = time.Minute

// starting: all that are not ready have just been made.
func starting(s *subject) string {
	var said []string
	for _, instance := range s.instances {
		if instance.IsReady() {
			continue
		}
		if s.observed.Now.Sub(instance.Pod.CreationTimestamp.Time) > startsFor && instance.Pod.DeletionTimestamp == nil {
			return ""
		}
		said = append(said, describe(instance))
	}
	return summary.If(len(said) > 0, "%s starting: %s", counted(len(said)), conditions.First(MaxReplicas, said, ", "))
}

func notReady(s *subject) string {
	var said []string
	for _, instance := range s.instances {
		if !instance.IsReady() {
			said = append(said, describe(instance))
		}
	}
	return summary.If(len(said) > 0, "%d of %d instances are ready; not ready: %s", s.ready(), len(s.instances),
		conditions.First(MaxReplicas, said, ", "))
}

// complaining: an instance takes connections, and something is wrong with it.
func complaining(s *subject) string {
	for _, instance := range s.instances {
		if instance.Report.Problem != "" {
			return fmt.Sprintf("%s: %s", instance.Pod.Name, instance.Report.Problem)
		}
	}
	return ""
}

func outsideWindow(s *subject) string { return s.decided.Window }

func written(s *subject) string {
	return summary.If(len(s.result.Changes) > 0, "%s is being updated", firstChange(s.result))
}

func firstChange(result plan.Result) string {
	if len(result.Changes) == 0 {
		return ""
	}
	return result.Changes[0].Ref.Kind + " " + result.Changes[0].Ref.Name
}

func available(s *subject) string {
	if len(s.instances) == 1 {
		return s.primary.Pod.Name + " takes writes"
	}
	return fmt.Sprintf("%s takes writes, and all %d instances take connections", s.primary.Pod.Name, len(s.instances))
}

// conditions returns the conditions of the summary, and those of this kind.
func (s *subject) conditions(one summary.Summary) []metav1.Condition {
	progressing := conditions.False(databasev1.ConditionProgressing, databasev1.ReasonSettled, "nothing is in progress")
	switch {
	case one.Severity == summary.UnderWay:
		progressing = conditions.True(databasev1.ConditionProgressing, one.Reason, one.Message)
	case s.decided.Notice != "":
		progressing = conditions.True(databasev1.ConditionProgressing, databasev1.ReasonWaiting, s.decided.Notice)
	}
	paused := conditions.False(databasev1.ConditionPaused, databasev1.ReasonActive, "Mainstay keeps the database as its spec says")
	if s.db.Spec.Paused {
		paused = conditions.True(databasev1.ConditionPaused, databasev1.ReasonPausedByUser, "spec.paused is true")
	}
	all := append(one.Conditions(progressing), paused, s.writable(), s.durable(), s.storage())
	return append(all, s.backup()...)
}

func (s *subject) writable() metav1.Condition {
	if s.primary == nil {
		reason := databasev1.ReasonFailingOver
		if s.isSwitching() {
			reason = databasev1.ReasonSwitchingOver
		}
		return conditions.False(databasev1.ConditionWritable, reason, s.withAcceptance("no instance takes writes: "+s.states()))
	}
	if !s.primary.IsReady() {
		return conditions.False(databasev1.ConditionWritable, databasev1.ReasonInstanceNotReady, s.withAcceptance(fmt.Sprintf(
			"%s is the primary but not ready, and no other instance leads: %s", s.primary.Pod.Name, s.states())))
	}
	return conditions.True(databasev1.ConditionWritable, databasev1.ReasonPrimary, s.primary.Pod.Name+" takes writes")
}
