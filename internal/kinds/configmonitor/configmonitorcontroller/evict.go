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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/configmonitor"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
)

// Act evicts the pods that are due. An eviction is an action, not a child object, and the status
// depends on its result. It writes the record before it evicts the first pod.
func (k kind) Act(ctx context.Context, stored, monitor *configv1.ConfigMonitor, observed configmonitor.Observed,
	decided *configmonitor.Decision) error {
	if decided.Evictions == nil || observed.Pods == nil {
		return nil
	}
	err := k.evict(ctx, stored, monitor, decided.Evictions)
	if class := errclass.Of(err); class == errclass.Transient || class == errclass.Gone {
		return err // a conflict among them: the monitor has changed, and the report would be outdated
	}
	decided.Failure = errclass.Failure(err)
	return nil
}

func (k kind) evict(ctx context.Context, stored, monitor *configv1.ConfigMonitor, evictions *configmonitor.Evictions) error {
	if err := k.writeRecord(ctx, stored, monitor, evictions.Record); err != nil {
		return err
	}
	gone, err := k.evictPods(ctx, monitor.Namespace, evictions)
	if gone > 0 && errclass.Of(err) == errclass.Transient {
		// The status reports it. Waiting as long as for a permanent error would delay the pods that are
		// next.
		log.FromContext(ctx).Error(err, "Some pods could not be evicted; retrying")
		err = nil
	}
	evictions.Record = evictions.Record.AfterEvicting(gone, k.clock.Now())
	if written := k.writeRecord(ctx, stored, monitor, evictions.Record); written != nil {
		return errors.Join(err, written)
	}
	return err
}

// pageSize is how many pods are listed per request.
const pageSize = 500

// listPods lists the pods that a monitor selects, from the API server. They are not cached, because
// they are needed only rarely.
//
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
func (k kind) listPods(ctx context.Context, monitor *configv1.ConfigMonitor) ([]corev1.Pod, error) {
	var pods []corev1.Pod
	page := &corev1.PodList{}
	for {
		err := k.live.List(ctx, page, client.InNamespace(monitor.Namespace), client.MatchingLabels(monitor.Spec.PodSelector),
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

// writeRecord stores the record, unless it is stored already, and waits until the cache shows it.
// It returns a conflict if the monitor has changed since it was read.
//
// +kubebuilder:rbac:groups=config.mainstay.dev,resources=configmonitors,verbs=patch
func (k kind) writeRecord(ctx context.Context, stored, monitor *configv1.ConfigMonitor, record configmonitor.Record) error {
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
	if err := k.client.Patch(ctx, after, patch, client.FieldOwner(naming.Manager(configmonitor.Controller))); err != nil {
		return fmt.Errorf("recording the content that pods are evicted for: %w", err)
	}
	monitor.ResourceVersion, monitor.Annotations = after.ResourceVersion, after.Annotations
	return children.Await(ctx, k.client, stored, after.ResourceVersion)
}

// evictionLimit is the timeout of one eviction. If a PodDisruptionBudget's status is not up to
// date, the API server asks the client to retry after ten seconds, and client-go would do so each
// time.
const evictionLimit = 5 * time.Second

// Messages about pods that are not evicted now. The API server's own message names a
// PodDisruptionBudget only sometimes.
const (
	budgetForbids = "a PodDisruptionBudget does not allow the eviction now: retrying"
	overdue       = "the API server did not answer within %s, as happens while the counts of a PodDisruptionBudget are not up " +
		"to date: retrying"
	waitsForAnswer   = "waiting: the API server does not answer the eviction of Pod/%s"
	waitsForFailures = "waiting: %d evictions failed, the last one of Pod/%s"
	manyForbidden    = "PodDisruptionBudgets forbid %d evictions now, of this pod or of others: retrying in turns"
)

// evictPods evicts pods, and returns how many it evicted. What a PodDisruptionBudget forbids and
// what fails is recorded in evictions; another pod takes the place of such a one, since a budget
// may never allow it. The errors are returned at the end. Too many refusals or failures end the
// loop, and so does a timeout: waiting as long for each pod would delay other monitors.
func (k kind) evictPods(ctx context.Context, namespace string, evictions *configmonitor.Evictions) (int, error) {
	gone, forbidden := 0, 0
	var failed failures
	queue := slices.Clone(evictions.Evict)
	replace := func() {
		if next, waits := evictions.Replace(); waits {
			queue = append(queue, next)
		}
	}
	skipRest := func(format string, values ...any) {
		for _, later := range queue {
			evictions.BlockedByOthers(later, fmt.Sprintf(format, values...))
		}
	}
	for len(queue) > 0 {
		victim := queue[0]
		queue = queue[1:]
		switch err := k.evictPod(ctx, namespace, victim); {
		case err == nil:
			gone++
			log.FromContext(ctx).Info("Evicted a pod", "pod", victim.Name)
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			// It is gone already, or another pod has its name now.
		case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
			evictions.BlockedByBudget(victim, budgetForbids)
			if forbidden++; forbidden > configmonitor.MaxFailed {
				evictions.BlockedByBudgets(queue, fmt.Sprintf(manyForbidden, forbidden))
				return gone, failed.err()
			}
			replace()
		case isOverdue(ctx, err):
			evictions.BlockedByBudget(victim, fmt.Sprintf(overdue, evictionLimit))
			skipRest(waitsForAnswer, victim.Name)
			return gone, failed.err()
		default:
			failed = append(failed, fmt.Errorf("evicting Pod %s: %w", victim.Name, err))
			evictions.BlockedByFailure(victim, errclass.Sentence(err))
			if len(failed) == configmonitor.MaxFailed || ctx.Err() != nil {
				skipRest(waitsForFailures, len(failed), victim.Name)
				return gone, failed.err()
			}
			replace()
		}
	}
	return gone, failed.err()
}

// failures are the errors of several evictions. Their text is used in a condition: it is one line
// with at most three errors.
type failures []error

// maxListed limits how many of them the text contains.
const maxListed = 3

// err returns nil if there are no failures.
func (f failures) err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// Error returns the first few.
func (f failures) Error() string {
	var texts []string
	for _, one := range f[:min(len(f), maxListed)] {
		texts = append(texts, errclass.Sentence(one))
	}
	text := strings.Join(texts, "; ")
	if more := len(f) - len(texts); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// Unwrap returns all of them.
func (f failures) Unwrap() []error { return f }

// isOverdue reports whether an eviction took too long; false if the manager is stopping.
func isOverdue(ctx context.Context, err error) bool {
	return errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
}

// evictPod evicts one pod, and no later pod with the same name.
//
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
func (k kind) evictPod(ctx context.Context, namespace string, victim configmonitor.Victim) error {
	ctx, cancel := context.WithTimeout(ctx, evictionLimit)
	defer cancel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: victim.Name}}
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: namespace, Name: victim.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &victim.UID}},
	}
	return k.client.SubResource("eviction").Create(ctx, pod, eviction)
}
