package integration

import (
	"context"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

// partSays waits until a part of a platform has failed with a reason and, in its message, all
// texts.
func partSays(t *testing.T, platform *platformv1.EcommercePlatform, part, reason string, texts ...string) {
	t.Helper()
	platformed(t, platform, func(status platformv1.EcommercePlatformStatus) bool {
		for _, one := range status.Components {
			if one.Name != part || one.Phase != platformv1.ComponentFailed || one.Reason != reason {
				continue
			}
			for _, text := range texts {
				if !strings.Contains(one.Message, text) {
					return false
				}
			}
			return status.Phase == platformv1.EcommercePlatformPhase(platformv1.PhaseDegraded)
		}
		return false
	})
}

// TestPlatformQuota: where a quota refuses the volumes or the pods of a part, the platform says
// which part, in the words of the API server, and goes on when there is room.
func TestPlatformQuota(t *testing.T) {
	t.Parallel()
	g, space := gomega.NewWithT(t), namespace(t)
	startManagerWith(t, space, nil, withImages)
	forbid(t, space, "persistentvolumeclaims")
	platform := newPlatform(space)
	create(t, platform)
	partSays(t, platform, "db", "Refused", "Database deployment failed: applying PersistentVolumeClaim "+space+"/data-shop-db-0",
		"exceeded quota: none, requested: persistentvolumeclaims=1")
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "none"}}
	g.Expect(cluster.Client.Delete(t.Context(), quota)).To(gomega.Succeed())

	// The controller of StatefulSets tells a refusal in an event alone.
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "shop-db"}}
	g.Eventually(isThere(set)).WithContext(t.Context()).Should(gomega.BeTrue())
	const exceeded = "is forbidden: exceeded quota: pods, requested: pods=1, used: pods=1, limited: pods=1"
	create(t, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "shop-db.1"}, Type: corev1.EventTypeWarning, Reason: "FailedCreate",
		InvolvedObject: corev1.ObjectReference{APIVersion: "apps/v1", Kind: "StatefulSet", Namespace: space, Name: set.Name, UID: set.UID},
		Message:        `create Pod shop-db-0 in StatefulSet shop-db failed error: pods "shop-db-0" ` + exceeded, LastTimestamp: metav1.Now(),
	})
	g.Eventually(func(ctx context.Context) error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		set.Status.ObservedGeneration = set.Generation
		return cluster.Client.Status().Update(ctx, set)
	}).WithContext(t.Context()).Should(gomega.Succeed())
	partSays(t, platform, "db", "PodsRefused", `Database deployment failed: pods "shop-db-0" `+exceeded)

	s := stacked{t, g, &platformv1.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "shop"}}}
	db := newDatabase(space)
	db.Name = "shop-db"
	observedRevision(t, db, "db-1")
	runs(t, db, 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 2, Timeline: 3, Provided: true})
	s.awaits("backend")
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "shop-backend"}}
	g.Eventually(func(ctx context.Context) error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(deployment), deployment); err != nil {
			return err
		}
		deployment.Status.ObservedGeneration = deployment.Generation
		deployment.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue,
			Reason: "FailedCreate", Message: `pods "shop-backend-7d9f8b6c5d-x2x4z" ` + exceeded}}
		return cluster.Client.Status().Update(ctx, deployment)
	}).WithContext(t.Context()).Should(gomega.Succeed())
	partSays(t, platform, "backend", "PodsRefused", `Backend deployment failed: pods "shop-backend-*" `+exceeded)
	s.ready("backend")
	s.awaits("backend", "frontend")
	s.ready("frontend")
	platformed(t, platform, func(status platformv1.EcommercePlatformStatus) bool { return status.Phase == "Running" })
}
