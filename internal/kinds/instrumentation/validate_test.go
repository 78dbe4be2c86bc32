package instrumentation_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/instrumentationtest"
)

type spec = instrv1.InstrumentationSpec

// rule is a change that is refused, and a similar one that is accepted. Nil problems mean any.
type rule struct {
	name     string
	refused  func(s *spec)
	problems []string
	accepted func(s *spec)
}

func value(variable corev1.EnvVar) func(s *spec) {
	return func(s *spec) { s.Agent.Env = []corev1.EnvVar{variable} }
}

func from(source corev1.EnvVarSource) func(s *spec) {
	return value(corev1.EnvVar{Name: "A", ValueFrom: &source})
}

func fromField(path string) func(s *spec) {
	return from(corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}})
}

func config(name string) *corev1.ConfigMapKeySelector {
	return &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: "b"}
}

func secret(key string) *corev1.SecretKeySelector {
	return &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "a"}, Key: key}
}

func resources(requests, limits corev1.ResourceList) func(s *spec) {
	return func(s *spec) { s.Agent.Resources = &corev1.ResourceRequirements{Requests: requests, Limits: limits} }
}

func list(name corev1.ResourceName, quantity string) corev1.ResourceList {
	return corev1.ResourceList{name: resource.MustParse(quantity)}
}

func rulesOfPlaces() []rule {
	const pattern = "must consist of lower case letters, digits, '-' and '.', and the wildcards * (any characters), ? (one character) and [a-c] (one of some)"
	return []rule{
		{"image", func(s *spec) { s.Agent.Image = "a b" }, nil, func(s *spec) { s.Agent.Image = "registry.example.com:5000/a/b:1" }},
		{"deployment", func(s *spec) { s.Matchers[0].Deployment = "web[" }, []string{`spec.matchers[0].deployment: Invalid value: "web[": ` + pattern},
			func(s *spec) { s.Matchers[0].Deployment = "web-[a-c]*.?" }},
		{"deployment's letters", func(s *spec) { s.Matchers[0].Deployment = "Web" }, []string{`spec.matchers[0].deployment: Invalid value: "Web": ` + pattern},
			func(s *spec) { s.Matchers[0].Deployment = "web" }},
		{"container", func(s *spec) { s.Matchers[0].Container = "a b" }, []string{`spec.matchers[0].container: Invalid value: "a b": ` + pattern},
			func(s *spec) { s.Matchers[0].Container = "a*" }},
		{"both patterns", func(s *spec) { s.Matchers[0].Container, s.Matchers[0].Deployment = "A", "B" },
			[]string{`spec.matchers[0].container: Invalid value: "A": ` + pattern, `spec.matchers[0].deployment: Invalid value: "B": ` + pattern}, func(*spec) {}},
		{"labels", func(s *spec) {
			s.Matchers[0].Labels = &metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}}
		}, nil,
			func(s *spec) { s.Matchers[0].Labels = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "c"}} }},
		{"matcher's env", func(s *spec) { s.Matchers[0].Env = []corev1.EnvVar{{Name: "JAVA_TOOL_OPTIONS"}} },
			[]string{`spec.matchers[0].env[0].name: Invalid value: "JAVA_TOOL_OPTIONS": is already set by spec.agent.language`},
			func(s *spec) { s.Matchers[0].Env = []corev1.EnvVar{{Name: "NODE_OPTIONS"}} }},
		{"path", func(s *spec) { s.Agent.Path = "../agent.jar" }, []string{`spec.agent.path: Invalid value: "../agent.jar": must be a path without '.' and '..'`},
			func(s *spec) { s.Agent.Path = "lib/..agent.jar" }},
		{"mount path", func(s *spec) { s.Agent.MountPath = "/a/./b" }, []string{`spec.agent.mountPath: Invalid value: "/a/./b": must be a path without '.' and '..'`},
			func(s *spec) { s.Agent.MountPath = "/a/b" }},
		{"directory", func(s *spec) { s.Agent.Directory = "/a/.." }, []string{`spec.agent.directory: Invalid value: "/a/..": must be a path without '.' and '..'`},
			func(s *spec) { s.Agent.Directory = "/a" }},
		{"mount path above the files", func(s *spec) { s.Agent.Directory, s.Agent.MountPath = "/a/b", "/a" },
			[]string{`spec.agent.mountPath: Invalid value: "/a": must not be spec.agent.directory (/a/b) or above it: in the init container it would hide the files to be copied`},
			func(s *spec) { s.Agent.Directory, s.Agent.MountPath = "/a/b", "/a/c" }},
		{"mount path on the files", func(s *spec) { s.Agent.MountPath = "/agent" },
			[]string{`spec.agent.mountPath: Invalid value: "/agent": must not be spec.agent.directory (/agent) or above it: in the init container it would hide the files to be copied`},
			func(s *spec) { s.Agent.MountPath, s.Agent.VolumeMode = "/agent", instrv1.VolumeImage }},
	}
}

