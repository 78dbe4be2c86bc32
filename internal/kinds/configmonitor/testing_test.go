package configmonitor_test

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/configmonitor"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// noon is the present of these tests: a Thursday.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

func seconds(n int) *metav1.Duration {
	return &metav1.Duration{Duration: time.Duration(n) * time.Second}
}

// monitor returns a defaulted monitor of the ConfigMap flags for pods with app=web.
func monitor(change ...func(*configv1.ConfigMonitorSpec)) *configv1.ConfigMonitor {
	made := &configv1.ConfigMonitor{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "flags", Generation: 3},
		Spec:       configv1.ConfigMonitorSpec{ConfigMap: "flags", PodSelector: map[string]string{"app": "web"}},
	}
	for _, apply := range change {
		apply(&made.Spec)
	}
	configmonitor.Default(made)
	return made
}

// flags returns the source, with one value that changed at the given time.
func flags(value string, changed time.Time) workload.Source {
	return workload.Source{
		Ref: workload.SourceRef{Kind: workload.ConfigMap, Name: "flags"}, State: workload.Present,
		Keys: map[string]string{"COLOUR": workload.HashKey([]byte(value))}, Created: ago(time.Hour), Changed: changed,
		Writers: []string{"kubectl-edit", "argocd"},
	}
}

// pod returns a running, ready pod of a CloneSet; its name is its UID.
func pod(name string, created time.Time, change ...func(*corev1.Pod)) corev1.Pod {
	made := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(created),
			OwnerReferences: []metav1.OwnerReference{{Kind: "CloneSet", Name: "web", Controller: new(true)}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady,
			Status: corev1.ConditionTrue}}},
	}
	for _, apply := range change {
		apply(&made)
	}
	return made
}

func unready(p *corev1.Pod)     { p.Status.Conditions = nil }
func finished(p *corev1.Pod)    { p.Status.Phase = corev1.PodSucceeded }
func unowned(p *corev1.Pod)     { p.OwnerReferences = nil }
func terminating(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(noon)) }

func ownedBy(kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.OwnerReferences[0].Kind = kind }
}
