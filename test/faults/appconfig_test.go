package faults

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/test/faults/campaign"
)

// appConfig creates an AppConfig, changes it so that the first revision becomes an earlier one and
// is then pruned, edits the ConfigMap by hand, restores an earlier content, and deletes the
// AppConfig.
func appConfig() campaign.Scenario {
	return campaign.Scenario{
		Name:     "appconfig",
		Owner:    configv1.GroupVersion.WithKind("AppConfig"),
		Children: []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("ConfigMap")},
		Steps: []campaign.Step{
			{Name: "create", Do: create(newConfig()), Settled: configIs("one", 1, 1)},
			{Name: "update", Do: patchConfig(`{"config": {"MESSAGE": "two {{ .Application }}"}}`), Settled: configIs("two shop", 2, 1, 2)},
			{Name: "update again", Do: patchConfig(`{"config": {"MESSAGE": "three"}}`), Settled: configIs("three", 3, 2, 3)},
			{Name: "edit by hand", Do: editConfigMap(), Settled: func(world campaign.World) error {
				var configMap corev1.ConfigMap
				if err := world.Read("ConfigMap", "shop-config", &configMap); err != nil {
					return err
				}
				if configMap.Annotations["example.com/edited"] == "" {
					return fmt.Errorf("it is not edited yet")
				}
				return configIs("three", 3, 2, 3)(world)
			}},
			{Name: "go back", Do: patchConfig(`{"revision": 2}`), Settled: configIs("two shop", 2, 2, 3)},
			{Name: "delete", Do: remove(newConfig()), Settled: campaign.IsEmpty},
		},
		IsReady: configIsReady,
	}
}

func newConfig() *configv1.AppConfig {
	return &configv1.AppConfig{ObjectMeta: metav1.ObjectMeta{Name: appName}, Spec: configv1.AppConfigSpec{
		Application: appName, Config: map[string]string{"MESSAGE": "one"}, RevisionHistoryLimit: new(int32(1)),
	}}
}

func patchConfig(spec string) action { return merge(newConfig(), `{"spec": `+spec+`}`) }

func editConfigMap() action {
	return merge(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shop-config"}},
		`{"metadata": {"annotations": {"example.com/edited": "yes"}}, "data": {"MESSAGE": "oops", "MORE": "x"}}`)
}

// configIs returns a check that the ConfigMap has a message, that of a revision, and that the
// status says so. kept are the existing revisions.
func configIs(message string, revision int64, kept ...int) func(campaign.World) error {
	return func(world campaign.World) error {
		var config configv1.AppConfig
		if err := world.Read("AppConfig", appName, &config); err != nil {
			return err
		}
		ready := meta.FindStatusCondition(config.Status.Conditions, configv1.ConditionReady)
		if ready == nil || config.Status.ObservedGeneration != config.Generation {
			return fmt.Errorf("the status is not of generation %d", config.Generation)
		}
		if ready.Reason != configv1.ReasonNoUsers || config.Status.Revision != revision || len(config.Status.Revisions) != len(kept) {
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

// configIsReady trusts the condition except for the content that the user edits. Without a running
// manager, an AppConfig cannot show that its ConfigMap was edited. It is also the content for which
// a revision is pruned: the status names that revision until it is deleted, while Ready speaks of
// the content only.
func configIsReady(owner *unstructured.Unstructured) bool {
	var config configv1.AppConfig
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(owner.Object, &config); err != nil {
		return false
	}
	isEdited := config.Spec.Config["MESSAGE"] == "three" && config.Spec.Revision == nil
	return !isEdited && config.Status.ObservedGeneration == config.Generation && meta.IsStatusConditionTrue(config.Status.Conditions,
		configv1.ConditionReady)
}
