package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
)

// State is how far one unit is with the change.
type State int

// States of a unit.
const (
	// Pending units have not begun.
	Pending State = iota
	// Going units have begun and are not there yet.
	Progressing
	// Done units run the change.
	Done
	// Failed units did not get there in time.
	Failed
)

// Unit is one thing that takes the change.
type Unit struct {
	Kind, Name string
	State      State
	// Since is, of a unit that is Done, since when; of one that is Going, when it began. The zero value means long ago.
	Since time.Time
}

// String is the unit as the policy's order names it.
func (u Unit) String() string { return u.Kind + "/" + u.Name }

// Reason is why a unit may not begin.
type Reason string

// Reasons, in the order in which they are looked at: the first that holds is told.
const (
	// RolloutFailed: another unit failed.
	RolloutFailed Reason = "RolloutFailed"
	// OutsideWindow: the maintenance window is closed.
	OutsideWindow Reason = "OutsideWindow"
	// WaitingForOrder: a unit that goes before is not Done.
	WaitingForOrder Reason = "WaitingForOrder"
	// WaitingForCanary: the units that try the change first are not Done, or not for long enough.
	WaitingForCanary Reason = "WaitingForCanary"
	// WaitingForOthers: as many as may be going at one time are.
	WaitingForOthers Reason = "WaitingForOthers"
)

// Hold is why one unit may not begin.
type Blocker struct {
	Reason Reason
	// Message says it to people, and names what is waited for.
	Message string
}

// Answer says which units may begin now.
type Selection struct {
	// Go are the indexes of the units that may begin, in the order of the policy.
	Go []int
	// Held has, by index, all other units that are Pending.
	Held map[int]Blocker
	// Again is after how long the answer changes by time alone; 0 means that it does not.
	Again time.Duration
}

// Next says which of the units may begin now. They go in the order of the policy, and then by kind and name:
//
//   - none while a unit has Failed, or the window is closed;
//   - a named unit once all that are named before it are Done; the others once all that are named are. A name that no
//     unit has is passed over;
//   - all but the first canary.count, or canary.percent, once those are Done, and have been so for canary.soak;
//   - as many as leave no more than maxParallel of them Going.
//
// The error is that of a window that Validate refuses.
func Next(units []Unit, policy rolloutv1.Policy, now time.Time) (Selection, error) {
	open, untilChange, err := Open(policy.Window, now)
	if err != nil {
		return Selection{}, fmt.Errorf("reading the window: %w", err)
	}
	deciding := selector{units: units, policy: policy, now: now, isOpen: open, opens: untilChange, ranks: ranks(units, policy.Order)}
	deciding.sorted = sorted(units, deciding.ranks)
	deciding.going = count(units, Progressing)
	deciding.failed = deciding.list(func(index int) bool { return units[index].State == Failed })
	answer := Selection{Held: map[int]Blocker{}}
	for at, index := range deciding.sorted {
		if units[index].State != Pending {
			continue
		}
		if hold := deciding.blocker(at); hold != nil {
			answer.Held[index] = *hold
			continue
		}
		answer.Go = append(answer.Go, index)
		deciding.going++
	}
	answer.Again = deciding.requeueAfter(answer.Held)
	return answer, nil
}

// Order are the indexes of units in the order in which they go.
func Order(units []Unit, policy rolloutv1.Policy) []int {
	return sorted(units, ranks(units, policy.Order))
}

// Canaries is how many of all units try the change first.
func Canaries(policy rolloutv1.Policy, all int) int {
	if policy.Canary == nil {
		return 0
	}
	if percent := policy.Canary.Percent; percent != nil {
		return min((all*int(*percent)+99)/100, all)
	}
	return min(max(1, int(policy.Canary.Count)), all)
}

// Timeout is how long one unit may take.
func Timeout(policy rolloutv1.Policy) time.Duration {
	if policy.Timeout == nil {
		return 10 * time.Minute
	}
	return policy.Timeout.Duration
}

// decision is what Next rests on.
type selector struct {
	units  []Unit
	policy rolloutv1.Policy
	now    time.Time
	isOpen bool
	// opens is after how long the window opens or closes.
	opens time.Duration
	// sorted are the indexes of the units in the order of the policy.
	sorted []int
	// ranks are the places of the units in the policy's order.
	ranks []int
	// going is how many are Going, with those that were just allowed to.
	going int
	// failed names the units that Failed.
	failed string
}

