package workload

import (
	"slices"
	"time"

	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
)

// gate is what a demand's rollout policy says of its targets: those that may not go yet, by their index, and why.
type gate map[int]rollout.Blocker

func (g gate) blockers(target int) (reason, message string, held bool) {
	hold, held := g[target]
	return string(hold.Reason), hold.Message, held
}

// openGates asks the policy of each demand that does not let all go at once.
func (d *planner) openGates() {
	units, targets := map[int][]rollout.Unit{}, map[int][]int{}
	for target, relations := range d.relations {
		for _, r := range relations {
			policy := &r.demand.Rollout
			if policy.MaxParallel == nil && policy.Canary == nil && policy.Window == nil && len(policy.Order) == 0 || r.source.PutBack {
				continue
			}
			if len(policy.Order) == 0 && policy.Canary == nil && r.state == changed && d.rests(&d.Targets[target], relations) {
				continue // it takes nobody's turn while it can't go anyway
			}
			if unit, counts := d.unit(&d.Targets[target], r); counts {
				units[r.index], targets[r.index] = append(units[r.index], unit), append(targets[r.index], target)
			}
		}
	}
	for index, of := range units {
		closed := gate{}
		answer, err := rollout.Next(of, d.Demands[index].Rollout, d.now)
		for i, target := range targets[index] {
			switch hold, held := answer.Held[i]; {
			case err != nil:
				closed[target] = rollout.Blocker{Reason: ReasonInvalid, Message: err.Error()}
			case held:
				closed[target] = hold
			}
		}
		if answer.Again > 0 {
			d.requeueAt(d.now.Add(answer.Again))
		}
		d.gates[index] = closed
	}
}

// rests tells whether a time keeps a target from going that differs: a cooldown, a debounce or a closed window of any demand.
func (d *planner) rests(target *Target, relations []relation) bool {
	return slices.ContainsFunc(relations, func(r relation) bool { return r.state == changed && len(d.timedBlockers(target, r)) > 0 })
}

// unit is a target as its rollout policy sees it; false for one of which nothing is known. What restarts it for other
// reasons, or keeps it from being complete, is not this demand's rollout.
func (d *planner) unit(target *Target, r relation) (rollout.Unit, bool) {
	unit := rollout.Unit{Kind: target.Ref.Kind, Name: target.Ref.Name}
	switch r.state {
	case Left:
		return unit, false
	case changed, Waiting:
		unit.State = rollout.Pending
		return unit, true
	}
	seen := target.Stamp.Sources[r.demand.Source.String()]
	if seen.At == nil {
		unit.State = rollout.Done
		return unit, true
	}
	unit.Since = *seen.At
	switch state, reason, _ := d.progress(target, r.demand); {
	case state == Failed:
		unit.State = rollout.Failed
	case state == Rolling && reason != ReasonBlocked: // who waits for a person keeps nobody else waiting
		unit.State = rollout.Progressing
	default:
		unit.State, unit.Since = rollout.Done, later(unit.Since, target.Rolled.Since)
	}
	return unit, true
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
