package agentrollout

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
)

const (
	// firstRepeat and lastRepeat limit how long a grant waits that could not be written: as long as
	// the reconciler waits after a refusal.
	firstRepeat = 2 * time.Second
	lastRepeat  = time.Minute
)

// FailedGrant is a grant that could not be written.
type FailedGrant struct {
	// Grant is that grant. Its Attempts are those that failed in a row.
	Grant injection.Grant
	// Message says why it could not be written.
	Message string
	// IsRefused reports that the API server refused it.
	IsRefused bool
}

// FailedGrants are the last grants of one agent that could not be written, by the UID of the
// workload. The workload itself does not record them.
type FailedGrants map[types.UID]FailedGrant

// FailureOf returns a grant that could not be written now, for the FailedGrants of later
// assessments.
func (a *Assessment) FailureOf(write GrantWrite, message string, isRefused bool) FailedGrant {
	last := a.FailedGrants[a.seen[write.Index].UID].Grant
	now := a.now.Truncate(time.Second) // as in the annotation, with which it is compared
	return FailedGrant{Grant: after(last, write.Grant.Revision, now), Message: message, IsRefused: isRefused}
}

// failedGrant returns the last grant of a revision to a workload that could not be written, and
// after how long it is repeated: 2 s, 4 s, ... 1 min. It returns nil if there is none, if the
// workload has a later one, or if the last attempt was long ago.
func (a *Assessment) failedGrant(s *WorkloadAssessment, revision string) (*FailedGrant, time.Duration) {
	last, isKnown := a.FailedGrants[a.seen[s.Index].UID]
	at := last.Grant.At
	isShown := s.grant.Revision == revision && !s.grant.At.Before(at)
	if !isKnown || last.Grant.Revision != revision || isShown || a.now.Sub(at) > 2*lastRetry {
		return nil, 0
	}
	wait := min(firstRepeat<<min(max(last.Grant.Attempts-1, 0), 5), lastRepeat)
	return &last, max(0, min(wait, at.Add(wait).Sub(a.now)))
}

// delay postpones a grant that could not be written. Until it is repeated, the status says why.
func (d *decider) delay(s *WorkloadAssessment, failed *FailedGrant, wait time.Duration) {
	if d.Delayed == nil {
		d.Delayed = map[int]FailedGrant{}
	}
	d.Delayed[s.Index] = *failed
	d.requeueIn(wait)
}

// next returns which units get the revision now. Those whose grant could not be written do not
// count for maxParallel, and are tried again only when no other may begin: otherwise they would
// block the others for ever. Of them, those that have waited longest come first, unless the policy
// requires that another begins before.
func (d *decider) next(policy rolloutv1.Policy) (answer rollout.Selection, err error) {
	var due []int
	for i, s := range d.at {
		failed, wait := d.failedGrant(s, d.agent.Revision)
		if failed == nil || d.units[i].State != rollout.Pending {
			continue
		}
		d.units[i].State = rollout.Suspended
		d.delay(s, failed, wait)
		if wait == 0 {
			due = append(due, i)
		}
	}
	lastTried := func(i int) time.Time { return d.Delayed[d.at[i].Index].Grant.At }
	slices.SortStableFunc(due, func(x, y int) int { return lastTried(x).Compare(lastTried(y)) })
	longest := due
	if limit := policy.MaxParallel; limit != nil {
		longest = due[:min(len(due), int(*limit))]
	}
	for _, retried := range [][]int{nil, longest, due} {
		for _, i := range retried {
			d.units[i].State = rollout.Pending
		}
		answer, err = rollout.Next(d.units, policy, d.now)
		if err != nil || len(answer.Go) > 0 || len(due) == 0 {
			break
		}
	}
	return answer, err
}
