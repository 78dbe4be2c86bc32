package postgresql

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Status returns the status of a defaulted PostgreSQL, given what was observed, decided and
// written, and when to requeue without an event (0: never). Of the previous status, it reads what
// is remembered there.
func Status(
	db *databasev1.PostgreSQL, observed Observed, decided Decision, result plan.Result,
) (databasev1.PostgreSQLStatus, time.Duration) {
	about := &subject{db: db, observed: observed, decided: decided, result: result, instances: observed.Instances(db)}
	about.primary = primaryOf(about.instances)
	one := about.summarize()
	status := databasev1.PostgreSQLStatus{
		ObservedGeneration: db.Generation,
		Replicas:           int32(len(about.instances)), //nolint:gosec // there are five at most, and some that end
		ReadyReplicas:      about.ready(),
		InstanceSummary:    fmt.Sprintf("%d/%d", about.ready(), db.Spec.Replicas),
		Lag:                about.lag(),
		Selector:           metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: part(db).Selector()}),
		Conditions:         about.conditions(one),
	}
	about.remember(&status)
	if about.primary != nil {
		status.Primary = about.primary.Pod.Name
		status.Term = int64(about.primary.Report.Term) //nolint:gosec // terms are below 2^62
		status.Timeline = int64(about.primary.Report.Timeline)
	} else if record, known := observed.record(db); known {
		status.Term = max(status.Term, int64(record.Term)) //nolint:gosec // terms are below 2^62
	}
	status.Phase = about.phase(one)
	after := decided.RequeueAfter
	if change := observed.CertificatesChange; !change.IsZero() {
		after = requeue.Sooner(after, max(change.Sub(observed.Now), time.Second))
	}
	switch one.Reason {
	case databasev1.ReasonUpdating:
		after = requeue.Sooner(after, startsFor/2)
	case databasev1.ReasonSwitchingOver:
		after = requeue.Sooner(after, switchesFor)
	case databasev1.ReasonFailingOver:
		after = requeue.Sooner(after, readAgain)
	}
	return status, requeue.Sooner(after, about.evidence().RequeueAfter())
}

// readAgain is how often the Lease is read while no instance leads: no watch tells of its term.
const readAgain = 10 * time.Second

// remember keeps what only the previous status has: the former leader, its term, and the result of
// spec.switchoverAt.
func (s *subject) remember(status *databasev1.PostgreSQLStatus) {
	before := &s.db.Status
	status.Term, status.Timeline, status.FormerPrimary = before.Term, before.Timeline, before.FormerPrimary
	if before.Primary != "" && (s.primary == nil || s.primary.Pod.Name != before.Primary) {
		status.FormerPrimary = before.Primary
	}
	switched := noted(s.db)
	if s.decided.Switchover != nil {
		switched = *s.decided.Switchover
	}
	switched.note(status)
	if status.PrimaryChange = s.changed(); status.PrimaryChange == nil {
		status.PrimaryChange = before.PrimaryChange
	}
}

// subject is a PostgreSQL to summarize.
type subject struct {
	db        *databasev1.PostgreSQL
	observed  Observed
	decided   Decision
	result    plan.Result
	instances []Instance
	// primary is nil if there is none.
	primary *Instance
}

func (s *subject) ready() int32 {
	count := int32(0)
	for _, instance := range s.instances {
		if instance.IsReady() {
			count++
		}
	}
	return count
}

// lag is the worst of all replicas.
func (s *subject) lag() string {
	worst := ""
	for _, instance := range s.instances {
		if instance.Report.Lag == "Minutes" || worst == "" {
			worst = instance.Report.Lag
		}
	}
	return worst
}

// evidence is what is known of the pods.
func (s *subject) evidence() workload.Evidence {
	if len(s.instances) == 0 {
		return workload.Evidence{}
	}
	spec := podTemplate(s.db, s.observed).Spec
	pods := make([]corev1.Pod, 0, len(s.instances))
	for _, instance := range s.instances {
		pods = append(pods, *instance.Pod)
	}
	return workload.Evidence{Pods: pods, Containers: append(spec.InitContainers, spec.Containers...), Now: s.observed.Now}
}

// wasReady reports whether the database has ever been ready.
func (s *subject) wasReady() bool { return s.db.Status.FirstReadyTime != nil }

// isUpgrading reports whether an instance has another image of the server than it is to have.
func (s *subject) isUpgrading() bool {
	wanted := image(s.db, s.observed)
	return wanted != "" && slices.ContainsFunc(s.instances, func(instance Instance) bool {
		return slices.ContainsFunc(instance.Pod.Spec.Containers, func(container corev1.Container) bool {
			return container.Name == ContainerName && container.Image != wanted
		})
	})
}

func (s *subject) phase(one summary.Summary) databasev1.PostgreSQLPhase {
	switch {
	case s.db.Spec.Paused:
		return databasev1.PhasePaused
	case one.Severity == summary.Working:
		return databasev1.PhaseRunning
	case one.Reason == databasev1.ReasonSwitchingOver:
		return databasev1.PhaseSwitchingOver
	case s.primary == nil && one.Severity >= summary.Failed:
		return databasev1.PhaseFailed
	case s.primary == nil && s.wasReady() && len(s.instances) > 0:
		return databasev1.PhaseFailingOver
	case s.primary == nil && len(s.instances) > 0:
		return databasev1.PhaseCreating
	case s.primary == nil:
		return databasev1.PhasePending
	case one.IsProblem():
		return databasev1.PhaseDegraded
	case s.wasReady() && s.isUpgrading():
		return databasev1.PhaseUpgrading
	case s.wasReady():
		return databasev1.PhaseUpdating
	default:
		return databasev1.PhaseCreating
	}
}
