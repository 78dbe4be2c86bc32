package faults

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/test/faults/campaign"
)

// configMonitor creates a monitor of a ConfigMap for a Deployment that does not refer to it,
// changes the ConfigMap, which restarts the Deployment, and rolls that out. Then it deletes the
// Deployment and the monitor.
func configMonitor() campaign.Scenario {
	return campaign.Scenario{
		Name:  "configmonitor",
		Owner: configv1.GroupVersion.WithKind("ConfigMonitor"),
		Children: []schema.GroupVersionKind{
			corev1.SchemeGroupVersion.WithKind("ConfigMap"),
			appsv1.SchemeGroupVersion.WithKind("Deployment"),
		},
		Steps: []campaign.Step{
			{Name: "create", Do: create(flags(), newMonitor()), Settled: monitorIs("False NothingMatched", "", false)},
			{Name: "match", Do: create(deployment()), Settled: monitorIs("False Starting", "red", false)},
			{Name: "roll out", Do: makeAvailable, Settled: monitorIs("True UpToDate", "red", false)},
			{Name: "change", Do: merge(flags(), `{"data": {"COLOUR": "blue"}}`), Settled: monitorIs("False Restarting", "blue", true)},
			{Name: "roll out the change", Do: makeAvailable, Settled: monitorIs("True UpToDate", "blue", true)},
			{Name: "retire", Do: remove(deployment()), Settled: monitorIs("False NothingMatched", "", false)},
			{Name: "delete", Do: inTurn(remove(newMonitor()), remove(flags())), Settled: campaign.IsEmpty},
		},
		MoreStatuses: betweenControllers,
		IsReady:      monitorIsReady,
		Mask:         hideRestartTimes,
	}
}

const flagsName = "flags"

func flags() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: flagsName}, Data: map[string]string{colour: "red"}}
}

func newMonitor() *configv1.ConfigMonitor {
	return &configv1.ConfigMonitor{ObjectMeta: metav1.ObjectMeta{Name: appName}, Spec: configv1.ConfigMonitorSpec{
		ConfigMap: flagsName, PodSelector: map[string]string{"app": appName}, Cooldown: &metav1.Duration{},
	}}
}

// monitorIs returns a check of the monitor's condition Ready, and of the colour that the Deployment
// runs with.
func monitorIs(ready, value string, restarted bool) func(campaign.World) error {
	return func(world campaign.World) error {
		var monitor configv1.ConfigMonitor
		if err := world.Read("ConfigMonitor", appName, &monitor); err != nil {
			return err
		}
		if err := conditionIs(monitor.Status.Conditions, monitor.Generation, monitor.Status.ObservedGeneration, ready); err != nil {
			return err
		}
		// The monitor's status follows some time after the restart.
		if got, want := monitor.Status.Restarts, restartsOf(restarted); got != want {
			return fmt.Errorf("the monitor reports %d restarts, not %d", got, want)
		}
		return runs(world, flagsName, value, restarted)
	}
}

func restartsOf(restarted bool) int64 {
	if restarted {
		return 1
	}
	return 0
}

// monitorIsReady trusts the condition only after the restart. Before it, a monitor without a
// running manager cannot show that its source has changed.
func monitorIsReady(owner *unstructured.Unstructured) bool {
	var monitor configv1.ConfigMonitor
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(owner.Object, &monitor); err != nil {
		return false
	}
	return monitor.Status.Restarts > 0 && monitor.Status.ObservedGeneration == monitor.Generation &&
		meta.IsStatusConditionTrue(monitor.Status.Conditions, configv1.ConditionReady)
}
