package faults

import (
	"context"
<<<<<<< HEAD
	"fmt"
	"maps"

=======
	"encoding/json"
	"fmt"
	"slices"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
>>>>>>> 3b19946 (test/faults: scenarios of AppConfig and ConfigMonitor)
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
<<<<<<< HEAD
	"github.com/mainstay-platform/mainstay/test/faults/campaign"
)

// appConfig makes a configuration, changes it so that the first content becomes an earlier revision and then none, edits the ConfigMap by hand, goes
// back to an earlier content, and deletes it.
func appConfig() campaign.Scenario {
	return campaign.Scenario{
		Name:     "appconfig",
		Owner:    configv1.GroupVersion.WithKind("AppConfig"),
		Children: []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("ConfigMap")},
		Steps: []campaign.Step{
			{Name: "create", Do: createConfig, Settled: configIs("one", "NoUsers", 1, 1)},
			{Name: "update", Do: patchConfig(`{"config": {"MESSAGE": "two {{ .Application }}"}}`), Settled: configIs("two shop", "NoUsers", 2, 1, 2)},
			{Name: "update again", Do: patchConfig(`{"config": {"MESSAGE": "three"}}`), Settled: configIs("three", "NoUsers", 3, 2, 3)},
			{Name: "edit by hand", Do: editConfigMap, Settled: func(world campaign.World) error {
				var configMap corev1.ConfigMap
				if err := world.Read("ConfigMap", "shop-config", &configMap); err != nil {
					return err
				}
				if configMap.Annotations["example.com/edited"] == "" {
					return fmt.Errorf("it is not edited yet")
				}
				return configIs("three", "NoUsers", 3, 2, 3)(world)
			}},
			{Name: "go back", Do: patchConfig(`{"revision": 2}`), Settled: configIs("two shop", "NoUsers", 2, 2, 3)},
			{Name: "delete", Do: deleteConfig, Settled: campaign.IsEmpty},
		},
		IsReady: func(owner *unstructured.Unstructured) bool {
			var config configv1.AppConfig
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(owner.Object, &config); err != nil {
				return false
			}
			return config.Status.ObservedGeneration == config.Generation && meta.IsStatusConditionTrue(config.Status.Conditions, configv1.ConditionReady)
		},
	}
}

func createConfig(ctx context.Context, c client.Client, namespace string) error {
	return c.Create(ctx, &configv1.AppConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: appName},
		Spec: configv1.AppConfigSpec{
			Application: appName, Config: map[string]string{"MESSAGE": "one"}, RevisionHistoryLimit: new(int32(1)),
		},
	})
}

func patchConfig(spec string) func(context.Context, client.Client, string) error {
	return func(ctx context.Context, c client.Client, namespace string) error {
		config := &configv1.AppConfig{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: appName}}
		return c.Patch(ctx, config, client.RawPatch("application/merge-patch+json", []byte(`{"spec": `+spec+`}`)))
	}
}

func editConfigMap(ctx context.Context, c client.Client, namespace string) error {
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop-config"}}
	patch := `{"metadata": {"annotations": {"example.com/edited": "yes"}}, "data": {"MESSAGE": "oops", "MORE": "x"}}`
	return c.Patch(ctx, configMap, client.RawPatch("application/merge-patch+json", []byte(patch)))
}

func deleteConfig(ctx context.Context, c client.Client, namespace string) error {
	config := &configv1.AppConfig{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: appName}}
	return c.Delete(ctx, config, client.PropagationPolicy(metav1.DeletePropagationBackground))
}

// configIs tells what is missing until the ConfigMap has one message, that of a revision, and the status says so; kept are the
// revisions that there are.
func configIs(message, reason string, revision int64, kept ...int) func(campaign.World) error {
=======
	"github.com/mainstay-platform/mainstay/internal/workload"
	"github.com/mainstay-platform/mainstay/test/faults/campaign"
)

