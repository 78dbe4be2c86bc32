package postgresql

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestAcceptLossOfAnotherTerm: an acceptLoss for another term than the record's is reported with
// both terms.
func TestAcceptLossOfAnotherTerm(t *testing.T) {
	for accepted, want := range map[int64]bool{0: false, 6: false, 5: true, 7: true} {
		db := newDatabase(replicas(3), func(s *databasev1.PostgreSQLSpec) { s.Failover.AcceptLoss = accepted })
		db.Status.FirstReadyTime = new(metav1.NewTime(noon))
		observed := aged(says(running(db, 3), 0, contract.Report{State: "Waiting"})).with(db, election.Record{Term: 6})
		status, after := Status(db, observed, Decision{Replicas: 3}, plan.Result{})
		if after == 0 || after > database.ReadAgain || status.Term != 6 {
			t.Errorf("%d: the term is %d, and the Lease is read again after %s", accepted, status.Term, after)
		}
		for _, kind := range []string{"Ready", "Writable"} {
			said := condition(status, kind).Message
			if strings.Contains(said, "spec.failover.acceptLoss is") != want || want && !strings.Contains(said, "the term is 6") {
				t.Errorf("%d: %s says %s", accepted, kind, said)
			}
		}
	}
}
