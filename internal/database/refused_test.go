package database

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestLacking: events are read only while the controller of the StatefulSet knows that pods are
// missing.
func TestLacking(t *testing.T) {
	for name, test := range map[string]struct {
		wanted, there, pods int32
		observed            int64
		want                bool
	}{
		"all are there":                   {wanted: 2, there: 2, pods: 2, observed: 2},
		"none was made":                   {wanted: 1, there: 0, pods: 0, observed: 2, want: true},
		"one is missing":                  {wanted: 3, there: 2, pods: 2, observed: 2, want: true},
		"the controller has not seen it":  {wanted: 1, there: 0, pods: 0, observed: 1},
		"its status is older than a pod":  {wanted: 1, there: 0, pods: 1, observed: 2},
		"its status is newer than ours":   {wanted: 1, there: 1, pods: 0, observed: 2},
		"there is to be none: hibernated": {wanted: 0, there: 0, pods: 0, observed: 2},
	} {
		d := &Database{Kind: "PostgreSQL", Namespace: "shop", Name: "db"}
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Spec: appsv1.StatefulSetSpec{Replicas: &test.wanted},
			Status: appsv1.StatefulSetStatus{ObservedGeneration: test.observed, Replicas: test.there}}
		state := State{Children: plan.Children{d.Ref("StatefulSet", "db"): {Ownership: plan.Ours, Object: set}}}
		for ordinal := range test.pods {
			state.Pods = append(state.Pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db-" + string('0'+rune(ordinal))}})
		}
		if got := state.Lacking(d) != nil; got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	if (State{}).Lacking(&Database{Namespace: "shop", Name: "db"}) != nil {
		t.Error("nothing is lacking before there is a StatefulSet")
	}
}

func TestRefusalIn(t *testing.T) {
	event := func(reason, message string, at int) corev1.Event {
		return corev1.Event{Reason: reason, Message: message, LastTimestamp: metav1.NewTime(time.Unix(int64(at), 0))}
	}
	failed := func(message string, at int) corev1.Event {
		return event("FailedCreate", "create Pod db-0 in StatefulSet db failed error: "+message, at)
	}
	series := failed("of a series", 0)
	series.LastTimestamp, series.Series = metav1.Time{}, &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(time.Unix(9, 0))}
	for name, test := range map[string]struct {
		events []corev1.Event
		want   string
	}{
		"none":             {nil, ""},
		"of another sort":  {[]corev1.Event{event("SuccessfulCreate", "create Pod db-0 in StatefulSet db successful", 1)}, ""},
		"the last":         {[]corev1.Event{failed("new", 3), failed("old", 1), failed("older", 0)}, "new"},
		"of a series":      {[]corev1.Event{failed("old", 1), series}, "of a series"},
		"of another form":  {[]corev1.Event{event("FailedCreate", "exceeded quota", 1)}, "exceeded quota"},
		"long ago":         {[]corev1.Event{failed("over", -1)}, ""},
		"longer than told": {[]corev1.Event{failed(strings.Repeat("x", 5000), 1)}, "..."},
	} {
		got := RefusalIn(test.events, time.Unix(0, 0))
		if name == "longer than told" {
			if len(got) > 1024 || !strings.HasSuffix(got, test.want) {
				t.Errorf("%s: %d bytes", name, len(got))
			}
			continue
		}
		if got != test.want {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// TestRefusedSince: a refusal is over once a pod was created after it, and when the controller of
// the StatefulSet must have tried again.
func TestRefusedSince(t *testing.T) {
	now := time.Unix(10000, 0)
	pod := func(created time.Time) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)}}
	}
	for name, test := range map[string]struct {
		pods []corev1.Pod
		want time.Duration
	}{
		"no pod":         {nil, 1060 * time.Second},
		"pods of before": {[]corev1.Pod{pod(now.Add(-time.Hour))}, 1060 * time.Second},
		"a newer pod":    {[]corev1.Pod{pod(now.Add(-time.Minute)), pod(now.Add(-time.Hour))}, time.Minute},
	} {
		if got := now.Sub(State{Pods: test.pods}.RefusedSince(now)); got != test.want {
			t.Errorf("%s: since %s ago", name, got)
		}
	}
}
