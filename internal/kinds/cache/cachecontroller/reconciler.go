// Package cachecontroller reads and writes for the kind Cache; package cache decides. The instances
// themselves need none of it to lead, follow and fail over.
package cachecontroller

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database/databasecontroller"
	"github.com/mainstay-platform/mainstay/internal/kinds/cache"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
)

// kind implements the reconciler's interface for Cache.
type kind struct {
	client client.Client
	// live reads from the API server.
	live   client.Reader
	reader databasecontroller.Reader
}

var (
	_ reconciler.Kind[*databasev1.Cache, cache.Observed, cache.Decision]   = kind{}
	_ reconciler.Acting[*databasev1.Cache, cache.Observed, cache.Decision] = kind{}
	_ reconciler.Telling[*databasev1.Cache]                                = kind{}
)

// Admit fills in defaults and validates.
func (kind) Admit(c *databasev1.Cache) error {
	cache.Default(c)
	return errclass.InvalidSpec(cache.Validate(c))
}

// Decide chooses what is done beside the children.
func (kind) Decide(c *databasev1.Cache, observed cache.Observed) cache.Decision {
	return cache.Decide(c, observed)
}

// Act evicts the pod that is to be replaced.
//
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
func (k kind) Act(ctx context.Context, _, c *databasev1.Cache, _ cache.Observed, decided *cache.Decision) error {
	return databasecontroller.Evict(ctx, k.client, c.Namespace, decided)
}

// Desired is what should exist.
func (kind) Desired(c *databasev1.Cache, observed cache.Observed, decided cache.Decision) plan.Plan {
	return cache.Desired(c, observed, decided)
}

// Tell tells of changes of the primary.
func (kind) Tell(before, after *databasev1.Cache) []conditions.Event {
	return cache.Tell(before, after)
}

// Report sets the status.
func (kind) Report(into, c *databasev1.Cache, observed cache.Observed, decided cache.Decision, result plan.Result) time.Duration {
	status, requeueAfter := cache.Status(c, observed, decided, result)
	into.Status = status
	return requeueAfter
}
