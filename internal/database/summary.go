package database

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Refine returns the summary, or what is wrong with pods, if that is known and says more than that
// an instance is not ready or missing, or that there is no primary.
func (s *Subject) Refine(one summary.Summary) summary.Summary {
	switch one.Reason {
	case databasev1.ReasonFailingOver, databasev1.ReasonInstanceNotReady, databasev1.ReasonCreating, databasev1.ReasonUpdating,
		databasev1.ReasonScaling:
		if s.Observed.PodsRefused != "" {
			return summary.Of(summary.Failed, api.ReasonPodsRefused, "%s", s.Observed.PodsRefused)
		}
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

// WasReady reports whether the database has ever been ready.
func (s *Subject) WasReady() bool { return s.Database.Before.WasReady }

// Phase returns the phase. All kinds of databases have the phases of a PostgreSQL.
func (s *Subject) Phase(one summary.Summary) databasev1.PostgreSQLPhase {
	hasPods := len(s.Instances) > 0
	switch {
	case s.Database.Paused:
		return databasev1.PhasePaused
	case one.Reason == databasev1.ReasonHibernated:
		return databasev1.PhaseHibernated
	case one.Severity == summary.Working:
		return databasev1.PhaseRunning
	case one.Reason == databasev1.ReasonSwitchingOver:
		return databasev1.PhaseSwitchingOver
	case s.Primary == nil && one.Severity >= summary.Failed:
		return databasev1.PhaseFailed
	case s.Waking() != "":
		return databasev1.PhaseUpdating
	case s.Primary == nil && s.WasReady() && hasPods:
		return databasev1.PhaseFailingOver
	case s.Primary == nil && hasPods:
		return databasev1.PhaseCreating
	case s.Primary == nil:
		return databasev1.PhasePending
	case one.IsProblem():
		return databasev1.PhaseDegraded
	case s.WasReady() && s.IsUpgrading():
		return databasev1.PhaseUpgrading
	case s.WasReady():
		return databasev1.PhaseUpdating
	default:
		return databasev1.PhaseCreating
	}
}

// What follows is what rules say about a database: each returns "" where it does not apply.

// ForeignInTheWay says that an object of another owner has a child's name.
func (s *Subject) ForeignInTheWay() string {
	refs := s.Result.Conflicts
	if len(refs) == 0 {
		return ""
	}
	return fmt.Sprintf("%s exists and was not created by this %s: delete it, choose another name, or allow taking it over with: %s",
		plan.Join(refs), s.Database.Kind, plan.AdoptCommand(refs, s.Database.Kind+"/"+s.Database.Name))
}

// Withheld says that spec.paused keeps a change from being made.
func (s *Subject) Withheld() string {
	return summary.If(len(s.Result.Withheld) > 0, "spec.paused is true and withholds a change of %s", plan.Join(s.Result.Withheld))
}

// Terminating says that a deleted child still exists, or what an earlier database of the name left.
func (s *Subject) Terminating() string {
	if len(s.Result.Terminating) > 0 {
		return plan.Join(s.Result.Terminating) + " is still being deleted and will be created again"
	}
	waits := make([]plan.Ref, len(s.Result.Waits))
	for i, wait := range s.Result.Waits {
		waits[i] = wait.For
	}
	return summary.If(len(waits) > 0, "the database begins when what is left of an earlier one is deleted: %s", plan.Join(waits))
}

// RefusedVolume says why an instance can't go on with what is on its volume.
func (s *Subject) RefusedVolume() string {
	for _, instance := range s.Instances {
		if instance.Report.State == "Ended" && instance.Report.Problem != "" {
			return fmt.Sprintf("%s: %s", instance.Pod.Name, instance.Report.Problem)
		}
	}
	return ""
}

// WithoutPrimary says that no instance takes writes: they elect a primary, or can't.
func (s *Subject) WithoutPrimary() string {
	return summary.If(s.Primary == nil, "%s", s.withAcceptance("no instance takes writes: "+s.States()))
}

// withAcceptance adds to what is said about a database without a primary that the user's word is
// about another term than that of the record: nothing follows from it, while the user waits.
func (s *Subject) withAcceptance(said string) string {
	record, known := s.Observed.Record(s.Database)
	accepted, term := s.Database.AcceptLoss, int64(record.Term) //nolint:gosec // terms are below 2^62
	if !known || s.Primary != nil || accepted == 0 || accepted == term {
		return said
	}
	return fmt.Sprintf("%s; spec.failover.acceptLoss is %d, and the term is %d: it applies to that term only, so it has no effect",
		said, accepted, term)
}

// States says what each instance does.
func (s *Subject) States() string {
	if len(s.Instances) == 0 {
		return "there are no pods yet"
	}
	var said []string
	for _, instance := range s.Instances {
		said = append(said, Describe(instance))
	}
	return conditions.First(MaxReplicas, said, ", ")
}

// Describe says what an instance does.
func Describe(instance Instance) string {
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

// Scaling says that there are more or fewer instances than the spec wants.
func (s *Subject) Scaling() string {
	said := fmt.Sprintf("spec.replicas is %d, and %s there", s.Database.Replicas, counted(len(s.Instances)))
	switch {
	case s.Decided.Replicas > s.Database.Replicas:
		return said + ": " + s.Decided.Waits
	case len(s.Instances) != int(s.Database.Replicas):
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

// Replacing says that pods are of an earlier template.
func (s *Subject) Replacing() string {
	switch {
	case s.Decided.Refused != "":
		return fmt.Sprintf("%s can't be replaced now: %s", s.Decided.Evict.Name, s.Decided.Refused)
	case s.Decided.Evict != nil:
		return s.Decided.Evict.Name + " is being replaced"
	}
	return s.Decided.Waits
}

// StartsFor is how long a new pod may take until that is a problem.
const StartsFor = time.Minute

// lateAfter is how long an instance may take no connections, whatever else is in progress, until
// that is a problem.
const lateAfter = 10 * time.Minute

// unreadyFor returns for how long an instance that is not ready has taken no connections. One whose
// pod is deleted was to be gone at its DeletionTimestamp. Kubernetes may not have noticed yet that
// a pod is not ready.
func (s *Subject) unreadyFor(instance Instance) time.Duration {
	if deleted := instance.Pod.DeletionTimestamp; deleted != nil {
		return s.Observed.Now.Sub(deleted.Time)
	}
	since := instance.Pod.CreationTimestamp.Time
	for _, condition := range instance.Pod.Status.Conditions {
		switch {
		case condition.Type != corev1.PodReady:
		case condition.Status == corev1.ConditionTrue:
			return 0
		case !condition.LastTransitionTime.IsZero():
			since = condition.LastTransitionTime.Time
		}
	}
	return s.Observed.Now.Sub(since)
}

// IsLate reports whether an instance has taken no connections for longer than a change takes.
func (s *Subject) IsLate() bool {
	return slices.ContainsFunc(s.Instances, func(one Instance) bool { return !one.IsReady() && s.unreadyFor(one) > lateAfter })
}

// Late says that an instance takes no connections, although all had the time to, and what else is
// in progress.
func (s *Subject) Late() string {
	said := s.NotReady()
	if more := s.underWay(); more != "" {
		said += "; " + more
	}
	return summary.If(s.IsLate(), "%s", said)
}

// underWay says what is in progress, whatever is wrong meanwhile.
func (s *Subject) underWay() string { return cmp.Or(s.Scaling(), s.Replacing()) }

// Starting says that all that are not ready have just been made, or end.
func (s *Subject) Starting() string {
	var said []string
	for _, instance := range s.Instances {
		if instance.IsReady() {
			continue
		}
		isNew := s.Observed.Now.Sub(instance.Pod.CreationTimestamp.Time) <= StartsFor
		if ends := instance.Pod.DeletionTimestamp != nil; ends && s.unreadyFor(instance) > StartsFor || !ends && !isNew {
			return ""
		}
		said = append(said, Describe(instance))
	}
	return summary.If(len(said) > 0, "%s starting: %s", counted(len(said)), conditions.First(MaxReplicas, said, ", "))
}

// NotReady says which instances take no connections.
func (s *Subject) NotReady() string {
	var said []string
	for _, instance := range s.Instances {
		if instance.IsReady() {
			continue
		}
		one := Describe(instance)
		if instance.Pod.DeletionTimestamp != nil && s.unreadyFor(instance) > StartsFor {
			one += ": its pod does not end: if its node is gone for good, delete the Node"
		}
		said = append(said, one)
	}
	return summary.If(len(said) > 0, "%d of %d instances are ready; not ready: %s", s.Ready(), len(s.Instances),
		conditions.First(MaxReplicas, said, ", "))
}

// RefusesWrites says that there is a primary, and why it accepts no writes.
func (s *Subject) RefusesWrites() string {
	if s.Primary == nil || s.Primary.Report.Refuses == "" {
		return ""
	}
	return fmt.Sprintf("%s is the primary and accepts no writes: %s", s.Primary.Pod.Name, s.Primary.Report.Refuses)
}

// Complaining says that an instance takes connections, and something is wrong with it.
func (s *Subject) Complaining() string {
	for _, instance := range s.Instances {
		if instance.Report.Problem != "" {
			return fmt.Sprintf("%s: %s", instance.Pod.Name, instance.Report.Problem)
		}
	}
	return ""
}

// OutsideWindow says that pods that could be replaced wait for the window.
func (s *Subject) OutsideWindow() string { return s.Decided.Window }

// Written says that a child was written in this pass.
func (s *Subject) Written() string {
	if len(s.Result.Changes) == 0 {
		return ""
	}
	return s.Result.Changes[0].Ref.Kind + " " + s.Result.Changes[0].Ref.Name + " is being updated"
}

// Available says that all is well.
func (s *Subject) Available() string {
	if len(s.Instances) == 1 {
		return s.Primary.Pod.Name + " takes writes"
	}
	return fmt.Sprintf("%s takes writes, and all %d instances take connections", s.Primary.Pod.Name, len(s.Instances))
}

// Conditions returns the conditions of the summary, and Progressing and Paused.
func (s *Subject) Conditions(one summary.Summary) []metav1.Condition {
	progressing := conditions.False(databasev1.ConditionProgressing, databasev1.ReasonSettled, "nothing is in progress")
	switch {
	case one.Severity == summary.UnderWay:
		progressing = conditions.True(databasev1.ConditionProgressing, one.Reason, one.Message)
	case s.IsLate() && one.IsProblem() && s.underWay() != "":
		progressing = conditions.True(databasev1.ConditionProgressing, databasev1.ReasonUpdating, s.underWay())
	case s.Decided.Notice != "":
		progressing = conditions.True(databasev1.ConditionProgressing, databasev1.ReasonWaiting, s.Decided.Notice)
	}
	paused := conditions.False(databasev1.ConditionPaused, databasev1.ReasonActive,
		"Mainstay keeps the "+s.Database.Noun+" as its spec says")
	if s.Database.Paused {
		paused = conditions.True(databasev1.ConditionPaused, databasev1.ReasonPausedByUser, "spec.paused is true")
	}
	return append(one.Conditions(progressing), paused)
}

// Writable says whether an instance takes writes.
func (s *Subject) Writable() metav1.Condition {
	if condition, isAsleep := s.asleep(); isAsleep {
		return condition
	}
	if s.Primary == nil {
		reason := databasev1.ReasonFailingOver
		if s.isSwitching() {
			reason = databasev1.ReasonSwitchingOver
		}
		return conditions.False(databasev1.ConditionWritable, reason, s.withAcceptance("no instance takes writes: "+s.States()))
	}
	if !s.Primary.IsReady() {
		return conditions.False(databasev1.ConditionWritable, databasev1.ReasonInstanceNotReady, s.withAcceptance(fmt.Sprintf(
			"%s is the primary but not ready, and no other instance leads: %s", s.Primary.Pod.Name, s.States())))
	}
	if refused := s.RefusesWrites(); refused != "" {
		return conditions.False(databasev1.ConditionWritable, databasev1.ReasonWritesRefused, refused)
	}
	return conditions.True(databasev1.ConditionWritable, databasev1.ReasonPrimary, s.Primary.Pod.Name+" takes writes")
}
