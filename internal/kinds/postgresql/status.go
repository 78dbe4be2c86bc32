package postgresql

import (
	"slices"
	"time"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
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
	status.Phase = about.Phase(one)
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
