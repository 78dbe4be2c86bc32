package database

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
)

// IsHibernated is what conditions say of a database that hibernates.
const IsHibernated = "spec.hibernated is true: no instance runs"

// Hibernating says that spec.hibernated is true, and instances still end.
func (s *Subject) Hibernating() string {
	return summary.If(s.Database.Hibernated && len(s.Instances) > 0, "spec.hibernated is true, and %s not stopped yet: %s",
		counted(len(s.Instances)), s.States())
}

// Hibernated says that spec.hibernated is true, and no instance runs.
func (s *Subject) Hibernated() string { return summary.If(s.Database.Hibernated, IsHibernated) }

// Waking says that the database hibernated until now, and its instances have not had the time to
// elect a primary.
func (s *Subject) Waking() string {
	was := meta.FindStatusCondition(s.Database.Before.Conditions, databasev1.ConditionWritable)
	if s.Database.Hibernated || s.Primary != nil || was == nil || was.Reason != databasev1.ReasonHibernated {
		return ""
	}
	isLate := slices.ContainsFunc(s.Instances, func(instance Instance) bool {
		return s.Observed.Now.Sub(instance.Pod.CreationTimestamp.Time) > StartsFor
	})
	return summary.If(!isLate, "the instances are being started: %s", s.States())
}

// asleep returns the condition Writable of a database that hibernates, or is waking.
func (s *Subject) asleep() (metav1.Condition, bool) {
	said := s.Waking()
	if s.Database.Hibernated && s.Primary == nil {
		said = IsHibernated
	}
	return conditions.False(databasev1.ConditionWritable, databasev1.ReasonHibernated, said), said != ""
}
