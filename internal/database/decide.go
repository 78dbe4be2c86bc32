package database

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
)

// Decision is what is done in addition to writing children.
type Decision struct {
	// Replicas is how many pods there are to be: more than the spec says while one that is to go
	// still holds data that the others may lack.
	Replicas int32
	// Evict is a pod to replace; nil if none is.
	Evict *Victim
	// Pods are the instances that elect the primary among themselves, where these are more than the
	// spec says.
	Pods []string
	// SwitchFrom is the term whose leader should hand over, and SwitchTo the successor; 0 and "" if
	// none should. If SwitchOnly is true, no other instance may take over.
	SwitchFrom uint64
	SwitchTo   string
	SwitchOnly bool
	// Switchover is what the status is to remember of spec.switchoverAt; nil is what it does.
	Switchover *Switchover
	// Notice says what a handover on request waits for; "" if none waits.
	Notice string
	// Reclaims is true if the volumes of instances that the spec no longer wants are to be deleted.
	Reclaims bool
	// Waits says what keeps pods from being replaced or removed; "" if nothing does.
	Waits string
	// Window says for which window pods that could be replaced wait; "" if for none.
	Window string
	// RequeueAfter is when to look again without an event; 0 is never.
	RequeueAfter time.Duration

	// Refused is what became of the eviction: why the API server did not carry it out; "" if it did.
	// Act sets it.
	Refused string
}

// Victim is a pod to evict.
type Victim struct {
	Name string
	UID  types.UID
}

// LookAgain is how often is looked at what nothing tells of: the Lease while instances are removed,
// and a refused eviction.
const LookAgain = 2 * time.Second

// Decide decides what is done next. The first row that applies counts:
//
//	situation                                               what is done
//	paused                                                  nothing
//	hibernated                                              no pods
//	there is no StatefulSet, or it has no pods              as many pods as the spec says are made, or as
//	                                                        many as have data that may be needed
//	fewer instances are wanted, and the Lease can't be read all of them stay, and elect a primary
//	fewer are wanted, and there is no primary               all of them elect one
//	fewer are wanted, and the primary is to go              it hands over to one that stays and receives
//	fewer are wanted, and a rule names one that is to go    it stays until none does
//	fewer are wanted                                        they are removed; their volumes stay for now
//	the StatefulSet does not name its spec's revision yet   nothing
//	a pod of an earlier template is not ready               it is replaced, unless it is the primary of others
//	pods are of an earlier template, and the window closed  they wait
//	a pod is of an earlier template, and all are ready      it is replaced: replicas first, then the primary
//	a pod is of an earlier template                         it waits for those that are not ready
//	spec.switchoverAt was not carried out yet               see switchover
//
// Beside the last rows, volumes of removed instances are deleted: see reclaims.
func Decide(d *Database, observed State) Decision {
	decided := Decision{Replicas: d.Replicas}
	set := observed.StatefulSet(d)
	if d.Hibernated && (set == nil || !d.Paused) {
		return Decision{Pods: begin(d, observed, decided).Pods} // Those that stop may still run.
	}
	if set == nil || set.Spec.Replicas == nil || *set.Spec.Replicas == 0 && !d.Paused {
		return begin(d, observed, decided)
	}
	instances := observed.Instances(d)
	if d.Paused {
		decided.Replicas = *set.Spec.Replicas
		return decided
	}
	if *set.Spec.Replicas > d.Replicas {
		return scaleIn(d, observed, instances, *set.Spec.Replicas)
	}
	if *set.Spec.Replicas < d.Replicas || !knowsTemplate(set) || d.Image == "" {
		return decided
	}
	decided = switchover(d, observed, instances, replace(d, set, instances, observed))
	if d.Reclaim != databasev1.DeletionDelete || !d.hasUnused(observed) || !remain(d, instances) {
		return decided // The next pass begins when all are ready.
	}
	if decided.Reclaims = reclaims(d, observed, instances); !decided.Reclaims {
		decided.RequeueAfter = requeue.Sooner(decided.RequeueAfter, LookAgain) // Nothing tells of the Lease.
	}
	return decided
}

// knowsTemplate reports whether the StatefulSet says which revision its template is.
func knowsTemplate(set *appsv1.StatefulSet) bool {
	return set.Status.ObservedGeneration >= set.Generation && set.Status.UpdateRevision != ""
}

// remain reports whether the instances are those that the spec wants, all ready, and one is the
// primary.
func remain(d *Database, instances []Instance) bool {
	isWanted := func(one Instance) bool { return one.IsReady() && !d.isRemoved(one.Pod.Name) }
	wanted := slices.DeleteFunc(slices.Clone(instances), func(one Instance) bool { return !isWanted(one) })
	return len(wanted) == int(d.Replicas) && len(instances) == len(wanted) && PrimaryOf(instances) != nil
}

// isRemoved reports whether the spec does not want the instance that has a pod of this name.
func (d *Database) isRemoved(pod string) bool { return OrdinalOf(d.Name, pod) >= int(d.Replicas) }