func rulesOfResources() []rule {
	return []rule{
		{"size limit", func(s *spec) { s.Agent.SizeLimit = new(resource.MustParse("0")) }, []string{`spec.agent.sizeLimit: Invalid value: "0": must be greater than 0`},
			func(s *spec) { s.Agent.SizeLimit = new(resource.MustParse("1")) }},
		{"claims", func(s *spec) {
			s.Agent.Resources = &corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpu"}}}
		}, []string{`spec.agent.resources.claims: Forbidden: may not be set: the pods that the agent is injected into do not have these claims`}, resources(nil, nil)},
		{"resource names", resources(nil, list("gpu", "1")), []string{`spec.agent.resources.limits: Unsupported value: "gpu": supported values: "cpu", "memory", "ephemeral-storage"`},
			resources(nil, list("ephemeral-storage", "1"))},
		{"negative", resources(list("cpu", "-1"), nil), []string{`spec.agent.resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0`}, resources(list("cpu", "0"), nil)},
		{"more than the limit", resources(list("cpu", "2"), list("cpu", "1")), []string{`spec.agent.resources.requests[cpu]: Invalid value: "2": must be less than or equal to cpu limit of 1`},
			resources(list("cpu", "1"), list("cpu", "1"))},
		{"rollout", func(s *spec) { s.Rollout.Window = &rolloutv1.Window{Start: "25:00", End: "06:00"} }, nil,
			func(s *spec) { s.Rollout.Window = &rolloutv1.Window{Start: "22:00", End: "06:00"} }},
	}
}

func rulesOfVariables() []rule {
	const oneSource = "Invalid value: \"\": must specify exactly one of: fieldRef, configMapKeyRef or secretKeyRef"
	return []rule{
		{"name of a variable", value(corev1.EnvVar{Name: "A=B"}), nil, value(corev1.EnvVar{Name: "a.b-c"})},
		{"loader's name", value(corev1.EnvVar{Name: "JAVA_TOOL_OPTIONS"}),
			[]string{`spec.agent.env[0].name: Invalid value: "JAVA_TOOL_OPTIONS": is already set by spec.agent.language`}, value(corev1.EnvVar{Name: "PYTHONPATH"})},
		{"our names", value(corev1.EnvVar{Name: "MAINSTAY_X"}),
			[]string{`spec.agent.env[0].name: Invalid value: "MAINSTAY_X": must not begin with MAINSTAY_, which is reserved for Mainstay`}, value(corev1.EnvVar{Name: "MAINSTAYX"})},
		{"two forms", value(corev1.EnvVar{Name: "A", Value: "x", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: secret("b")}}),
			[]string{`spec.agent.env[0].valueFrom: Invalid value: "": may not be specified when value is not empty`}, from(corev1.EnvVarSource{SecretKeyRef: secret("b")})},
		{"no source", from(corev1.EnvVarSource{}), []string{`spec.agent.env[0].valueFrom: ` + oneSource}, from(corev1.EnvVarSource{ConfigMapKeyRef: config("a")})},
		{"two sources", from(corev1.EnvVarSource{SecretKeyRef: secret("b"), ConfigMapKeyRef: config("a")}), []string{`spec.agent.env[0].valueFrom: ` + oneSource}, func(*spec) {}},
		{"resource", from(corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{}}), []string{`spec.agent.env[0].valueFrom: ` + oneSource}, func(*spec) {}},
		{"file", from(corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{}}), []string{`spec.agent.env[0].valueFrom: ` + oneSource}, func(*spec) {}},
		{"field", fromField("status.phase"), []string{`spec.agent.env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "status.phase": supported values: ` +
			`"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", ` +
			`"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs", "metadata.labels['KEY']", "metadata.annotations['KEY']"`},
			fromField("status.podIPs")},
		{"label", fromField("metadata.labels['a b']"), nil, fromField("metadata.labels['example.com/team']")},
		{"annotation", fromField("metadata.annotations['a'"), nil, fromField("metadata.annotations['a']")},
		{"ConfigMap's name", from(corev1.EnvVarSource{ConfigMapKeyRef: config("A")}), nil,
			from(corev1.EnvVarSource{ConfigMapKeyRef: config("a.b")})},
		{"Secret's key", from(corev1.EnvVarSource{SecretKeyRef: secret("b c")}), nil, from(corev1.EnvVarSource{SecretKeyRef: secret("b_C")})},
	}
}

// Each rule is refused once, and a similar spec accepted.
func TestValidate(t *testing.T) {
	for _, test := range slices.Concat(rulesOfPlaces(), rulesOfResources(), rulesOfVariables()) {
		refused := problemsOf(test.refused)
		if len(refused) == 0 || test.problems != nil && !slices.Equal(refused, test.problems) {
			t.Errorf("%s: %s", test.name, cmp.Diff(test.problems, refused))
		}
		if problems := problemsOf(test.accepted); len(problems) > 0 {
			t.Errorf("%s: it should be accepted: %v", test.name, problems)
		}
	}
}

