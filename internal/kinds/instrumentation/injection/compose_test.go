package injection_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	psaapi "k8s.io/pod-security-admission/api"
	psapolicy "k8s.io/pod-security-admission/policy"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/instrumentationtest"
)

// TestSideCarsAreDocumented: the page lists the containers that are skipped, and no others.
func TestSideCarsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/spec/instrumentation.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n### Side-cars\n")
	_, list, _ := strings.Cut(section, "are called\n")
	list, _, _ = strings.Cut(list, ".\n")
	var reported []string
	for i, word := range strings.Split(list, "`") {
		if i%2 == 1 {
			reported = append(reported, word)
		}
	}
	if difference := cmp.Diff(injection.SideCars, reported); difference != "" {
		t.Errorf("docs/spec/instrumentation.md differs (- the code, + the page):\n%s", difference)
	}
}

func TestMatching(t *testing.T) {
	web := injection.Workload{Kind: "Deployment", Namespace: instrumentationtest.Namespace, Name: "web-1", Labels: map[string]string{"team": "a"}}
	with := func(change func(w *injection.Workload)) injection.Workload {
		changed := web
		change(&changed)
		return changed
	}
	for _, test := range []struct {
		name     string
		workload injection.Workload
		matchers []instrv1.Matcher
		want     string
	}{
		{"all but side-cars", web, []instrv1.Matcher{{}}, "app worker"},
		{"a side-car by its name", web, []instrv1.Matcher{{Container: "istio-proxy"}}, "istio-proxy"},
		{"all by a pattern", web, []instrv1.Matcher{{Container: "*"}}, "app istio-proxy worker"},
		{"several", web, []instrv1.Matcher{{Container: "app"}, {Container: "worker"}}, "app worker"},
		{"a workload's name", web, []instrv1.Matcher{{Deployment: "web-1"}}, "app worker"},
		{"another workload's name", web, []instrv1.Matcher{{Deployment: "web"}}, ""},
		{"a pattern", web, []instrv1.Matcher{{Deployment: "w*-?"}}, "app worker"},
		{"one of some", web, []instrv1.Matcher{{Deployment: "web-[1-3]"}}, "app worker"},
		{"none of some", web, []instrv1.Matcher{{Deployment: "web-[^1-3]"}}, ""},
		{"labels", web, []instrv1.Matcher{{Labels: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}}}, "app worker"},
		{"other labels", web, []instrv1.Matcher{{Labels: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}}}, ""},
		{"name and labels, each of another matcher", web, []instrv1.Matcher{
			{Deployment: "web-1", Container: "app"}, {Labels: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}, Container: "worker"},
		}, "app"},
		{"other kind", with(func(w *injection.Workload) { w.Kind = "StatefulSet" }), []instrv1.Matcher{{}}, ""},
		{"that kind is listed", with(func(w *injection.Workload) { w.Kind = "DaemonSet" }), []instrv1.Matcher{{Kinds: []instrv1.WorkloadKind{"StatefulSet", "DaemonSet"}}}, "app worker"},
		{"no container", web, []instrv1.Matcher{{Container: "nothing"}}, ""},
		{"opted out on the workload", with(func(w *injection.Workload) { w.Annotations = map[string]string{instrv1.AnnotationInject: " False "} }), []instrv1.Matcher{{}}, ""},
		{"opted out by no other value", with(func(w *injection.Workload) { w.Annotations = map[string]string{instrv1.AnnotationInject: "no"} }), []instrv1.Matcher{{}}, "app worker"},
	} {
		setting := settingOf(t, namespaced("java", func(spec *instrv1.InstrumentationSpec) { spec.Matchers = test.matchers }))
		composed := template(container("app"), container("istio-proxy"), container("worker"))
		test.workload.Template = &composed
		setting.Compose(&test.workload, nil)
		if got := injectedInto(&composed); got != test.want {
			t.Errorf("%s: it is injected into %q, wanted %q", test.name, got, test.want)
		}
	}
}