// reclaims reports whether the volumes of removed instances can be deleted, once all others are as
// they are to be: nothing that was acknowledged can be only there. The primary leads by the Lease,
// and that names none of the removed ones.
func reclaims(d *Database, observed State, instances []Instance) bool {
	record, known := observed.Record(d)
	leads := known && record.Open && PrimaryOf(instances).Pod.Name == record.Holder.Member.Name
	return leads && !slices.ContainsFunc(record.Pods(), d.isRemoved)
}

// begin decides how many pods are made where there are none: at first, and after hibernation. Of
// the volumes that an earlier database of the name has left, each one may have what the others
// lack. Until a record says which counts, all of them have to answer, however few instances are
// wanted; afterwards those that it names, which may be more than are wanted by now.
func begin(d *Database, observed State, decided Decision) Decision {
	record, known := observed.Record(d)
	isNeeded := func(ordinal int) bool {
		return len(d.Volumes) > 0 && observed.Claim(d, VolumeName(d.Name, ordinal)) != nil
	}
	if known && record.System != "" {
		isNeeded = func(ordinal int) bool { return slices.Contains(record.Pods(), PodName(d.Name, ordinal)) }
	}
	for ordinal := range MaxReplicas {
		if ordinal >= int(decided.Replicas) && isNeeded(ordinal) {
			decided.Replicas = int32(ordinal) + 1 //nolint:gosec // it is at most MaxReplicas
			decided.Pods = PodNames(d.Name, decided.Replicas)
		}
	}
	return decided
}

// scaleIn decides about instances that are to go: nothing that was acknowledged may be only there.
func scaleIn(d *Database, observed State, instances []Instance, present int32) Decision {
	decided := Decision{Replicas: present, RequeueAfter: LookAgain}
	record, known := observed.Record(d)
	if !known {
		// Without a record, one is elected only when all of those that there are have answered.
		decided.Pods = PodNames(d.Name, present)
		decided.Waits = "the Lease can't be read, so it is unknown whether the instances to be removed have data that the others lack"
		return decided
	}
	goes := func(pod string) bool { return OrdinalOf(d.Name, pod) >= int(d.Replicas) }
	holder, primary := record.Holder.Member.Name, PrimaryOf(instances)
	if !record.Open || primary == nil || primary.Pod.Name != holder || !primary.IsReady() {
		// Those that are to go may be needed to elect one.
		decided.Waits, decided.Pods = "there is no primary", PodNames(d.Name, present)
		return decided
	}
	if goes(holder) {
		// While it leads, those that stay have to be ones that it can hand over to.
		decided.Pods = append(PodNames(d.Name, d.Replicas), holder)
		staying := slices.DeleteFunc(slices.Clone(instances), func(i Instance) bool { return goes(i.Pod.Name) })
		if decided.SwitchTo = successor(d, staying, *primary); decided.SwitchTo == "" {
			decided.Waits = fmt.Sprintf("%s, which is to be removed, waits for a remaining replica that receives", holder)
			return decided
		}
		decided.SwitchFrom, decided.SwitchOnly = record.Term, true
		decided.Waits = fmt.Sprintf("%s, which is to be removed, hands over to another instance", holder)
		return decided
	}
	for _, pod := range record.Pods() {
		if goes(pod) {
			decided.Waits = fmt.Sprintf("commits may still depend on %s, which is to be removed", pod)
			return decided
		}
	}
	return Decision{Replicas: d.Replicas}
}

// replace chooses the pod to replace next, if one is of an earlier template. The pod of a former
// primary whose server has not started since still says that it leads: it counts as any other. One
// that has the Lease again, and has not said so yet, does not.
func replace(d *Database, set *appsv1.StatefulSet, instances []Instance, observed State) Decision {
	decided, ready, terminating := Decision{Replicas: d.Replicas}, 0, false
	var broken, replica, primary *Instance
	leads := PrimaryOf(instances)
	record, _ := observed.Record(d) // One that can't be read names no holder.
	for i := range instances {
		instance := &instances[i]
		terminating = terminating || instance.Pod.DeletionTimestamp != nil
		if instance.IsReady() {
			ready++
		}
		if instance.Pod.DeletionTimestamp != nil || instance.Pod.Labels[appsv1.ControllerRevisionHashLabelKey] == set.Status.UpdateRevision {
			continue
		}
		switch {
		case instance == leads || instance.Report.Role == contract.Primary && instance.Pod.Name == record.Holder.Member.Name:
			primary = instance
		case !instance.IsReady():
			broken = instance
		default:
			replica = instance
		}
	}
	victim := broken
	if victim == nil {
		victim = replica
	}
	if victim == nil {
		victim = primary
	}
	isAlone := d.Replicas == 1
	closed, opens := rollout.Closed(d.Window, observed.Now)
	switch {
	case victim == nil:
	case terminating:
		decided.Waits = "a pod is being replaced"
	case victim != broken && closed != "":
		decided.Window, decided.RequeueAfter = closed, opens
	case victim == broken || isAlone || ready == int(d.Replicas):
		decided.Evict = &Victim{Name: victim.Pod.Name, UID: victim.Pod.UID}
	default:
		decided.Waits = fmt.Sprintf("%s is replaced when all instances are ready: %d of %d are", victim.Pod.Name, ready, d.Replicas)
	}
	return decided
}
