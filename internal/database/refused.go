package database

import (
	"cmp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

// Lacking returns the StatefulSet while it has fewer pods than it is to have, and its controller
// knows that; nil otherwise. Why it creates none is in nothing that is watched.
func (o State) Lacking(d *Database) *appsv1.StatefulSet {
	set := o.StatefulSet(d)
	if set == nil || set.DeletionTimestamp != nil || set.Status.ObservedGeneration != set.Generation {
		return nil
	}
	wanted := ptr.Deref(set.Spec.Replicas, 1)
	if set.Status.Replicas >= wanted || len(o.Instances(d)) >= int(wanted) {
		return nil
	}
	return set
}

// EventFailedCreate is the reason of the events of a StatefulSet that can't create a pod.
const EventFailedCreate = "FailedCreate"

// longestRetry is after how long at most a StatefulSet's controller tries again: 1000 s, the
// longest wait of client-go's default rate limiter.
const longestRetry = 1000 * time.Second

// RefusedSince returns from when on an event says something about the present: events stay for an
// hour, while a quota may have been raised and pods created since.
func (o State) RefusedSince(now time.Time) time.Time {
	since := now.Add(-longestRetry - time.Minute)
	for i := range o.Pods {
		if created := o.Pods[i].CreationTimestamp.Time; created.After(since) {
			since = created
		}
	}
	return since
}

// RefusalIn returns why a StatefulSet can't create a pod, in the words of the API server, of the
// events about it since a time; "" if none says so.
func RefusalIn(events []corev1.Event, since time.Time) string {
	refusals := slices.DeleteFunc(slices.Clone(events), func(event corev1.Event) bool {
		return event.Reason != EventFailedCreate || lastTime(event).Before(since)
	})
	if len(refusals) == 0 {
		return ""
	}
	last := slices.MaxFunc(refusals, func(a, b corev1.Event) int {
		return cmp.Or(lastTime(a).Compare(lastTime(b)), strings.Compare(a.Name, b.Name))
	})
	// create Pod db-0 in StatefulSet db failed error: pods "db-0" is forbidden: ...
	if _, words, found := strings.Cut(last.Message, " failed error: "); found {
		return conditions.Truncate(words)
	}
	return conditions.Truncate(last.Message)
}

// lastTime returns when an event happened last.
func lastTime(event corev1.Event) time.Time {
	if event.Series != nil {
		return event.Series.LastObservedTime.Time
	}
	if !event.LastTimestamp.IsZero() {
		return event.LastTimestamp.Time
	}
	return event.EventTime.Time
}
