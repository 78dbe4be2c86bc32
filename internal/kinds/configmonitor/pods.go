package configmonitor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
)

// pod is a pod that a monitor selects.
type pod struct {
	*corev1.Pod
	// older reports that it may run an earlier content.
	older bool
}

// name returns the pod's name for messages.
func (p pod) name() string { return "Pod/" + p.Name }

// isReady reports whether the pod is ready.
func (p pod) isReady() bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// isFinished reports whether no container of the pod will run again: it reads no configuration any
// more.
func isFinished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// isOlder reports whether a pod may have been started with another content than the recorded one:
//
//	the pod was created         result
//	before the content came     older
//	after it                    not older
//	in the same second          older if it existed when the change was observed
func (r Record) isOlder(p *corev1.Pod) bool {
	created := p.CreationTimestamp.Time
	if created.Equal(r.Changed) {
		return slices.Contains(r.Same, p.UID)
	}
	return created.Before(r.Changed)
}

// whyLeft returns why the spec never allows the eviction of a pod; false if it does.
func whyLeft(spec *configv1.ConfigMonitorSpec, p pod) (configv1.Skipped, bool) {
	skipped := configv1.Skipped{Name: p.name()}
	owner := metav1.GetControllerOf(p)
	_, mirrors := p.Annotations[corev1.MirrorPodAnnotationKey]
	switch {
	case mirrors || owner != nil && owner.Kind == "Node":
		skipped.Reason, skipped.Message = configv1.SkippedStaticPod, "its node creates it from a file: change that file"
	case spec.AllowUnowned:
		return configv1.Skipped{}, false
	case owner == nil:
		skipped.Reason, skipped.Message = configv1.SkippedUnowned, "no controller would recreate it: set spec.allowUnowned to evict it anyway"
	case owner.Kind == "Job":
		skipped.Reason, skipped.Message = configv1.SkippedUnowned,
			fmt.Sprintf("Job/%s may count the eviction as a failure, and start over or give up: set spec.allowUnowned to evict it "+
				"anyway", owner.Name)
	default:
		return configv1.Skipped{}, false
	}
	return skipped, true
}

// byUse sorts pods that are not ready first, then by name.
func byUse(a, b pod) int {
	order := map[bool]int{false: 0, true: 1}
	return cmp.Or(cmp.Compare(order[a.isReady()], order[b.isReady()]), cmp.Compare(a.Name, b.Name))
}

// pods are the pods that a monitor selects, by what may be done with them.
type pods struct {
	// evictable are older pods that may be evicted; those that are not ready come first.
	evictable []pod
	// left are older pods that may not be evicted, and why.
	left []configv1.Skipped
	// running is the number of pods, of which current are not older.
	running, current int
	// terminating are being deleted. unready are not older and not ready yet.
	terminating, unready []string
}

// sortPods sorts pods by a record.
func sortPods(spec *configv1.ConfigMonitorSpec, record Record, all []corev1.Pod) pods {
	var sorted pods
	for i := range all {
		p := pod{Pod: &all[i], older: record.isOlder(&all[i])}
		switch skipped, leave := whyLeft(spec, p); {
		case isFinished(p.Pod):
			continue
		case p.DeletionTimestamp != nil:
			sorted.terminating = append(sorted.terminating, p.name())
			continue
		case !p.older:
			sorted.current++
			if !p.isReady() {
				sorted.unready = append(sorted.unready, p.name())
			}
		case leave:
			sorted.left = append(sorted.left, skipped)
		default:
			sorted.evictable = append(sorted.evictable, p)
		}
		sorted.running++
	}
	slices.SortFunc(sorted.evictable, byUse)
	slices.SortFunc(sorted.left, func(a, b configv1.Skipped) int { return cmp.Compare(a.Name, b.Name) })
	slices.Sort(sorted.terminating)
	slices.Sort(sorted.unready)
	return sorted
}

// inTurns returns evictable pods in the order in which they are tried: those that are not ready
// first, then by name. If there are more than may fail in one pass, each pollBudget begins with
// others, or the pods behind so many protected ones would never be tried. For the same reason only
// some of many pods that are not ready come before those that are, and the rest after them. limit
// is spec.maxParallel.
func inTurns(evictable []pod, limit *int32, now time.Time) []pod {
	unready := slices.IndexFunc(evictable, pod.isReady)
	if unready < 0 {
		unready = len(evictable)
	}
	ready := len(evictable) - unready
	first := min(unready, max(MaxFailed-ready, unreadyFirst(limit)))
	before := turned(evictable[:unready], first, now)
	return slices.Concat(before[:first], turned(evictable[unready:], MaxFailed-first, now), before[first:])
}

// unreadyFirst returns how many pods that are not ready come first, if there are many of both: as
// many as may be evicted at a time, or ready ones would be evicted for them without need. At least
// one ready pod is among the first MaxFailed. Without a limit all are evicted in one pass.
func unreadyFirst(limit *int32) int {
	half := MaxFailed / 2
	if limit == nil {
		return half
	}
	return min(max(half, int(*limit)), MaxFailed-1)
}

// turned returns pods such that each is among the first few of some pollBudget.
func turned(some []pod, few int, now time.Time) []pod {
	all := int64(len(some))
	if all <= int64(few) {
		return some
	}
	first := now.Unix() / int64(pollBudget.Seconds()) % all * int64(few) % all
	return slices.Concat(some[first:], some[:first])
}

// present returns the pods that are neither finished nor terminating.
func present(all []corev1.Pod) []*corev1.Pod {
	var found []*corev1.Pod
	for i := range all {
		if !isFinished(&all[i]) && all[i].DeletionTimestamp == nil {
			found = append(found, &all[i])
		}
	}
	return found
}

// newest returns when the youngest of the pods was created; zero if there is none.
func newest(all []*corev1.Pod) time.Time {
	var at time.Time
	for _, p := range all {
		if p.CreationTimestamp.After(at) {
			at = p.CreationTimestamp.Time
		}
	}
	return at
}

// createdAt returns the pods that were created in a given second.
func createdAt(all []*corev1.Pod, at time.Time) []types.UID {
	var found []types.UID
	for _, p := range all {
		if p.CreationTimestamp.Time.Equal(at) {
			found = append(found, p.UID)
		}
	}
	slices.Sort(found)
	return found
}
