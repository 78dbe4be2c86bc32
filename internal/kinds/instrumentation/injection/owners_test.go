package injection_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
)

// owner is a way in which owners write templates. The last write before was made from the manifest
// named before.
type owner struct {
	name  string
	write func(t *testing.T, before, manifest, stored *corev1.PodTemplateSpec) *corev1.PodTemplateSpec
}

// owners are all ways except server-side apply, which needs a server.
var owners = []owner{
	{"kubectl apply, and Helm", func(t *testing.T, before, manifest, stored *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
		t.Helper()
		return merged(t, before, manifest, stored)
	}},
	{"replace", func(_ *testing.T, _, manifest, _ *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
		return manifest.DeepCopy()
	}},
	{"what kubectl get printed, edited by hand and applied",
		func(t *testing.T, before, manifest, stored *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
			t.Helper()
			exported := merged(t, before, manifest, stored)
			return merged(t, before, exported, stored)
		}},
	{"apply that drops annotations", func(t *testing.T, before, manifest, stored *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
		t.Helper()
		written := merged(t, before, manifest, stored)
		delete(written.Annotations, instrv1.AnnotationInjected)
		return written
	}},
}

// merged returns the three-way merge with a stored template, as in kubectl's client-side apply and
// in Helm.
func merged(t *testing.T, before, manifest, stored *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	t.Helper()
	schema, err := strategicpatch.NewPatchMetaFromStruct(corev1.PodTemplateSpec{})
	if err != nil {
		t.Fatal(err)
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(marshal(t, before), marshal(t, manifest), marshal(t, stored), schema, true)
	if err != nil {
		t.Fatal(err)
	}
	content, err := strategicpatch.StrategicMergePatch(marshal(t, stored), patch, corev1.PodTemplateSpec{})
	if err != nil {
		t.Fatal(err)
	}
	written := &corev1.PodTemplateSpec{}
	if err := json.Unmarshal(content, written); err != nil {
		t.Fatal(err)
	}
	return written
}

func marshal(t *testing.T, value any) []byte {
	t.Helper()
	content, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// forms are the forms in which an owner may set a variable.
var forms = []struct {
	name  string
	owner func(name string) corev1.PodTemplateSpec
}{
	{"absent", func(string) corev1.PodTemplateSpec { return withVariable() }},
	{"a value", func(name string) corev1.PodTemplateSpec { return withVariable(corev1.EnvVar{Name: name, Value: "own"}) }},
	{"another value", func(name string) corev1.PodTemplateSpec {
		return withVariable(corev1.EnvVar{Name: name, Value: "other"})
	}},
	{"a ConfigMap's", func(name string) corev1.PodTemplateSpec {
		return withVariable(corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: "LOG",
		}}})
	}},
	{"a Secret's", func(name string) corev1.PodTemplateSpec {
		return withVariable(corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "credentials"}, Key: "PASSWORD",
		}}})
	}},
	{"a field's", func(name string) corev1.PodTemplateSpec {
		return withVariable(corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
			APIVersion: "v1", FieldPath: "metadata.uid",
		}}})
	}},
	{"of a whole ConfigMap", func(string) corev1.PodTemplateSpec {
		made := withVariable()
		made.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "settings"},
		}}}
		return made
	}},
}

// withVariable returns a template with the variables between others, in a pod with a second
// container.
func withVariable(variables ...corev1.EnvVar) corev1.PodTemplateSpec {
	app := container("app", corev1.EnvVar{Name: "FIRST", Value: "1"})
	app.Env = append(append(app.Env, variables...), corev1.EnvVar{Name: "LAST", Value: "$(FIRST)"})
	made := template(app, container("istio-proxy", corev1.EnvVar{Name: "PROXY", Value: "1"}))
	made.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	made.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	return made
}

// Whatever tool an owner writes with, and whatever changes: the result of injection is as if the
// template had been new, and what is left after removal is what the owner wrote.
func TestOwners(t *testing.T) {
	withEnv := func(variable corev1.EnvVar) injection.Object {
		return namespaced("java", func(spec *instrv1.InstrumentationSpec) { spec.Agent.Env = []corev1.EnvVar{variable} })
	}
	for _, agent := range []struct {
		name, variable string
		object         injection.Object
	}{
		{"a loader", "JAVA_TOOL_OPTIONS", namespaced("java", nil)},
		{"a value", "LOG", withEnv(corev1.EnvVar{Name: "LOG", Value: "info"})},
		{"an empty value", "LOG", withEnv(corev1.EnvVar{Name: "LOG"})},
		{"a field", "LOG", withEnv(corev1.EnvVar{Name: "LOG",
			ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}})},
	} {
		setting := settingOf(t, agent.object)
		for _, owner := range owners {
			for _, first := range forms {
				for _, then := range forms {
					t.Run(agent.name+"/"+owner.name+"/"+first.name+" to "+then.name, func(t *testing.T) {
						expectComposed(t, setting, owner, first.owner(agent.variable), then.owner(agent.variable))
					})
				}
			}
		}
	}
}

