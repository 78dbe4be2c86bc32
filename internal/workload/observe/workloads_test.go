package observe

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// TestWorkloads: each kind has an empty object, with a template and a state.
func TestWorkloads(t *testing.T) {
	kinds := []string{"Deployment", "StatefulSet", "DaemonSet"}
	for i, object := range Workloads() {
		kind := kinds[i]
		t.Run(kind, func(t *testing.T) {
			for _, one := range []client.Object{object, EmptyWorkload(kind, "shop", "web")} {
				if known, err := apiutil.GVKForObject(one, clientgoscheme.Scheme); err != nil || known != appsv1.SchemeGroupVersion.WithKind(kind) {
					t.Errorf("it is %s, %v", known, err)
				}
			}
			named := EmptyWorkload(kind, "shop", "web")
			if named.GetNamespace() != "shop" || named.GetName() != "web" {
				t.Errorf("it is called %s/%s", named.GetNamespace(), named.GetName())
			}
			PodTemplate(named).Labels = map[string]string{"app": "web"}
			if PodTemplate(named).Labels["app"] != "web" {
				t.Error("its template is another")
			}
			named.SetGeneration(2)
			if Rolled(named).Complete {
				t.Error("an unobserved workload is complete")
			}
		})
	}
	if PodTemplate(&corev1.Pod{}) != nil {
		t.Error("a pod has a template")
	}
}

// TestConcernsWorkload: changes of spec and annotations pass, and the end of a rollout; not each
// pod on the way.
func TestConcernsWorkload(t *testing.T) {
	rolling := func(change func(*appsv1.Deployment)) *appsv1.Deployment {
		deployment := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Generation: 2},
			Spec:       appsv1.DeploymentSpec{Replicas: new(int32(2)), ProgressDeadlineSeconds: new(int32(600))},
			Status:     appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 1, AvailableReplicas: 2},
		}
		change(deployment)
		return deployment
	}
	progressing := func(status corev1.ConditionStatus, reason string) func(*appsv1.Deployment) {
		return func(deployment *appsv1.Deployment) {
			deployment.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: status, Reason: reason}}
		}
	}
	for name, test := range map[string]struct {
		after func(*appsv1.Deployment)
		want  bool
	}{
		"nothing":          {after: func(*appsv1.Deployment) {}},
		"a pod came up":    {after: func(deployment *appsv1.Deployment) { deployment.Status.UpdatedReplicas = 2 }},
		"a label changed":  {after: func(deployment *appsv1.Deployment) { deployment.Labels = map[string]string{"team": "a"} }},
		"the spec changed": {after: func(deployment *appsv1.Deployment) { deployment.Generation = 3 }, want: true},
		"it was annotated": {after: func(deployment *appsv1.Deployment) { deployment.Annotations = map[string]string{"note": "1"} }, want: true},
		"it is complete": {after: func(deployment *appsv1.Deployment) {
			progressing(corev1.ConditionTrue, "NewReplicaSetAvailable")(deployment)
			deployment.Status.Replicas, deployment.Status.UpdatedReplicas = 2, 2
		}, want: true},
		"it took too long": {after: progressing(corev1.ConditionFalse, "ProgressDeadlineExceeded"), want: true},
		"it gets further":  {after: progressing(corev1.ConditionTrue, "ReplicaSetUpdated")},
		"it was paused":    {after: func(deployment *appsv1.Deployment) { deployment.Spec.Paused = true }, want: true},
		"it is another":    {after: func(deployment *appsv1.Deployment) { deployment.UID = "2" }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			before := rolling(progressing(corev1.ConditionTrue, "ReplicaSetUpdated"))
			after := rolling(progressing(corev1.ConditionTrue, "ReplicaSetUpdated"))
			test.after(after)
			if got := ConcernsWorkload().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != test.want {
				t.Errorf("%t, want %t", got, test.want)
			}
		})
	}
}

// TestConcernsWorkloadThatWaits: that a controller has observed a restart passes if the pods wait
// for a user, because no other event may say so. For others, the pass after the restart is enough.
func TestConcernsWorkloadThatWaits(t *testing.T) {
	for strategy, want := range map[appsv1.DaemonSetUpdateStrategyType]bool{
		appsv1.OnDeleteDaemonSetStrategyType:      true,
		appsv1.RollingUpdateDaemonSetStrategyType: false,
	} {
		set := func(observed int64, updated int32) *appsv1.DaemonSet {
			return &appsv1.DaemonSet{
				ObjectMeta: metav1.ObjectMeta{Generation: 2},
				Spec:       appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: strategy}},
				Status: appsv1.DaemonSetStatus{ObservedGeneration: observed, DesiredNumberScheduled: 3, CurrentNumberScheduled: 3,
					UpdatedNumberScheduled: updated, NumberAvailable: 3, NumberReady: 3},
			}
		}
		if got := ConcernsWorkload().Update(event.UpdateEvent{ObjectOld: set(1, 3), ObjectNew: set(2, 0)}); got != want {
			t.Errorf("%s: %t, want %t", strategy, got, want)
		}
		if ConcernsWorkload().Update(event.UpdateEvent{ObjectOld: set(2, 0), ObjectNew: set(2, 1)}) {
			t.Errorf("%s: a replaced pod passes", strategy)
		}
	}
}
