// Package postgresqlcontroller reads and writes for the kind PostgreSQL; package postgresql
// decides. The instances themselves need none of it to lead, follow and fail over.
package postgresqlcontroller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/postgresql"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/optionalapi"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
)

// kind implements the reconciler's interface for PostgreSQL.
type kind struct {
	client   client.Client
	children children.Reader
	// catalogue has the server's image of each major version.
	catalogue map[string]string
	// instanceImage is the image with the program of the instances.
	instanceImage string
	// monitors is the API of PodMonitors; monitorLabels are the labels of those that are made.
	monitors      *optionalapi.API
	monitorLabels map[string]string
	clock         clock.PassiveClock
}

var (
	_ reconciler.Kind[*databasev1.PostgreSQL, postgresql.Observed, postgresql.Decision]   = kind{}
	_ reconciler.Acting[*databasev1.PostgreSQL, postgresql.Observed, postgresql.Decision] = kind{}
	_ reconciler.Telling[*databasev1.PostgreSQL]                                          = kind{}
)

// Admit fills in defaults and validates.
func (kind) Admit(db *databasev1.PostgreSQL) error {
	postgresql.Default(db)
	return errclass.InvalidSpec(postgresql.Validate(db))
}

// Decide chooses what is done beside the children.
func (kind) Decide(db *databasev1.PostgreSQL, observed postgresql.Observed) postgresql.Decision {
	return postgresql.Decide(db, observed)
}

// evictionLimit is how long an eviction may take.
const evictionLimit = 10 * time.Second

// Act evicts the pod that is to be replaced. A budget that forbids it now is no error: it is tried
// again.
//
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
func (k kind) Act(ctx context.Context, _, db *databasev1.PostgreSQL, _ postgresql.Observed, decided *postgresql.Decision) error {
	if decided.Evict == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, evictionLimit)
	defer cancel()
	name := metav1.ObjectMeta{Namespace: db.Namespace, Name: decided.Evict.Name}
	err := k.client.SubResource("eviction").Create(ctx, &corev1.Pod{ObjectMeta: name}, &policyv1.Eviction{
		ObjectMeta: name, DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &decided.Evict.UID}},
	})
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case apierrors.IsTooManyRequests(err), apierrors.IsForbidden(err):
		decided.Refused, decided.RequeueAfter = errclass.Sentence(err), refusedAgain
		return nil
	}
	return fmt.Errorf("evicting pod %s/%s: %w", db.Namespace, decided.Evict.Name, err)
}

// refusedAgain is after how long a refused eviction is tried again.
const refusedAgain = 10 * time.Second

// Desired is what should exist.
func (kind) Desired(db *databasev1.PostgreSQL, observed postgresql.Observed, decided postgresql.Decision) plan.Plan {
	return postgresql.Desired(db, observed, decided)
}

// Tell tells of changes of the primary.
func (kind) Tell(before, after *databasev1.PostgreSQL) []conditions.Event {
	return postgresql.Tell(before, after)
}

// Report sets the status.
func (kind) Report(
	into, db *databasev1.PostgreSQL, observed postgresql.Observed, decided postgresql.Decision, result plan.Result,
) time.Duration {
	status, requeueAfter := postgresql.Status(db, observed, decided, result)
	into.Status = status
	return requeueAfter
}