// The same holds while the desired state is unknown: what fits is restored within each write,
// completely. Only replacing the whole template removes it.
func TestOwnersOfRetained(t *testing.T) {
	for _, agent := range []struct {
		name, variable string
		change         func(*instrv1.InstrumentationSpec)
	}{
		{"a loader", "JAVA_TOOL_OPTIONS", nil},
		{"a value", "LOG", func(spec *instrv1.InstrumentationSpec) {
			spec.Agent.Env = []corev1.EnvVar{{Name: "LOG", Value: "info"}}
		}},
	} {
		setting := settingOf(t, namespaced("java", agent.change))
		isOff, isInvalid := settingOf(t), settingOf(t)
		isOff.Off = []string{injection.KindNamespaced}
		isInvalid.Agents = []*injection.Agent{instrumentation.Compile(namespaced("java", broken))}
		for cause, retained := range map[string]*injection.NamespaceContext{"off": isOff, "invalid": isInvalid} {
			for _, owner := range owners {
				for _, first := range forms {
					for _, then := range forms {
						t.Run(strings.Join([]string{agent.name, cause, owner.name, first.name + " to " + then.name}, "/"), func(t *testing.T) {
							expectRetained(t, setting, retained, owner, first.owner(agent.variable), then.owner(agent.variable))
						})
					}
				}
			}
		}
	}
}

// expectRetained writes templates, as an owner does, over one whose injection is retained.
func expectRetained(t *testing.T, setting, retained *injection.NamespaceContext, owner owner, first, then corev1.PodTemplateSpec) {
	t.Helper()
	before, stored := &first, first.DeepCopy()
	compose(setting, stored, nil)
	for _, manifest := range []*corev1.PodTemplateSpec{&first, &then, &then, &first, &then} {
		want := manifest.DeepCopy()
		if owner.name != "replace" {
			compose(setting, want, nil)
		}
		written := owner.write(t, before, manifest, stored)
		compose(retained, written, stored)
		expectSame(t, "after a write", written, want)
		before, stored = manifest, written
	}
	again, want := stored.DeepCopy(), then.DeepCopy()
	compose(setting, again, stored)
	compose(setting, want, nil)
	expectSame(t, "when the cause is gone", again, want)
	left := stored.DeepCopy()
	compose(settingOf(t), left, stored)
	expectSame(t, "after removal", left, &then)
}

// expectComposed writes one template as an owner does, then another, each twice.
func expectComposed(t *testing.T, setting *injection.NamespaceContext, owner owner, first, then corev1.PodTemplateSpec) {
	t.Helper()
	before, stored := &first, first.DeepCopy()
	compose(setting, stored, nil)
	for _, manifest := range []*corev1.PodTemplateSpec{&first, &then, &then, &first, &then} {
		want := manifest.DeepCopy()
		for _, status := range compose(setting, want, nil) {
			if status.State != injection.In {
				t.Fatalf("the state is %d: %v", status.State, status.Refusal)
			}
		}
		written := owner.write(t, before, manifest, stored)
		compose(setting, written, stored)
		expectSame(t, "after a write", written, want)
		before, stored = manifest, written
	}
	left := stored.DeepCopy()
	compose(settingOf(t), left, stored)
	expectSame(t, "after removal", left, &then)
	written := owner.write(t, before, &first, left)
	compose(settingOf(t), written, left)
	expectSame(t, "written after removal", written, &first)
}

// A rollback restores an old template with its old record: what is injected is what is desired now.
func TestUndo(t *testing.T) {
	older := settingOf(t, namespaced("java", func(spec *instrv1.InstrumentationSpec) { spec.Agent.Options = "old" }))
	newer := settingOf(t, namespaced("java", func(spec *instrv1.InstrumentationSpec) {
		spec.Agent.Options = "new"
		spec.Agent.Env = []corev1.EnvVar{{Name: "FIRST", Value: "1"}, {Name: "LOG", Value: "info"}}
	}))
	for _, first := range forms {
		for _, then := range forms {
			for _, variable := range []string{"JAVA_TOOL_OPTIONS", "LOG"} {
				own := first.owner(variable)
				undone, stored := own.DeepCopy(), new(then.owner(variable))
				compose(older, undone, nil)
				compose(newer, stored, nil)
				for name, setting := range map[string]*injection.NamespaceContext{"older": older, "newer": newer, "none": settingOf(t)} {
					got, want := undone.DeepCopy(), own.DeepCopy()
					compose(setting, got, stored)
					compose(setting, want, nil)
					expectSame(t, variable+" "+first.name+" after "+then.name+", "+name, got, want)
				}
			}
		}
	}
}

