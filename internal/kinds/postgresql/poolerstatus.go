package postgresql

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
)

// isPooled reports whether applications connect through the pooler: from when its first instance
// has taken connections on, as long as the spec has it. They need its Service and Secret for that.
func isPooled(db *databasev1.PostgreSQL, observed Observed) bool {
	was := db.Status.Pooler != nil && db.Status.Pooler.SecretName != ""
	lacks := slices.ContainsFunc(poolerNeeds(db), func(ref plan.Ref) bool {
		_, there := observed.Children.Get(ref)
		return !there
	})
	return db.Spec.Pooler != nil && (was || !lacks && poolersReady(db, observed) > 0)
}

// poolersReady is how many instances of the pooler take connections.
func poolersReady(db *databasev1.PostgreSQL, observed Observed) int32 {
	if deployment := poolerOf(db, observed); deployment != nil {
		return deployment.Status.ReadyReplicas
	}
	return 0
}

// poolerOf returns the Deployment of the pooler; nil if there is none.
func poolerOf(db *databasev1.PostgreSQL, observed Observed) *appsv1.Deployment {
	found, there := observed.Children.Get(Ref(db, "Deployment", PoolerName(db.Name)))
	deployment, _ := found.(*appsv1.Deployment)
	if !there {
		return nil
	}
	return deployment
}

// poolerLeaves is for how long a pooler stays at least after the spec has lost it: applications
// that use it get another Secret at once, and their pods are replaced meanwhile. It also waits for
// bound applications that take longer.
const poolerLeaves = 5 * time.Minute

// isLeaving reports whether the spec has lost the pooler, and it is not yet time to delete it.
func isLeaving(db *databasev1.PostgreSQL, observed Observed) bool {
	was := db.Status.Pooler
	return db.Spec.Pooler == nil && was != nil &&
		(was.LeavesAt == nil || observed.Now.Before(was.LeavesAt.Time) || observed.PoolerWaitsFor != "")
}

// MayPoolerLeave reports whether the time of a pooler that the spec has lost is over, so that only
// applications that still use it keep it.
func MayPoolerLeave(db *databasev1.PostgreSQL, now time.Time) bool {
	was := db.Status.Pooler
	return db.Spec.Pooler == nil && was != nil && was.LeavesAt != nil && !now.Before(was.LeavesAt.Time)
}

// poolerRefs name the objects of a pooler.
func poolerRefs(db *databasev1.PostgreSQL) []plan.Ref {
	return append(poolerNeeds(db), Ref(db, "NetworkPolicy", PoolerName(db.Name)), Ref(db, "PodDisruptionBudget", PoolerName(db.Name)))
}

// poolerNeeds name those without which no application can connect through it.
func poolerNeeds(db *databasev1.PostgreSQL) []plan.Ref {
	name := PoolerName(db.Name)
	return []plan.Ref{Ref(db, "Deployment", name), Ref(db, "Service", name), Ref(db, "Secret", name)}
}

// leavingStatus is what the status says of a pooler that the spec has lost; nil once nothing is
// left. As long as it is there, its Secret is read; one that a user of the spec has is no part of
// it. While the PostgreSQL is paused, the Secrets of users keep the address of the pooler, and its
// time does not begin.
func leavingStatus(db *databasev1.PostgreSQL, observed Observed) *databasev1.PoolerStatus {
	users := map[plan.Ref]bool{}
	for _, user := range db.Spec.Users {
		users[Ref(db, "Secret", UserSecretName(db, user))] = true
	}
	isLeft := slices.ContainsFunc(poolerRefs(db), func(ref plan.Ref) bool {
		_, there := observed.Children.Get(ref)
		return there && !users[ref]
	})
	if db.Status.Pooler == nil || !isLeft {
		return nil
	}
	status := &databasev1.PoolerStatus{ReadyInstances: poolersReady(db, observed)}
	if db.Spec.Paused {
		return status
	}
	if status.LeavesAt = db.Status.Pooler.LeavesAt; status.LeavesAt == nil {
		status.LeavesAt = new(metav1.NewTime(observed.Now.Add(poolerLeaves)).Rfc3339Copy())
	}
	status.WaitsFor = observed.PoolerWaitsFor
	return status
}

// poolerLeavesAfter returns after how long a pooler that the spec has lost is looked at again: when
// it is to be deleted, and once when it was; 0 is never. What keeps one from being deleted is a
// refusal, which is tried again anyway.
func poolerLeavesAfter(
	db *databasev1.PostgreSQL, observed Observed, result plan.Result, status *databasev1.PoolerStatus,
) time.Duration {
	switch {
	case status == nil || status.LeavesAt == nil:
		return 0
	case observed.Now.Before(status.LeavesAt.Time):
		return max(status.LeavesAt.Sub(observed.Now), time.Second)
	case status.WaitsFor != "":
		return waitsAgain
	case slices.ContainsFunc(poolerRefs(db), result.Changed):
		return time.Second // Its Secret is not watched.
	}
	return 0
}

