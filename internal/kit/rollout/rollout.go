package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
)

// State is the progress of one unit with the change.
type State int

// States of a unit.
const (
	// Pending units have not started.
	Pending State = iota
	// Progressing units have started, and do not run the change yet.
	Progressing
	// Done units run the change.
	Done
	// Failed units did not run the change within the timeout.
	Failed
	// Suspended units have started, and wait for a user before they run the change. They are not
	// Done, but do not count for maxParallel.
	Suspended
)

// Unit is one workload in a rollout.
type Unit struct {
	Kind, Name string
	State      State
	// Since is when the unit entered the state Done or Progressing. The zero value means long ago.
	Since time.Time
	// Exempt units run the change without having started for it, such as new workloads. They are no
	// canaries, because they show nothing about those that have to start.
	Exempt bool
	// RefusedAt is when the API server last refused to let a Pending unit start; zero if it did not.
	// Such units take the places of maxParallel that all others leave.
	RefusedAt time.Time
	// Canary marks the canaries if the caller chooses them. If no unit is marked, Next chooses them.
	Canary bool
}

// String returns the unit as the policy's order names it: KIND/NAME.
func (u Unit) String() string { return u.Kind + "/" + u.Name }

// Reason is why a unit may not start.
type Reason string

// Reasons, in the order in which they are checked. The first that applies is reported.
const (
	// RolloutFailed: another unit failed.
	RolloutFailed Reason = "RolloutFailed"
	// OutsideWindow: the maintenance window is closed.
	OutsideWindow Reason = "OutsideWindow"
	// WaitingForOrder: an earlier unit of the order is not Done.
	WaitingForOrder Reason = "WaitingForOrder"
	// WaitingForCanary: the canaries are not Done, or have not soaked.
	WaitingForCanary Reason = "WaitingForCanary"
	// WaitingForOthers: maxParallel units are Progressing.
	WaitingForOthers Reason = "WaitingForOthers"
)

// Blocker is why one unit may not start.
type Blocker struct {
	Reason Reason
	// Message explains the reason to people, and names what the unit is waiting for.
	Message string
}

// Selection is the units that may start now.
type Selection struct {
	// Go are the indexes of the units that may start, in the order in which they do.
	Go []int
	// Blocked maps the indexes of all other Pending units to what blocks them.
	Blocked map[int]Blocker
	// RequeueAfter is when the selection changes with time alone; 0 means never.
	RequeueAfter time.Duration
}

// Next returns which of the units may start now. Units start in the order of the policy, then by
// kind and name:
//
//   - No unit starts while a unit is Failed or the window is closed.
//   - A unit in policy.Order starts when all units before it are Done. The other units start when
//     all units in the order are. A name without a unit is ignored.
//   - After the canaries, others start when all canaries have been Done for canary.soak. The
//     canaries are the units that are marked as such, otherwise the first canary.count or
//     canary.percent of the units that are not Exempt.
//   - At most maxParallel units are Progressing. Those that were refused get a place after all
//     others, the one whose refusal is the oldest first: a unit that can't start keeps none from
//     starting, and each of them is tried again.
//
// Next returns an error for a window that Validate would refuse.
func Next(units []Unit, policy rolloutv1.Policy, now time.Time) (Selection, error) {
	open, untilChange, err := Open(policy.Window, now)
	if err != nil {
		return Selection{}, fmt.Errorf("reading the window: %w", err)
	}
	s := selector{units: units, policy: policy, now: now, isOpen: open, windowChanges: untilChange, ranks: ranks(units, policy.Order)}
	s.sorted = sorted(units, s.ranks)
	s.progressing = count(units, Progressing)
	s.failed = s.list(s.sorted, func(index int) bool { return units[index].State == Failed })
	s.chooseCanaries()
	s.unfinished = s.list(s.canaries, s.isUnfinished)
	s.soakLeft = s.leftToSoak()
	s.before = map[int]string{}
	selection := Selection{Blocked: map[int]Blocker{}}
	for _, index := range s.turns() {
		if units[index].State != Pending {
			continue
		}
		if blocker := s.blocker(index); blocker != nil {
			selection.Blocked[index] = *blocker
			continue
		}
		selection.Go = append(selection.Go, index)
		s.progressing++
	}
	selection.RequeueAfter = s.requeueAfter(selection.Blocked)
	return selection, nil
}

// Order returns the indexes of the units in the order in which they start.
func Order(units []Unit, policy rolloutv1.Policy) []int {
	return sorted(units, ranks(units, policy.Order))
}

// Canaries returns how many of all units are canaries.
func Canaries(policy rolloutv1.Policy, all int) int {
	if policy.Canary == nil {
		return 0
	}
	if percent := policy.Canary.Percent; percent != nil {
		return min((all*int(*percent)+99)/100, all)
	}
	return min(max(1, int(policy.Canary.Count)), all)
}

// Timeout returns how long one unit may take: by default 10 minutes.
func Timeout(policy rolloutv1.Policy) time.Duration {
	if policy.Timeout == nil {
		return 10 * time.Minute
	}
	return policy.Timeout.Duration
}

