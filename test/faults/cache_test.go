package faults

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/test/faults/campaign"
)

// cacheOfTwo creates a cache of two instances with volumes, which start. The primary hands over on
// request, memory is added, and it hibernates. Then the cache is deleted, with its volumes.
func cacheOfTwo() campaign.Scenario {
	const claims = "1Gi/1 1Gi/1 "
	scenario := ofDatabases(campaign.Scenario{Name: "cache", Steps: []campaign.Step{
		{Name: "create", Do: create(newCache()), Settled: cacheIs("Pending Creating  0/2 2 0> 201326592 " + claims)},
		{
			Name: "start", Do: inTurn(bind(appName, 0), bind(appName, 1), observe(appName, "1"), lead(appName, 1, 0),
				startCachePod(0, primary(1, "")), startCachePod(1, replica(1))),
			Settled: cacheIs("Running Available shop-0 2/2 2 0> 201326592 " + claims),
		},
		{
			Name: "switch over", Do: merge(newCache(), `{"spec": {"switchoverAt": "2026-11-25T12:00:00Z", "maxMemoryPercent": 50}}`),
			Settled: cacheIs("SwitchingOver SwitchingOver shop-0 2/2 2 1>shop-1 134217728 " + claims),
		},
		{
			Name: "take over", Do: inTurn(lead(appName, 2, 1), reportOf(1, primary(2, "HandedOver")), reportOf(0, replica(2))),
			Settled: cacheIs("Running Available shop-1 2/2 2 0> 134217728 " + claims),
		},
		{
			Name: "hibernate", Do: inTurn(merge(newCache(), `{"spec": {"hibernated": true}}`), remove(pod(appName, 0)), remove(pod(appName, 1))),
			Settled: cacheIs("Hibernated Hibernated  0/0 0 0> 134217728 " + claims),
		},
		{Name: "delete", Do: remove(newCache()), Settled: campaign.IsEmpty},
	}})
	scenario.Owner, scenario.IsReady = databasev1.GroupVersion.WithKind("Cache"), cacheIsReady
	return scenario
}

func newCache() *databasev1.Cache {
	return &databasev1.Cache{ObjectMeta: metav1.ObjectMeta{Name: appName}, Spec: databasev1.CacheSpec{
		Version: "9", Memory: resource.MustParse("256Mi"), Replicas: 2, DeletionPolicy: databasev1.DeletionDelete,
		Persistence: &databasev1.CachePersistence{Storage: resource.MustParse("1Gi")},
	}}
}

// startCachePod creates the pod of an instance, which takes connections and says what it is.
func startCachePod(ordinal int, report contract.Report) action {
	return func(ctx context.Context, c client.Client, namespace string) error {
		made := pod(appName, ordinal)
		made.Namespace = namespace
		made.Labels = map[string]string{
			api.LabelOwnerKind: "cache", api.LabelOwner: appName, api.LabelManagedBy: api.ManagedBy, appsv1.ControllerRevisionHashLabelKey: "1",
		}
		made.Annotations = map[string]string{api.AnnotationInstance: encoded(report)}
		made.Spec.Containers = []corev1.Container{{Name: "valkey", Image: "registry.example.com/valkey:9.1.2"}}
		if err := c.Create(ctx, made); err != nil {
			return err
		}
		made.Status.Phase = corev1.PodRunning
		made.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		return c.Status().Update(ctx, made)
	}
}

// reportOf lets an instance say something else.
func reportOf(ordinal int, said contract.Report) action {
	annotations := map[string]string{api.AnnotationInstance: encoded(said)}
	return merge(pod(appName, ordinal), encoded(map[string]any{"metadata": map[string]any{"annotations": annotations}}))
}

// cacheIs returns a check of phase, reason of Ready, primary and instances of the status, of the
// present generation; of the number of pods; of who is told to hand over to whom, and how much
// memory keys may take; and of the claims with their owners.
func cacheIs(want string) func(campaign.World) error {
	return func(world campaign.World) error {
		var c databasev1.Cache
		if err := world.Read("Cache", appName, &c); err != nil {
			return err
		}
		var set appsv1.StatefulSet
		if err := world.Read("StatefulSet", appName, &set); err != nil {
			return err
		}
		var config corev1.ConfigMap
		if err := world.Read("ConfigMap", contract.SettingsName(appName), &config); err != nil {
			return err
		}
		told, err := contract.ParseSettings(config.Data[contract.SettingsKey])
		if err != nil {
			return err
		}
		status, reason := &c.Status, ""
		for _, condition := range status.Conditions {
			if condition.Type == databasev1.ConditionReady {
				reason = condition.Reason
			}
		}
		got := fmt.Sprintf("%s %s %s %s %d %d>%s %s %s", status.Phase, reason, status.Primary, status.InstanceSummary, *set.Spec.Replicas,
			told.SwitchFrom, told.SwitchTo, told.Parameters["maxmemory"], claimsIn(world, appName))
		_, hasBudget := world["PodDisruptionBudget "+appName]
		if status.ObservedGeneration != c.Generation || got != want || hasBudget != (*set.Spec.Replicas > 1) {
			return fmt.Errorf("it is %q, of generation %d of %d, with a budget: %t", got, status.ObservedGeneration, c.Generation, hasBudget)
		}
		return nil
	}
}

// cacheIsReady trusts the status of a cache that is not handing over.
func cacheIsReady(owner *unstructured.Unstructured) bool {
	var c databasev1.Cache
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(owner.Object, &c); err != nil {
		return false
	}
	return c.Status.Phase == databasev1.CachePhaseRunning && c.Status.ObservedGeneration == c.Generation && c.Status.SwitchoverFrom == 0
}