// Every place of the opt-out keeps agents out, and removes what is there.
func TestOptOut(t *testing.T) {
	setting := settingOf(t, namespaced("java", nil))
	own := template(container("app"))
	injected := own.DeepCopy()
	compose(setting, injected, nil)
	declining := *setting
	declining.Declines = true
	left := injected.DeepCopy()
	compose(&declining, left, injected)
	expectSame(t, "of the namespace", left, &own)
	left = injected.DeepCopy()
	left.Annotations[instrv1.AnnotationInject] = "false"
	compose(setting, left, injected)
	own.Annotations = map[string]string{instrv1.AnnotationInject: "false"}
	expectSame(t, "of the template", left, &own)
}

// A namespace's own Instrumentations take precedence over the cluster's, then the older, then by
// name; the overruled one is injected into no container.
func TestPrecedence(t *testing.T) {
	at := func(object *instrv1.Instrumentation, hours int) *instrv1.Instrumentation {
		object.CreationTimestamp = metav1.NewTime(instrumentationtest.Began.Add(time.Duration(hours) * time.Hour))
		return object
	}
	both := func(spec *instrv1.InstrumentationSpec) { spec.Matchers = []instrv1.Matcher{{Container: "app"}} }
	for _, test := range []struct {
		name          string
		first, second injection.Object
	}{
		{"the namespace's", at(namespaced("z", both), 9), cluster("a", nil)},
		{"the older", at(namespaced("z", both), 1), at(namespaced("a", nil), 2)},
		{"by name", namespaced("a", both), namespaced("b", nil)},
	} {
		setting := settingOf(t, test.second, test.first)
		composed := template(container("app"), container("worker"))
		statuses := compose(setting, &composed, nil)
		if statuses[0].State != injection.In || statuses[1].State != injection.Overruled || injectedInto(&composed) != "app" {
			t.Errorf("%s: states %d and %d, injected into %s", test.name, statuses[0].State, statuses[1].State, injectedInto(&composed))
		}
		expectRefusal(t, statuses[1], instrv1.WorkloadOverruled, injection.IdentityOf(test.first).String()+" takes precedence for container app")
	}
}

// Two agents that have no container in common are both injected.
func TestTwoAgents(t *testing.T) {
	setting := settingOf(t,
		namespaced("one", func(spec *instrv1.InstrumentationSpec) { spec.Matchers = []instrv1.Matcher{{Container: "app"}} }),
		namespaced("two", func(spec *instrv1.InstrumentationSpec) { spec.Matchers = []instrv1.Matcher{{Container: "worker"}} }))
	own := template(container("app"), container("worker"))
	composed := own.DeepCopy()
	compose(setting, composed, nil)
	if got := injectedInto(composed); got != "app worker" || len(composed.Spec.InitContainers) != 2 {
		t.Errorf("injected into %s by %d init containers", got, len(composed.Spec.InitContainers))
	}
	one := &injection.NamespaceContext{Agents: setting.Agents[:1]}
	compose(one, composed, nil)
	if got := injectedInto(composed); got != "app" || len(composed.Spec.InitContainers) != 1 {
		t.Errorf("of one, it is injected into %s by %d init containers", got, len(composed.Spec.InitContainers))
	}
}

// If several variables have one name, the first matcher's takes precedence, then the agent's; the
// container's own comes before all.
func TestEnvPrecedence(t *testing.T) {
	env := func(pairs ...string) []corev1.EnvVar {
		var variables []corev1.EnvVar
		for i := 0; i < len(pairs); i += 2 {
			variables = append(variables, corev1.EnvVar{Name: pairs[i], Value: pairs[i+1]})
		}
		return variables
	}
	setting := settingOf(t, namespaced("labels", func(spec *instrv1.InstrumentationSpec) {
		spec.Agent.Language = instrv1.LanguageCustom
		spec.Matchers = []instrv1.Matcher{{Env: env("A", "first")}, {Container: "app", Env: env("A", "second", "B", "second")}}
		spec.Agent.Env = env("A", "agent", "B", "agent", "C", "agent", "D", "agent")
	}))
	composed := template(container("app", env("D", "own")...), container("worker"))
	compose(setting, &composed, nil)
	want := template(container("app", env("D", "own", "A", "first", "B", "second", "C", "agent")...), container("worker", env("A", "first", "B", "agent", "C", "agent", "D", "agent")...))
	for i := range want.Spec.Containers {
		if got := composed.Spec.Containers[i]; !slices.EqualFunc(got.Env, want.Spec.Containers[i].Env,
			func(a, b corev1.EnvVar) bool { return a == b }) {
			t.Errorf("container %s has %v, wanted %v", got.Name, got.Env, want.Spec.Containers[i].Env)
		}
	}
}

