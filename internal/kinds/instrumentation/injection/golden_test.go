package injection_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/test/golden"
)

// languages returns the agent fields that each language needs besides the image.
func languages() map[instrv1.Language]instrv1.Agent {
	return map[instrv1.Language]instrv1.Agent{
		instrv1.LanguageJava:   {Options: "level=debug"},
		instrv1.LanguageNodeJS: {}, instrv1.LanguagePython: {}, instrv1.LanguageRuby: {},
		instrv1.LanguageDotNet: {Path: "profiler.so", Profiler: "{918728DD-259F-4A6A-AC2B-B85E1B658318}"},
		instrv1.LanguageCustom: {Env: []corev1.EnvVar{{Name: "LD_PRELOAD", Value: "/mainstay/agent/agent.so"}}},
	}
}

// TestComposed pins what is composed of one template. If this changes, a new version of Mainstay
// replaces every pod that has an agent. Such a change must be intended and be in the changelog; it
// must not happen by accident, as by another default.
func TestComposed(t *testing.T) {
	var files []string
	for language, agent := range languages() {
		for _, mode := range []instrv1.VolumeMode{instrv1.VolumeInitContainer, instrv1.VolumeImage} {
			name := strings.ToLower(string(language)+"-"+string(mode)) + ".yaml"
			files = append(files, name)
			t.Run(name, func(t *testing.T) {
				agent.Image, agent.Language, agent.VolumeMode = "registry.example.com/agents/"+string(language)+":1", language, mode
				object := namespaced("golden", func(spec *instrv1.InstrumentationSpec) {
					spec.Agent = agent
					spec.Matchers = []instrv1.Matcher{{Container: "app", Env: []corev1.EnvVar{{Name: "TEAM", Value: "shop"},
						{Name: "LOG", Value: "agent"}}}}
				})
				setting := settingOf(t, object)
				made := template(container("app", corev1.EnvVar{Name: "LOG", Value: "owner"},
					corev1.EnvVar{Name: "JAVA_TOOL_OPTIONS", Value: "-Xmx64m"},
					corev1.EnvVar{Name: "PYTHONPATH", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1",
						FieldPath: "metadata.name"}}}), container("other"))
				made.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: new(int64(10001)), RunAsNonRoot: new(true)}
				expectStates(t, name, compose(setting, &made, nil), injection.In)
				content, err := yaml.Marshal(made)
				if err != nil {
					t.Fatal(err)
				}
				golden.Check(t, name, content)
			})
		}
	}
	golden.CheckUnused(t, files)
}