// problemsOf returns the problems of a changed spec, in order. They are the same each time.
func problemsOf(change func(spec *instrv1.InstrumentationSpec)) []string {
	object := instrumentationtest.Namespaced("java", change)
	instrumentation.Default(object)
	var texts []string
	for _, problem := range instrumentation.Validate(object) {
		texts = append(texts, problem.Error())
	}
	return texts
}

// The order of problems is deterministic: they are written to a condition.
func TestValidateIsDeterministic(t *testing.T) {
	change := func(spec *instrv1.InstrumentationSpec) {
		spec.Agent.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{
			"a": resource.MustParse("1"), "b": resource.MustParse("1"), "c": resource.MustParse("-1"), "cpu": resource.MustParse("-1"),
		}}
	}
	first := problemsOf(change)
	for range 50 {
		if again := problemsOf(change); !slices.Equal(first, again) {
			t.Fatalf("%v, then %v", first, again)
		}
	}
}

// What matches everything in many namespaces needs spec.allowAll.
func TestValidateScope(t *testing.T) {
	const forbidden = "spec.matchers[0]: Forbidden: matches every workload of the selected namespaces, and would replace all their pods: " +
		"select some by deployment or labels, or set spec.allowAll: true"
	labelled := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	for _, test := range []struct {
		name    string
		spec    instrv1.ClusterInstrumentationSpec
		matcher instrv1.Matcher
		want    string
	}{
		{"all", instrv1.ClusterInstrumentationSpec{}, instrv1.Matcher{}, forbidden},
		{"all of some namespaces", instrv1.ClusterInstrumentationSpec{NamespaceSelector: labelled}, instrv1.Matcher{}, forbidden},
		{"any name", instrv1.ClusterInstrumentationSpec{}, instrv1.Matcher{Deployment: "**"}, forbidden},
		{"any container", instrv1.ClusterInstrumentationSpec{}, instrv1.Matcher{Container: "app"}, forbidden},
		{"empty labels", instrv1.ClusterInstrumentationSpec{}, instrv1.Matcher{Labels: &metav1.LabelSelector{}}, forbidden},
		{"one character and any others", instrv1.ClusterInstrumentationSpec{}, instrv1.Matcher{Deployment: "?*"}, forbidden},
		{"any first letter", instrv1.ClusterInstrumentationSpec{}, instrv1.Matcher{Deployment: "[a-z0-9]*"}, forbidden},
		{"two words", instrv1.ClusterInstrumentationSpec{}, instrv1.Matcher{Deployment: "*-*"}, ""},
		{"some first letters", instrv1.ClusterInstrumentationSpec{}, instrv1.Matcher{Deployment: "[a-c]*"}, ""},
		{"allowed", instrv1.ClusterInstrumentationSpec{AllowAll: true}, instrv1.Matcher{}, ""},
		{"named", instrv1.ClusterInstrumentationSpec{}, instrv1.Matcher{Deployment: "web*"}, ""},
		{"labels", instrv1.ClusterInstrumentationSpec{}, instrv1.Matcher{Labels: labelled}, ""},
		{"labels that only exclude", instrv1.ClusterInstrumentationSpec{},
			instrv1.Matcher{Labels: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "team", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"a"}},
			}}}, forbidden},
		{"selector", instrv1.ClusterInstrumentationSpec{AllowAll: true,
			NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}}},
			instrv1.Matcher{}, `spec.namespaceSelector.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator`},
	} {
		object := instrumentationtest.Cluster("java", func(spec *instrv1.InstrumentationSpec) { spec.Matchers = []instrv1.Matcher{test.matcher} })
		object.Spec.NamespaceSelector, object.Spec.AllowAll = test.spec.NamespaceSelector, test.spec.AllowAll
		instrumentation.Default(object)
		got := ""
		for _, problem := range instrumentation.Validate(object) {
			got += problem.Error()
		}
		if got != test.want {
			t.Errorf("%s: %q, wanted %q", test.name, got, test.want)
		}
	}
}

// Defaulting fills in and rounds what the API server would: what is injected must equal what is
// stored.
func TestDefault(t *testing.T) {
	object := instrumentationtest.Namespaced("java", func(spec *instrv1.InstrumentationSpec) {
		spec.Agent.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("0.0001")}}
		spec.Agent.Env = []corev1.EnvVar{{Name: "A",
			ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}
		spec.Rollout.Strategy = instrv1.RolloutCanary
	})
	instrumentation.Default(object)
	if got := object.Spec.Agent.Resources.Limits.Cpu().String(); got != "1m" {
		t.Errorf("the limit is %s", got)
	}
	if got := object.Spec.Agent.Env[0].ValueFrom.FieldRef.APIVersion; got != "v1" {
		t.Errorf("the field's version is %q", got)
	}
	if canary := object.Spec.Rollout.Canary; *canary.Percent != 10 || canary.Soak.Duration.String() != "5m0s" {
		t.Errorf("the canary is %v", canary)
	}
	again := object.DeepCopy()
	instrumentation.Default(again)
	if difference := cmp.Diff(object, again); difference != "" {
		t.Errorf("a second time it changes:\n%s", difference)
	}
}
