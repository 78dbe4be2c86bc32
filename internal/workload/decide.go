package workload

import (
	"fmt"
	"slices"
	"time"

	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
)

// Snapshot is all that the decisions about one namespace rest on.
type Snapshot struct {
	// Targets in the order of their names.
	Targets []Target
	Demands []Demand
	// Sources are those that demands name; one that is missing here is Absent.
	Sources map[SourceRef]Source
}

// State is how far a workload is with the present content of a source.
type State string

// States.
const (
	// UpToDate: all its pods run the content.
	UpToDate State = "UpToDate"
	// Rolling: its pods are being replaced.
	Rolling State = "Rolling"
	// Waiting: it will be restarted, but not yet, or nobody knows yet.
	Waiting State = "Waiting"
	// Failed: it was restarted, and its pods do not come up in time.
	Failed State = "Failed"
	// Left: nothing is done, for there is nothing that could be compared.
	Left State = "Left"
)

// Reasons of verdicts, beside those of package rollout.
const (
	ReasonCooldown      = "Cooldown"
	ReasonDebounce      = "Debounce"
	ReasonSourceMissing = "SourceMissing"
	ReasonNotGranted    = "SecretAccessNotGranted"
	ReasonEditedByHand  = "EditedByHand"
	ReasonBaseline      = "Baseline"
	ReasonTimeout       = "RolloutFailed"
	ReasonBlocked       = "Blocked"
	ReasonRolling       = "Rolling"
	// ReasonInvalid: the demand itself can't be carried out.
	ReasonInvalid = "InvalidSpec"
	// ReasonOther: another demand on the same workload keeps it from going.
	ReasonOther = "HeldByAnother"
)

// Verdict is what becomes of one workload because of one demand.
type TargetStatus struct {
	// Demand and Target are indexes into the snapshot.
	Demand, Target int
	State          State
	// Reason and Message say why it is not UpToDate; empty otherwise.
	Reason, Message string
	// Flapping tells that the source has restarted the workload again and again, each time soon after the last.
	Flapping bool
}

// Patch is one write to a workload.
type TargetPatch struct {
	// Target is an index into the snapshot.
	Target int
	// Observed is the new value of the annotation; empty takes it away.
	Observed string
	// RestartedFor is the new value of the pod template's annotation; empty leaves it, and nothing restarts.
	RestartedFor string
	// Because are the sources for which it restarts, and For those who asked.
	Because []SourceRef
	For     []string
}

// Plan is what to do in a namespace.
type RestartPlan struct {
	Patches []TargetPatch
	// Ask are targets, by index, of which somebody has to find out when their pods' template was made.
	Ask      []int
	Verdicts []TargetStatus
	// Again is after how long time alone changes the plan; 0 means never.
	Again time.Duration
}

// relation is one demand on one target, and what comparing them gave.
type relation struct {
	demand *Demand
	source *Source
	// index of the demand.
	index int
	// state is UpToDate for a content that is known, Left and Waiting with a reason, or changed.
	state           State
	reason, message string
}

// changed is the state of a relation whose content is not the one that pods run.
const changed State = "Changed"

// decision is one run of Decide.
type planner struct {
	Snapshot
	now  time.Time
	plan RestartPlan
	// all has the sources' hashes of all data.
	all map[SourceRef]string
	// relations of each target.
	relations [][]relation
	// gates has, for each demand that lets not all go at once, what it answers.
	gates map[int]gate
}

// Decide compares what workloads were started with to what their sources hold. It is the one place where a restart
// is decided:
//
//	the source                 the workload's stamp    then
//	is not there, or unknown   any                     nothing; the stamp stays, or tells that there was none, if the pods can do
//	                                                   without it and restart for another
//	equals the stamp           -                       nothing
//	was never stamped          -                       a stamp without a restart, if the source is not younger than the
//	                                                   template of the pods, or no pod can have started before it; else as the next
//	differs                    -                       one restart and the new stamp, in one patch, as soon as every
//	                                                   demand that it differs for allows it
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

// again notes that the plan changes by itself at a time.
func (d *planner) requeueAt(at time.Time) {
	wait := max(at.Sub(d.now), time.Millisecond)
	if d.plan.Again == 0 || wait < d.plan.Again {
		d.plan.Again = wait
	}
}

