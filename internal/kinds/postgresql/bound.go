package postgresql

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
)

// BoundApps are the applications that are bound to a database.
type BoundApps []boundApp

type boundApp struct {
	name string
	// user is the user of the database as which it connects; "" is the one that each database has.
	user, revision, secret string
	// isUpdated is true if it has no pods of an earlier template.
	isUpdated bool
}

// boundBy returns the bindings of a Deployment to a database, with the users.
func boundBy(one *appsv1.Deployment, database string) iter.Seq2[string, component.Bound] {
	return func(yield func(string, component.Bound) bool) {
		own := component.BoundKey("PostgreSQL", database, "")
		for _, bound := range component.ParseBound(one.Spec.Template.Annotations[api.AnnotationBindings]) {
			user, isOurs := "", bound.Key == own
			if !isOurs {
				user, isOurs = strings.CutPrefix(bound.Key, own+"/")
			}
			if isOurs && !yield(user, bound) {
				return
			}
		}
	}
}

// BoundTo returns the applications that are bound to a database, by what the annotations of their
// pod templates say.
func BoundTo(db *databasev1.PostgreSQL, all []appsv1.Deployment, now time.Time) BoundApps {
	var apps BoundApps
	for i := range all {
		isUpdated := hasOnlyNewPods(&all[i], now)
		for user, bound := range boundBy(&all[i], db.Name) {
			secret := cmp.Or(bound.Secret, database.ApplicationName(db.Name))
			apps = append(apps, boundApp{all[i].Name, user, bound.Revision, secret, isUpdated})
		}
	}
	return apps
}

// hasOnlyNewPods reports whether the pods of an earlier template have ended. They are not in the
// number of replicas any more while they end: until then they serve, and have connections. They
// have their grace period for it since the Deployment has reported progress, which it does when the
// last of them goes. More is not waited for: a pod of a lost node never ends, and with an
// autoscaler some pod always does. The grace period is that of the present template. While not all
// pods of it are available, each that becomes ready begins the time anew.
//
// Source: KEP-3973, status.terminatingReplicas: on by default since Kubernetes 1.35.
func hasOnlyNewPods(one *appsv1.Deployment, now time.Time) bool {
	status := &one.Status
	if status.ObservedGeneration < one.Generation || status.UpdatedReplicas != status.Replicas {
		return false
	}
	if status.TerminatingReplicas != nil && *status.TerminatingReplicas == 0 {
		return true
	}
	grace := time.Duration(ptr.Deref(one.Spec.Template.Spec.TerminationGracePeriodSeconds, 30)) * time.Second
	for _, condition := range status.Conditions {
		if condition.Type == appsv1.DeploymentProgressing {
			return now.Sub(condition.LastUpdateTime.Time) >= grace
		}
	}
	return status.TerminatingReplicas == nil // it has no deadline, and reports no progress
}

// Laggard returns the name of the first application that is bound to a user and has another
// revision of its credentials, or still has pods of before; "" if there is none.
func (b BoundApps) Laggard(user, revision string) string {
	for _, one := range b {
		if one.user == user && (one.revision != revision || !one.isUpdated) {
			return one.name
		}
	}
	return ""
}

// Behind returns the name of the first application that connects in another way than the database
// says now, or still has pods of before, or is bound to a user whose Secret has the address of the
// pooler as far as is known; "" if there is none. One that is bound to a user that the database
// does not have can't connect anyway.
func (b BoundApps) Behind(db *databasev1.PostgreSQL) string {
	for _, one := range b {
		wanted := account(db, one.user)
		isPooled := slices.ContainsFunc(db.Status.Users, func(user databasev1.UserStatus) bool { return user.Name == one.user && user.Pooled })
		isBehind := isPooled || one.revision != wanted.Revision || one.secret != wanted.Secret || !one.isUpdated
		if wanted.Problem == "" && isBehind {
			return one.name
		}
	}
	return ""
}
