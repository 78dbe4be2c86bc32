package appstack

import (
	"fmt"

	"github.com/mainstay-platform/mainstay/api"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
)

// rules are what may be said about an AppStack. The first one that applies counts.
var rules = []summary.Rule[*subject]{
	summary.When(summary.UnderWay, api.ReasonDeleting, deleting),
	summary.When(summary.Stalled, api.ReasonConflict, foreignInTheWay),
	summary.When(summary.Degraded, platformv1.ReasonComponentFailed, failed),
	summary.When(summary.Waiting, platformv1.ReasonPausedByUser, withheld),
	summary.When(summary.UnderWay, platformv1.ReasonDeploying, deploying),
	summary.When(summary.Working, platformv1.ReasonAvailable, available),
}

// summarize returns the summary. Refusals of single components are reported as their failures.
func (s *subject) summarize() summary.Summary {
	if failure := s.result.Failure; failure != nil && (len(s.result.Refusals) == 0 || failure.Transient) {
		return summary.OfFailure(*failure)
	}
	return summary.First(s, rules)
}

func deleting(s *subject) string {
	if !s.isGoing() {
		return ""
	}
	if len(s.holders) > 0 {
		return "components are being deleted, in reverse order: " + conditions.FirstFew(s.holders, "; ")
	}
	return fmt.Sprintf("components are being deleted, in reverse order: %d are left", s.existing)
}

func foreignInTheWay(s *subject) string {
	refs := s.result.Conflicts
	if len(refs) == 0 {
		return ""
	}
	return fmt.Sprintf("%s exists and was not created by this AppStack: delete it, rename the component, or allow taking it over with: %s",
		plan.Join(refs), plan.AdoptCommand(refs, Kind+"/"+s.stack.Name))
}

func failed(s *subject) string {
	first := s.firstFailed()
	if first == nil {
		return ""
	}
	return fmt.Sprintf("component %s (%s %s): %s: %s", first.Name, first.Kind, first.Object, first.Reason, first.Message)
}

func withheld(s *subject) string {
	var names []string
	for _, c := range s.components {
		if c.Phase == platformv1.ComponentPaused {
			names = append(names, c.Kind+" "+c.Object)
		}
	}
	return summary.If(len(names) > 0, "spec.paused is true and withholds a change of %s: see status.components[].plan",
		conditions.FirstFew(names, ", "))
}

func deploying(s *subject) string {
	under, waits := s.named(platformv1.ComponentProgressing, platformv1.ComponentDeleting), s.named(platformv1.ComponentWaiting)
	switch {
	case under != "" && waits != "":
		return fmt.Sprintf("under way: %s; waiting: %s", under, waits)
	case under != "":
		return "under way: " + under
	case waits != "":
		return "waiting: " + waits
	}
	return ""
}

func available(s *subject) string {
	return fmt.Sprintf("%d of %d components are ready", s.ready, len(s.stack.Spec.Components))
}