// relate compares each demand with each target that it is about.
func (d *planner) relate() {
	d.relations = make([][]relation, len(d.Targets))
	byRef := map[TargetRef]int{}
	for i := range d.Targets {
		byRef[d.Targets[i].Ref] = i
	}
	for index := range d.Demands {
		demand := &d.Demands[index]
		if demand.Scope.Target != nil {
			if target, there := byRef[*demand.Scope.Target]; there {
				d.relations[target] = append(d.relations[target], d.compare(index, &d.Targets[target]))
			}
			continue
		}
		for target := range d.Targets {
			if demand.Scope.includes(&d.Targets[target], demand.Source) {
				d.relations[target] = append(d.relations[target], d.compare(index, &d.Targets[target]))
			}
		}
	}
}

// compare is the table in Decide's comment.
func (d *planner) compare(index int, target *Target) relation {
	demand := &d.Demands[index]
	r := relation{demand: demand, index: index}
	source, known := d.Sources[demand.Source]
	r.source = &source
	switch {
	case !known || source.Standing == Absent:
		r.state, r.reason, r.message = Left, ReasonSourceMissing, fmt.Sprintf("%s does not exist", demand.Source)
		return r
	case source.Standing == NotGranted:
		r.state, r.reason, r.message = Left, ReasonNotGranted,
			fmt.Sprintf("%s may not be read: name its namespace in secrets.namespaces of the chart", demand.Source)
		return r
	case source.isBeingPutBack():
		r.state, r.reason, r.message = Left, ReasonEditedByHand, fmt.Sprintf("%s is not as its AppConfig made it, and is being put back",
			demand.Source)
		return r
	}
	same, stamped := d.equals(target.Stamp.Sources[demand.Source.String()], demand, &source)
	switch {
	case stamped && same:
		r.state = UpToDate
	case stamped:
		r.state = changed
	default:
		r.state = d.baseline(target, &source)
		if r.state == Waiting {
			r.reason, r.message = ReasonBaseline, "nobody knows yet with which content its pods were started"
		}
	}
	return r
}

// equals compares what was seen with what is there; stamped is false if that can't be done for all that matters.
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

// baseline judges a content that was never seen before: whether pods can have been started with an earlier one.
func (d *planner) baseline(target *Target, source *Source) State {
	switch {
	case !source.Changed.After(target.Created):
		return UpToDate
	case target.Uses[source.Ref].Required && target.Rolled.Ready == 0 && source.Created.After(target.Created):
		return UpToDate // the pods have been waiting for it
	case target.Template == nil:
		return Waiting
	case target.Template.IsZero() || !source.Changed.After(*target.Template):
		return UpToDate
	default:
		return changed
	}
}

// decide says what becomes of one target.
func (d *planner) decide(index int) {
	target, relations := &d.Targets[index], d.relations[index]
	var pending []relation
	for _, r := range relations {
		switch r.state {
		case changed:
			pending = append(pending, r)
		case Waiting:
			if !slices.Contains(d.plan.Ask, index) {
				d.plan.Ask = append(d.plan.Ask, index)
			}
		}
	}
	holds := d.blockers(index, pending)
	restart := len(pending) > 0 && len(holds) == 0
	stamp := d.stamp(target, relations, pending, restart)
	for _, r := range relations {
		d.plan.Verdicts = append(d.plan.Verdicts, d.targetStatus(index, r, restart, holds))
	}
	patch := TargetPatch{Target: index, Observed: stamp.String()}
	if restart {
		patch.RestartedFor = token(stamp, target.RestartedFor)
		for _, r := range pending {
			if !slices.Contains(patch.Because, r.demand.Source) {
				patch.Because = append(patch.Because, r.demand.Source)
			}
			if !slices.Contains(patch.For, r.demand.Origin) {
				patch.For = append(patch.For, r.demand.Origin)
			}
		}
	}
	if restart || patch.Observed != target.Stamp.String() {
		d.plan.Patches = append(d.plan.Patches, patch)
	}
}

// hold keeps a target from being restarted.
type blocker struct {
	// demand is the one that holds.
	demand          int
	reason, message string
}