func TestLanguages(t *testing.T) {
	const guid = "{918728DD-259F-4A6A-AC2B-B85E1B658318}"
	for _, test := range []struct {
		agent instrv1.Agent
		want  []corev1.EnvVar
	}{
		{instrv1.Agent{Language: "java"}, []corev1.EnvVar{{Name: "JAVA_TOOL_OPTIONS", Value: "-javaagent:/mainstay/agent/agent.jar"}}},
		{instrv1.Agent{Language: "java", Path: "lib/a.jar", Options: "x=y", MountPath: "/opt/a"}, []corev1.EnvVar{{Name: "JAVA_TOOL_OPTIONS", Value: "-javaagent:/opt/a/lib/a.jar=x=y"}}},
		{instrv1.Agent{Language: "nodejs"}, []corev1.EnvVar{{Name: "NODE_OPTIONS", Value: "--require /mainstay/agent/agent.js"}}},
		{instrv1.Agent{Language: "python"}, []corev1.EnvVar{{Name: "PYTHONPATH", Value: "/mainstay/agent"}}},
		{instrv1.Agent{Language: "ruby"}, []corev1.EnvVar{{Name: "RUBYOPT", Value: "-r/mainstay/agent/agent.rb"}}},
		{instrv1.Agent{Language: "dotnet", Path: "p.so", Profiler: guid}, []corev1.EnvVar{
			{Name: "CORECLR_ENABLE_PROFILING", Value: "1"}, {Name: "CORECLR_PROFILER", Value: guid}, {Name: "CORECLR_PROFILER_PATH", Value: "/mainstay/agent/p.so"},
		}},
		{instrv1.Agent{Language: "custom"}, nil},
	} {
		test.agent.Image = "registry.example.com/agent:1"
		composed := template(container("app"))
		compose(settingOf(t, namespaced("x", func(spec *instrv1.InstrumentationSpec) { spec.Agent = test.agent })), &composed, nil)
		if got := composed.Spec.Containers[0].Env; !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, wanted %v", test.agent.Language, got, test.want)
		}
	}
}

// refusal is a case that is refused, or, with an empty reason, a similar one that is not.
type refusal struct {
	name            string
	agent           func(spec *instrv1.InstrumentationSpec)
	owner           func(spec *corev1.PodSpec)
	reason, message string
}