// hold is why the unit at a place of the order may not begin; nil if it may.
func (d *selector) blocker(at int) *Blocker {
	if d.failed != "" {
		return &Blocker{RolloutFailed, "the rollout has failed: " + d.failed}
	}
	if !d.isOpen {
		return &Blocker{OutsideWindow, fmt.Sprintf("waits for the maintenance window, which opens %s",
			d.now.Add(d.opens).UTC().Format("2006-01-02 15:04 MST"))}
	}
	mine := d.ranks[d.sorted[at]]
	before := d.list(func(index int) bool { return d.units[index].State != Done && d.ranks[index] < mine })
	if before != "" {
		return &Blocker{WaitingForOrder, "waits for what goes before it: " + before}
	}
	if hold := d.canaryBlocker(at); hold != nil {
		return hold
	}
	if limit := d.policy.MaxParallel; limit != nil && d.going >= int(*limit) {
		return &Blocker{WaitingForOthers, fmt.Sprintf("waits its turn: %d of %d that may roll out at one time do", d.going, *limit)}
	}
	return nil
}

// holdForCanary is why the unit at a place of the order must wait for the canaries; nil if it need not.
func (d *selector) canaryBlocker(at int) *Blocker {
	if at < d.canaries() {
		return nil
	}
	first := d.sorted[:d.canaries()]
	if trying := d.list(func(index int) bool { return d.units[index].State != Done && slices.Contains(first, index) }); trying != "" {
		return &Blocker{WaitingForCanary, "waits for those that try the change first: " + trying}
	}
	if d.soaking() > 0 {
		return &Blocker{WaitingForCanary, fmt.Sprintf("waits until those that try the change first have run it for %s",
			d.policy.Canary.Soak.Duration)}
	}
	return nil
}

// canaries is how many units of the order try the change first.
func (d *selector) canaries() int { return Canaries(d.policy, len(d.sorted)) }

// soaking is for how long canaries that are all Done must go on; 0 or less if they need not.
func (d *selector) soaking() time.Duration {
	if d.policy.Canary == nil || d.policy.Canary.Soak == nil {
		return 0
	}
	var left time.Duration
	for _, index := range d.sorted[:d.canaries()] {
		if unit := d.units[index]; unit.State == Done {
			left = max(left, unit.Since.Add(d.policy.Canary.Soak.Duration).Sub(d.now))
		}
	}
	return left
}

// again is after how long one of the holds changes by time alone: when the window opens or closes, or the canaries have
// gone on for long enough.
func (d *selector) requeueAfter(held map[int]Blocker) time.Duration {
	var soonest time.Duration
	sooner := func(than time.Duration) {
		if than > 0 && (soonest == 0 || than < soonest) {
			soonest = than
		}
	}
	for _, hold := range held {
		switch hold.Reason {
		case RolloutFailed:
			return 0
		case WaitingForCanary:
			sooner(d.soaking())
		case OutsideWindow, WaitingForOrder, WaitingForOthers:
		}
		sooner(d.opens)
	}
	return soonest
}

// maxListed is how many units a message names.
const maxListed = 3

// list names the units that are so, in order; empty if none is.
func (d *selector) list(isSo func(index int) bool) string {
	var names []string
	more := 0
	for _, index := range d.sorted {
		switch {
		case !isSo(index):
		case len(names) < maxListed:
			names = append(names, d.units[index].String())
		default:
			more++
		}
	}
	if more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	}
	return strings.Join(names, ", ")
}

// sorted are the indexes of units in the order in which they go.
func sorted(units []Unit, ranks []int) []int {
	indexes := make([]int, len(units))
	for i := range units {
		indexes[i] = i
	}
	slices.SortStableFunc(indexes, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(ranks[a], ranks[b]),
			cmp.Compare(units[a].Kind, units[b].Kind),
			cmp.Compare(units[a].Name, units[b].Name),
		)
	})
	return indexes
}

func ranks(units []Unit, order []string) []int {
	all := make([]int, len(units))
	for i, unit := range units {
		all[i] = rank(unit, order)
	}
	return all
}

// rank is the place of a unit in the policy's order: that of its kind and name, else that of its name, else behind all.
func rank(unit Unit, order []string) int {
	for _, wanted := range []string{unit.String(), unit.Name} {
		if at := slices.Index(order, wanted); at >= 0 {
			return at
		}
	}
	return len(order)
}

func count(units []Unit, state State) int {
	number := 0
	for _, unit := range units {
		if unit.State == state {
			number++
		}
	}
	return number
}