// poolerStatus is what the status says of the pooler; nil without one.
func poolerStatus(db *databasev1.PostgreSQL, observed Observed, result plan.Result) *databasev1.PoolerStatus {
	if db.Spec.Pooler == nil {
		return leavingStatus(db, observed)
	}
	status := &databasev1.PoolerStatus{ReadyInstances: poolersReady(db, observed)}
	if isPooled(db, observed) {
		status.SecretName = PoolerName(db.Name)
	} else {
		status.Problem = whyNoPooler(db, observed, result)
	}
	return status
}

const (
	noPoolerImage = "this installation has no image for PgBouncer"
	noPoolerYet   = "the pooler waits for its certificate: the certificates of all instances are reissued, and used ten minutes later"
)

// whyNoPooler returns why the pooler can't start now, so that no application waits for it.
func whyNoPooler(db *databasev1.PostgreSQL, observed Observed, result plan.Result) string {
	deployment, why := poolerOf(db, observed), whyUnmade(db, result)
	switch {
	case why != "":
		return why
	case deployment != nil && deployment.Status.ObservedGeneration >= deployment.Generation:
		return whyNoPods(deployment)
	case deployment != nil:
		return ""
	case db.Spec.Paused:
		return "the PostgreSQL is paused"
	case poolerImage(db, observed) == "":
		return noPoolerImage
	case !database.HasExtra(observed.Certificates, poolerCertificate):
		return noPoolerYet
	}
	return ""
}

// whyUnmade returns why an object could not be made that applications need in order to connect
// through the pooler.
func whyUnmade(db *databasev1.PostgreSQL, result plan.Result) string {
	for _, ref := range poolerNeeds(db) {
		if slices.Contains(result.Conflicts, ref) {
			return ref.String() + " exists and was not created by this PostgreSQL"
		}
		if refusal, isRefused := result.Refusals[ref]; isRefused {
			return conditions.Truncate(refusal)
		}
	}
	return ""
}

// whyNoPods returns what a Deployment says of pods that could not be created or started; "" if
// nothing.
func whyNoPods(deployment *appsv1.Deployment) string {
	for _, one := range deployment.Status.Conditions {
		switch {
		case one.Type == appsv1.DeploymentReplicaFailure && one.Status == corev1.ConditionTrue:
			return "its pods can't be created: see the Deployment " + deployment.Name
		case one.Type == appsv1.DeploymentProgressing && one.Reason == deadlineExceeded:
			return "its instances have not started in time: see the Deployment " + deployment.Name
		}
	}
	return ""
}

// deadlineExceeded is the reason of a Deployment whose pods could not be started in time.
const deadlineExceeded = "ProgressDeadlineExceeded"

// withoutPoolerImage: there is nothing to run.
func withoutPoolerImage(s *subject) string {
	return summary.If(s.db.Spec.Pooler != nil && poolerImage(s.db, s.observed) == "", "spec.pooler.image: Required value: "+noPoolerImage+
		": set spec.pooler.image, or databaseImages.pgbouncer of the chart's values")
}

// poolerStarting: the pooler is being made, or its pods are being replaced.
func poolerStarting(s *subject) string {
	if s.db.Spec.Pooler == nil || s.db.Spec.Hibernated {
		return ""
	}
	deployment := poolerOf(s.db, s.observed)
	switch {
	case !database.HasExtra(s.observed.Certificates, poolerCertificate):
		return noPoolerYet
	case deployment == nil:
		return "the pooler is being created"
	case deployment.Status.ObservedGeneration >= deployment.Generation && !isRollingOut(deployment, s.Observed.Now):
		return ""
	}
	return fmt.Sprintf("%d of %d instances of the pooler run the current template", deployment.Status.UpdatedReplicas,
		s.db.Spec.Pooler.Instances)
}

// isRollingOut reports whether a Deployment has not told of its present template that it is rolled
// out, or that this has failed, or has too few pods since a moment ago: they are being started.
func isRollingOut(deployment *appsv1.Deployment, now time.Time) bool {
	isTold := false
	for _, condition := range deployment.Status.Conditions {
		switch {
		case condition.Type == appsv1.DeploymentProgressing:
			isTold = condition.Reason == "NewReplicaSetAvailable" || condition.Reason == deadlineExceeded
		case condition.Type == appsv1.DeploymentAvailable && condition.Status == corev1.ConditionFalse &&
			now.Sub(condition.LastTransitionTime.Time) < database.StartsFor:
			return true
		}
	}
	return !isTold
}

// poolerNotReady: instances of the pooler that have been started take no connections, or those of
// the present template could not be started in time: then those before them go on.
func poolerNotReady(s *subject) string {
	if s.db.Spec.Pooler == nil || s.db.Spec.Hibernated {
		return ""
	}
	ready, updated, wanted := poolersReady(s.db, s.observed), int32(0), s.db.Spec.Pooler.Instances
	if deployment := poolerOf(s.db, s.observed); deployment != nil {
		updated = deployment.Status.UpdatedReplicas
	}
	return summary.If(ready < wanted || updated < wanted,
		"%d of %d instances of the pooler take connections, and %d run the current template: see the Deployment %s", ready, wanted, updated,
		PoolerName(s.db.Name))
}