func refusals() []refusal {
	env := func(variable corev1.EnvVar) func(spec *corev1.PodSpec) {
		return func(spec *corev1.PodSpec) { spec.Containers[1].Env = []corev1.EnvVar{variable} }
	}
	mount := func(at string) func(spec *corev1.PodSpec) {
		return func(spec *corev1.PodSpec) {
			spec.Containers[1].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: at}}
		}
	}
	java := func(*instrv1.InstrumentationSpec) {}
	image := func(spec *instrv1.InstrumentationSpec) { spec.Agent.VolumeMode = instrv1.VolumeImage }
	dotnet := func(spec *instrv1.InstrumentationSpec) {
		spec.Agent.Language, spec.Agent.Path, spec.Agent.Profiler = "dotnet", "p.so", "{918728DD-259F-4A6A-AC2B-B85E1B658318}"
	}
	return []refusal{
		{"Windows", java, func(spec *corev1.PodSpec) { spec.OS = &corev1.PodOS{Name: corev1.Windows} }, instrv1.WorkloadUnsupported, "its pods run Windows"},
		{"Windows by its nodes", java, func(spec *corev1.PodSpec) { spec.NodeSelector = map[string]string{"kubernetes.io/os": "windows"} }, instrv1.WorkloadUnsupported, "its pods run Windows"},
		{"Linux by its nodes", java, func(spec *corev1.PodSpec) { spec.NodeSelector = map[string]string{"kubernetes.io/os": "linux"} }, "", ""},
		{"no image volumes", image, func(*corev1.PodSpec) {}, instrv1.WorkloadUnsupported, "the cluster does not support image volumes (Kubernetes 1.35 does): set spec.agent.volumeMode to InitContainer"},
		{"mounted there", java, mount("/mainstay/agent"), instrv1.WorkloadMountPathTaken, "container worker has a volume mounted at /mainstay/agent: spec.agent.mountPath /mainstay/agent must not overlap it"},
		{"mounted above", java, mount("/mainstay/"), instrv1.WorkloadMountPathTaken, "mounted at /mainstay/:"},
		{"mounted below", java, mount("/mainstay//agent/x"), instrv1.WorkloadMountPathTaken, "mounted at /mainstay//agent/x:"},
		{"mounted at the root", java, mount("/"), instrv1.WorkloadMountPathTaken, "mounted at /:"},
		{"mounted by another path", java, mount("/srv/../mainstay/agent"), instrv1.WorkloadMountPathTaken, "mounted at /srv/../mainstay/agent:"},
		{"mounted beside", java, mount("/mainstay/agents"), "", ""},
		{"a device there", java, func(spec *corev1.PodSpec) {
			spec.Containers[1].VolumeDevices = []corev1.VolumeDevice{{Name: "disk", DevicePath: "/mainstay/agent"}}
		}, instrv1.WorkloadMountPathTaken, "mounted at /mainstay/agent:"},
		{"our helper", java, env(corev1.EnvVar{Name: "MAINSTAY_JAVA_TOOL_OPTIONS"}), instrv1.WorkloadVariableTaken,
			"container worker has a variable MAINSTAY_JAVA_TOOL_OPTIONS, which is needed to extend JAVA_TOOL_OPTIONS"},
		{"one profiler", dotnet, env(corev1.EnvVar{Name: "CORECLR_PROFILER", Value: "x"}), instrv1.WorkloadVariableTaken,
			"container worker already sets CORECLR_PROFILER, which can load one agent only"},
		{"optional", java, env(corev1.EnvVar{Name: "JAVA_TOOL_OPTIONS", ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{Optional: new(true)}}}),
			instrv1.WorkloadVariableUnknown, "container worker takes JAVA_TOOL_OPTIONS from an optional key, without which the extended value would be wrong: remove optional, or set a value"},
		{"optional of a file", java, env(corev1.EnvVar{Name: "JAVA_TOOL_OPTIONS", ValueFrom: &corev1.EnvVarSource{
			FileKeyRef: &corev1.FileKeySelector{Optional: new(true)}}}),
			instrv1.WorkloadVariableUnknown, "from an optional key"},
		{"optional, of another name", java, env(corev1.EnvVar{Name: "JAVA", ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{Optional: new(true)}}}), "", ""},
		{"not known", java, func(spec *corev1.PodSpec) {
			spec.Containers[1].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "unseen"}}}}
		}, instrv1.WorkloadVariableUnknown, "container worker may have JAVA_TOOL_OPTIONS from envFrom (ConfigMap unseen), but whether it has can't be determined: " +
			"set JAVA_TOOL_OPTIONS in env, with a value or valueFrom"},
	}
}

// A refusal leaves the whole workload alone, including the containers that could be injected.
func TestRefused(t *testing.T) {
	for _, test := range refusals() {
		setting := settingOf(t, namespaced("x", test.agent))
		setting.HasImageVolumes = false
		own := template(container("app"), container("worker"))
		test.owner(&own.Spec)
		composed := own.DeepCopy()
		statuses := compose(setting, composed, nil)
		if test.reason == "" {
			if statuses[0].State != injection.In || injectedInto(composed) != "app worker" {
				t.Errorf("%s: the state is %d: %v", test.name, statuses[0].State, statuses[0].Refusal)
			}
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			expectRefusal(t, statuses[0], test.reason, test.message)
			expectSame(t, "left alone", composed, &own)
		})
	}
}

