package postgresql

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
)

// boundDeployments returns the Deployments of a namespace, one of which says in its annotation to
// what it is bound.
func boundDeployments(bound string, change ...func(*appsv1.Deployment)) []appsv1.Deployment {
	one := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 2}}
	one.Spec.Template.Annotations = map[string]string{api.AnnotationBindings: bound}
	one.Status = appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3}
	for _, each := range change {
		each(&one)
	}
	return []appsv1.Deployment{{}, one}
}

// progressed lets the controller of a Deployment tell of progress.
func progressed(at time.Time, grace int64) func(*appsv1.Deployment) {
	return func(one *appsv1.Deployment) {
		one.Spec.Template.Spec.TerminationGracePeriodSeconds = new(grace)
		one.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, LastUpdateTime: metav1.NewTime(at)}}
	}
}

// TestLaggard: an application has the new password once its Deployment has its revision, and no pod
// of before, not even one that is about to end.
func TestLaggard(t *testing.T) {
	db, now := newDatabase(withUsers), time.Now()
	const current = "PostgreSQL/db/shop=r2:db-shop"
	ending := func(pods int32) func(*appsv1.Deployment) {
		return func(one *appsv1.Deployment) { one.Status.TerminatingReplicas = new(pods) }
	}
	for name, test := range map[string]struct {
		all  []appsv1.Deployment
		want string
	}{
		"none":                    {nil, ""},
		"rolled out":              {boundDeployments(current), ""},
		"the former one":          {boundDeployments("Cache/db=x,PostgreSQL/db/shop=r1:db-shop"), "web"},
		"under way":               {boundDeployments(current, func(one *appsv1.Deployment) { one.Status.UpdatedReplicas = 2 }), "web"},
		"not seen yet":            {boundDeployments(current, func(one *appsv1.Deployment) { one.Generation = 3 }), "web"},
		"a pod is ending":         {boundDeployments(current, ending(1), progressed(now.Add(-time.Minute), 120)), "web"},
		"no progress is reported": {boundDeployments(current, ending(1)), "web"},
		"a pod of a lost node":    {boundDeployments(current, ending(1), progressed(now.Add(-time.Minute), 30)), ""},
		"no pod is ending":        {boundDeployments(current, ending(0), progressed(now, 30)), ""},
		"one may be ending":       {boundDeployments(current, progressed(now.Add(-time.Minute), 120)), "web"},
		"all must have ended":     {boundDeployments(current, progressed(now.Add(-time.Minute), 30)), ""},
		"another user":            {boundDeployments("PostgreSQL/db/shop2=r1,PostgreSQL/db=r1"), ""},
		"another database":        {boundDeployments("PostgreSQL/db2/shop=r1"), ""},
		"an annotation of others": {boundDeployments(strings.Repeat("x", 17<<10) + ",PostgreSQL/db/shop=r1"), ""},
	} {
		if got := BoundTo(db, test.all, now).Laggard("shop", "r2"); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// TestBehind: an application that connects as the database says now is not behind.
func TestBehind(t *testing.T) {
	db, now := newDatabase(withUsers), time.Now()
	db.Status.CredentialsRevision = "r2"
	db.Spec.Users = append(db.Spec.Users, databasev1.User{Name: "blocked"})
	db.Status.Users = []databasev1.UserStatus{{Name: "shop", SecretName: "db-shop", Revision: "s2"},
		{Name: "blocked", SecretName: "db-blocked", Revision: "b1", Pooled: true, Blocked: true}}
	for bound, want := range map[string]string{
		"PostgreSQL/db=r2":                    "",
		"PostgreSQL/db=r2:db-pooler":          "web",
		"PostgreSQL/db=r1":                    "web",
		"PostgreSQL/db/shop=s2:db-shop":       "",
		"PostgreSQL/db/shop=s1:db-shop":       "web",
		"PostgreSQL/db/former=s1:db-shop":     "",
		"PostgreSQL/db/blocked=b1:db-blocked": "web",
		"PostgreSQL/other=r1:other-pooler":    "",
	} {
		if got := BoundTo(db, boundDeployments(bound), now).Behind(db); got != want {
			t.Errorf("%s: got %q, want %q", bound, got, want)
		}
	}
}
