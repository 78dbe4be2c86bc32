package database

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Subject is a database whose status is to be said.
type Subject struct {
	Database *Database
	Observed State
	Decided  Decision
	Result   plan.Result
	// Template is that of the pods, as it is desired.
	Template  corev1.PodSpec
	Instances []Instance
	// Primary is nil if there is none.
	Primary *Instance
}

// NewSubject returns a database with its instances.
func NewSubject(d *Database, observed State, decided Decision, result plan.Result, template corev1.PodSpec) Subject {
	instances := observed.Instances(d)
	return Subject{
		Database: d, Observed: observed, Decided: decided, Result: result, Template: template,
		Instances: instances, Primary: PrimaryOf(instances),
	}
}

// Ready is how many instances take connections.
func (s *Subject) Ready() int32 {
	count := int32(0)
	for _, instance := range s.Instances {
		if instance.IsReady() {
			count++
		}
	}
	return count
}

// Summary is ready/desired, for display.
func (s *Subject) Summary() string {
	desired := s.Database.Replicas
	if s.hibernates() {
		desired = 0
	}
	return fmt.Sprintf("%d/%d", s.Ready(), desired)
}

// Lag is the worst of all replicas.
func (s *Subject) Lag() string {
	worst := ""
	for _, instance := range s.Instances {
		if instance.Report.Lag == "Minutes" || worst == "" {
			worst = instance.Report.Lag
		}
	}
	return worst
}

// Receiving is how many replicas say that they receive from the primary.
func (s *Subject) Receiving() int {
	count := 0
	for _, instance := range s.Instances {
		if instance.IsReady() && s.Primary != nil && instance.Pod != s.Primary.Pod && instance.Report.Term == s.Primary.Report.Term {
			count++
		}
	}
	return count
}

// evidence is what is known of the pods.
func (s *Subject) evidence() workload.Evidence {
	if len(s.Instances) == 0 {
		return workload.Evidence{}
	}
	pods := make([]corev1.Pod, 0, len(s.Instances))
	for _, instance := range s.Instances {
		pods = append(pods, *instance.Pod)
	}
	return workload.Evidence{Pods: pods, Containers: append(s.Template.InitContainers, s.Template.Containers...), Now: s.Observed.Now}
}

// IsUpgrading reports whether an instance has another image of the server than it is to have.
func (s *Subject) IsUpgrading() bool {
	return s.Database.Image != "" && slices.ContainsFunc(s.Instances, func(instance Instance) bool {
		return s.Database.runsAnother(instance.Pod)
	})
}

// runsAnother reports whether a pod has another image of the server than it is to have.
func (d *Database) runsAnother(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(container corev1.Container) bool {
		return container.Name == d.ContainerName && container.Image != d.Image
	})
}

// Remember returns what the status is to have of the primary, its term, its changes and its
// handovers: what was observed, and what only the previous status has.
func (s *Subject) Remember() Before {
	before := s.Database.Before
	after := Before{Term: before.Term, FormerPrimary: before.FormerPrimary, Switchover: before.Switchover}
	if before.Primary != "" && (s.Primary == nil || s.Primary.Pod.Name != before.Primary) {
		after.FormerPrimary = before.Primary
	}
	if s.Decided.Switchover != nil {
		after.Switchover = *s.Decided.Switchover
	}
	if after.PrimaryChange = s.changed(); after.PrimaryChange == nil {
		after.PrimaryChange = before.PrimaryChange
	}
	if after.Unreplicated = before.Unreplicated; s.Primary != nil {
		after.Unreplicated = max(s.Primary.Report.Unreplicated, 0)
		after.Primary, after.Term = s.Primary.Pod.Name, termOf(s.Primary)
	} else if record, known := s.Observed.Record(s.Database); known {
		after.Term = max(after.Term, int64(record.Term)) //nolint:gosec // terms are below 2^62
	}
	return after
}

// ReadAgain is how often the Lease is read while no instance leads: no watch tells of its term.
const ReadAgain = 10 * time.Second

// RequeueAfter returns when to requeue without an event, given the reason of the summary; 0 is
// never.
func (s *Subject) RequeueAfter(reason string) time.Duration {
	after := s.Decided.RequeueAfter
	if change := s.Observed.CertificatesChange; !change.IsZero() {
		after = requeue.Sooner(after, max(change.Sub(s.Observed.Now), time.Second))
	}
	for _, volume := range s.Database.Volumes {
		if !volume.GrowsAt.IsZero() {
			after = requeue.Sooner(after, max(volume.GrowsAt.Sub(s.Observed.Now), time.Second))
		}
	}
	if len(s.Result.Waits) > 0 {
		after = requeue.Sooner(after, LookAgain) // the cache may not hold what is waited for
	}
	if s.Observed.Lacking(s.Database) != nil {
		after = requeue.Sooner(after, ReadAgain) // the event that says why may come later than this
	}
	for _, instance := range s.Instances {
		if left := lateAfter - s.unreadyFor(instance); !instance.IsReady() && left > 0 {
			after = requeue.Sooner(after, left+time.Second)
		}
	}
	switch reason {
	case databasev1.ReasonUpdating:
		after = requeue.Sooner(after, StartsFor/2)
	case databasev1.ReasonSwitchingOver:
		after = requeue.Sooner(after, SwitchesFor)
	case databasev1.ReasonFailingOver:
		after = requeue.Sooner(after, ReadAgain)
	}
	return requeue.Sooner(after, s.evidence().RequeueAfter())
}
