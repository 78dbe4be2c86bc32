package cache

import (
	"cmp"
	"time"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
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
	status.Phase = databasev1.CachePhase(about.Phase(one))
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
