package postgresql

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

// promised is how many replicas a commit waits for by the spec.
func promised(db *databasev1.PostgreSQL) int { return max(int(db.Spec.Replicas)/2, 1) }

// durable says whether what is acknowledged survives the loss of an instance. The record in the
// Lease says what a commit waits for, also while there is no primary; the first row that applies
// counts:
//
//	situation                                        Durable
//	no instance is to run                            False, Hibernated
//	spec.replicas is 1                               False, OneInstance
//	commits wait for no replica, by the spec         False, Asynchronous
//	the Lease can't be read                          Unknown, RecordUnreadable
//	nothing was acknowledged yet                     False, Creating
//	the user accepts a loss in the record's term     False, LossAccepted
//	a commit may wait for fewer than the spec says   False, QuorumReduced
//	fewer receive than that: writes wait             False, TooFewInstances
//	otherwise                                        True, Quorum
func (s *subject) durable() metav1.Condition {
	spec, receiving, needed := &s.db.Spec, s.Receiving(), promised(s.db)
	is := func(reason, format string, values ...any) metav1.Condition {
		return conditions.False(databasev1.ConditionDurable, reason, fmt.Sprintf(format, values...))
	}
	switch {
	case s.Hibernated() != "":
		return is(databasev1.ReasonHibernated, "%s", s.Hibernated())
	case spec.Replicas == 1:
		return is(databasev1.ReasonOneInstance, "there is only one instance: if its volume is lost, so are the data")
	case spec.Durability == databasev1.DurabilityAsynchronous:
		return is(databasev1.ReasonAsynchronous,
			"%d replicas receive what the primary writes, and commits wait for none of them: a failover loses the writes that they lack", receiving)
	}
	record, known := s.Observed.Record(s.Database)
	if !known {
		unknown := is(databasev1.ReasonRecordUnreadable,
			"the Lease %s does not say what a commit waits for: it is missing, or was edited", s.db.Name)
		unknown.Status = metav1.ConditionUnknown
		return unknown
	}
	acks, of := record.Quorum()
	quorum := fmt.Sprintf("a commit waits for %d of %d replicas, and spec.durability needs %d", acks, of, needed)
	switch {
	case record.System == "":
		return is(databasev1.ReasonCreating, "the database has no data yet")
	case spec.Failover.AcceptLoss == int64(record.Term): //nolint:gosec // terms are below 2^62
		return is(databasev1.ReasonLossAccepted, "spec.failover.acceptLoss is %d, which is the current term: a failover may lose acknowledged "+
			"writes; remove it", spec.Failover.AcceptLoss)
	case acks < needed:
		return is(databasev1.ReasonQuorumReduced, "%s: too few replicas receive what the primary writes, so new writes may be on too few instances", quorum)
	case receiving < needed:
		return is(databasev1.ReasonTooFewInstances, "%s: %d receive what the primary writes, so commits wait", quorum, receiving)
	}
	message := fmt.Sprintf("%s: %d receive what the primary writes", quorum, receiving)
	if race := startRace(s.db, s.Database.Image); race != "" {
		message += "; " + race
	}
	return conditions.True(databasev1.ConditionDurable, databasev1.ReasonQuorum, message)
}