// selector has the state of one call of Next.
type selector struct {
	units  []Unit
	policy rolloutv1.Policy
	now    time.Time
	isOpen bool
	// windowChanges is after how long the window opens or closes.
	windowChanges time.Duration
	// sorted are the indexes of the units in the order of the policy.
	sorted []int
	// ranks are the positions of the units in the policy's order.
	ranks []int
	// progressing is the number of Progressing units, including those that were just selected.
	progressing int
	// failed names the Failed units.
	failed string
	// canaries are the indexes of the canaries, and isCanary tells for each unit whether it is one.
	// unfinished names those that are not Done; soakLeft is how long the others must still soak.
	canaries   []int
	isCanary   []bool
	unfinished string
	soakLeft   time.Duration
	// before names, for each rank, the units before it that are not Done. It is filled on demand.
	before map[int]string
}

func (s *selector) isUnfinished(index int) bool { return s.units[index].State != Done }

// unfinishedBefore names the units with a lower rank that are not Done.
func (s *selector) unfinishedBefore(rank int) string {
	names, known := s.before[rank]
	if !known {
		names = s.list(s.sorted, func(index int) bool { return s.isUnfinished(index) && s.ranks[index] < rank })
		s.before[rank] = names
	}
	return names
}

// turns returns the indexes of the units in the order in which they get the places of maxParallel.
func (s *selector) turns() []int {
	turns := slices.Clone(s.sorted)
	slices.SortStableFunc(turns, func(a, b int) int { return s.units[a].RefusedAt.Compare(s.units[b].RefusedAt) })
	return turns
}

// blocker returns why the unit with an index may not start, or nil if it may.
func (s *selector) blocker(index int) *Blocker {
	if s.failed != "" {
		return &Blocker{RolloutFailed, "the rollout has failed: " + s.failed}
	}
	if !s.isOpen {
		return &Blocker{OutsideWindow, fmt.Sprintf("waiting for the maintenance window, which opens %s",
			s.now.Add(s.windowChanges).UTC().Format("2006-01-02 15:04 MST"))}
	}
	if before := s.unfinishedBefore(s.ranks[index]); before != "" {
		return &Blocker{WaitingForOrder, "waiting for the workloads before it in the order: " + before}
	}
	if blocker := s.canaryBlocker(index); blocker != nil {
		return blocker
	}
	if limit := s.policy.MaxParallel; limit != nil && s.progressing >= int(*limit) {
		return &Blocker{WaitingForOthers, fmt.Sprintf("waiting: %s rolling out (maxParallel %d)", workloadsAre(s.progressing), *limit)}
	}
	return nil
}

// workloadsAre returns the subject of a sentence about a number of workloads, with its verb.
func workloadsAre(number int) string {
	if number == 1 {
		return "1 workload is"
	}
	return fmt.Sprintf("%d workloads are", number)
}

// chooseCanaries chooses the canaries: those that the caller has marked, or else the first of the
// units that are not Exempt.
func (s *selector) chooseCanaries() {
	s.isCanary = make([]bool, len(s.units))
	if s.policy.Canary == nil {
		return
	}
	s.canaries = slices.DeleteFunc(slices.Clone(s.sorted), func(index int) bool { return !s.units[index].Canary })
	if len(s.canaries) == 0 {
		candidates := slices.DeleteFunc(slices.Clone(s.sorted), func(index int) bool { return s.units[index].Exempt })
		s.canaries = candidates[:Canaries(s.policy, len(candidates))]
	}
	for _, index := range s.canaries {
		s.isCanary[index] = true
	}
}

// canaryBlocker returns why the unit with an index must wait for the canaries, or nil if it need
// not.
func (s *selector) canaryBlocker(index int) *Blocker {
	if s.isCanary[index] {
		return nil
	}
	if s.unfinished != "" {
		return &Blocker{WaitingForCanary, "waiting for the canaries: " + s.unfinished}
	}
	if s.soakLeft > 0 {
		return &Blocker{WaitingForCanary, fmt.Sprintf("waiting for the canaries to soak for %s", s.policy.Canary.Soak.Duration)}
	}
	return nil
}

// leftToSoak returns how long the canaries that are Done must still soak; 0 or less means that they
// have.
func (s *selector) leftToSoak() time.Duration {
	if s.policy.Canary == nil || s.policy.Canary.Soak == nil {
		return 0
	}
	var left time.Duration
	for _, index := range s.canaries {
		if unit := s.units[index]; unit.State == Done {
			left = max(left, unit.Since.Add(s.policy.Canary.Soak.Duration).Sub(s.now))
		}
	}
	return left
}

// requeueAfter returns after how long one of the blockers changes with time alone: when the window
// opens or closes, or when the canaries have soaked.
func (s *selector) requeueAfter(blocked map[int]Blocker) time.Duration {
	var soonest time.Duration
	for _, blocker := range blocked {
		switch blocker.Reason {
		case RolloutFailed:
			return 0
		case WaitingForCanary:
			soonest = requeue.Sooner(soonest, s.soakLeft)
		case OutsideWindow, WaitingForOrder, WaitingForOthers:
		}
		soonest = requeue.Sooner(soonest, s.windowChanges)
	}
	return soonest
}

// maxListed is the number of units that a message names at most.
const maxListed = 3

// list names those of the units that match, in their order. It returns "" if none does.
func (s *selector) list(indexes []int, matches func(index int) bool) string {
	var names []string
	more := 0
	for _, index := range indexes {
		switch {
		case !matches(index):
		case len(names) < maxListed:
			names = append(names, s.units[index].String())
		default:
			more++
		}
	}
	if more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	}
	return strings.Join(names, ", ")
}

// sorted returns the indexes of the units in the order in which they start.
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

// rank returns the position of a unit in the policy's order: that of its kind and name, else that
// of its name, else the position after the last one.
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
