// Package postgresqlcontroller reads and writes for the kind PostgreSQL; package postgresql
// decides. The instances themselves need none of it to lead, follow and fail over.
package postgresqlcontroller

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database/databasecontroller"
	"github.com/mainstay-platform/mainstay/internal/kinds/postgresql"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
)

// kind implements the reconciler's interface for PostgreSQL.
type kind struct {
	client client.Client
	reader databasecontroller.Reader
	// poolerImage is the installation's image of PgBouncer.
	poolerImage string
	verified    *verified
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

// Act evicts the pod that is to be replaced.
//
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
func (k kind) Act(ctx context.Context, _, db *databasev1.PostgreSQL, _ postgresql.Observed, decided *postgresql.Decision) error {
	return databasecontroller.Evict(ctx, k.client, db.Namespace, decided)
}

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
