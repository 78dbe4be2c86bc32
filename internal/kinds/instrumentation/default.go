package instrumentation

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
)

const (
	defaultCanaryPercent = 10
	defaultSoak          = 5 * time.Minute
)

// defaultPaths are the files that the runtime loads, by language.
var defaultPaths = map[instrv1.Language]string{
	instrv1.LanguageJava: "agent.jar", instrv1.LanguageNodeJS: "agent.js", instrv1.LanguageRuby: "agent.rb",
}

// Default fills in omitted fields of an object. It is idempotent.
func Default[T injection.Object](object T) { defaultSpec(object.GetSpec()) }

func defaultSpec(spec *instrv1.InstrumentationSpec) {
	for i := range spec.Matchers {
		if len(spec.Matchers[i].Kinds) == 0 {
			spec.Matchers[i].Kinds = []instrv1.WorkloadKind{instrv1.KindDeployment}
		}
		defaultEnv(spec.Matchers[i].Env)
	}
	defaultAgent(&spec.Agent)
	defaultRollout(&spec.Rollout)
}

func defaultAgent(agent *instrv1.Agent) {
	set(&agent.ImagePullPolicy, corev1.PullIfNotPresent)
	set(&agent.VolumeMode, instrv1.VolumeInitContainer)
	set(&agent.Directory, "/agent")
	set(&agent.MountPath, "/mainstay/agent")
	set(&agent.Path, defaultPaths[agent.Language])
	if agent.SizeLimit == nil {
		agent.SizeLimit = new(resource.MustParse("256Mi"))
	}
	if len(agent.Command) == 0 && agent.VolumeMode == instrv1.VolumeInitContainer {
		agent.Command = []string{"cp", "-R", agent.Directory + "/.", agent.MountPath}
	}
	if agent.Resources == nil {
		// Requests equal limits, so that a Guaranteed pod stays Guaranteed.
		agent.Resources = &corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
		}
	}
	roundUp(agent.Resources.Requests)
	roundUp(agent.Resources.Limits)
	defaultEnv(agent.Env)
}

// roundUp rounds quantities as the API server does for containers: what is injected must equal what
// is stored.
func roundUp(list corev1.ResourceList) {
	for name, quantity := range list {
		quantity.RoundUp(resource.Milli)
		list[name] = quantity
	}
}

func defaultRollout(rollout *instrv1.Rollout) {
	set(&rollout.Strategy, instrv1.RolloutAutomatic)
	if rollout.Strategy != instrv1.RolloutCanary {
		return
	}
	if rollout.Canary == nil {
		rollout.Canary = &rolloutv1.Canary{}
	}
	if rollout.Canary.Count == 0 && rollout.Canary.Percent == nil {
		rollout.Canary.Percent = new(int32(defaultCanaryPercent))
	}
	if rollout.Canary.Soak == nil {
		rollout.Canary.Soak = &metav1.Duration{Duration: defaultSoak}
	}
}

// defaultEnv fills in what the API server would: what is injected must equal what is stored.
func defaultEnv(variables []corev1.EnvVar) {
	for i := range variables {
		if from := variables[i].ValueFrom; from != nil && from.FieldRef != nil {
			set(&from.FieldRef.APIVersion, "v1")
		}
	}
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
