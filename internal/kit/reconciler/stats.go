package reconciler

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/trace"
)

// stats is what one reconcile did, for metrics and logs. It decides nothing.
type stats struct {
	kind   string
	object Object
	// reported is the object with the new status; nil while there is none.
	reported Object
	span     trace.Span
	clock    clock.PassiveClock
	start    time.Time
	// changes is the number of writes.
	changes int
	// failure is the error, also an error that is reported in the status and not returned.
	failure error
	// refused reports that the API server refused a write to an object of another owner.
	refused bool
	// unwritten reports that a write to such an object failed for a reason that may pass.
	unwritten bool
	// ended reports that nothing panicked.
	ended bool
}

// begin records the start of a reconcile. The log never has more of an object than its name.
func (r *Reconciler[T, O, D]) begin(ctx context.Context, stored T, span trace.Span) *stats {
	kind := r.Name
	if known, err := r.Client.GroupVersionKindFor(stored); err == nil {
		kind = known.Kind
	}
	if logger := log.FromContext(ctx).V(1); logger.Enabled() {
		logger.Info("Reconciling", described(stored, stored)...)
	}
	span.Object(kind, stored.GetNamespace(), stored.GetName(), stored.GetGeneration())
	return &stats{kind: kind, object: stored, span: span, clock: r.Clock, start: r.Clock.Now()}
}

// described returns what the log says of an object as it was read, with the phase and the counts of
// a status: the stored one, or a newer one.
func described(stored, status Object) []any {
	values := []any{"generation", stored.GetGeneration(), "resourceVersion", stored.GetResourceVersion(), "phase", status.GetPhase()}
	if counting, ok := status.(Counting); ok {
		desired, ready := counting.GetCounts()
		values = append(values, "desired", desired, "ready", ready)
	}
	return values
}

// applied records the result of a plan.
func (p *stats) applied(result plan.Result, err error) {
	p.changes += len(result.Changes) + len(result.Patched)
	p.refused, p.unwritten = len(result.Refused) > 0, len(result.Unwritten) > 0
	p.failure = err
	for range result.Contested {
		metrics.Contested(p.kind, p.object.GetNamespace())
	}
}

// wroteStatus records that the status was stored, and counts what it reports for the first time.
func (p *stats) wroteStatus(stored, reported Object) {
	p.changes++
	if first := reported.GetFirstReadyTime(); first != nil && stored.GetFirstReadyTime() == nil && isReady(reported) {
		metrics.BecameReady(p.kind, stored.GetNamespace(), max(0, first.Sub(stored.GetCreationTimestamp().Time)))
	}
	if denied := denial(reported); denied != nil {
		if before := denial(stored); before == nil || before.ObservedGeneration != denied.ObservedGeneration {
			metrics.Denied(p.kind, stored.GetNamespace(), metrics.ByController)
		}
	}
}

func isReady(object Object) bool {
	return meta.IsStatusConditionTrue(object.GetConditions(), conditions.Ready)
}

// denial returns the condition of an object that policies refuse; nil for any other object.
func denial(object Object) *metav1.Condition {
	found := meta.FindStatusCondition(object.GetConditions(), api.ConditionPolicyViolation)
	if found == nil || found.Reason != api.ReasonPolicyViolation {
		return nil
	}
	return found
}

// returned records the error that the reconcile returns; nil for none.
func (p *stats) returned(err error) {
	if err != nil {
		p.failure = err
	}
	p.ended = true
}

// end records the reconcile in metrics, the log and the span. It is deferred, so that it counts
// panics too.
func (p *stats) end(ctx context.Context) {
	took, result := p.clock.Since(p.start), p.result()
	metrics.Reconciled(metrics.Pass{Kind: p.kind, Namespace: p.object.GetNamespace(), Result: result, Took: took})
	if logger := log.FromContext(ctx).V(1); logger.Enabled() {
		known := p.object
		if p.reported != nil {
			known = p.reported
		}
		logger.Info("Reconciled", append(described(p.object, known), "duration", took.String(), "result", string(result))...)
	}
	p.span.Result(string(result))
	p.span.End(p.failure)
}

// result returns the label result of a finished reconcile. The first case that applies counts.
func (p *stats) result() metrics.Result {
	switch class := errclass.Of(p.failure); {
	case !p.ended:
		return metrics.Panicked
	case class == errclass.None && p.unwritten:
		return metrics.Transient
	case class == errclass.None && p.refused:
		return metrics.Blocked
	case class == errclass.None && p.changes > 0:
		return metrics.Changed
	case class == errclass.None:
		return metrics.Unchanged
	case errclass.IsShutdown(p.failure), class == errclass.Gone:
		return metrics.Stopped
	case apierrors.IsConflict(p.failure):
		return metrics.Conflict
	default:
		return metrics.Result(class)
	}
}
