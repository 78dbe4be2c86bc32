package postgresql

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// reclaimed is a database of two that had more instances, whose volumes are deleted.
func reclaimed(changes ...func(*databasev1.PostgreSQLSpec)) *databasev1.PostgreSQL {
	return newDatabase(append(changes, replicas(2), func(spec *databasev1.PostgreSQLSpec) { spec.Reclaim = databasev1.DeletionDelete })...)
}

// recordOf is the record of a database with a leader and its replicas.
func recordOf(leader string, replicas ...string) election.Record {
	member := func(name string) election.Member { return election.Member{Name: name, Incarnation: "1"} }
	rule := election.Rule{Leader: member(leader), Acks: 1}
	for _, replica := range replicas {
		rule.Set = append(rule.Set, member(replica))
	}
	return election.Record{
		System: "1", Term: 4, Open: true, Holder: election.Holder{Member: member(leader)}, Rules: []election.Rule{rule},
	}
}

// TestReclaim: the volumes of a removed instance are deleted only if the spec says so and nothing
// that was acknowledged can be only there.
func TestReclaim(t *testing.T) {
	walled := func(spec *databasev1.PostgreSQLSpec) {
		spec.WALStorage = &databasev1.WALStorage{Size: spec.Storage}
	}
	db := reclaimed(walled)
	settled := func() Observed { return running(db, 2).with(db, recordOf("db-0", "db-1")) }
	volumes := []string{"data-db-2", "wal-db-2"}
	for name, test := range map[string]struct {
		db       *databasev1.PostgreSQL
		observed Observed
		want     []string
	}{
		"removed, and all others are ready": {db, settled(), volumes},
		"the default":                       {newDatabase(replicas(2), walled), settled(), nil},
		"a pod of it is left":               {db, running(db, 3).with(db, recordOf("db-0", "db-1")), nil},
		"a commit may depend on it":         {db, running(db, 2).with(db, recordOf("db-0", "db-1", "db-2")), nil},
		"another is not ready":              {db, away(settled(), 1), nil},
		"the Lease can't be read":           {db, running(db, 2), nil},
		"there is no primary":               {db, says(settled(), 0, contract.Report{}), nil},
		"another leads by the Lease":        {db, running(db, 2).with(db, recordOf("db-1", "db-0")), nil},
		"hibernated":                        {reclaimed(walled, sleeps), settled(), nil},
		"paused":                            {reclaimed(walled, func(spec *databasev1.PostgreSQLSpec) { spec.Paused = true }), settled(), nil},
		"no image": {reclaimed(walled, func(spec *databasev1.PostgreSQLSpec) { spec.Version = "16" }),
			settled(), nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, volume := range []string{"data-db-0", "data-db-1", "data-db-2", "wal-db-2"} {
				claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: db.Namespace, Name: volume}}
				test.observed.Children[Ref(db, "PersistentVolumeClaim", volume)] = plan.Found{Ownership: plan.Ours, Object: claim}
			}
			foreign := Ref(db, "PersistentVolumeClaim", "data-db-3")
			test.observed.Children[foreign] = plan.Found{Ownership: plan.Foreign, Object: &corev1.PersistentVolumeClaim{}}
			decided := Decide(test.db, test.observed)
			looks := slices.Contains([]string{"a commit may depend on it", "the Lease can't be read", "another leads by the Lease"}, name)
			if (decided.RequeueAfter == database.LookAgain) != looks {
				t.Errorf("the Lease is looked at again after %s", decided.RequeueAfter)
			}
			wanted := Desired(test.db, test.observed, decided)
			var got []string
			for _, ref := range wanted.Delete {
				got = append(got, ref.Name)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("these are deleted: %q, want %q", got, test.want)
			}
			for _, volume := range volumes {
				isChild := slices.ContainsFunc(wanted.Children, func(child plan.Child) bool { return child.Object.GetName() == volume })
				if isDeleted := slices.Contains(got, volume); isChild == isDeleted {
					t.Errorf("%s is a child: %t; deleted: %t", volume, isChild, isDeleted)
				}
			}
		})
	}
}