func TestImageVolume(t *testing.T) {
	composed := template(container("app"))
	compose(settingOf(t, namespaced("x", func(spec *instrv1.InstrumentationSpec) {
		spec.Agent.VolumeMode = instrv1.VolumeImage
	})), &composed, nil)
	mount := composed.Spec.Containers[0].VolumeMounts[0]
	if len(composed.Spec.InitContainers) != 0 || composed.Spec.Volumes[0].Image == nil || mount.SubPath != "agent" || !mount.ReadOnly {
		t.Errorf("init containers %v, volumes %v, mount %v", composed.Spec.InitContainers, composed.Spec.Volumes, mount)
	}
}

// In a pod with pod-level resources, the init container requests none: its own could exceed the
// pod's.
func TestPodResources(t *testing.T) {
	composed := template(container("app"))
	composed.Spec.Resources = &corev1.ResourceRequirements{}
	compose(settingOf(t, namespaced("x", nil)), &composed, nil)
	if resources := composed.Spec.InitContainers[0].Resources; resources.Requests != nil || resources.Limits != nil {
		t.Errorf("the init container has resources: %v", resources)
	}
}

// A pod that passes the restricted Pod Security Standard still passes it with an agent, whether it
// is configured on the pod or on the containers.
func TestRestricted(t *testing.T) {
	evaluator, err := psapolicy.NewEvaluator(psapolicy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	own := &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		RunAsNonRoot:   new(true), RunAsUser: new(int64(10001)),
	}
	byPod := template(container("app"))
	byPod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: own.AllowPrivilegeEscalation,
		Capabilities: own.Capabilities}
	byPod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(true), SeccompProfile: own.SeccompProfile}
	byContainer := template(container("app"), container("worker"))
	for i := range byContainer.Spec.Containers {
		byContainer.Spec.Containers[i].SecurityContext = own
	}
	for name, given := range map[string]corev1.PodTemplateSpec{"said by the pod": byPod, "said by the containers": byContainer} {
		for _, mode := range []instrv1.VolumeMode{instrv1.VolumeInitContainer, instrv1.VolumeImage} {
			composed := given.DeepCopy()
			compose(settingOf(t, namespaced("x", func(spec *instrv1.InstrumentationSpec) { spec.Agent.VolumeMode = mode })), composed, nil)
			for _, pod := range []*corev1.PodTemplateSpec{&given, composed} {
				restricted := psaapi.LevelVersion{Level: psaapi.LevelRestricted, Version: psaapi.LatestVersion()}
				results := evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec)
				if result := psapolicy.AggregateCheckResults(results); !result.Allowed {
					t.Errorf("%s, %s: %s", name, mode, result.ForbiddenDetail())
				}
			}
			if injectedInto(composed) == "" {
				t.Errorf("%s, %s: nothing is injected", name, mode)
			}
		}
	}
}

