package database

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
)

// hibernates reports whether no instance is to run: by the spec or, while the database is paused,
// by the StatefulSet, which stays as it is.
func (s *Subject) hibernates() bool {
	if set := s.Observed.StatefulSet(s.Database); s.Database.Paused && set != nil {
		return ptr.Deref(set.Spec.Replicas, 1) == 0
	}
	return s.Database.Hibernated
}

// HibernationWithheld says that spec.paused keeps the instances from being stopped or started.
func (s *Subject) HibernationWithheld() string {
	switch {
	case s.hibernates() == s.Database.Hibernated:
		return ""
	case s.Database.Hibernated:
		return "spec.paused is true and withholds spec.hibernated, which is true: the instances are not stopped"
	}
	return "spec.paused is true and withholds spec.hibernated, which is false: no instance runs"
}

// Hibernating says that no instance is to run, and instances still end.
func (s *Subject) Hibernating() string {
	return summary.If(s.hibernates() && len(s.Instances) > 0, "spec.hibernated is true, and %s not stopped yet: %s",
		counted(len(s.Instances)), s.States())
}

// Hibernated says that no instance is to run, and why.
func (s *Subject) Hibernated() string {
	return summary.If(s.hibernates(), "%s", cmp.Or(s.HibernationWithheld(), "spec.hibernated is true: no instance runs"))
}

// Waking says that the database hibernated until now, and its instances have not had the time to
// elect a primary.
func (s *Subject) Waking() string {
	was := meta.FindStatusCondition(s.Database.Before.Conditions, databasev1.ConditionWritable)
	if s.hibernates() || s.Primary != nil || was == nil || was.Reason != databasev1.ReasonHibernated {
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
	if s.Primary == nil {
		said = cmp.Or(s.Hibernated(), said)
	}
	return conditions.False(databasev1.ConditionWritable, databasev1.ReasonHibernated, said), said != ""
}
