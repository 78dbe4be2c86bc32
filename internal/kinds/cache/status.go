package cache

import (
	"cmp"
	"time"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
)

// passwordPoll is the time until the next check whether the password can be used: Secrets are
// watched only in the namespaces of secrets.namespaces. It costs the reads of one pass.
const passwordPoll = 10 * time.Second

// Status returns the status of a defaulted Cache, given what was observed, decided and written, and
// when to requeue without an event (0: never). Of the previous status, it reads what is remembered
// there.
func Status(c *databasev1.Cache, observed Observed, decided Decision, result plan.Result) (databasev1.CacheStatus, time.Duration) {
	d := Common(c, observed)
	about := &subject{
		Subject: database.NewSubject(d, observed.State, decided, result, podTemplate(c, observed).Spec), cache: c, observed: observed,
	}
	one := about.summarize()
	status := databasev1.CacheStatus{
		ObservedGeneration: c.Generation,
		Replicas:           int32(len(about.Instances)), //nolint:gosec // there are five at most, and some that end
		ReadyReplicas:      about.Ready(),
		InstanceSummary:    about.Summary(),
		Selector:           d.Selector(),
		Conditions:         about.conditions(one),
		// A Secret that can't be read now, or is being made again, is no change.
		CredentialsRevision: cmp.Or(observed.CredentialsRevision(d, database.ApplicationName(c.Name)), c.Status.CredentialsRevision),
	}
	remember(&status, about.Remember())
	status.Phase = about.phase(one)
	after := about.RequeueAfter(one.Reason)
	if one.Reason == databasev1.ReasonPasswordUnavailable {
		after = requeue.Sooner(after, passwordPoll)
	}
	return status, after
}

// subject is a Cache to summarize.
type subject struct {
	database.Subject
	cache    *databasev1.Cache
	observed Observed
}

// wasReady reports whether the cache has ever been ready.
func (s *subject) wasReady() bool { return s.Database.Before.WasReady }

func (s *subject) phase(one summary.Summary) databasev1.CachePhase {
	hasPods := len(s.Instances) > 0
	switch {
	case s.cache.Spec.Paused:
		return databasev1.CachePhasePaused
	case one.Reason == databasev1.ReasonHibernated:
		return databasev1.CachePhaseHibernated
	case one.Severity == summary.Working:
		return databasev1.CachePhaseRunning
	case one.Reason == databasev1.ReasonSwitchingOver:
		return databasev1.CachePhaseSwitchingOver
	case s.Primary == nil && one.Severity >= summary.Failed:
		return databasev1.CachePhaseFailed
	case s.Waking() != "":
		return databasev1.CachePhaseUpdating
	case s.Primary == nil && s.wasReady() && hasPods:
		return databasev1.CachePhaseFailingOver
	case s.Primary == nil && hasPods:
		return databasev1.CachePhaseCreating
	case s.Primary == nil:
		return databasev1.CachePhasePending
	case one.IsProblem():
		return databasev1.CachePhaseDegraded
	case s.wasReady() && s.IsUpgrading():
		return databasev1.CachePhaseUpgrading
	case s.wasReady():
		return databasev1.CachePhaseUpdating
	default:
		return databasev1.CachePhaseCreating
	}
}