// holds are what keeps a target from being restarted now; none if nothing does. Every demand that is pending has a say.
func (d *planner) blockers(index int, pending []relation) []blocker {
	var holds []blocker
	for _, r := range pending {
		for _, held := range d.timedBlockers(&d.Targets[index], r) {
			d.requeueAt(held.until)
			holds = append(holds, held.blocker)
		}
		if gate, gated := d.gates[r.index]; gated {
			if reason, message, held := gate.blockers(index); held {
				holds = append(holds, blocker{r.index, reason, message})
			}
		}
	}
	return holds
}

// timeHold is a hold that ends at a time.
type timedBlocker struct {
	blocker
	until time.Time
}

// timeHolds are those of one demand on one target: cooldown, debounce, and a window that is closed.
func (d *planner) timedBlockers(target *Target, r relation) []timedBlocker {
	var holds []timedBlocker
	add := func(at time.Time, reason, what string) {
		if at.After(d.now) {
			holds = append(holds, timedBlocker{blocker{r.index, reason, fmt.Sprintf("%s until %s", what, at.UTC().Format(time.RFC3339))}, at})
		}
	}
	seen := target.Stamp.Sources[r.demand.Source.String()]
	if target.Stamp.RestartedAt != nil {
		add(target.Stamp.RestartedAt.Add(cooldown(r.demand, seen)), ReasonCooldown, "it was restarted a moment ago: cooling down")
	}
	if seen.At != nil {
		add(seen.At.Add(r.demand.Debounce), ReasonDebounce, "further changes are collected")
	}
	if r.source.PutBack {
		return holds
	}
	if open, change, err := rollout.Open(r.demand.Rollout.Window, d.now); err == nil && !open && change > 0 {
		add(d.now.Add(change), string(rollout.OutsideWindow), "the maintenance window is closed")
	}
	return holds
}

// cooldown is the shortest time between two restarts. A source that flaps gets the default at least.
func cooldown(demand *Demand, seen SeenSource) time.Duration {
	if seen.Streak >= FlappingFrom {
		return max(demand.Cooldown, DefaultCooldown)
	}
	return demand.Cooldown
}

// verdict is what becomes of a target because of one demand.
func (d *planner) targetStatus(index int, r relation, restarts bool, holds []blocker) TargetStatus {
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
	case r.state == changed && restarts:
		v.State, v.Reason, v.Message = Rolling, ReasonRolling, "it is being restarted"
	case r.state == changed:
		v.State, v.Reason, v.Message = Waiting, ReasonOther, holds[0].message
		for _, h := range holds {
			if h.demand == r.index {
				v.Reason, v.Message = h.reason, h.message
				break
			}
		}
	case r.state == UpToDate:
		v.State, v.Reason, v.Message = d.progress(target, r.demand)
	}
	return v
}

// progress tells how far a target is whose template is as it should be.
func (d *planner) progress(target *Target, demand *Demand) (state State, reason, message string) {
	rolled := &target.Rolled
	if rolled.Complete || rolled.Forgets && target.Stamp.Done {
		return UpToDate, "", ""
	}
	pods := fmt.Sprintf("%d of %d pods are replaced", rolled.Updated, rolled.Pods)
	timeout := rollout.Timeout(demand.Rollout)
	restarted := target.Stamp.RestartedAt
	switch {
	case rolled.Blocked != "":
		return Rolling, ReasonBlocked, rolled.Blocked
	case rolled.Failed != "":
		return Failed, ReasonTimeout, fmt.Sprintf("%s, and %s", rolled.Failed, pods)
	case restarted == nil:
		return Rolling, ReasonRolling, pods
	}
	end := later(*restarted, rolled.Progressed).Add(timeout)
	if rolled.Progressed.IsZero() {
		// It does not tell when it came nearer: each of its pods has that time.
		end = restarted.Add(timeout * time.Duration(max(1, rolled.Updated)))
	}
	if end.After(d.now) {
		d.requeueAt(end)
		return Rolling, ReasonRolling, pods
	}
	return Failed, ReasonTimeout, fmt.Sprintf("%s %s after its restart", pods, timeout)
}
