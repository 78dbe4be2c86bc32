package instrumentationcontroller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/agentrollout"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// manyWatched is the number of workloads per namespace up to which pods are listed per workload.
// Above it, all pods of the namespace are listed once.
const manyWatched = 3

// watch reads the pods of workloads that run what is injected now, and sets the problem and ready
// time of each assessment.
func (r *Reader) watch(ctx context.Context, assessments []*agentrollout.WorkloadAssessment, found []seen) error {
	within := map[string][]*agentrollout.WorkloadAssessment{}
	for _, assessed := range assessments {
		namespace := found[assessed.Index].Namespace
		within[namespace] = append(within[namespace], assessed)
	}
	for namespace, some := range within {
		var all []corev1.Pod
		if len(some) > manyWatched {
			var err error
			if all, err = r.pods(ctx, namespace, labels.Everything()); err != nil {
				return err
			}
		}
		for _, assessed := range some {
			one := &found[assessed.Index]
			selector, err := metav1.LabelSelectorAsSelector(one.selector)
			if err != nil {
				return fmt.Errorf("reading the selector of %s in namespace %s: %w", one, namespace, err)
			}
			pods := all
			if len(some) <= manyWatched {
				if pods, err = r.pods(ctx, namespace, selector); err != nil {
					return err
				}
			}
			note(assessed, one, selector, pods)
		}
	}
	return nil
}

// pods lists pods of a namespace.
//
// +kubebuilder:rbac:part=injection,groups="",resources=pods,verbs=list
func (r *Reader) pods(ctx context.Context, namespace string, selector labels.Selector) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := r.Live.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("listing pods of namespace %s: %w", namespace, err)
	}
	return list.Items, nil
}

// note sets in an assessment what the pods that run the current injection show, and what the other
// pods show whose controller is the workload itself, as it is in a StatefulSet.
func note(assessed *agentrollout.WorkloadAssessment, one *seen, selector labels.Selector, pods []corev1.Pod) {
	var mine, others []corev1.Pod
	for i := range pods {
		pod := &pods[i]
		switch {
		case !selector.Matches(labels.Set(pod.Labels)):
		case pod.Annotations[instrv1.AnnotationInjected] == one.Template.Annotations[instrv1.AnnotationInjected]:
			mine = append(mine, *pod)
		case isControlledBy(pod, one.UID):
			others = append(others, *pod)
		}
	}
	assessed.Problem = workload.FindProblem(workload.Evidence{Pods: mine})
	assessed.FirstSince, assessed.ReadySince, assessed.HangsSince = firstSince(mine), readySince(mine), hangsSince(mine)
	assessed.UnreplacedSince = unreadySince(others)
}

// isControlledBy reports whether the controller of a pod has a UID.
func isControlledBy(pod *corev1.Pod, uid types.UID) bool {
	controller := metav1.GetControllerOfNoCopy(pod)
	return controller != nil && controller.UID == uid
}

// isEnding reports whether a pod is being deleted or has ended.
func isEnding(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// firstSince returns when the first of some pods was created; zero if there are none. Pods that are
// being deleted or have ended do not count.
func firstSince(pods []corev1.Pod) time.Time {
	var first time.Time
	for i := range pods {
		if created := pods[i].CreationTimestamp.Time; !isEnding(&pods[i]) && (first.IsZero() || created.Before(first)) {
			first = created
		}
	}
	return first
}

// unreadySince returns since when the first of some pods is not ready; zero if all are. Pods that
// are being deleted or have ended do not count.
func unreadySince(pods []corev1.Pod) time.Time {
	var first time.Time
	for i := range pods {
		pod := &pods[i]
		ready := workload.Condition(pod, corev1.PodReady)
		if isEnding(pod) || ready != nil && ready.Status == corev1.ConditionTrue {
			continue
		}
		since := pod.CreationTimestamp.Time
		if ready != nil && ready.LastTransitionTime.After(since) {
			since = ready.LastTransitionTime.Time
		}
		if first.IsZero() || since.Before(first) {
			first = since
		}
	}
	return first
}

// readySince returns when the last of some pods became ready; zero if none is ready.
func readySince(pods []corev1.Pod) time.Time {
	var last time.Time
	for i := range pods {
		for _, condition := range pods[i].Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && condition.LastTransitionTime.After(last) {
				last = condition.LastTransitionTime.Time
			}
		}
	}
	return last
}

// hangsSince returns since when none of some pods was created, or became ready or unready, although
// one of them is not ready. It returns zero if all are. Pods that are being deleted or have ended
// do not count.
func hangsSince(pods []corev1.Pod) time.Time {
	var last time.Time
	isUnready := false
	for i := range pods {
		pod := &pods[i]
		if isEnding(pod) {
			continue
		}
		if pod.CreationTimestamp.After(last) {
			last = pod.CreationTimestamp.Time
		}
		ready := workload.Condition(pod, corev1.PodReady)
		if ready != nil && ready.LastTransitionTime.After(last) {
			last = ready.LastTransitionTime.Time
		}
		isUnready = isUnready || ready == nil || ready.Status != corev1.ConditionTrue
	}
	if !isUnready {
		return time.Time{}
	}
	return last
}

// lastRemovals returns when the agent was last removed from each workload that has it. It forgets
// the removals from workloads that are to have it: they had their effect.
func (r *Reader) lastRemovals(observed *Observed) agentrollout.Removals {
	found := agentrollout.Removals{}
	for _, assessed := range observed.assessment.Assessed {
		key := removalKey{observed.identity.ID(), observed.seen[assessed.Index].UID}
		switch known, _ := r.removals.Get(key); {
		case known == nil || !assessed.Has:
		case assessed.Status.State == injection.In && !assessed.Stale:
			r.removals.Remove(key)
		default:
			found[key.uid] = known.(injection.Grant)
		}
	}
	return found
}

// remember remembers removals that are about to be written.
func (r *Reader) remember(identity injection.Identity, removals agentrollout.Removals) {
	for uid, removal := range removals {
		r.removals.Add(removalKey{identity.ID(), uid}, removal)
	}
}

// removalKey names an agent and a workload.
type removalKey struct {
	id  string
	uid types.UID
}
