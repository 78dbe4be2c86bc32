// Package workloadcontroller restarts workloads whose configuration has changed. It is the one controller that does, for AppConfigs,
// ConfigMonitors and annotations alike, so that several of them give one restart.
//
// It works on a namespace at a time: a change of anything there has all of it looked at anew, in memory, and the writes that are due are
// made side by side. What it remembers stands on the workloads (workload.Stamp), so it takes up where another process was stopped.
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
	// patchLimit is how long one patch may take. A webhook of somebody's that does not answer must not hold up a namespace.
	patchLimit = 10 * time.Second
	// retrySoon is how soon what failed is tried again where something else is due by then: the queue's backoff, which goes up to five
	// minutes, would hold that up too.
	retrySoon = 10 * time.Second
)

// controllerName is that of the one controller for workloads.
const controllerName = "workload"

// atOnce is how many workloads of a namespace are patched at the same time: more than the API server of a small cluster answers faster.
const atOnce = 16

// Events on workloads.
const (
	// reasonRestarted: its pods are being replaced, for the configuration that they use has changed.
	reasonRestarted = "ConfigurationChanged"
	// reasonRefused: the API server, or a policy, does not let the workload be restarted.
	reasonRefused = "RestartRefused"
	// reasonAnnotation: an annotation can't be understood.
	reasonAnnotation = "InvalidAnnotation"
)

// reconciler looks at one namespace.
type reconciler struct {
	client   client.Client
	reader   observe.Reader
	recorder events.EventRecorder
	clock    clock.PassiveClock
	rolling  *rolling
}

// Reconcile does what is due in the namespace that the request's name is. What fails while something else is due is tried again
// by then, without the queue's backoff; it counts as failed all the same.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	start := r.clock.Now()
	done := r.reconcile(ctx, request.Name)
	metrics.Reconciled(metrics.Pass{Kind: "Workload", Namespace: request.Name, Result: done.result(), Took: r.clock.Since(start)})
	if errclass.IsShutdown(done.err) || errclass.Of(done.err) == errclass.Gone {
		return ctrl.Result{}, nil
	}
	switch {
	case done.err == nil:
		return ctrl.Result{RequeueAfter: done.requeueAfter()}, nil
	case done.due == 0:
		return ctrl.Result{}, done.err
	default:
		log.FromContext(ctx).Error(done.err, "Not all could be done, and is tried again")
		return ctrl.Result{RequeueAfter: min(retrySoon, done.requeueAfter())}, nil
	}
}

// pass is what became of one look at a namespace.
type result struct {
	// writes is how many there were to make.
	writes int
	// refused tells that the API server did not let one of them be made.
	refused bool
	// due is after how long something is due by time alone; 0 if nothing is.
	due time.Duration
	// err is what could not be done, but for refusals.
	err error
}

// again is after how long to look again without an event; 0 means not at all.
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

// result is how the pass counts.
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

// bring observes, decides and writes.
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
	return result{writes: len(plan.Patches), refused: refused, due: plan.Again, err: errors.Join(append(unknown, err)...)}
}

// carryOut makes the writes of a plan. One that fails keeps no other from being made. What is refused is
// told as an event, and tried again slowly; other errors are returned.
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
	_ = group.Wait() // each failure stands in failures
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

// patch writes to one workload, and waits until the cache shows it: the next look must not take what was before for the present.
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
		return nil // it has gone, and the watch tells
	case err != nil:
		return err
	}
	if patch.RestartedFor != "" {
		r.recordRestart(ctx, namespace, snapshot, patch)
	}
	return children.Await(ctx, r.client, observe.EmptyWorkload(target.Ref.Kind, namespace, target.Ref.Name), written.GetResourceVersion())
}

// tell says that a workload restarts, and why.
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
		"%s changed: the pods are replaced, as %s asks", strings.Join(because, ", "), strings.Join(patch.For, ", "))
}

// mergePatch is one write for the stamp and the restart. It fails where the workload is not the one that was looked at.
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

// metadataOf is a target as far as writes and events need it.
func metadataOf(namespace string, target *workload.Target) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind(target.Ref.Kind))
	object.SetNamespace(namespace)
	object.SetName(target.Ref.Name)
	object.SetUID(target.UID)
	return object
}