// appConfig makes a configuration that a Deployment uses, changes a value, rolls each out, and deletes it. With the change no
// history is wanted any more: when the new content is good, the revision before it goes.
func appConfig() campaign.Scenario {
	return campaign.Scenario{
		Name:  "appconfig",
		Owner: configv1.GroupVersion.WithKind("AppConfig"),
		Children: []schema.GroupVersionKind{
			corev1.SchemeGroupVersion.WithKind("ConfigMap"),
			k8sappsv1.SchemeGroupVersion.WithKind("Deployment"),
		},
		Steps: []campaign.Step{
			{Name: "create", Do: createConfig, Settled: configIs(configState{ready: "False RollingOut", content: "red", runs: "red", revisions: []string{"1"}})},
			{Name: "roll out", Do: makeAvailable, Settled: configIs(configState{ready: "True UpToDate", content: "red", runs: "red", revisions: []string{"1"}, good: "1"})},
			{Name: "change", Do: changeConfig, Settled: configIs(configState{ready: "False RollingOut", content: "blue", runs: "blue", restarted: true, revisions: []string{"1", "2"}, good: "1"})},
			{Name: "roll out the change", Do: makeAvailable, Settled: configIs(configState{ready: "True UpToDate", content: "blue", runs: "blue", restarted: true, revisions: []string{"2"}, good: "2"})},
			{Name: "delete", Do: deleteConfig, Settled: campaign.IsEmpty},
		},
		IsReady: configIsReady,
		Mask:    hideRestartTimes,
	}
}

// configState is what a step of the scenario comes to.
type configState struct {
	// ready is status and reason of the condition Ready.
	ready string
	// content is what the ConfigMap has, and runs what the Deployment's pods were started with.
	content, runs string
	// restarted tells that the Deployment was restarted.
	restarted bool
	// revisions are those that are kept, and good is the last one that all pods have run.
	revisions []string
	good      string
}

const (
	colour     = "COLOUR"
	configName = appName + "-config"
)

func createConfig(ctx context.Context, c client.Client, namespace string) error {
	deployment := newDeployment(namespace, appName)
	deployment.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{
		ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: configName}},
	}}
	if err := c.Create(ctx, deployment); err != nil {
		return err
	}
	return c.Create(ctx, &configv1.AppConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: appName},
		Spec:       configv1.AppConfigSpec{Application: appName, Config: map[string]string{colour: "red"}},
	})
}

func changeConfig(ctx context.Context, c client.Client, namespace string) error {
	patch := `{"spec": {"config": {"` + colour + `": "blue"}, "revisionHistoryLimit": 0}}`
	return c.Patch(ctx, namedConfig(namespace), client.RawPatch("application/merge-patch+json", []byte(patch)))
}

func deleteConfig(ctx context.Context, c client.Client, namespace string) error {
	if err := c.Delete(ctx, namedConfig(namespace), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		return err
	}
	return c.Delete(ctx, newDeployment(namespace, appName))
}

func namedConfig(namespace string) *configv1.AppConfig {
	return &configv1.AppConfig{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: appName}}
}