// An owner's variable that equals one of the agent's env stays when an older template is restored.
func TestUndoKeepsEqualVariables(t *testing.T) {
	setting := settingOf(t, namespaced("java", func(spec *instrv1.InstrumentationSpec) {
		spec.Agent.Env = []corev1.EnvVar{{Name: "LOG", Value: "info"}}
	}))
	own := template(container("app", corev1.EnvVar{Name: "LOG", Value: "info"}))
	undone, stored := own.DeepCopy(), new(template(container("app")))
	compose(setting, undone, nil)
	compose(setting, stored, nil)
	compose(settingOf(t), undone, stored)
	expectSame(t, "after removal", undone, &own)
}

// An owner's variable that has the name of our helper is the owner's.
func TestOwnersHelperStays(t *testing.T) {
	setting := settingOf(t, namespaced("java", nil))
	own := withVariable(corev1.EnvVar{Name: "JAVA_TOOL_OPTIONS", Value: "own"})
	stored := own.DeepCopy()
	compose(setting, stored, nil)
	for _, helper := range []corev1.EnvVar{
		{Name: "MAINSTAY_JAVA_TOOL_OPTIONS", Value: "mine"},
		{Name: "MAINSTAY_JAVA_TOOL_OPTIONS", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1",
			FieldPath: "metadata.name"}}},
	} {
		then := own.DeepCopy()
		then.Spec.Containers[0].Env = append(then.Spec.Containers[0].Env, helper)
		written := merged(t, &own, then, stored)
		statuses := compose(setting, written, stored)
		expectRefusal(t, statuses[0], instrv1.WorkloadVariableTaken, "container app has a variable MAINSTAY_JAVA_TOOL_OPTIONS")
		expectSame(t, "with the owner's variable", written, then)
	}
}

// An owner who sets the agent's option by hand keeps it: it could not be told from ours.
func TestOwnersOptionStays(t *testing.T) {
	const text = "-javaagent:/mainstay/agent/agent.jar"
	for _, value := range []string{text, "-Xmx1g " + text} {
		own := template(container("app", corev1.EnvVar{Name: "JAVA_TOOL_OPTIONS", Value: value}))
		for _, before := range []*corev1.PodTemplateSpec{nil, &own} {
			given := own.DeepCopy()
			statuses := compose(settingOf(t, namespaced("java", nil)), given, before)
			expectRefusal(t, statuses[0], instrv1.WorkloadVariableTaken,
				"container app already loads the agent: its JAVA_TOOL_OPTIONS ends in "+text)
			expectSame(t, value, given, &own)
		}
	}
	own := template(container("app", corev1.EnvVar{Name: "JAVA_TOOL_OPTIONS", Value: "-X" + text}))
	if statuses := compose(settingOf(t, namespaced("java", nil)), &own, nil); statuses[0].State != injection.In {
		t.Errorf("what only looks so is refused: %v", statuses[0].Refusal)
	}
}

// keysOf knows one ConfigMap and gives one answer about its keys.
func keysOf(is injection.Presence) injection.KeyLookup {
	return func(string, string, string) injection.Presence { return is }
}

// A variable that envFrom may set is not set next to it while that is unknown.
func TestEnvThatEnvFromMayHave(t *testing.T) {
	object := namespaced("labels", func(spec *instrv1.InstrumentationSpec) {
		spec.Agent.Language = instrv1.LanguageCustom
		spec.Agent.Env = []corev1.EnvVar{{Name: "X_LOG", Value: "info"}}
	})
	for _, test := range []struct {
		name, prefix string
		optional     *bool
		keys         injection.KeyLookup
		state        injection.State
		isSet        bool
	}{
		{"has it", "X_", nil, keysOf(injection.Present), injection.In, false},
		{"has it not", "X_", nil, keysOf(injection.Absent), injection.In, true},
		{"has it not, optional", "", new(true), keysOf(injection.Absent), injection.In, true},
		{"other prefix", "Y_", nil, keysOf(injection.Unknown), injection.In, true},
		{"not known", "X_", nil, keysOf(injection.Unknown), injection.Refused, false},
		{"nothing known", "", nil, nil, injection.Refused, false},
		{"optional", "", new(true), keysOf(injection.Present), injection.Refused, false},
	} {
		own := template(container("app"))
		own.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{Prefix: test.prefix, SecretRef: &corev1.SecretEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Optional: test.optional,
		}}}
		setting := settingOf(t, object)
		setting.Keys = test.keys
		given := own.DeepCopy()
		statuses := compose(setting, given, nil)
		if statuses[0].State != test.state || (len(given.Spec.Containers[0].Env) > 0) != test.isSet {
			t.Errorf("%s: the state is %d (%v), env %v", test.name, statuses[0].State, statuses[0].Refusal, given.Spec.Containers[0].Env)
		}
		if test.state == injection.Refused {
			expectRefusal(t, statuses[0], instrv1.WorkloadVariableUnknown, "container app may have X_LOG from envFrom (Secret settings)")
		}
	}
}
