package workload

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
)

// Snapshot is everything that the decisions about one namespace depend on.
type Snapshot struct {
	// Targets are sorted by name.
	Targets []Target
	Demands []Demand
	// Sources are the sources that demands name, but for ConfigMaps that concern no target. A source
	// that is missing here, and that a demand on a target names, is Absent.
	Sources map[SourceRef]Source
}

// State is how far a workload has got with the present content of a source.
type State string

// The states.
const (
	// UpToDate: all its pods run the content.
	UpToDate State = "UpToDate"
	// Rolling: its pods are being replaced.
	Rolling State = "Rolling"
	// Waiting: it will be restarted later, or it is not known yet whether it must be.
	Waiting State = "Waiting"
	// Failed: it was restarted, and its pods did not become ready in time.
	Failed State = "Failed"
	// Left: nothing is done, because there is nothing to compare.
	Left State = "Left"
)

// Reasons of a TargetStatus, in addition to those of package rollout.
const (
	ReasonCooldown      = "Cooldown"
	ReasonDebounce      = "Debounce"
	ReasonSourceMissing = "SourceMissing"
	ReasonNotGranted    = "SecretAccessNotGranted"
	ReasonEditedByHand  = "EditedByHand"
	ReasonBaseline      = "Baseline"
	ReasonReverted      = "TemplateReverted"
	ReasonTimeout       = "RolloutFailed"
	ReasonBlocked       = "Blocked"
	ReasonRolling       = "Rolling"
	// ReasonInvalid: the demand itself is invalid.
	ReasonInvalid = "InvalidSpec"
	// ReasonRefused: the API server refuses the restart, which is tried again.
	ReasonRefused = "RestartRefused"
	// ReasonOther: another demand on the same workload blocks the restart.
	ReasonOther = "HeldByAnother"
)

// TargetStatus is the state of one workload with respect to one demand.
type TargetStatus struct {
	// Demand and Target are indices into the snapshot.
	Demand, Target int
	State          State
	// Reason and Message say why it is not UpToDate; empty otherwise.
	Reason, Message string
	// IsOwners reports that the pods are replaced or started without a restart by Mainstay, or after
	// the last one was complete.
	IsOwners bool
	// Flapping reports that the source has restarted the workload repeatedly in close succession.
	Flapping bool
}

// TargetPatch is one write to a workload.
type TargetPatch struct {
	// Target is an index into the snapshot.
	Target int
	// Observed is the new value of the annotation; empty deletes it.
	Observed string
	// RestartedFor is the new value of the pod template's annotation; empty leaves it unchanged, and
	// nothing restarts.
	RestartedFor string
	// Because are the sources that cause the restart, and For are the origins of the demands.
	Because []SourceRef
	For     []string
}

// RestartPlan is what to do in a namespace.
type RestartPlan struct {
	Patches []TargetPatch
	// Ask are the indices of targets for which the caller must find out when their pod template was
	// created.
	Ask      []int
	Statuses []TargetStatus
	// Pending are the indices of targets that are restarted now or later.
	Pending []int
	// RequeueAfter is when the plan changes with time alone; 0 means never.
	RequeueAfter time.Duration
}

// relation is one demand on one target, with the result of comparing them.
type relation struct {
	demand *Demand
	source *Source
	// index is the index of the demand.
	index int
	// state is UpToDate for a known content, Left or Waiting with a reason, or changed.
	state           State
	reason, message string
}

// changed is the state of a relation if the pods run another content.
const changed State = "Changed"

// planner is one run of Decide.
type planner struct {
	Snapshot
	now  time.Time
	plan RestartPlan
	// all has the hash of all data of each source.
	all map[SourceRef]string
	// relations are the relations of each target.
	relations [][]relation
	// gates has the answers for demands whose policy restricts the rollout.
	gates map[int]gate
}

