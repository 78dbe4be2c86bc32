package workload

import (
	"slices"
	"time"

	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
)

// Refusal is the API server's answer to the last attempt to restart a workload: its own validation,
// an admission policy, a quota or a missing right does not allow it. The zero value means that none
// was refused.
type Refusal struct {
	// Message is the answer.
	Message string
	// At is when it was given.
	At time.Time
}

// Answers are what became of the patches of a plan, by the index of the target.
type Answers struct {
	// Refused has the API server's answer for each restart that it refused.
	Refused map[int]string
	// Written are the targets whose patch was written.
	Written map[int]bool
}

// Refusals returns which refusals are to be remembered after a plan was carried out, by the index
// of the target: those of this time, and earlier ones of restarts that are still due and were not
// tried. isNew reports that one was not known when the plan was made: other workloads may get the
// place that it took.
func (p RestartPlan) Refusals(snapshot *Snapshot, answers Answers, now time.Time) (kept map[int]Refusal, isNew bool) {
	kept = map[int]Refusal{}
	for _, index := range p.Pending {
		before := snapshot.Targets[index].Refusal
		message, isRefused := answers.Refused[index]
		switch {
		case isRefused:
			kept[index], isNew = Refusal{Message: short(message), At: now}, isNew || before.At.IsZero()
		case !before.At.IsZero() && !answers.Written[index]:
			kept[index] = before
		}
	}
	return kept, isNew
}

// isRefused reports whether a due restart of the target is refused, as far as is known: nothing but
// other workloads, which get their places first, keeps it from being tried again.
func (t *Target) isRefused(blockers []blocker) bool {
	return !t.Refusal.At.IsZero() && !slices.ContainsFunc(blockers, func(b blocker) bool {
		return b.reason != string(rollout.WaitingForOthers)
	})
}
