package postgresql

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestStorageGrows: a volume that can't grow is reported with the API server's reason, and one that
// grows is not reported as refused.
func TestStorageGrows(t *testing.T) {
	db := newDatabase(func(s *databasev1.PostgreSQLSpec) { s.Storage = resource.MustParse("2Gi") })
	refused := func(name, message string) plan.Result {
		return plan.Result{Failure: &plan.Failure{Reason: "Refused", Message: "applying PersistentVolumeClaim shop/" + name + ": " + message}}
	}
	const cause = "only dynamically provisioned pvc can be resized"
	for name, test := range map[string]struct {
		asked, has, reason, says string
		result                   plan.Result
	}{
		"refused": {"1Gi", "1Gi", databasev1.ReasonCantGrow, "the volume of db-0 can't grow from 1Gi to 2Gi: ", refused("data-db-0", cause)},
		"another is refused": {"2Gi", "1Gi", databasev1.ReasonResizing, "the volume of db-0 has 1Gi, and will have 2Gi",
			refused("data-db-1", cause)},
		"it grows": {"2Gi", "1Gi", databasev1.ReasonResizing, "the volume of db-0 has 1Gi, and will have 2Gi", plan.Result{}},
		"it has":   {"2Gi", "2Gi", databasev1.ReasonEnoughSpace, "no volume is nearly full", plan.Result{}},
	} {
		observed := running(db, 1)
		observed.Children[Ref(db, "PersistentVolumeClaim", "data-db-0")] = plan.Found{Ownership: plan.Ours, Object: &corev1.PersistentVolumeClaim{
			Spec: corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: storageOf(test.asked)}},
			Status: corev1.PersistentVolumeClaimStatus{
				Phase: corev1.ClaimBound, Capacity: storageOf(test.has),
			},
		}}
		status, _ := Status(db, observed, Decision{Replicas: 1}, test.result)
		got := condition(status, "StorageHealthy")
		if got.Reason != test.reason || !strings.HasPrefix(got.Message, test.says) ||
			got.Reason == "CantGrow" && !strings.HasSuffix(got.Message, cause) {
			t.Errorf("%s: got %s: %s", name, got.Reason, got.Message)
		}
	}
}

// TestNearlyFull: the message says what happens, or what helps.
func TestNearlyFull(t *testing.T) {
	grows := func(limit string) func(*databasev1.PostgreSQLSpec) {
		return func(s *databasev1.PostgreSQLSpec) {
			s.AutoGrow = &databasev1.AutoGrow{Limit: resource.MustParse(limit)}
		}
	}
	late := newDatabase(grows("2Gi"))
	late.Spec.AutoGrow.From = 95
	for want, db := range map[string]*databasev1.PostgreSQL{
		"the volume of db-0 is 90 % full: it grows automatically from 95 % on, or increase spec.storage":     late,
		"the volume of db-0 is 90 % full: increase spec.storage":                                             newDatabase(),
		"the volume of db-0 is 90 % full: it grows automatically, to 1280Mi":                                 newDatabase(grows("2Gi")),
		"the volume of db-0 is 90 % full: it has reached spec.autoGrow.limit, 1Gi: increase that":            newDatabase(grows("1Gi")),
		"the volume of db-0 is 90 % full: it grows at 12:09:00 UTC, ten minutes after it last grew, or incr": newDatabase(grows("3Gi")),
	} {
		observed := says(running(db, 1), 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 4, Full: 90})
		observed.Now = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
		claim := &corev1.PersistentVolumeClaim{}
		claim.Spec.Resources.Requests = storageOf("1Gi")
		if db.Spec.AutoGrow != nil && db.Spec.AutoGrow.Limit.String() == "3Gi" {
			claim.Annotations = map[string]string{"mainstay.dev/grown-at": "2026-11-25T11:59:00Z"}
		}
		observed.Children[Ref(db, "PersistentVolumeClaim", "data-db-0")] = plan.Found{Ownership: plan.Ours, Object: claim}
		status, after := Status(db, observed, Decision{Replicas: 1}, plan.Result{})
		if got := condition(status, "StorageHealthy"); got.Reason != "NearlyFull" || !strings.HasPrefix(got.Message, want) {
			t.Errorf("got  %s\nwant %s", got.Message, want)
		}
		if waits := strings.Contains(want, "12:09"); waits != (after == 9*time.Minute) {
			t.Errorf("%s: it is looked at again after %s", want, after)
		}
	}
}

// TestFullAndRefused: why a volume can't grow is said before that it is nearly full.
func TestFullAndRefused(t *testing.T) {
	db := newDatabase(func(s *databasev1.PostgreSQLSpec) { s.Storage = resource.MustParse("2Gi") })
	observed := says(running(db, 1), 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 4, Full: 90})
	claim := &corev1.PersistentVolumeClaim{}
	claim.Spec.Resources.Requests = storageOf("1Gi")
	observed.Children[Ref(db, "PersistentVolumeClaim", "data-db-0")] = plan.Found{Ownership: plan.Ours, Object: claim}
	result := plan.Result{Failure: &plan.Failure{Reason: "Refused", Message: "applying PersistentVolumeClaim shop/data-db-0: no expansion"}}
	status, _ := Status(db, observed, Decision{Replicas: 1}, result)
	if got := condition(status, "StorageHealthy"); got.Reason != "CantGrow" || !strings.HasSuffix(got.Message, "no expansion") {
		t.Errorf("got %s: %s", got.Reason, got.Message)
	}
}

