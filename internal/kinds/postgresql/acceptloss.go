package postgresql

import "fmt"

// withAcceptance adds to what is said about a database without a primary that the user's word is
// about another term than that of the record: nothing follows from it, while the user waits.
func (s *subject) withAcceptance(said string) string {
	record, known := s.observed.record(s.db)
	accepted, term := s.db.Spec.Failover.AcceptLoss, int64(record.Term) //nolint:gosec // terms are below 2^62
	if !known || s.primary != nil || accepted == 0 || accepted == term {
		return said
	}
	return fmt.Sprintf("%s; spec.failover.acceptLoss is %d, and the term is %d: it applies to that term only, so it has no effect",
		said, accepted, term)
}
