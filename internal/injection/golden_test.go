package injection_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/injection"
)

var update = flag.Bool("update", false, "write testdata instead of comparing with it")

// languages are what a spec has beside the image, by the language.
func languages() map[instrv1.Language]instrv1.Agent {
	return map[instrv1.Language]instrv1.Agent{
		instrv1.LanguageJava:   {Options: "level=debug"},
		instrv1.LanguageNodeJS: {}, instrv1.LanguagePython: {}, instrv1.LanguageRuby: {},
		instrv1.LanguageDotNet: {Path: "profiler.so", Profiler: "{918728DD-259F-4A6A-AC2B-B85E1B658318}"},
		instrv1.LanguageCustom: {Env: []corev1.EnvVar{{Name: "LD_PRELOAD", Value: "/mainstay/agent/agent.so"}}},
	}
}

// TestComposed: what is composed of one template. Where this changes, a new version of Mainstay replaces each pod that has an agent: that may be wanted,
// and is then told in the changelog; it may not come by chance, as by another default.
func TestComposed(t *testing.T) {
	known := map[string]bool{}
	for language, agent := range languages() {
		for _, mode := range []instrv1.VolumeMode{instrv1.VolumeInitContainer, instrv1.VolumeImage} {
			name := strings.ToLower(string(language)+"-"+string(mode)) + ".yaml"
			known[name] = true
			t.Run(name, func(t *testing.T) {
				agent.Image, agent.Language, agent.VolumeMode = "registry.example.com/agents/"+string(language)+":1", language, mode
				object := instrumentation("golden", func(spec *instrv1.InstrumentationSpec) {
					spec.Agent = agent
					spec.Matchers = []instrv1.Matcher{{Container: "app", Env: []corev1.EnvVar{{Name: "TEAM", Value: "shop"}, {Name: "LOG", Value: "agent"}}}}
				})
				setting := settingOf(t, object)
				if problems := injection.Validate(setting.Agents[0].Spec); len(problems) > 0 {
					t.Fatal(problems)
				}
				made := template(container("app", corev1.EnvVar{Name: "LOG", Value: "owner"}, corev1.EnvVar{Name: "JAVA_TOOL_OPTIONS", Value: "-Xmx64m"},
					corev1.EnvVar{Name: "PYTHONPATH", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}}), container("other"))
				made.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: new(int64(10001)), RunAsNonRoot: new(true)}
				expectStates(t, name, compose(setting, &made, nil), injection.In)
				expectFile(t, filepath.Join("testdata", name), made)
			})
		}
	}
	files, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !known[file.Name()] {
			t.Errorf("testdata/%s belongs to no case", file.Name())
		}
	}
}

// expectFile compares with what a file has; or writes it.
func expectFile(t *testing.T, file string, value any) {
	t.Helper()
	got, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if difference := cmp.Diff(string(want), string(got)); difference != "" {
		t.Errorf("it is not what %s has (- wanted, + is); -update writes it:\n%s", file, difference)
	}
}
