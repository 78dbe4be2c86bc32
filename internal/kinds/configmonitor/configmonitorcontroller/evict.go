package configmonitorcontroller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/configmonitor"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/workload"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// evicting evicts pods before it hands a ConfigMonitor to the loop, which reports. The loop's own effects are children that
// should exist; an eviction is a deed that leaves nothing behind, and what there is to report depends on how it went. So it stands
// before the loop, in the same pass: the loop finds what was done in the context.
type evictor struct {
	report reconcile.Reconciler
	client client.Client
	live   client.Reader
	reader observe.Reader
	clock  clock.PassiveClock
}

// result is what became of the pods. Its zero value is that of a monitor that evicts nothing.
type result struct {
	evictions configmonitor.Evictions
	err       error
}

type resultKey struct{}

// evicted is what became of the pods in this pass.
func evicted(ctx context.Context) result {
	done, _ := ctx.Value(resultKey{}).(result)
	return done
}

// Reconcile evicts what is due, and reports.
func (e *evictor) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var monitor configv1.ConfigMonitor
	if err := e.client.Get(ctx, request.NamespacedName, &monitor); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if monitor.Spec.Strategy != configv1.StrategyEvict || monitor.DeletionTimestamp != nil || (kind{}).Admit(&monitor) != nil {
		return e.report.Reconcile(ctx, request)
	}
	evictions, err := e.evict(ctx, &monitor)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return ctrl.Result{}, err // the monitor is another by now: a report would be of what was
	}
	return e.report.Reconcile(context.WithValue(ctx, resultKey{}, result{evictions, err}), request)
}

// evict does what is due for one monitor. The record is written before the first pod goes.
func (e *evictor) evict(ctx context.Context, monitor *configv1.ConfigMonitor) (configmonitor.Evictions, error) {
	source, err := e.reader.Source(ctx, monitor.Namespace, workload.SourceOfMonitor(&monitor.Spec))
	if err != nil {
		return configmonitor.Evictions{}, err
	}
	record, now := configmonitor.ParseRecord(monitor.Annotations[configv1.AnnotationEvicted]), e.clock.Now()
	if atRest, rests := configmonitor.Rest(&monitor.Spec, source, record, now); rests {
		return atRest, nil
	}
	pods, err := e.listPods(ctx, monitor)
	if err != nil {
		return configmonitor.Evictions{Record: record}, err
	}
	evictions := configmonitor.DecideEvictions(&monitor.Spec, source, record, pods, now)
	if err := e.writeRecord(ctx, monitor, evictions.Record); err != nil {
		return evictions, err
	}
	gone, err := e.evictPods(ctx, monitor.Namespace, &evictions)
	if gone > 0 && errclass.Of(err) == errclass.Transient {
		// The status has it. To wait for as long as for what can't be done at all would hold up those whose turn is next.
		log.FromContext(ctx).Error(err, "Some pods could not be evicted; they are tried again")
		err = nil
	}
	evictions.Record = evictions.Record.AfterEvicting(gone, e.clock.Now())
	if written := e.writeRecord(ctx, monitor, evictions.Record); written != nil {
		return evictions, errors.Join(err, written)
	}
	return evictions, err
}

// pageSize is how many pods are asked for at a time.
const pageSize = 500

// listPods asks the API server for the pods that a monitor selects. They are not cached: there is nothing to do with them most
// of the time.
//
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
func (e *evictor) listPods(ctx context.Context, monitor *configv1.ConfigMonitor) ([]corev1.Pod, error) {
	var pods []corev1.Pod
	page := &corev1.PodList{}
	for {
		err := e.live.List(ctx, page, client.InNamespace(monitor.Namespace), client.MatchingLabels(monitor.Spec.PodSelector),
			client.Limit(pageSize), client.Continue(page.Continue))
		if err != nil {
			return nil, fmt.Errorf("listing the pods that are selected: %w", err)
		}
		pods = append(pods, page.Items...)
		if page.Continue == "" {
			return pods, nil
		}
		page = &corev1.PodList{ListMeta: metav1.ListMeta{Continue: page.Continue}}
	}
}

