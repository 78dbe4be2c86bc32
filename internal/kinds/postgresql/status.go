package postgresql

import (
	"slices"
	"time"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
)

// Status returns the status of a defaulted PostgreSQL, given what was observed, decided and
// written, and when to requeue without an event (0: never). Of the previous status, it reads what
// is remembered there.
func Status(
	db *databasev1.PostgreSQL, observed Observed, decided Decision, result plan.Result,
) (databasev1.PostgreSQLStatus, time.Duration) {
	d := Common(db, observed)
	about := &subject{
		Subject: database.NewSubject(d, observed.State, decided, result, podTemplate(db, observed).Spec), db: db, observed: observed,
	}
	one := about.summarize()
	status := databasev1.PostgreSQLStatus{
		ObservedGeneration: db.Generation,
		Replicas:           int32(len(about.Instances)), //nolint:gosec // there are five at most, and some that end
		ReadyReplicas:      about.Ready(),
		InstanceSummary:    about.Summary(),
		Lag:                about.Lag(),
		Selector:           d.Selector(),
		Conditions:         about.conditions(one),
		Timeline:           db.Status.Timeline,
		Pooler:             poolerStatus(db, observed, result),
		Users:              madeUsers(db, observed, result),
	}
	status.CredentialsRevision = credentialsRevision(db, observed, result, status)
	remember(&status, about.Remember())
	if about.Primary != nil {
		status.Timeline = int64(about.Primary.Report.Timeline)
	}
	status.Phase = about.phase(one)
	after := requeue.Sooner(about.RequeueAfter(one.Reason), nextRotation(db, observed))
	if len(observed.Init.Statements) > 0 && HasMade(db, observed, contract.ProvisionsRevision(observed.Provisions)) {
		// They are not needed once the status says that it was ready.
		after = requeue.Sooner(after, waitsAgain)
	}
	if readsAgain(db, observed) {
		after = requeue.Sooner(after, waitsAgain)
	}
	if repoints(db, observed, result) || hasWritten(db, observed, result) || writesURI(db, observed, result) {
		after = requeue.Sooner(after, time.Second)
	}
	return status, requeue.Sooner(after, poolerLeavesAfter(db, observed, result, status.Pooler))
}

// readsAgain reports whether objects that users write are read again without an event. No watch
// shows that they were created or corrected: Secrets are watched only in the namespaces of
// secrets.namespaces, and the ConfigMaps of spec.initSQL in none.
func readsAgain(db *databasev1.PostgreSQL, observed Observed) bool {
	isRead := func(one databasev1.InitSQL) bool { return one.ConfigMapKeyRef != nil || one.SecretKeyRef != nil }
	if Initialises(db) && slices.ContainsFunc(db.Spec.InitSQL, isRead) {
		return true
	}
	// What is too long is not of a single user.
	isUnusable := func(user databasev1.User) bool { return observed.Users[user.Name].Problem != "" }
	return observed.ProvisionsProblem == "" && slices.ContainsFunc(db.Spec.Users, isUnusable)
}

// subject is a PostgreSQL to summarize.
type subject struct {
	database.Subject
	db       *databasev1.PostgreSQL
	observed Observed
}

// wasReady reports whether the database has ever been ready.
func (s *subject) wasReady() bool { return s.Database.Before.WasReady }

func (s *subject) phase(one summary.Summary) databasev1.PostgreSQLPhase {
	switch {
	case s.db.Spec.Paused:
		return databasev1.PhasePaused
	case one.Reason == databasev1.ReasonHibernated:
		return databasev1.PhaseHibernated
	case one.Severity == summary.Working:
		return databasev1.PhaseRunning
	case one.Reason == databasev1.ReasonSwitchingOver:
		return databasev1.PhaseSwitchingOver
	case s.Primary == nil && one.Severity >= summary.Failed:
		return databasev1.PhaseFailed
	case s.Waking() != "":
		return databasev1.PhaseUpdating
	case s.Primary == nil && s.wasReady() && len(s.Instances) > 0:
		return databasev1.PhaseFailingOver
	case s.Primary == nil && len(s.Instances) > 0:
		return databasev1.PhaseCreating
	case s.Primary == nil:
		return databasev1.PhasePending
	case one.IsProblem():
		return databasev1.PhaseDegraded
	case s.wasReady() && s.IsUpgrading():
		return databasev1.PhaseUpgrading
	case s.wasReady():
		return databasev1.PhaseUpdating
	default:
		return databasev1.PhaseCreating
	}
}