// Decide compares the content that workloads were started with to the present content of their
// sources. It is the one place that decides about restarts:
//
//	source              result
//	missing or unknown  nothing. The stamp stays. If the pods can run without the source and
//	                    restart for another one, the stamp records its absence.
//	equals the stamp    nothing
//	never stamped       a stamp without a restart, if the source is not younger than the pod
//	                    template, or no pod of that template can have started before it
//	                    existed; otherwise as in the next row
//	equals the stamp,   nothing. Unless the template is younger than the source, the pods may run
//	the template of     an earlier content, and do not count as up to date
//	the restart is gone
//	differs             one restart and the new stamp, in one patch, as soon as every demand
//	                    that it differs for allows it
func Decide(snapshot Snapshot, now time.Time) RestartPlan {
	d := planner{Snapshot: snapshot, now: now, all: map[SourceRef]string{}, gates: map[int]gate{}}
	for ref, source := range d.Sources {
		d.all[ref] = source.All()
	}
	d.relate()
	d.openGates()
	for i := range d.Targets {
		d.decide(i)
	}
	return d.plan
}

// requeueAt records that the plan changes with time alone at a time.
func (d *planner) requeueAt(at time.Time) {
	wait := max(at.Sub(d.now), time.Millisecond)
	if d.plan.RequeueAfter == 0 || wait < d.plan.RequeueAfter {
		d.plan.RequeueAfter = wait
	}
}

// relate compares each demand with each target in its scope.
func (d *planner) relate() {
	d.relations = make([][]relation, len(d.Targets))
	targets := NewIndex(d.Targets)
	for index := range d.Demands {
		for _, target := range targets.Concerned(&d.Demands[index]) {
			d.relations[target] = append(d.relations[target], d.compare(index, &d.Targets[target]))
		}
	}
}

// reverted explains ReasonReverted. Restarting such pods again could be a fight with the client
// that has changed the template back.
const reverted = "its pod template was changed back after the restart, so its pods may run an earlier content: to restart them, " +
	"run kubectl rollout restart"

// compare implements the table in the comment of Decide.
func (d *planner) compare(index int, target *Target) relation {
	demand := &d.Demands[index]
	r := relation{demand: demand, index: index}
	source, known := d.Sources[demand.Source]
	r.source = &source
	switch {
	case !known || source.State == Absent:
		r.state, r.reason, r.message = Left, ReasonSourceMissing, fmt.Sprintf("%s does not exist", demand.Source)
		return r
	case source.State == NotGranted:
		r.state, r.reason, r.message = Left, ReasonNotGranted,
			fmt.Sprintf("%s cannot be read: add its namespace to secrets.namespaces in the chart's values", demand.Source)
		return r
	case source.IsEdited():
		r.state, r.reason, r.message = Left, ReasonEditedByHand, fmt.Sprintf("%s was edited by hand, and its %s is reverting it",
			demand.Source, source.Owner)
		return r
	}
	same, stamped := d.equals(target.Stamp.Sources[demand.Source.String()], demand, &source)
	switch {
	case stamped && same && target.isReverted(&source):
		r.state, r.reason, r.message = Waiting, ReasonReverted, reverted
	case stamped && same:
		r.state = UpToDate
	case stamped:
		r.state = changed
	default:
		r.state = d.baseline(target, &source)
		if r.state == Waiting {
			r.reason, r.message = ReasonBaseline, "the content that its pods were started with is not known yet"
		}
	}
	return r
}

// equals compares a stamped source with its present content. stamped is false if the stamp lacks
// something that the demand needs.
func (d *planner) equals(seen SeenSource, demand *Demand, source *Source) (same, stamped bool) {
	all := d.all[demand.Source]
	if seen.All != "" && seen.All == all {
		return true, true
	}
	if demand.Keys == nil {
		return false, seen.All != "" && sameKey(seen.All, all)
	}
	same, stamped = true, true
	for _, key := range demand.Keys {
		before, now := seen.Keys[key], source.Key(key)
		switch {
		case before == "" || !sameKey(before, now):
			stamped = false
		case before != now:
			return false, true
		}
	}
	return same, stamped
}

