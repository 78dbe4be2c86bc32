package faults

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/test/faults/campaign"
)

// appStack creates an AppStack of two AppConfigs, one after the other, changes both in order, edits
// one by hand, renames it, and deletes the stack. AppConfigs are ready without pods.
func appStack() campaign.Scenario {
	return campaign.Scenario{
		Name:  "appstack",
		Owner: platformv1.GroupVersion.WithKind("AppStack"),
		Children: []schema.GroupVersionKind{
			configv1.GroupVersion.WithKind("AppConfig"), corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		},
		Steps: []campaign.Step{
			{Name: "create", Do: create(newStack()), Settled: stackIs("one", "base", "more")},
			{Name: "update", Do: patchStack("two", "base", "more"), Settled: stackIs("two", "base", "more")},
			{Name: "edit by hand", Do: editComponent(), Settled: func(world campaign.World) error {
				var config configv1.AppConfig
				if err := world.Read("AppConfig", "shop-more", &config); err != nil {
					return err
				}
				if config.Annotations["example.com/edited"] == "" || config.Annotations["platform.mainstay.dev/depends-on"] != "base" {
					return fmt.Errorf("it is not edited yet, or not put back")
				}
				return stackIs("two", "base", "more")(world)
			}},
			{Name: "rename", Do: patchStack("three", "base", "other"), Settled: stackIs("three", "base", "other")},
			{Name: "delete", Do: remove(newStack()), Settled: campaign.IsEmpty},
		},
		Finalizes: true,
		IsReady:   stackIsReady,
		// A component's status comes from its own controller, and each of its changes may be seen or not.
		MoreStatuses:    30,
		HasManyChildren: true,
	}
}

// stackSpec returns a spec of two AppConfigs with a content. The second one depends on the first.
func stackSpec(content string, names ...string) string {
	var components []string
	for i, name := range names {
		on := ""
		if i > 0 {
			on = `"dependsOn": ["` + names[0] + `"],`
		}
		components = append(components, fmt.Sprintf(
			`{"name": %q, "type": "appConfig", %s "spec": {"application": %q, "config": {"MESSAGE": %q}}}`, name, on, name, content))
	}
	return `{"spec": {"updates": "Ordered", "components": [` + strings.Join(components, ", ") + `]}}`
}

func newStack() *unstructured.Unstructured {
	stack := &unstructured.Unstructured{}
	text := strings.Replace(stackSpec("one", "base", "more"), "{", `{"apiVersion": "platform.mainstay.dev/v1", "kind": "AppStack", `, 1)
	if err := stack.UnmarshalJSON([]byte(text)); err != nil {
		panic(err)
	}
	stack.SetName(appName)
	return stack
}

func patchStack(content string, names ...string) action {
	return merge(newStack(), stackSpec(content, names...))
}

// editComponent edits what the component's own controller does not react to: it may see an edit of
// the spec, or not, before that is put back.
func editComponent() action {
	return merge(&configv1.AppConfig{ObjectMeta: metav1.ObjectMeta{Name: "shop-more"}},
		`{"metadata": {"annotations": {"example.com/edited": "yes", "platform.mainstay.dev/depends-on": "nothing"}}}`)
}

// stackIs returns a check that exactly these components exist, with a content, and that the status
// says so.
func stackIs(content string, names ...string) func(campaign.World) error {
	return func(world campaign.World) error {
		var stack platformv1.AppStack
		if err := world.Read("AppStack", appName, &stack); err != nil {
			return err
		}
		for _, name := range names {
			var config configv1.AppConfig
			if err := world.Read("AppConfig", "shop-"+name, &config); err != nil {
				return err
			}
			if config.Spec.Config["MESSAGE"] != content || len(config.Spec.Config) != 1 {
				return fmt.Errorf("the component %s has %v", name, config.Spec.Config)
			}
			var configMap corev1.ConfigMap
			if err := world.Read("ConfigMap", name+"-config", &configMap); err != nil {
				return err
			}
			if configMap.Data["MESSAGE"] != content || len(configMap.Data) != 1 {
				return fmt.Errorf("the ConfigMap of %s has %v", name, configMap.Data)
			}
		}
		for name := range world {
			if strings.HasPrefix(name, "AppConfig ") && !strings.HasSuffix(name, names[0]) && !strings.HasSuffix(name, names[1]) {
				return fmt.Errorf("%s is still there", name)
			}
		}
		if stack.Status.ObservedGeneration != stack.Generation || stack.Status.Phase != platformv1.PhaseRunning ||
			len(stack.Status.Components) != len(names) {
			return fmt.Errorf("it is %s with %d components", stack.Status.Phase, len(stack.Status.Components))
		}
		return nil
	}
}

// stackIsReady trusts the condition except for the content with which the user edits: without a
// running manager, an AppStack cannot show that a component was edited.
func stackIsReady(owner *unstructured.Unstructured) bool {
	var stack platformv1.AppStack
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(owner.Object, &stack); err != nil {
		return false
	}
	isEdited := len(stack.Spec.Components) > 0 && strings.Contains(string(stack.Spec.Components[0].Spec.Raw), `"two"`)
	return !isEdited && stack.Status.ObservedGeneration == stack.Generation &&
		meta.IsStatusConditionTrue(stack.Status.Conditions, platformv1.ConditionReady)
}
