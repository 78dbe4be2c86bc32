// Package workloadcontroller restarts workloads whose configuration has changed. It is the only
// controller that does, for the demands of our kinds and of annotations alike, so that several of
// them cause one restart.
//
// It reconciles a namespace at a time: on any change there, it decides about the whole namespace
// anew, in memory, and makes the writes concurrently. Its memory is on the workloads
// (workload.Stamp), so that it continues where another process was stopped.
package workloadcontroller

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mainstay-platform/mainstay/api"
	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/apply"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
	"github.com/mainstay-platform/mainstay/internal/workload"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// retrySoon is how soon a failure is retried if something else is due by time. The queue's backoff,
// which goes up to five minutes, would delay that too.
const retrySoon = 10 * time.Second

// lookUnobserved is how soon to look again at a workload whose controller has not observed its last
// change. No event says when it has: the status updates of rollouts are dropped.
const lookUnobserved = time.Second

// lookRefused is how soon to decide again after the first refusal of a restart: another workload
// may get the place that it took.
const lookRefused = time.Second

// controllerName is the name of the one controller for workloads.
const controllerName = "workload"

// Reasons of events on workloads.
const (
	// reasonRestarted: its pods are being replaced, because the configuration that they use has
	// changed.
	reasonRestarted = "ConfigurationChanged"
	// reasonRefused: the API server, or a policy, does not allow the restart.
	reasonRefused = "RestartRefused"
	// reasonAnnotation: an annotation is invalid.
	reasonAnnotation = "InvalidAnnotation"
)

// reconciler reconciles one namespace.
type reconciler struct {
	applier  *apply.Applier
	reader   observe.Reader
	recorder events.EventRecorder
	clock    clock.PassiveClock
	rolling  *rolling
	missing  *missing
	// notGranted is about Secrets that may not be read.
	notGranted *missing
}

// Reconcile reconciles the namespace that is the request's name. A failure is retried when
// something else is due, without the queue's backoff; it still counts as a failure in the metrics.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	done := r.measured(ctx, request.Name)
	if errclass.IsShutdown(done.err) || errclass.Of(done.err) == errclass.Gone {
		return ctrl.Result{}, nil
	}
	switch {
	case done.err == nil:
		return ctrl.Result{RequeueAfter: done.requeueAfter()}, nil
	case done.due == 0:
		return ctrl.Result{}, done.err
	default:
		log.FromContext(ctx).Error(done.err, "Reconcile incomplete, retrying")
		return ctrl.Result{RequeueAfter: min(retrySoon, done.requeueAfter())}, nil
	}
}

// measured reconciles a namespace, and counts that, as a panic unless it returns.
func (r *reconciler) measured(ctx context.Context, namespace string) result {
	start, how := r.clock.Now(), metrics.Panicked
	defer func() {
		metrics.Reconciled(metrics.Pass{Kind: metrics.KindWorkload, Namespace: namespace, Result: how, Took: r.clock.Since(start)})
	}()
	done := r.reconcile(ctx, namespace)
	how = done.result()
	return done
}

// result is the result of reconciling a namespace.
type result struct {
	// writes is the number of writes in the plan.
	writes int
	// refused reports that the API server refused a write.
	refused bool
	// due is after how long something is due by time alone; 0 if nothing is.
	due time.Duration
	// err is the errors that are not refusals.
	err error
}

// requeueAfter returns when to reconcile again without an event; 0 means not at all.
func (p result) requeueAfter() time.Duration {
	if !p.refused {
		return p.due
	}
	poll := errclass.SlowPoll()
	if p.due == 0 {
		return poll
	}
	return min(poll, p.due)
}

// result returns the result for the metrics.
func (p result) result() metrics.Result {
	switch class := errclass.Of(p.err); {
	case errclass.IsShutdown(p.err), class == errclass.Gone:
		return metrics.Stopped
	case apierrors.IsConflict(p.err):
		return metrics.Conflict
	case class != errclass.None:
		return metrics.Result(class)
	case p.refused:
		return metrics.Blocked
	case p.writes > 0:
		return metrics.Changed
	default:
		return metrics.Unchanged
	}
}

// reconcile observes, decides and writes.
func (r *reconciler) reconcile(ctx context.Context, namespace string) result {
	snapshot, err := r.reader.Snapshot(ctx, namespace)
	if err != nil {
		return result{err: err}
	}
	plan := workload.Decide(snapshot, r.clock.Now())
	isPending, unread := r.reader.ReadTemplates(ctx, namespace, snapshot.Targets, plan.Ask)
	var unobserved time.Duration
	if isPending {
		unobserved = lookUnobserved
	}
	if len(plan.Ask) > 0 {
		plan = workload.Decide(snapshot, r.clock.Now())
	}
	r.rolling.observe(namespace, snapshot, plan, r.clock.Now())
	written, err := r.applyPlan(ctx, namespace, snapshot, plan)
	due := requeue.Sooner(plan.RequeueAfter, r.recordMissing(namespace, &snapshot))
	r.recordNotGranted(namespace, &snapshot)
	due = requeue.Sooner(requeue.Sooner(due, written.SlowedFor), unobserved)
	if r.rememberRefusals(namespace, &snapshot, plan, written) {
		due = requeue.Sooner(due, lookRefused)
	}
	return result{writes: len(plan.Patches), refused: len(written.Refused) > 0, due: due, err: errors.Join(unread, err)}
}

