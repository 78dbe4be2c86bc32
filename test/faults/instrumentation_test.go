package faults

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/test/faults/campaign"
)

// instrumentation injects an agent into a Deployment, and then a changed one. The Deployment opts
// out and in again. The deletion of the Instrumentation restores the Deployment.
func instrumentation() campaign.Scenario {
	return campaign.Scenario{
		Name:     "instrumentation",
		Owner:    instrv1.GroupVersion.WithKind("Instrumentation"),
		Children: []schema.GroupVersionKind{appsv1.SchemeGroupVersion.WithKind("Deployment")},
		Steps: []campaign.Step{
			{Name: "create", Do: create(newInstrumentation()), Settled: instrumentationIs("False NothingMatched", noAgent)},
			{Name: "match", Do: create(deployment()), Settled: instrumentationIs("False Injecting", "agent.jar")},
			{Name: "roll out", Do: makeAvailable, Settled: instrumentationIs("True Injected", "agent.jar")},
			{Name: "change", Do: merge(newInstrumentation(), `{"spec": {"agent": {"options": "debug"}}}`),
				Settled: instrumentationIs("False Injecting", "agent.jar=debug")},
			{Name: "roll out the change", Do: makeAvailable, Settled: instrumentationIs("True Injected", "agent.jar=debug")},
			{Name: "opt out", Do: optOut(`"false"`), Settled: instrumentationIs("False NothingMatched", noAgent)},
			{Name: "opt in", Do: optOut("null"), Settled: instrumentationIs("False Injecting", "agent.jar=debug")},
			{Name: "delete", Do: remove(newInstrumentation()), Settled: isRestored},
			// The deletion needs the manager because of the finalizer. So it must not be the last step, in
			// which the manager receives no events of the owner.
			{Name: "retire", Do: remove(deployment()), Settled: campaign.IsEmpty},
		},
		MoreStatuses: betweenControllers,
		IsReady:      instrumentationIsReady,
		Mask:         hideGrants,
	}
}

// briefInstrumentation injects an agent and removes it. Nothing in it waits for a timer, as the
// removal of an agent that was injected a moment ago does.
func briefInstrumentation() campaign.Scenario {
	scenario := instrumentation()
	scenario.Name = "instrumentation-brief"
	scenario.Steps = slices.DeleteFunc(scenario.Steps, func(step campaign.Step) bool {
		return !slices.Contains([]string{"create", "match", "roll out", "delete", "retire"}, step.Name)
	})
	return scenario
}

// noAgent is the agent of a Deployment without one.
const noAgent = ""

func newInstrumentation() *instrv1.Instrumentation {
	return &instrv1.Instrumentation{ObjectMeta: metav1.ObjectMeta{Name: appName}, Spec: instrv1.InstrumentationSpec{
		Matchers: []instrv1.Matcher{{Deployment: appName, Env: []corev1.EnvVar{{Name: "TEAM", Value: "shop"}}}},
		Agent:    instrv1.Agent{Image: "agent:1", Language: instrv1.LanguageJava},
	}}
}

func optOut(value string) action {
	return merge(deployment(), `{"metadata":{"annotations":{"`+instrv1.AnnotationInject+`":`+value+`}}}`)
}

// instrumentationIs returns a check of the Instrumentation's condition Ready, and of the agent that
// the Deployment loads.
func instrumentationIs(ready, loads string) func(campaign.World) error {
	return func(world campaign.World) error {
		var found instrv1.Instrumentation
		if err := world.Read("Instrumentation", appName, &found); err != nil {
			return err
		}
		if err := conditionIs(found.Status.Conditions, found.Generation, found.Status.ObservedGeneration, ready); err != nil {
			return err
		}
		if progressing := meta.FindStatusCondition(found.Status.Conditions,
			instrv1.ConditionProgressing); progressing.Reason == instrv1.ReasonRestoring {
			return errors.New("the Instrumentation still reports an agent that was removed")
		}
		for _, told := range found.Status.Workloads {
			if told.Reason == instrv1.WorkloadAsked {
				return errors.New("the Instrumentation does not report the write of the Deployment yet")
			}
		}
		return loadsAgent(world, loads)
	}
}

// loadsAgent checks that the Deployment loads this agent, or, for noAgent, that nothing of an agent
// is left.
func loadsAgent(world campaign.World, wanted string) error {
	var deployment appsv1.Deployment
	if _, exists := world["Deployment "+appName]; !exists && wanted == noAgent {
		return nil
	}
	if err := world.Read("Deployment", appName, &deployment); err != nil {
		return err
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	record := injection.Injected(deployment.Spec.Template.Annotations)
	if wanted == noAgent {
		if len(record)+len(container.Env)+len(deployment.Spec.Template.Spec.Volumes) > 0 {
			return fmt.Errorf("there is still an agent: %v", container.Env)
		}
		return nil
	}
	for _, variable := range container.Env {
		if strings.HasSuffix(variable.Value, "/"+wanted) {
			return nil
		}
	}
	return fmt.Errorf("the Deployment does not load %s: %v", wanted, container.Env)
}

// isRestored checks that nothing is left of the Instrumentation.
func isRestored(world campaign.World) error {
	if _, exists := world["Instrumentation "+appName]; exists {
		return errors.New("the Instrumentation is still there")
	}
	var deployment appsv1.Deployment
	if err := world.Read("Deployment", appName, &deployment); err != nil {
		return err
	}
	if len(deployment.Annotations) > 0 {
		return fmt.Errorf("the Deployment has annotations: %v", deployment.Annotations)
	}
	return loadsAgent(world, noAgent)
}

// instrumentationIsReady trusts the condition while something matches and until the agent changes.
// Without a running manager, an Instrumentation cannot show that a Deployment was created or has
// opted out.
func instrumentationIsReady(owner *unstructured.Unstructured) bool {
	var found instrv1.Instrumentation
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(owner.Object, &found); err != nil {
		return false
	}
	return found.Status.ObservedGeneration == found.Generation && found.Spec.Agent.Options == "" && found.Status.Injected > 0 &&
		meta.IsStatusConditionTrue(found.Status.Conditions, instrv1.ConditionReady)
}

// hideGrants hides when a Deployment was written, and the id of the Instrumentation, which depends
// on its namespace.
func hideGrants(object *unstructured.Unstructured) {
	annotations := object.GetAnnotations()
	for key, value := range annotations {
		if fields := strings.Fields(value); strings.HasSuffix(key, "."+instrv1.AnnotationGranted) && len(fields) == 3 {
			fields[1] = "2026-01-01T00:00:00Z"
			annotations[key] = strings.Join(fields, " ")
		}
	}
	object.SetAnnotations(annotations)
	id := injection.Identity{Kind: injection.KindNamespaced, Namespace: object.GetNamespace(), Name: appName}.ID()
	text, err := object.MarshalJSON()
	if err == nil {
		err = object.UnmarshalJSON(bytes.ReplaceAll(text, []byte(id), []byte("00000000")))
	}
	if err != nil {
		panic(err) // it was JSON before
	}
}