// writeRecord stores the record, unless it is stored already, and waits until the cache shows it. It fails with a conflict if
// the monitor has changed since it was read.
//
// +kubebuilder:rbac:groups=config.mainstay.dev,resources=configmonitors,verbs=patch
func (e *evictor) writeRecord(ctx context.Context, monitor *configv1.ConfigMonitor, record configmonitor.Record) error {
	if monitor.Annotations[configv1.AnnotationEvicted] == record.String() {
		return nil
	}
	before := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: configv1.GroupVersion.String(), Kind: configmonitor.Kind}}
	before.SetNamespace(monitor.Namespace)
	before.SetName(monitor.Name)
	before.SetResourceVersion(monitor.ResourceVersion)
	after := before.DeepCopy()
	after.SetAnnotations(map[string]string{configv1.AnnotationEvicted: record.String()})
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := e.client.Patch(ctx, after, patch, client.FieldOwner(naming.Manager(configmonitor.Controller))); err != nil {
		return fmt.Errorf("writing down for which content pods are evicted: %w", err)
	}
	monitor.ResourceVersion, monitor.Annotations = after.ResourceVersion, after.Annotations
	return children.Await(ctx, e.client, &configv1.ConfigMonitor{ObjectMeta: metav1.ObjectMeta{Namespace: monitor.Namespace,
		Name: monitor.Name}}, after.ResourceVersion)
}

// evictionLimit bounds one eviction. Where a PodDisruptionBudget is not up to date the API server asks to wait for ten seconds, and
// the client would, each time.
const evictionLimit = 5 * time.Second

// What is told of pods that do not go now. The API server's own words name a PodDisruptionBudget only sometimes.
const (
	heldByBudget = "a PodDisruptionBudget does not allow it now: it is asked again"
	overdue      = "the API server did not answer within %s, as while the counts of a PodDisruptionBudget are not up to date: it is asked again"
	waitsForIt   = "waits its turn: the API server does not answer to the eviction of Pod/%s"
	waitsForMany = "waits its turn: %d evictions failed, the last one of Pod/%s"
)

// maxFailed is how many evictions may fail in one pass: where a right is missing, or the network, they all do.
const maxFailed = 10

// evictPods asks for the evictions, and returns how many there were. What a PodDisruptionBudget does not allow is noted, and so is what fails:
// another pod goes in its place, and the errors are returned at the end. An answer that does not come ends it: to wait as long for
// each would keep others waiting.
func (e *evictor) evictPods(ctx context.Context, namespace string, evictions *configmonitor.Evictions) (int, error) {
	gone := 0
	var failed failures
	queue := slices.Clone(evictions.Evict)
	hold := func(format string, values ...any) {
		for _, later := range queue {
			evictions.BlockedByOthers(later, fmt.Sprintf(format, values...))
		}
	}
	for len(queue) > 0 {
		victim := queue[0]
		queue = queue[1:]
		switch err := e.evictPod(ctx, namespace, victim); {
		case err == nil:
			gone++
			log.FromContext(ctx).Info("Evicted a pod", "pod", victim.Name)
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			// It has gone by itself, or another has its name now.
		case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
			evictions.BlockedByBudget(victim, heldByBudget)
		case isOverdue(ctx, err):
			evictions.BlockedByBudget(victim, fmt.Sprintf(overdue, evictionLimit))
			hold(waitsForIt, victim.Name)
			return gone, failed.err()
		default:
			failed = append(failed, fmt.Errorf("evicting Pod %s: %w", victim.Name, err))
			evictions.BlockedByFailure(victim, errclass.Sentence(err))
			if len(failed) == maxFailed || ctx.Err() != nil {
				hold(waitsForMany, len(failed), victim.Name)
				return gone, failed.err()
			}
			if next, waits := evictions.Replace(); waits {
				queue = append(queue, next)
			}
		}
	}
	return gone, failed.err()
}

// failures are the errors of several evictions. Their text reaches a condition: it is one line, and as long as three at most.
type failures []error

// maxTold is how many of them are told.
const maxTold = 3

// err is nil if there were none.
func (f failures) err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// Error tells the first few.
func (f failures) Error() string {
	var told []string
	for _, one := range f[:min(len(f), maxTold)] {
		told = append(told, errclass.Sentence(one))
	}
	text := strings.Join(told, "; ")
	if more := len(f) - len(told); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// Unwrap gives all of them.
func (f failures) Unwrap() []error { return f }

// isOverdue tells that an eviction took too long, and not that the manager stops.
func isOverdue(ctx context.Context, err error) bool {
	return errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
}

// evictPod evicts one pod, and no other that has its name by now.
//
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
func (e *evictor) evictPod(ctx context.Context, namespace string, victim configmonitor.Victim) error {
	ctx, cancel := context.WithTimeout(ctx, evictionLimit)
	defer cancel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: victim.Name}}
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: namespace, Name: victim.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &victim.UID}},
	}
	return e.client.SubResource("eviction").Create(ctx, pod, eviction)
}
