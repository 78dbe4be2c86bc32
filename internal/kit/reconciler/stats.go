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

// pass is what one reconcile did, for metrics and logs. It decides nothing.
type stats struct {
	kind   string
	object Object
	span   trace.Span
	clock  clock.PassiveClock
	start  time.Time
	// changes is how many writes there were.
	changes int
	// failure is the error, also one that is told in status and not returned.
	failure error
	// refused tells that the API server did not let us write an object of somebody else's.
	refused bool
	// unmade tells that we could not write such an object, for a reason that may pass.
	unmade bool
	// ended tells that nothing panicked.
	ended bool
}

// begin notes the start of a reconcile. The log never has more of an object than its name.
func (r *Reconciler[T, O, D]) begin(ctx context.Context, stored T, span trace.Span) *stats {
	kind := r.Name
	if known, err := r.Client.GroupVersionKindFor(stored); err == nil {
		kind = known.Kind
	}
	if logger := log.FromContext(ctx).V(1); logger.Enabled() {
		logger.Info("Reconciling", "generation", stored.GetGeneration(), "resourceVersion", stored.GetResourceVersion())
	}
	span.Object(kind, stored.GetNamespace(), stored.GetName(), stored.GetGeneration())
	return &stats{kind: kind, object: stored, span: span, clock: r.Clock, start: r.Clock.Now()}
}

// applied notes what became of a plan.
func (p *stats) applied(result plan.Result, err error) {
	p.changes += len(result.Changes) + len(result.Patched)
	p.refused, p.unmade = len(result.Refused) > 0, len(result.Unwritten) > 0
	p.failure = err
}

// wroteStatus notes that the status was stored, and counts what is told by it and was not before.
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

// denial is the condition of an object that policy keeps from being carried out; nil of any other.
func denial(object Object) *metav1.Condition {
	found := meta.FindStatusCondition(object.GetConditions(), api.ConditionPolicyViolation)
	if found == nil || found.Reason != api.ReasonPolicyViolation {
		return nil
	}
	return found
}

// returned notes the error that the reconcile ends with; nil for none.
func (p *stats) returned(err error) {
	if err != nil {
		p.failure = err
	}
	p.ended = true
}

// end tells metrics, the log and the span. It is deferred, for it counts panics too.
func (p *stats) end(ctx context.Context) {
	took, result := p.clock.Since(p.start), p.result()
	metrics.Reconciled(metrics.Pass{Kind: p.kind, Namespace: p.object.GetNamespace(), Result: result, Took: took})
	if logger := log.FromContext(ctx).V(1); logger.Enabled() {
		logger.Info("Reconciled", "generation", p.object.GetGeneration(), "resourceVersion", p.object.GetResourceVersion(),
			"duration", took.String(), "result", string(result))
	}
	p.span.Result(string(result))
	p.span.End(p.failure)
}

func (p *stats) result() metrics.Result {
	switch class := errclass.Of(p.failure); {
	case !p.ended:
		return metrics.Panicked
	case class == errclass.None && p.unmade:
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
