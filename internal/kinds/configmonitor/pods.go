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
	// older tells that it may run an earlier content than the present one.
	older bool
}

// name is the pod's, for people.
func (p pod) name() string { return "Pod/" + p.Name }

// isReady tells whether it serves.
func (p pod) isReady() bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// isFinished tells that no container of it will ever run again: it reads no configuration any more.
func isFinished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// isOlder tells whether a pod may have been started with another content than that of the record:
//
//	the pod was created         then it
//	before the content came     is older
//	after it                    is not
//	in the same second          is older if it was there when the change was seen
func (r Record) isOlder(p *corev1.Pod) bool {
	created := p.CreationTimestamp.Time
	if created.Equal(r.Changed) {
		return slices.Contains(r.Same, p.UID)
	}
	return created.Before(r.Changed)
}

// whyLeft tells why a pod is never evicted, as far as the spec goes; false if it may be.
func whyLeft(spec *configv1.ConfigMonitorSpec, p pod) (configv1.Skipped, bool) {
	skipped := configv1.Skipped{Name: p.name()}
	owner := metav1.GetControllerOf(p)
	_, mirrors := p.Annotations[corev1.MirrorPodAnnotationKey]
	switch {
	case mirrors || owner != nil && owner.Kind == "Node":
		skipped.Reason, skipped.Message = configv1.SkippedStaticPod, "its node makes it out of a file: change that"
	case spec.AllowUnowned:
		return configv1.Skipped{}, false
	case owner == nil:
		skipped.Reason, skipped.Message = configv1.SkippedUnowned, "nobody would bring it back: spec.allowUnowned lets it be evicted all the same"
	case owner.Kind == "Job":
		skipped.Reason, skipped.Message = configv1.SkippedUnowned,
			fmt.Sprintf("Job/%s may count it as a failure, and start over or give up: spec.allowUnowned lets it be evicted all the same", owner.Name)
	default:
		return configv1.Skipped{}, false
	}
	return skipped, true
}

// byUse orders those that serve nobody first, and then by name.
func byUse(a, b pod) int {
	order := map[bool]int{false: 0, true: 1}
	return cmp.Or(cmp.Compare(order[a.isReady()], order[b.isReady()]), cmp.Compare(a.Name, b.Name))
}

// pods are those that a monitor selects, sorted by what can become of them.
type pods struct {
	// evictable are older ones that may be evicted, those that serve nobody first.
	evictable []pod
	// left are older ones that are not, and why.
	left []configv1.Skipped
	// running is how many there are, of which current are not older.
	running, current int
	// terminating are on their way out. unready have come since and do not serve yet.
	terminating, unready []string
}

// sortPods looks at each pod by the light of a record.
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

// present are the pods that are neither finished nor on their way out.
func present(all []corev1.Pod) []*corev1.Pod {
	var found []*corev1.Pod
	for i := range all {
		if !isFinished(&all[i]) && all[i].DeletionTimestamp == nil {
			found = append(found, &all[i])
		}
	}
	return found
}

// newest is when the youngest of the pods was created; zero if there is none.
func newest(all []*corev1.Pod) time.Time {
	var at time.Time
	for _, p := range all {
		if p.CreationTimestamp.After(at) {
			at = p.CreationTimestamp.Time
		}
	}
	return at
}

// createdAt are those of the pods that were created in one second.
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