// applyPlan makes the writes of a plan. A failed write does not stop the others. A refusal is
// reported as an event and retried slowly; other errors are returned. So is a workload on which
// someone else undoes our annotation again and again.
func (r *reconciler) applyPlan(ctx context.Context, namespace string, snapshot workload.Snapshot,
	restarts workload.RestartPlan) (plan.Result, error) {
	patches := make([]plan.Patch, len(restarts.Patches))
	for i, patch := range restarts.Patches {
		patches[i] = patchOf(namespace, &snapshot.Targets[patch.Target], patch)
	}
	written := func(i int, _ *metav1.PartialObjectMetadata, _ plan.Object) {
		if restarts.Patches[i].RestartedFor != "" {
			r.recordRestart(ctx, namespace, &snapshot, restarts.Patches[i])
		}
	}
	result, failures := r.applier.Patch(ctx, naming.Manager(controllerName), patches, written)
	for i, patch := range restarts.Patches {
		if why, isRefused := result.Refused[patches[i].Ref]; isRefused {
			r.recorder.Eventf(observe.ObjectOf(&snapshot.Targets[patch.Target], namespace), nil, corev1.EventTypeWarning, reasonRefused, "Restart",
				"%s", why)
		}
		for _, contest := range result.Contested {
			if contest.Ref == patches[i].Ref {
				metrics.Contested(metrics.KindWorkload, namespace)
				r.recorder.Eventf(observe.ObjectOf(&snapshot.Targets[patch.Target], namespace), nil, corev1.EventTypeWarning, api.ReasonContested,
					"Reconcile", "%s is put back at most once a minute: it is changed again and again by %s", configv1.AnnotationObserved,
					cmp.Or(contest.By, "an unknown field manager"))
			}
		}
	}
	return result, errors.Join(failures...)
}

// rememberRefusals remembers which restarts the API server refuses, for the next decisions and for
// the statuses of what demands them. It reports whether one of them is new.
func (r *reconciler) rememberRefusals(namespace string, snapshot *workload.Snapshot, restarts workload.RestartPlan,
	written plan.Result) bool {
	answers := workload.Answers{Refused: map[int]string{}, Written: map[int]bool{}}
	for _, patch := range restarts.Patches {
		ref := refOf(namespace, &snapshot.Targets[patch.Target])
		if why, isRefused := written.Refused[ref]; isRefused && patch.RestartedFor != "" {
			answers.Refused[patch.Target] = why
		}
		answers.Written[patch.Target] = slices.Contains(written.Patched, ref)
	}
	refused, isNew := restarts.Refusals(snapshot, answers, r.clock.Now())
	r.reader.Refusals.Set(namespace, snapshot.Targets, refused)
	return isNew
}

// recordRestart reports in an event, a log line and metrics that a workload restarts, and why.
func (r *reconciler) recordRestart(ctx context.Context, namespace string, snapshot *workload.Snapshot, patch workload.TargetPatch) {
	target := &snapshot.Targets[patch.Target]
	var because []string
	since := r.clock.Now()
	for _, source := range patch.Because {
		because = append(because, source.String())
		if changed := snapshot.Sources[source].Changed; changed.Before(since) {
			since = changed
		}
	}
	metrics.Restarted(namespace)
	r.rolling.restarted(namespace, target.Ref, since)
	log.FromContext(ctx).Info("Restarting a workload", "workload", target.Ref.String(), "because", because, "for", patch.For)
	r.recorder.Eventf(observe.ObjectOf(target, namespace), nil, corev1.EventTypeNormal, reasonRestarted, "Restart",
		"%s changed: replacing the pods, as requested by %s", strings.Join(because, ", "), strings.Join(patch.For, ", "))
}

// patchOf returns one patch for the stamp and the restart.
func patchOf(namespace string, target *workload.Target, patch workload.TargetPatch) plan.Patch {
	var observed any // nil deletes it
	if patch.Observed != "" {
		observed = patch.Observed
	}
	content := plan.Annotation(configv1.AnnotationObserved, observed)
	if patch.RestartedFor != "" {
		content["spec"] = map[string]any{"template": plan.Annotation(configv1.AnnotationRestartedFor, patch.RestartedFor)}
	}
	return plan.Patch{
		Ref:        refOf(namespace, target),
		APIVersion: appsv1.SchemeGroupVersion.String(), UID: target.UID, Merge: content, Purpose: patch.Purpose(),
	}
}

// refOf returns the name of a target's object.
func refOf(namespace string, target *workload.Target) plan.Ref {
	return plan.Ref{Group: appsv1.GroupName, Kind: target.Ref.Kind, Namespace: namespace, Name: target.Ref.Name}
}
