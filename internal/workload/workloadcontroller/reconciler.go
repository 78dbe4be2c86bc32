// Package workloadcontroller restarts workloads whose configuration has changed. It is the only
// controller that does, for AppConfigs, ConfigMonitors and annotations alike, so that several of
// them cause one restart.
//
// It reconciles a namespace at a time: on any change there, it decides about the whole namespace
// anew, in memory, and makes the writes concurrently. Its memory is on the workloads
// (workload.Stamp), so that it continues where another process was stopped.
package workloadcontroller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/workload"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

const (
	// patchLimit is the timeout of one patch. A webhook of the cluster that does not answer must not
	// delay a whole namespace.
	patchLimit = 10 * time.Second
	// retrySoon is how soon a failure is retried if something else is due by time. The queue's
	// backoff, which goes up to five minutes, would delay that too.
	retrySoon = 10 * time.Second
)

// controllerName is the name of the one controller for workloads.
const controllerName = "workload"

// atOnce is how many workloads of a namespace are patched concurrently: more than the API server of
// a small cluster can use.
const atOnce = 16

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
	client   client.Client
	reader   observe.Reader
	recorder events.EventRecorder
	clock    clock.PassiveClock
	rolling  *rolling
}

// Reconcile reconciles the namespace that is the request's name. A failure is retried when
// something else is due, without the queue's backoff; it still counts as a failure in the metrics.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	start := r.clock.Now()
	done := r.reconcile(ctx, request.Name)
	metrics.Reconciled(metrics.Pass{Kind: metrics.KindWorkload, Namespace: request.Name, Result: done.result(), Took: r.clock.Since(start)})
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
	var unknown []error
	for _, index := range plan.Ask {
		made, err := r.reader.TemplateTime(ctx, namespace, &snapshot.Targets[index])
		if err != nil {
			unknown = append(unknown, err)
			continue
		}
		snapshot.Targets[index].Template = &made
	}
	if len(plan.Ask) > 0 {
		plan = workload.Decide(snapshot, r.clock.Now())
	}
	r.rolling.observe(namespace, snapshot, plan, r.clock.Now())
	refused, err := r.applyPlan(ctx, namespace, snapshot, plan)
	return result{writes: len(plan.Patches), refused: refused, due: plan.RequeueAfter, err: errors.Join(append(unknown, err)...)}
}

// applyPlan makes the writes of a plan. A failed write does not stop the others. A refusal is
// reported as an event and retried slowly; other errors are returned.
func (r *reconciler) applyPlan(ctx context.Context, namespace string, snapshot workload.Snapshot, plan workload.RestartPlan) (refused bool,
	err error) {
	failures := make([]error, len(plan.Patches))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range plan.Patches {
		group.Go(func() error {
			failures[i] = r.patch(ctx, namespace, &snapshot, plan.Patches[i])
			return nil
		})
	}
	_ = group.Wait() // each failure is in failures
	var transient []error
	for i, failure := range failures {
		if failure == nil {
			continue
		}
		target := &snapshot.Targets[plan.Patches[i].Target]
		switch errclass.Of(failure) {
		case errclass.Gone:
		case errclass.Blocked:
			refused = true
			r.recorder.Eventf(metadataOf(namespace, target), nil, corev1.EventTypeWarning, reasonRefused, "Restart", "%s",
				errclass.Sentence(failure))
		default:
			transient = append(transient, fmt.Errorf("patching %s %s: %w", target.Ref, namespace, failure))
		}
	}
	return refused, errors.Join(transient...)
}

// patch writes to one workload, and waits until the cache shows it: the next reconcile must not see
// the state from before.
func (r *reconciler) patch(ctx context.Context, namespace string, snapshot *workload.Snapshot, patch workload.TargetPatch) error {
	ctx, cancel := context.WithTimeout(ctx, patchLimit)
	defer cancel()
	target := &snapshot.Targets[patch.Target]
	body, err := json.Marshal(mergePatch(target.UID, patch))
	if err != nil {
		return err
	}
	written := metadataOf(namespace, target)
	err = r.client.Patch(ctx, written, client.RawPatch(types.MergePatchType, body), client.FieldOwner(naming.Manager(controllerName)))
	switch {
	case apierrors.IsNotFound(err):
		return nil // it is gone, and the watch will report it
	case err != nil:
		return err
	}
	if patch.RestartedFor != "" {
		r.recordRestart(ctx, namespace, snapshot, patch)
	}
	return children.Await(ctx, r.client, observe.EmptyWorkload(target.Ref.Kind, namespace, target.Ref.Name), written.GetResourceVersion())
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
	r.recorder.Eventf(metadataOf(namespace, target), nil, corev1.EventTypeNormal, reasonRestarted, "Restart",
		"%s changed: replacing the pods, as requested by %s", strings.Join(because, ", "), strings.Join(patch.For, ", "))
}

// mergePatch returns one patch for the stamp and the restart. It fails if the workload is not the
// one that was observed.
func mergePatch(uid types.UID, patch workload.TargetPatch) map[string]any {
	annotation := func(key string, value any) map[string]any {
		return map[string]any{"annotations": map[string]any{key: value}}
	}
	var observed any
	if patch.Observed != "" {
		observed = patch.Observed
	}
	metadata := annotation(configv1.AnnotationObserved, observed)
	metadata["uid"] = uid
	content := map[string]any{"metadata": metadata}
	if patch.RestartedFor != "" {
		content["spec"] = map[string]any{"template": map[string]any{"metadata": annotation(configv1.AnnotationRestartedFor, patch.RestartedFor)}}
	}
	return content
}

// metadataOf returns what writes and events need of a target.
func metadataOf(namespace string, target *workload.Target) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind(target.Ref.Kind))
	object.SetNamespace(namespace)
	object.SetName(target.Ref.Name)
	object.SetUID(target.UID)
	return object
}