func storageOf(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

// TestNoVolumeGoes: a claim of the database stays a child, although no instance uses it: what is
// none would be deleted, because with deletionPolicy Delete it belongs to the PostgreSQL as any
// other child does. It follows the policy, and keeps its size.
func TestNoVolumeGoes(t *testing.T) {
	db := newDatabase(replicas(3), func(spec *databasev1.PostgreSQLSpec) {
		spec.DeletionPolicy, spec.Storage = databasev1.DeletionDelete, resource.MustParse("2Gi")
	})
	one, kept := db.DeepCopy(), db.DeepCopy()
	one.Spec.Replicas, kept.Spec.Replicas, kept.Spec.DeletionPolicy = 1, 1, databasev1.DeletionRetain
	for name, test := range map[string]struct {
		db        *databasev1.PostgreSQL
		catalogue bool
		used      int32
		sizes     string
	}{
		"all are used":               {db, true, 3, "2Gi 2Gi 2Gi"},
		"instances went":             {one, true, 1, "2Gi 1Gi 1Gi"},
		"instances wait to go":       {one, true, 3, "2Gi 2Gi 2Gi"},
		"the policy is another now":  {kept, true, 1, "2Gi 1Gi 1Gi"},
		"there is no image any more": {db, false, 3, "1Gi 1Gi 1Gi"},
	} {
		observed := running(test.db, 3)
		if !test.catalogue {
			observed.Catalogue = nil
		}
		for ordinal := range 4 {
			whose := plan.Ours
			if ordinal == 3 {
				whose = plan.Consenting // It was retained by an earlier PostgreSQL of the name.
			}
			observed.Children[Ref(db, "PersistentVolumeClaim", database.VolumeName("db", ordinal))] = plan.Found{
				Ownership: whose, Object: &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
					Resources: corev1.VolumeResourceRequirements{Requests: storageOf("1Gi")},
				}},
			}
		}
		var sizes []string
		for _, child := range Desired(test.db, observed, Decision{Replicas: test.used}).Children {
			claim, isClaim := child.Object.(*corev1.PersistentVolumeClaim)
			if !isClaim {
				continue
			}
			sizes = append(sizes, claim.Spec.Resources.Requests.Storage().String())
			if retains := test.db.Spec.DeletionPolicy == databasev1.DeletionRetain; child.Retain != retains {
				t.Errorf("%s: %s is retained: %t, want %t", name, claim.Name, child.Retain, retains)
			}
		}
		if got := strings.Join(sizes, " "); got != test.sizes {
			t.Errorf("%s: claims of %s are written: want %s", name, got, test.sizes)
		}
	}
}

// TestNoVolumeShrinks: a claim of an instance that the spec does not want, and that is needed for
// now, is asked for at least what it was asked for before: the API server refuses less.
func TestNoVolumeShrinks(t *testing.T) {
	db := newDatabase(func(spec *databasev1.PostgreSQLSpec) { spec.Storage = resource.MustParse("2Gi") })
	for _, whose := range []plan.Ownership{plan.Ours, plan.Consenting} {
		observed := running(db, 3)
		for ordinal, asked := range map[int]string{1: "1Gi", 2: "3Gi"} {
			claim := &corev1.PersistentVolumeClaim{}
			claim.Spec.Resources.Requests = storageOf(asked)
			observed.Children[Ref(db, "PersistentVolumeClaim", database.VolumeName("db", ordinal))] = plan.Found{Ownership: whose, Object: claim}
		}
		var sizes []string
		for _, child := range Desired(db, observed, Decision{Replicas: 3}).Children {
			if claim, isClaim := child.Object.(*corev1.PersistentVolumeClaim); isClaim {
				sizes = append(sizes, claim.Spec.Resources.Requests.Storage().String())
			}
		}
		if got := strings.Join(sizes, " "); got != "2Gi 2Gi 3Gi" {
			t.Errorf("ownership %d: claims of %s are written", whose, got)
		}
	}
}

// TestStorageOfTheLog: the WAL volume is reported like that of the data.
func TestStorageOfTheLog(t *testing.T) {
	db := newDatabase(withWAL)
	full := says(running(db, 1), 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 4, Full: 80, FullLog: 90})
	grows := running(db, 1)
	grows.Children[Ref(db, "PersistentVolumeClaim", "wal-db-0")] = plan.Found{Ownership: plan.Ours, Object: &corev1.PersistentVolumeClaim{
		Spec:   corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: storageOf("5Gi")}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: storageOf("1Gi")},
	}}
	for want, observed := range map[string]Observed{
		"NearlyFull the WAL volume of db-0 is 90 % full: increase spec.walStorage.size": full,
		"Resizing the WAL volume of db-0 has 1Gi, and will have 5Gi":                    grows,
	} {
		status, _ := Status(db, observed, Decision{Replicas: 1}, plan.Result{})
		if got := condition(status, "StorageHealthy"); got.Reason+" "+got.Message != want {
			t.Errorf("got %s %s, want %s", got.Reason, got.Message, want)
		}
	}
}
