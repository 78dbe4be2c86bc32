package faults

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/test/faults/campaign"
	"github.com/mainstay-platform/mainstay/test/faults/proxy"
)

// evicted are pods whose controller recreates them at once.
var evicted = []string{"web-0", "web-1"}

// TestEvictsNoPodTwice kills the manager around each of its writes. The next manager continues:
// pods that were replaced stay. The number of writes of the record varies, so only creations and
// deletions of pods are compared.
func TestEvictsNoPodTwice(t *testing.T) {
	scenario := evictingMonitor()
	base := undisturbed(t, scenario)
	for _, point := range campaign.Points(base) {
		if !point.IsWrite() || point.Step != scenario.Steps[0].Name {
			continue
		}
		for _, fault := range []proxy.Fault{proxy.KillBefore, proxy.KillAfter} {
			t.Run(fmt.Sprintf("%s: %s", point, fault), func(t *testing.T) {
				t.Parallel()
				outcome, err := cluster.Run(t.Context(), scenario, campaign.Options{Plan: point.Plan(fault)})
				if err != nil {
					t.Fatal(err)
				}
				if outcome.Unsettled != nil {
					t.Fatal(outcome.Unsettled)
				}
				if difference := cmp.Diff(base.Counts, outcome.Counts); difference != "" {
					t.Errorf("creations and deletions (- undisturbed, + killed):\n%s", difference)
				}
			})
		}
	}
}

// evictingMonitor evicts pods that are older than their ConfigMap. The creations of each pod show
// that none is evicted twice.
func evictingMonitor() campaign.Scenario {
	return campaign.Scenario{
		Name:     "evicting",
		Owner:    configv1.GroupVersion.WithKind("ConfigMonitor"),
		Children: []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("ConfigMap"), corev1.SchemeGroupVersion.WithKind("Pod")},
		Steps: []campaign.Step{
			{Name: "evict", Do: evictOldPods, Settled: podsAreReplaced},
			{Name: "delete", Do: deleteEvicting, Settled: campaign.IsEmpty},
		},
		MoreStatuses: betweenControllers,
		IsReady:      monitorIsReady,
		Mask:         hideEvictions,
	}
}

// evictOldPods creates pods and, later, a ConfigMap and a monitor. It replaces each evicted pod as
// long as the monitor exists.
func evictOldPods(ctx context.Context, c client.Client, namespace string) error {
	for _, name := range evicted {
		if err := runOwnedPod(ctx, c, namespace, name); err != nil {
			return err
		}
	}
	// Times have a resolution of one second.
	for begun := time.Now(); time.Since(begun) < 1100*time.Millisecond; time.Sleep(50 * time.Millisecond) {
	}
	monitor := newMonitor()
	monitor.Namespace = namespace
	monitor.Spec.Strategy, monitor.Spec.MaxParallel = configv1.StrategyEvict, ptr.To[int32](2)
	if err := create(flags(), monitor)(ctx, c, namespace); err != nil {
		return err
	}
	ended := make(chan struct{})
	replacing.Store(namespace, ended)
	go func() {
		defer close(ended)
		replaceOwnedPods(context.WithoutCancel(ctx), c, monitor)
	}()
	return nil
}

// replacing maps each namespace to a channel that is closed when its pods are no longer replaced.
var replacing sync.Map

func replaceOwnedPods(ctx context.Context, c client.Client, monitor *configv1.ConfigMonitor) {
	// An error means that it is deleted, or that the API server has ended.
	isThere := func() bool {
		return c.Get(ctx, client.ObjectKeyFromObject(monitor), &configv1.ConfigMonitor{}) == nil
	}
	for ; isThere(); time.Sleep(20 * time.Millisecond) {
		for _, name := range evicted {
			err := c.Get(ctx, client.ObjectKey{Namespace: monitor.Namespace, Name: name}, &corev1.Pod{})
			if apierrors.IsNotFound(err) {
				_ = runOwnedPod(ctx, c, monitor.Namespace, name) // the check at the end of the step finds a failure
			}
		}
	}
}

// runOwnedPod creates a pod as a controller unknown to Mainstay would, and does the work of the
// kubelet.
func runOwnedPod(ctx context.Context, c client.Client, namespace, name string) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{"app": appName},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "CloneSet", Name: "web", UID: "1", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}
	if err := c.Create(ctx, pod); err != nil {
		return err
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return c.Status().Update(ctx, pod)
}

// podsAreReplaced checks that each pod was replaced, and that the monitor reports all as up to
// date.
func podsAreReplaced(world campaign.World) error {
	var monitor configv1.ConfigMonitor
	if err := world.Read("ConfigMonitor", appName, &monitor); err != nil {
		return err
	}
	if err := conditionIs(monitor.Status.Conditions, monitor.Generation, monitor.Status.ObservedGeneration, "True UpToDate"); err != nil {
		return err
	}
	for _, name := range evicted {
		var pod corev1.Pod
		if err := world.Read("Pod", name, &pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("Pod %s is not running yet", name)
		}
	}
	return nil
}

func deleteEvicting(ctx context.Context, c client.Client, namespace string) error {
	if err := inTurn(remove(newMonitor()), remove(flags()))(ctx, c, namespace); err != nil {
		return err
	}
	if ended, ok := replacing.Load(namespace); ok {
		<-ended.(chan struct{})
	}
	return c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace), client.GracePeriodSeconds(0))
}

// hideEvictions removes from the record which pods were evicted and when. Whether there is a record
// remains.
func hideEvictions(object *unstructured.Unstructured) {
	annotations := maps.Clone(object.GetAnnotations())
	if _, has := annotations[configv1.AnnotationEvicted]; has {
		annotations[configv1.AnnotationEvicted] = "hidden"
		object.SetAnnotations(annotations)
	}
}
