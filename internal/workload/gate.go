package workload

import (
	"slices"
	"time"

	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
)

// gate is what a demand's rollout policy answers: the targets, by index, that may not restart yet,
// and why.
type gate map[int]rollout.Blocker

func (g gate) blocker(target int) (reason, message string, isBlocked bool) {
	found, isBlocked := g[target]
	return string(found.Reason), found.Message, isBlocked
}

// openGates evaluates the policy of each demand that restricts the rollout. Those with an order or
// canaries come first, then those that let nothing start: what they block must not use up
// maxParallel of the others, or two demands could wait for each other for ever.
func (d *planner) openGates() {
	d.openGatesOf(func(r *relation) bool { return r.isOrdered() })
	full := d.full()
	d.openGatesOf(func(r *relation) bool { return !r.isOrdered() && full[r.index] })
	d.openGatesOf(func(r *relation) bool { return !r.isOrdered() && !full[r.index] })
}

// isOrdered reports whether the policy of the demand has an order or canaries.
func (r *relation) isOrdered() bool {
	return len(r.demand.Rollout.Order) > 0 || r.demand.Rollout.Canary != nil
}

// isRestricted reports whether the policy of the demand restricts the rollout.
func (r *relation) isRestricted() bool {
	policy := &r.demand.Rollout
	return (policy.MaxParallel != nil || policy.Window != nil || r.isOrdered()) && !r.source.PutBack
}

// full returns the demands without order and canaries that let no target start now, because one has
// failed, or as many as may are rolling out.
func (d *planner) full() map[int]bool {
	full, going := map[int]bool{}, map[int]int32{}
	for target, relations := range d.relations {
		for i := range relations {
			r := &relations[i]
			if !r.isRestricted() || r.isOrdered() {
				continue
			}
			unit, _ := d.unit(&d.Targets[target], *r)
			if unit.State == rollout.Progressing {
				going[r.index]++
			}
			limit := r.demand.Rollout.MaxParallel
			if unit.State == rollout.Failed || limit != nil && going[r.index] >= *limit {
				full[r.index] = true
			}
		}
	}
	return full
}

// openGatesOf evaluates the policies of some demands.
func (d *planner) openGatesOf(wanted func(*relation) bool) {
	units, targets := map[int][]rollout.Unit{}, map[int][]int{}
	for target, relations := range d.relations {
		for i := range relations {
			r := &relations[i]
			if !r.isRestricted() || !wanted(r) {
				continue
			}
			if !r.isOrdered() && r.state == changed && d.isBlocked(target, relations) {
				continue // it must not use up maxParallel while it can't restart anyway
			}
			if unit, counts := d.unit(&d.Targets[target], *r); counts {
				units[r.index], targets[r.index] = append(units[r.index], unit), append(targets[r.index], target)
			}
		}
	}
	for index, of := range units {
		closed := gate{}
		answer, err := rollout.Next(of, d.Demands[index].Rollout, d.now)
		for i, target := range targets[index] {
			switch found, isBlocked := answer.Blocked[i]; {
			case err != nil:
				closed[target] = rollout.Blocker{Reason: ReasonInvalid, Message: err.Error()}
			case isBlocked:
				closed[target] = found
			}
		}
		if answer.RequeueAfter > 0 {
			d.requeueAt(d.now.Add(answer.RequeueAfter))
		}
		d.gates[index] = closed
	}
}

// isBlocked reports whether a cooldown, a debounce, a closed window, or a policy that has been
// evaluated, of any demand, blocks a changed target.
func (d *planner) isBlocked(index int, relations []relation) bool {
	return slices.ContainsFunc(relations, func(r relation) bool {
		if r.state != changed {
			return false
		}
		_, _, isGated := d.gates[r.index].blocker(index)
		return isGated || len(d.timedBlockers(&d.Targets[index], r)) > 0
	})
}

// unit returns a target as the rollout policy sees it; false if nothing is known about it. Restarts
// for other reasons, and what delays them, are not part of this demand's rollout.
func (d *planner) unit(target *Target, r relation) (rollout.Unit, bool) {
	unit := rollout.Unit{Kind: target.Ref.Kind, Name: target.Ref.Name}
	switch r.state {
	case Left:
		return unit, false
	case changed, Waiting:
		unit.State, unit.RefusedAt = rollout.Pending, target.Refusal.At
		if r.reason == ReasonReverted {
			unit.State = rollout.Suspended
		}
		return unit, true
	}
	seen := target.Stamp.Sources[r.demand.Source.String()]
	if seen.At == nil {
		unit.State, unit.Exempt = rollout.Done, true
		return unit, true
	}
	unit.Since = *seen.At
	switch state, reason, _ := d.progress(target, r.demand); {
	case state == Failed:
		unit.State = rollout.Failed
	case state == Rolling && reason == ReasonBlocked:
		unit.State = rollout.Suspended
	case state == Rolling:
		unit.State = rollout.Progressing
	default:
		unit.State, unit.Since = rollout.Done, later(unit.Since, target.completedAt(d.now))
	}
	return unit, true
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