// baseline decides about a content that was never stamped: whether pods can have been started with
// an earlier one.
func (d *planner) baseline(target *Target, source *Source) State {
	switch {
	case !source.Changed.After(target.Created):
		return UpToDate
	case target.Uses[source.Ref].Required && target.neverReady() && source.Created.After(target.Created):
		return UpToDate // the pods have been waiting for it
	case target.Template == nil:
		return Waiting
	case target.Template.IsZero() || !source.Changed.After(*target.Template):
		return UpToDate
	case target.Uses[source.Ref].Required && !source.Changed.After(source.Created) && target.isStarting():
		return UpToDate // the pods of the present template have been waiting for it, and replace those before it
	default:
		return changed
	}
}

// decide decides about one target.
func (d *planner) decide(index int) {
	target, relations := &d.Targets[index], d.relations[index]
	var pending []relation
	for _, r := range relations {
		switch r.state {
		case changed:
			pending = append(pending, r)
		case Waiting:
			if last := len(d.plan.Ask) - 1; last < 0 || d.plan.Ask[last] != index {
				d.plan.Ask = append(d.plan.Ask, index)
			}
		}
	}
	if len(pending) > 0 {
		d.plan.Pending = append(d.plan.Pending, index)
	}
	blockers := d.blockers(index, pending)
	restart := len(pending) > 0 && len(blockers) == 0
	stamp := d.stamp(target, relations, pending, restart)
	for _, r := range relations {
		d.plan.Statuses = append(d.plan.Statuses, d.targetStatus(index, r, restart, blockers))
	}
	patch := TargetPatch{Target: index}
	if restart {
		patch.RestartedFor = token(stamp, target.RestartedFor)
		stamp.For = HashText(patch.RestartedFor)
		for _, r := range pending {
			if !slices.Contains(patch.Because, r.demand.Source) {
				patch.Because = append(patch.Because, r.demand.Source)
			}
			if !slices.Contains(patch.For, r.demand.Origin) {
				patch.For = append(patch.For, r.demand.Origin)
			}
		}
	}
	patch.Observed = stamp.String()
	if restart || patch.Observed != target.Stamp.String() {
		d.plan.Patches = append(d.plan.Patches, patch)
	}
}

// blocker is why a target may not be restarted now.
type blocker struct {
	// demand is the index of the demand that blocks.
	demand          int
	reason, message string
}

// blockers returns why a target may not be restarted now. Every pending demand can block.
func (d *planner) blockers(index int, pending []relation) []blocker {
	var found []blocker
	for _, r := range pending {
		for _, timed := range d.timedBlockers(&d.Targets[index], r) {
			d.requeueAt(timed.until)
			found = append(found, timed.blocker)
		}
		if gate, gated := d.gates[r.index]; gated {
			if reason, message, isBlocked := gate.blocker(index); isBlocked {
				found = append(found, blocker{r.index, reason, message})
			}
		}
	}
	return found
}

// timedBlocker is a blocker that ends at a known time.
type timedBlocker struct {
	blocker
	until time.Time
}

// timedBlockers returns the blockers of one demand on one target that end with time: cooldown,
// debounce and a closed window.
func (d *planner) timedBlockers(target *Target, r relation) []timedBlocker {
	var found []timedBlocker
	add := func(at time.Time, reason, what string) {
		if at.After(d.now) {
			found = append(found, timedBlocker{blocker{r.index, reason, fmt.Sprintf("%s until %s", what, at.UTC().Format(time.RFC3339))}, at})
		}
	}
	seen := target.Stamp.Sources[r.demand.Source.String()]
	if target.Stamp.RestartedAt != nil {
		add(target.Stamp.RestartedAt.Add(cooldown(r.demand, seen)), ReasonCooldown, "cooling down after the last restart")
	}
	if seen.At != nil {
		add(seen.At.Add(r.demand.Debounce), ReasonDebounce, "collecting further changes")
	}
	if r.source.PutBack {
		return found
	}
	if open, change, err := rollout.Open(r.demand.Rollout.Window, d.now); err == nil && !open && change > 0 {
		add(d.now.Add(change), string(rollout.OutsideWindow), "the maintenance window is closed")
	}
	return found
}