// configIs tells what is missing until all is as described.
func configIs(want configState) func(campaign.World) error {
>>>>>>> 3b19946 (test/faults: scenarios of AppConfig and ConfigMonitor)
	return func(world campaign.World) error {
		var config configv1.AppConfig
		if err := world.Read("AppConfig", appName, &config); err != nil {
			return err
		}
<<<<<<< HEAD
		ready := meta.FindStatusCondition(config.Status.Conditions, configv1.ConditionReady)
		if ready == nil || config.Status.ObservedGeneration != config.Generation {
			return fmt.Errorf("the status is not of generation %d", config.Generation)
		}
		if ready.Reason != reason || config.Status.Revision != revision || len(config.Status.Revisions) != len(kept) {
			return fmt.Errorf("it is %s, with revision %d of %d", ready.Reason, config.Status.Revision, len(config.Status.Revisions))
		}
		var configMap corev1.ConfigMap
		if err := world.Read("ConfigMap", "shop-config", &configMap); err != nil {
			return err
		}
		if !maps.Equal(configMap.Data, map[string]string{"MESSAGE": message}) {
			return fmt.Errorf("the ConfigMap has %v", configMap.Data)
		}
		for _, number := range kept {
			if _, there := world[fmt.Sprintf("ConfigMap shop-config-%d", number)]; !there {
				return fmt.Errorf("there is no revision %d", number)
			}
		}
		if len(world) != len(kept)+2 {
			return fmt.Errorf("there are %d objects", len(world))
		}
		return nil
	}
}
=======
		if err := conditionIs(config.Status.Conditions, config.Generation, config.Status.ObservedGeneration, want.ready); err != nil {
			return err
		}
		var current corev1.ConfigMap
		if err := world.Read("ConfigMap", configName, &current); err != nil {
			return err
		}
		if got := current.Data[colour]; got != want.content {
			return fmt.Errorf("the ConfigMap has %s, not %s", got, want.content)
		}
		if got := current.Annotations[configv1.AnnotationLastGood]; got != want.good {
			return fmt.Errorf("the last good revision is %q, not %q", got, want.good)
		}
		for _, revision := range []string{"1", "2"} {
			_, kept := world["ConfigMap "+configName+"-"+revision]
			if wanted := slices.Contains(want.revisions, revision); kept != wanted {
				return fmt.Errorf("revision %s is kept: %t", revision, kept)
			}
		}
		return runs(world, configName, want.runs, want.restarted)
	}
}

// conditionIs tells whether the condition Ready is of the present spec, with a status and a reason.
func conditionIs(conditions []metav1.Condition, generation, observed int64, want string) error {
	condition := meta.FindStatusCondition(conditions, configv1.ConditionReady)
	if condition == nil || observed != generation {
		return fmt.Errorf("the status is not of generation %d", generation)
	}
	if got := string(condition.Status) + " " + condition.Reason; got != want {
		return fmt.Errorf("Ready is %s: %s; not %s", got, condition.Message, want)
	}
	return nil
}

// runs tells whether the Deployment's pods were started with a colour in a ConfigMap, and whether they had to be restarted for it.
func runs(world campaign.World, configMap, value string, restarted bool) error {
	var deployment k8sappsv1.Deployment
	if err := world.Read("Deployment", appName, &deployment); err != nil {
		return err
	}
	stamp := workload.ParseStamp(deployment.Annotations[configv1.AnnotationObserved])
	wanted := workload.HashAll(map[string]string{colour: workload.HashKey([]byte(value))})
	if got := stamp.Sources["ConfigMap/"+configMap].All; got != wanted {
		return fmt.Errorf("the Deployment was started with %q; %s is %q", got, value, wanted)
	}
	if token := deployment.Spec.Template.Annotations[configv1.AnnotationRestartedFor]; (token != "") != restarted {
		return fmt.Errorf("the Deployment was restarted for %q", token)
	}
	return nil
}

func configIsReady(owner *unstructured.Unstructured) bool {
	var config configv1.AppConfig
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(owner.Object, &config); err != nil {
		return false
	}
	return config.Status.ObservedGeneration == config.Generation && meta.IsStatusConditionTrue(config.Status.Conditions, configv1.ConditionReady)
}

// hideRestartTimes takes the times out of what Mainstay notes on workloads. How often it restarted them, and for what, stays.
func hideRestartTimes(object *unstructured.Unstructured) {
	annotations := object.GetAnnotations()
	noted, has := annotations[configv1.AnnotationObserved]
	if !has {
		return
	}
	stamp := workload.ParseStamp(noted)
	hidden := time.Unix(0, 0).UTC()
	if stamp.RestartedAt != nil {
		stamp.RestartedAt = &hidden
	}
	for source, seen := range stamp.Sources {
		if seen.At != nil {
			seen.At = &hidden
			stamp.Sources[source] = seen
		}
	}
	text, _ := json.Marshal(stamp) // it was JSON before
	annotations[configv1.AnnotationObserved] = string(text)
	object.SetAnnotations(annotations)
}
>>>>>>> 3b19946 (test/faults: scenarios of AppConfig and ConfigMonitor)
