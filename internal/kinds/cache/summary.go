package cache

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
)

// rules are what may be said about a Cache. The first one that applies counts.
var rules = []summary.Rule[*subject]{
	summary.When(summary.Stalled, api.ReasonConflict, (*subject).ForeignInTheWay),
	summary.When(summary.Waiting, databasev1.ReasonPausedByUser, (*subject).HibernationWithheld),
	summary.When(summary.Waiting, databasev1.ReasonPausedByUser, (*subject).Withheld),
	summary.When(summary.UnderWay, api.ReasonTerminating, (*subject).Terminating),
	summary.When(summary.Stalled, databasev1.ReasonImageNotConfigured, withoutImage),
	summary.When(summary.Stalled, databasev1.ReasonPasswordUnavailable, withoutPassword),
	summary.When(summary.UnderWay, databasev1.ReasonScaling, (*subject).Hibernating),
	summary.When(summary.Waiting, databasev1.ReasonHibernated, (*subject).Hibernated),
	summary.When(summary.Stalled, api.ReasonConflict, foreignData),
	summary.When(summary.Failed, databasev1.ReasonInstanceProblem, (*subject).RefusedVolume),
	summary.When(summary.Degraded, databasev1.ReasonCreating, createdLate),
	summary.When(summary.UnderWay, databasev1.ReasonCreating, creating),
	summary.When(summary.UnderWay, databasev1.ReasonSwitchingOver, (*subject).HandingOver),
	summary.When(summary.UnderWay, databasev1.ReasonUpdating, (*subject).Waking),
	summary.When(summary.Degraded, databasev1.ReasonFailingOver, (*subject).WithoutPrimary),
	summary.When(summary.Degraded, databasev1.ReasonInstanceNotReady, (*subject).Late),
	summary.When(summary.UnderWay, databasev1.ReasonScaling, (*subject).Scaling),
	summary.When(summary.UnderWay, databasev1.ReasonUpdating, (*subject).Replacing),
	summary.When(summary.UnderWay, databasev1.ReasonUpdating, (*subject).Starting),
	summary.When(summary.Degraded, databasev1.ReasonWritesRefused, (*subject).RefusesWrites),
	summary.When(summary.Degraded, databasev1.ReasonInstanceNotReady, (*subject).NotReady),
	summary.When(summary.Degraded, databasev1.ReasonInstanceProblem, (*subject).Complaining),
	summary.When(summary.UnderWay, databasev1.ReasonUpdating, (*subject).Written),
	summary.When(summary.Waiting, databasev1.ReasonOutsideWindow, (*subject).OutsideWindow),
	summary.When(summary.Working, databasev1.ReasonAvailable, (*subject).Available),
}

// summarize returns the summary.
func (s *subject) summarize() summary.Summary {
	if s.Result.Failure != nil {
		return summary.OfFailure(*s.Result.Failure)
	}
	return s.Refine(summary.First(s, rules))
}

func withoutImage(s *subject) string {
	return summary.If(s.Database.Image == "", "spec.image: Required value: this installation has no image for Valkey %s: set "+
		"spec.image, or databaseImages.valkey of the chart's values", s.cache.Spec.Version)
}

// withoutPassword: there is none that could be used. What was in force goes on.
func withoutPassword(s *subject) string {
	_, problem := password(s.cache, s.observed)
	return problem
}

// foreignData says which volumes have data that the server must not touch. Their instances touch
// nothing.
func foreignData(s *subject) string {
	var said []string
	for _, instance := range s.Instances {
		if instance.Report.Foreign != "" {
			said = append(said, fmt.Sprintf("the volume %s %s", database.VolumeName(s.cache.Name, instance.Ordinal), instance.Report.Foreign))
		}
	}
	return summary.If(len(said) > 0, "%s: nothing there was changed: restore the volume that belongs here, or delete its claim and its pod",
		conditions.First(database.MaxReplicas, said, "; "))
}

// createdLate is creating, once all instances had the time to start.
func createdLate(s *subject) string { return summary.If(s.IsLate(), "%s", creating(s)) }

// creating: it has never had a primary, or one with the user of the application.
func creating(s *subject) string {
	switch {
	case s.WasReady() || s.Primary != nil && s.Primary.Report.Provided:
		return ""
	case s.Primary != nil:
		return fmt.Sprintf("the cache is being created: %s does not have the user of the Secret %s yet", database.Describe(*s.Primary),
			database.ApplicationName(s.cache.Name))
	}
	return "the cache is being created: " + s.States()
}

// conditions returns the conditions of the summary, and those of this kind.
func (s *subject) conditions(one summary.Summary) []metav1.Condition {
	all := append(s.Conditions(one), s.Writable(), s.replicated())
	if s.cache.Spec.Persistence != nil {
		all = append(all, s.Storage())
	}
	return all
}

// replicated says whether another instance can take over with nearly all data. The first row that
// applies counts:
//
//	situation                         Replicated
//	no instance is to run             False, Hibernated
//	spec.replicas is 1                False, OneInstance
//	fewer replicas receive            False, TooFewReplicas
//	otherwise                         True, Replicating
func (s *subject) replicated() metav1.Condition {
	spec, receiving := &s.cache.Spec, s.Receiving()
	is := func(reason, format string, values ...any) metav1.Condition {
		return conditions.False(databasev1.ConditionReplicated, reason, fmt.Sprintf(format, values...))
	}
	switch {
	case s.Hibernated() != "":
		return is(databasev1.ReasonHibernated, "%s", s.Hibernated())
	case spec.Replicas == 1 && spec.Persistence == nil:
		return is(databasev1.ReasonOneInstance, "there is only one instance, without persistence: the data are lost with its pod")
	case spec.Replicas == 1:
		return is(databasev1.ReasonOneInstance, "there is only one instance: if its volume is lost, so are the data")
	case receiving < int(spec.Replicas)-1:
		return is(databasev1.ReasonTooFewReplicas, "%d of %d replicas receive what the primary writes", receiving, spec.Replicas-1)
	}
	lack := "a failover loses the writes that they lack"
	if s.Primary != nil && s.Primary.Report.Unreplicated > 0 {
		lack += ", at most " + database.Bytes(s.Primary.Report.Unreplicated) + " at the last sample"
	}
	return conditions.True(databasev1.ConditionReplicated, databasev1.ReasonReplicating, fmt.Sprintf(
		"%d replicas receive what the primary writes, and writes wait for none of them: %s", receiving, lack))
}