// cooldown returns the minimum time between two restarts. For a flapping source it is at least the
// default.
func cooldown(demand *Demand, seen SeenSource) time.Duration {
	if seen.Streak >= FlappingFrom {
		return max(demand.Cooldown, DefaultCooldown)
	}
	return demand.Cooldown
}

// targetStatus returns the state of a target with respect to one demand.
func (d *planner) targetStatus(index int, r relation, restarts bool, blockers []blocker) TargetStatus {
	target := &d.Targets[index]
	seen := target.Stamp.Sources[r.demand.Source.String()]
	v := TargetStatus{Demand: r.index, Target: index, State: r.state, Reason: r.reason, Message: r.message}
	if seen.Streak >= FlappingFrom && seen.At != nil {
		if end := seen.At.Add(InCloseSuccession(r.demand.Cooldown)); end.After(d.now) {
			v.Flapping = true
			d.requeueAt(end)
		}
	}
	switch {
	case r.state == changed && target.isRefused(blockers):
		v.State, v.Reason, v.Message = Waiting, ReasonRefused, "the API server refuses the restart: "+target.Refusal.Message
	case r.state == changed && restarts:
		v.State, v.Reason, v.Message = Rolling, ReasonRolling, "being restarted"
	case r.state == changed:
		v.State, v.Reason, v.Message = Waiting, ReasonOther, blockers[0].message
		for _, h := range blockers {
			if h.demand == r.index {
				v.Reason, v.Message = h.reason, h.message
				break
			}
		}
	case r.state == UpToDate:
		v.State, v.Reason, v.Message = d.progress(target, r.demand)
		v.IsOwners = target.Stamp.isOver()
	}
	return v
}

// progress returns how far a target has got whose template is up to date. Only the rollout of a
// restart by Mainstay has a timeout, not one that the owner begins later.
func (d *planner) progress(target *Target, demand *Demand) (state State, reason, message string) {
	rolled := &target.Rolled
	if rolled.Complete || rolled.Forgets && target.Stamp.Done {
		return UpToDate, "", ""
	}
	pods := fmt.Sprintf("%d of %d pods are replaced", rolled.Updated, rolled.Pods)
	timeout := rollout.Timeout(demand.Rollout)
	switch {
	case rolled.Blocked != "":
		return Rolling, ReasonBlocked, rolled.Blocked
	case rolled.Failed != "":
		return Failed, ReasonTimeout, fmt.Sprintf("%s, and %s", rolled.Failed, pods)
	case target.Stamp.isOver():
		return Rolling, ReasonRolling, pods
	}
	began := target.Stamp.timedFrom(d.now)
	end := later(*target.Stamp.RestartedAt, rolled.Progressed).Add(timeout)
	switch {
	case rolled.Unseen:
		// The status is of an earlier rollout: it says nothing about this one yet.
		end = d.now.Add(timeout)
	case rolled.Progressed.IsZero():
		// Such a workload does not say when it last made progress: each of its pods gets that time.
		end = began.Add(times(timeout, rolled.Updated))
	}
	if end.After(d.now) {
		d.requeueAt(end)
		return Rolling, ReasonRolling, pods
	}
	if rolled.Progressed.IsZero() {
		return Failed, ReasonTimeout, fmt.Sprintf("%s, and the restart is not complete after %s", pods, end.Sub(began))
	}
	return Failed, ReasonTimeout, fmt.Sprintf("%s, and there was no progress for %s", pods, timeout)
}

// times returns how long a number of pods may take one after the other, at least one of them. Users
// may set timeouts whose multiples are too long for a Duration.
func times(timeout time.Duration, pods int32) time.Duration {
	number := time.Duration(max(1, pods))
	if timeout > math.MaxInt64/number {
		return math.MaxInt64
	}
	return timeout * number
}
