package instrumentationtest

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
)

// Began is the earliest creation time of the generated objects.
var Began = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

// Objects returns valid Instrumentations of both kinds, whose names begin with a prefix.
func (g *Generator) Objects(prefix string) []injection.Object {
	var objects []injection.Object
	for i := range pick(g, 0, 1, 2, 2, 3, 4) {
		meta := metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", prefix, i), Finalizers: []string{injection.Finalizer},
			CreationTimestamp: metav1.NewTime(Began.Add(time.Duration(g.chance.IntN(3)) * time.Hour)),
		}
		if g.oneIn(3) {
			object := &instrv1.ClusterInstrumentation{ObjectMeta: meta}
			object.Spec = instrv1.ClusterInstrumentationSpec{InstrumentationSpec: g.spec(), AllowAll: true}
			objects = append(objects, object)
		} else {
			meta.Namespace = Namespace
			objects = append(objects, &instrv1.Instrumentation{ObjectMeta: meta, Spec: g.spec()})
		}
		instrumentation.Default(objects[i])
	}
	return objects
}

func (g *Generator) spec() instrv1.InstrumentationSpec {
	spec := instrv1.InstrumentationSpec{Agent: g.agent()}
	for range 1 + g.chance.IntN(3) {
		spec.Matchers = append(spec.Matchers, instrv1.Matcher{
			Deployment: pick(g, "", "*", "web-*", "web-[0-2]", "web-?"), Container: pick(g, "", "", "app*", "app-?", "istio-proxy", "*"),
			Env: g.agentEnv(&spec.Agent),
		})
	}
	if g.oneIn(5) {
		spec.Rollout.MaxParallel = new(int32(1))
	}
	if g.oneIn(8) {
		spec.Rollout.Strategy = instrv1.RolloutCanary
		spec.Rollout.Canary = &rolloutv1.Canary{Count: 1}
	}
	return spec
}

func (g *Generator) agent() instrv1.Agent {
	agent := instrv1.Agent{
		Image: pick(g, "registry.example.com/agent:1", "registry.example.com/agent:2"),
		Language: pick(g, instrv1.LanguageJava, instrv1.LanguageJava, instrv1.LanguageNodeJS, instrv1.LanguagePython, instrv1.LanguageRuby,
			instrv1.LanguageDotNet, instrv1.LanguageCustom),
		MountPath:       pick(g, "", "", "/opt/agent"),
		ImagePullPolicy: pick(g, "", corev1.PullAlways),
		VolumeMode:      pick(g, "", instrv1.VolumeInitContainer, instrv1.VolumeImage),
	}
	switch agent.Language {
	case instrv1.LanguageJava:
		agent.Options = pick(g, "", "debug=true")
	case instrv1.LanguageDotNet:
		agent.Path, agent.Profiler = "profiler.so", "{918728DD-259F-4A6A-AC2B-B85E1B658318}"
	}
	if agent.VolumeMode != instrv1.VolumeImage && g.oneIn(3) {
		agent.Command = []string{"/bin/cp", "-R", "/files/.", "/mainstay/agent"}
		agent.SizeLimit = new(resource.MustParse(pick(g, "1Gi", "0.5Gi", "1000")))
		agent.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(pick(g, "1", "0.25",
			"0.0001"))}}
	}
	agent.Env = g.agentEnv(&agent)
	return agent
}

// agentEnv are variables that the language does not set itself.
func (g *Generator) agentEnv(agent *instrv1.Agent) []corev1.EnvVar {
	possible := []corev1.EnvVar{
		{Name: "LOG", Value: pick(g, "info", "1")},
		{Name: "TEAM", Value: "team-a"},
		{Name: "GREETING"},
		{Name: "WHERE", Value: "$(POD) of $(TEAM)"},
		{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		{Name: "LEVEL", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "levels"}, Key: "level", Optional: new(true),
		}}},
	}
	if agent.Language != instrv1.LanguagePython {
		possible = append(possible, corev1.EnvVar{Name: "PYTHONPATH", Value: "/lib"})
	}
	g.chance.Shuffle(len(possible), func(i, j int) { possible[i], possible[j] = possible[j], possible[i] })
	return possible[:g.chance.IntN(len(possible))]
}

// Setting returns the context of the namespace with some Instrumentations, or an error if one is
// invalid.
func (g *Generator) Setting(objects []injection.Object) (*injection.NamespaceContext, error) {
	hasImageVolumes := !g.oneIn(5)
	setting, err := Setting(objects...)
	if err == nil {
		setting.HasImageVolumes = hasImageVolumes
	}
	return setting, err
}

// Granted returns annotations of a workload that grant Instrumentations their revisions.
func Granted(setting *injection.NamespaceContext) map[string]string {
	annotations := map[string]string{"example.com/owner": "team-a"}
	for _, agent := range setting.Agents {
		annotations[injection.GrantKey(agent.ID)] = injection.Grant{Revision: agent.Revision, At: Began, Attempts: 1}.String()
	}
	return annotations
}
