package integration

import (
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
)

// testImposed: what a policy changes about how an image runs is said when the app is written, and
// again when a container keeps exiting.
func (s *governed) testImposed(t *testing.T) {
	const how = "as uid 1000 with a read-only root: policy default, rule production"
	g := gomega.NewWithT(t)
	s.warnings()
	app := s.app("production", func(a *msappsv1.WebApp) { a.Name = "silent" })
	s.create(t, app)
	g.Expect(s.warnings()).To(gomega.ConsistOf("spec.securityContext: the containers run " + how))
	deployment := &appsv1.Deployment{}
	g.Eventually(func() error {
		if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(app), deployment); err != nil {
			return err
		}
		deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: deployment.Generation, Replicas: 2, UpdatedReplicas: 2}
		return s.client.Status().Update(t.Context(), deployment)
	}).Should(gomega.Succeed())
	pod := &corev1.Pod{Spec: *deployment.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Name, pod.Labels = app.Namespace, "silent-1", deployment.Spec.Template.Labels
	s.create(t, pod)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "webapp", RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1}},
	}}
	g.Expect(s.client.Status().Update(t.Context(), pod)).To(gomega.Succeed())
	g.Eventually(func() (string, error) {
		err := s.client.Get(t.Context(), client.ObjectKeyFromObject(app), app)
		if found := meta.FindStatusCondition(app.Status.Conditions, msappsv1.ConditionDegraded); found != nil {
			return found.Message, err
		}
		return "", err
	}).Should(gomega.HaveSuffix("exit code 1 (see kubectl logs --previous) (runs " + how + ")"))

	s.warnings()
	g.Expect(s.update(t.Context(), app, func(a *msappsv1.WebApp) { a.Spec.Port = 9090 })).To(gomega.Succeed())
	g.Expect(s.warnings()).To(gomega.BeEmpty(), "what is stored is not filled in again")
}