// A gated workload keeps what it has until it is granted the new revision, and gets nothing until
// it is granted the first.
func TestKept(t *testing.T) {
	older := namespaced("java", func(spec *instrv1.InstrumentationSpec) { spec.Agent.Options = "old" })
	newer := namespaced("java", func(spec *instrv1.InstrumentationSpec) {
		spec.Agent.Options, spec.Rollout.MaxParallel = "new", new(int32(1))
	})
	setting := settingOf(t, newer)
	agent := setting.Agents[0]
	own := template(container("app", corev1.EnvVar{Name: "JAVA_TOOL_OPTIONS", Value: "own"}), container("worker"))
	with := func(objects ...injection.Object) *corev1.PodTemplateSpec {
		composed := own.DeepCopy()
		compose(settingOf(t, objects...), composed, nil)
		return composed
	}
	grant := func(revision string) map[string]string {
		return map[string]string{injection.GrantKey(agent.ID): injection.Grant{Revision: revision, At: now, Attempts: 1}.String()}
	}
	ungated := newer.DeepCopy()
	ungated.Spec.Rollout.MaxParallel = nil
	failed := newer.DeepCopy()
	failed.Annotations = map[string]string{instrv1.AnnotationFailed: agent.Revision + " app: CrashLoop: it crashes"}
	failed.Spec.Rollout.Strategy = instrv1.RolloutCanary
	failedBefore := newer.DeepCopy()
	failedBefore.Annotations = map[string]string{instrv1.AnnotationFailed: "another it crashes"}
	deleted := newer.DeepCopy()
	deleted.DeletionTimestamp = new(metav1.NewTime(instrumentationtest.Began))
	fresh := newer.DeepCopy()
	fresh.Finalizers = nil
	for _, test := range []struct {
		name        string
		object      *instrv1.Instrumentation
		annotations map[string]string
		from, want  *corev1.PodTemplateSpec
		state       injection.State
	}{
		{"new, without a grant", newer, nil, &own, &own, injection.Waiting},
		{"new, granted", newer, grant(agent.Revision), &own, with(ungated), injection.In},
		{"changed, without a grant", newer, nil, with(older), with(older), injection.Waiting},
		{"changed, granted another", newer, grant("another"), with(older), with(older), injection.Waiting},
		{"changed, kept", newer, grant("kept"), with(older), with(older), injection.Waiting},
		{"changed, granted", newer, grant(agent.Revision), with(older), with(ungated), injection.In},
		{"in, and no grant any more", newer, nil, with(ungated), with(ungated), injection.In},
		{"failed, in", failed, grant(agent.Revision), with(ungated), &own, injection.Failed},
		{"failed, older in", failed, grant(agent.Revision), with(older), with(older), injection.Failed},
		{"another failed", failedBefore, grant(agent.Revision), with(older), with(ungated), injection.In},
		{"being deleted", deleted, grant(agent.Revision), with(ungated), &own, injection.Unmatched},
		{"without a finalizer", fresh, grant(agent.Revision), &own, &own, injection.Unmatched},
	} {
		w := injection.Workload{Kind: "Deployment", Namespace: instrumentationtest.Namespace, Name: "web", Annotations: test.annotations,
			Template: test.from.DeepCopy()}
		if statuses := settingOf(t, test.object).Compose(&w, nil); statuses[0].State != test.state {
			t.Errorf("%s: the state is %d, wanted %d", test.name, statuses[0].State, test.state)
		}
		expectSame(t, test.name, w.Template, test.want)
	}
}

// What is kept does not stay on a container that another agent has taken, or that is no longer
// matched.
func TestKeptParts(t *testing.T) {
	older := namespaced("java", nil)
	gated := namespaced("java", func(spec *instrv1.InstrumentationSpec) {
		spec.Matchers, spec.Rollout.MaxParallel = []instrv1.Matcher{{Container: "app"}}, new(int32(1))
	})
	own := template(container("app"), container("worker"))
	composed := own.DeepCopy()
	compose(settingOf(t, older), composed, nil)
	compose(settingOf(t, gated), composed, nil)
	if got := injectedInto(composed); got != "app" {
		t.Errorf("what is matched no more: kept on %s", got)
	}
	first := namespaced("first", func(spec *instrv1.InstrumentationSpec) { spec.Matchers = []instrv1.Matcher{{Container: "worker"}} })
	first.CreationTimestamp = metav1.NewTime(instrumentationtest.Began.Add(-time.Hour))
	composed = own.DeepCopy()
	compose(settingOf(t, older), composed, nil)
	statuses := compose(settingOf(t, first, gated), composed, nil)
	record := injection.Injected(composed.Annotations)
	if len(record) != 2 || len(record[0].Parts) != 1 || len(record[1].Parts) != 1 || statuses[1].State != injection.Waiting {
		t.Errorf("the record is %v, the states %v", record, statuses)
	}
	compose(settingOf(t), composed, nil)
	expectSame(t, "after removal", composed, &own)
	// what is kept must still fit
	composed = own.DeepCopy()
	compose(settingOf(t, older), composed, nil)
	composed.Spec.Containers[0].VolumeMounts = append(composed.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "data", MountPath: "/mainstay"})
	compose(settingOf(t, gated), composed, nil)
	if got := injectedInto(composed); got != "" {
		t.Errorf("what does not fit any more: kept on %s", got)
	}
}
