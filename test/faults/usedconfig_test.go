package faults

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/workload"
	"github.com/mainstay-platform/mainstay/test/faults/campaign"
)

// usedConfig creates an AppConfig, then a Deployment that uses it, and changes a value. The change
// also sets the history limit to zero: when the new revision is good, the earlier one is pruned.
// Each change is rolled out. Then the Deployment and the AppConfig are deleted.
func usedConfig() campaign.Scenario {
	first := usedConfigState{ready: "False RollingOut", user: "Rolling 1", content: "red", runs: "red", revisions: []string{"1"}}
	good := usedConfigState{ready: "True UpToDate", user: "UpToDate 1", content: "red", runs: "red", revisions: []string{"1"}, good: "1"}
	second := usedConfigState{ready: "False RollingOut", user: "Rolling 2", content: "blue", runs: "blue", restarted: true,
		revisions: []string{"1", "2"}, good: "1"}
	better := usedConfigState{ready: "True UpToDate", user: "UpToDate 2", content: "blue", runs: "blue", restarted: true,
		revisions: []string{"2"}, good: "2"}
	return campaign.Scenario{
		Name:  "appconfig-used",
		Owner: configv1.GroupVersion.WithKind("AppConfig"),
		Children: []schema.GroupVersionKind{
			corev1.SchemeGroupVersion.WithKind("ConfigMap"),
			appsv1.SchemeGroupVersion.WithKind("Deployment"),
		},
		Steps: []campaign.Step{
			{Name: "create", Do: create(usedAppConfig()), Settled: usedConfigIs(usedConfigState{ready: "True NoUsers", content: "red",
				revisions: []string{"1"}})},
			{Name: "use", Do: create(configUser()), Settled: usedConfigIs(first)},
			{Name: "roll out", Do: makeAvailable, Settled: usedConfigIs(good)},
			{Name: "change", Do: merge(usedAppConfig(), `{"spec": {"config": {"COLOUR": "blue"}, "revisionHistoryLimit": 0}}`),
				Settled: usedConfigIs(second)},
			{Name: "roll out the change", Do: makeAvailable, Settled: usedConfigIs(better)},
			{Name: "retire", Do: remove(deployment()), Settled: usedConfigIs(usedConfigState{ready: "True NoUsers", content: "blue", revisions: []string{"2"},
				good: "2"})},
			{Name: "delete", Do: remove(usedAppConfig()), Settled: campaign.IsEmpty},
		},
		MoreStatuses: betweenControllers,
		IsReady:      usedConfigIsReady,
		Mask:         hideRestartTimes,
	}
}

// betweenControllers is how many more status writes a run may have if one controller's status
// reports another's work: it may report each of the other's writes separately or several together.
const betweenControllers = 4

// usedConfigState is the expected state after a step of the scenario.
type usedConfigState struct {
	// ready is status and reason of the condition Ready.
	ready string
	// user is the state of the Deployment and the revision that its pods run, by the status, empty
	// without a Deployment.
	user string
	// content is the content of the ConfigMap. runs is the content that the Deployment's pods were
	// started with, empty without a Deployment.
	content, runs string
	// restarted means that the Deployment was restarted.
	restarted bool
	// revisions are the revisions kept. good is the last revision that all pods have run.
	revisions []string
	good      string
}

const (
	colour        = "COLOUR"
	usedConfigMap = appName + "-config"
)

func usedAppConfig() *configv1.AppConfig {
	return &configv1.AppConfig{ObjectMeta: metav1.ObjectMeta{Name: appName},
		Spec: configv1.AppConfigSpec{Application: appName, Config: map[string]string{colour: "red"}}}
}

// configUser returns a Deployment that uses the ConfigMap.
func configUser() *appsv1.Deployment {
	user := deployment()
	user.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{
		ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: usedConfigMap}},
	}}
	return user
}

// usedConfigIs returns a check that everything is as in want.
func usedConfigIs(want usedConfigState) func(campaign.World) error {
	return func(world campaign.World) error {
		var config configv1.AppConfig
		if err := world.Read("AppConfig", appName, &config); err != nil {
			return err
		}
		if err := conditionIs(config.Status.Conditions, config.Generation, config.Status.ObservedGeneration, want.ready); err != nil {
			return err
		}
		if got := userOf(config.Status); got != want.user {
			return fmt.Errorf("the status has the workload %q, not %q", got, want.user)
		}
		var current corev1.ConfigMap
		if err := world.Read("ConfigMap", usedConfigMap, &current); err != nil {
			return err
		}
		if got := current.Data[colour]; got != want.content {
			return fmt.Errorf("the ConfigMap has %s, not %s", got, want.content)
		}
		if got := current.Annotations[configv1.AnnotationLastGood]; got != want.good {
			return fmt.Errorf("the last good revision is %q, not %q", got, want.good)
		}
		for _, revision := range []string{"1", "2"} {
			_, kept := world["ConfigMap "+usedConfigMap+"-"+revision]
			if wanted := slices.Contains(want.revisions, revision); kept != wanted {
				return fmt.Errorf("revision %s is kept: %t", revision, kept)
			}
		}
		return runs(world, usedConfigMap, want.runs, want.restarted)
	}
}

// conditionIs checks that the condition Ready is of the current generation, with a status and a
// reason.
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

// runs checks which content of a ConfigMap the Deployment's pods were started with, and whether
// they were restarted for it. Without a value it checks that there is no Deployment.
func runs(world campaign.World, configMap, value string, restarted bool) error {
	if _, exists := world["Deployment "+appName]; value == "" && !exists {
		return nil
	}
	var deployment appsv1.Deployment
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

// userOf returns what a status says about the workloads.
func userOf(status configv1.AppConfigStatus) string {
	var users []string
	for _, user := range status.Workloads {
		users = append(users, fmt.Sprint(user.State, " ", user.Revision))
	}
	return strings.Join(users, ", ")
}

// usedConfigIsReady trusts the condition while the AppConfig is used. Before that, an AppConfig
// without a running manager cannot show that a workload was created.
func usedConfigIsReady(owner *unstructured.Unstructured) bool {
	var config configv1.AppConfig
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(owner.Object, &config); err != nil {
		return false
	}
	return len(config.Status.Workloads) > 0 && config.Status.ObservedGeneration == config.Generation &&
		meta.IsStatusConditionTrue(config.Status.Conditions, configv1.ConditionReady)
}

// hideRestartTimes removes the times from our annotations on workloads. The number of restarts and
// their tokens remain.
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
	if stamp.DoneAt != nil {
		stamp.DoneAt = &hidden
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
