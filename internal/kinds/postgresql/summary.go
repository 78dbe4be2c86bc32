package postgresql

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
)

// rules are what may be said about a PostgreSQL. The first one that applies counts.
var rules = []summary.Rule[*subject]{
	summary.When(summary.Stalled, api.ReasonConflict, (*subject).ForeignInTheWay),
	summary.When(summary.Waiting, databasev1.ReasonPausedByUser, (*subject).HibernationWithheld),
	summary.When(summary.Waiting, databasev1.ReasonPausedByUser, (*subject).Withheld),
	summary.When(summary.UnderWay, api.ReasonTerminating, (*subject).Terminating),
	summary.When(summary.Stalled, api.ReasonConflict, foreignData),
	summary.When(summary.Degraded, api.ReasonConflict, foreignReplica),
	summary.When(summary.Stalled, databasev1.ReasonImageNotConfigured, withoutImage),
	summary.When(summary.UnderWay, databasev1.ReasonScaling, (*subject).Hibernating),
	summary.When(summary.Waiting, databasev1.ReasonHibernated, (*subject).Hibernated),
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
	summary.When(summary.Degraded, databasev1.ReasonInstanceNotReady, (*subject).NotReady),
	summary.When(summary.Degraded, databasev1.ReasonInstanceProblem, (*subject).Complaining),
	summary.When(summary.Degraded, databasev1.ReasonSecretNotUsable, unusable),
	summary.When(summary.Degraded, databasev1.ReasonSecretNotUsable, withoutInit),
	summary.When(summary.UnderWay, databasev1.ReasonProvisioning, provisioning),
	summary.When(summary.Stalled, databasev1.ReasonImageNotConfigured, withoutPoolerImage),
	summary.When(summary.UnderWay, databasev1.ReasonUpdating, poolerStarting),
	summary.When(summary.Degraded, databasev1.ReasonPoolerNotReady, poolerNotReady),
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
	return summary.If(s.Database.Image == "", "spec.image: Required value: this installation has no image for PostgreSQL %s: set "+
		"spec.image, or databaseImages.postgresql of the chart's values", s.db.Spec.Version)
}

// createdLate is creating, once all instances had the time to start.
func createdLate(s *subject) string { return summary.If(s.IsLate(), "%s", creating(s)) }

// creating: it has never had a primary, or one with a database for the application.
func creating(s *subject) string {
	switch {
	case s.WasReady() || s.Primary != nil && s.Primary.Report.Provided:
		return ""
	case s.Primary != nil:
		return fmt.Sprintf("the database is being created: %s has not created the role and database of the Secret %s yet",
			database.Describe(*s.Primary), database.ApplicationName(s.db.Name))
	}
	return fmt.Sprintf("the database is being created: %s", s.States())
}

// conditions returns the conditions of the summary, and those of this kind.
func (s *subject) conditions(one summary.Summary) []metav1.Condition {
	writable, durable := s.Writable(), s.durable()
	if writable.Status == metav1.ConditionTrue && durable.Reason == databasev1.ReasonTooFewInstances {
		writable.Message = fmt.Sprintf("%s takes writes, but %s", s.Primary.Pod.Name, durable.Message)
	}
	return append(append(s.Conditions(one), writable, durable, s.Storage()), s.backup()...)
}
