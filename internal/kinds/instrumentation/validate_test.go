package instrumentation_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/instrumentationtest"
)

type spec = instrv1.InstrumentationSpec

// rule is a spec that is refused, and a similar one that is accepted, by the fields that users
// write. No problems mean any.
type rule struct {
	refused, accepted string
	problems          []string
}

// withFields returns a change of the spec to fields in YAML.
func withFields(fields string) func(s *spec) {
	return func(s *spec) {
		if err := yaml.UnmarshalStrict([]byte(fields), s); err != nil {
			panic(fields + ": " + err.Error())
		}
	}
}

const (
	pattern   = `must consist of lower case letters, digits, '-' and '.', and the wildcards * (any characters), ? (one character) and [a-c] (one of these characters)`
	plainPath = `must be a path without '.' and '..'`
	hides     = ` or above it: in the init container it would hide the files to be copied`
	languages = `"JAVA_TOOL_OPTIONS": is already set by spec.agent.language`
	oneSource = `spec.agent.env[0].valueFrom: Invalid value: "": must specify exactly one of: fieldRef, configMapKeyRef or secretKeyRef`
	fields    = `"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", ` +
		`"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs", "metadata.labels['KEY']", "metadata.annotations['KEY']"`
)

var rules = map[string]rule{
	"image": {`agent: {image: a b}`, `agent: {image: 'registry.example.com:5000/a/b:1'}`, nil},
	"deployment": {`matchers: [{deployment: 'web['}]`, `matchers: [{deployment: 'web-[a-c]*.?'}]`,
		[]string{`spec.matchers[0].deployment: Invalid value: "web[": ` + pattern}},
	"deployment's letters": {`matchers: [{deployment: Web}]`, `matchers: [{deployment: web}]`,
		[]string{`spec.matchers[0].deployment: Invalid value: "Web": ` + pattern}},
	"container": {`matchers: [{container: a b}]`, `matchers: [{container: 'a*'}]`,
		[]string{`spec.matchers[0].container: Invalid value: "a b": ` + pattern}},
	"both patterns": {`matchers: [{container: A, deployment: B}]`, `{}`,
		[]string{`spec.matchers[0].container: Invalid value: "A": ` + pattern, `spec.matchers[0].deployment: Invalid value: "B": ` + pattern}},
	"labels": {`matchers: [{labels: {matchLabels: {a b: c}}}]`, `matchers: [{labels: {matchLabels: {a: c}}}]`, nil},
	"matcher's env": {`matchers: [{env: [{name: JAVA_TOOL_OPTIONS}]}]`, `matchers: [{env: [{name: NODE_OPTIONS}]}]`,
		[]string{`spec.matchers[0].env[0].name: Invalid value: ` + languages}},
	"path": {`agent: {path: ../agent.jar}`, `agent: {path: lib/..agent.jar}`,
		[]string{`spec.agent.path: Invalid value: "../agent.jar": ` + plainPath}},
	"mount path": {`agent: {mountPath: /a/./b}`, `agent: {mountPath: /a/b}`,
		[]string{`spec.agent.mountPath: Invalid value: "/a/./b": ` + plainPath}},
	"directory": {`agent: {directory: /a/..}`, `agent: {directory: /a}`, []string{`spec.agent.directory: Invalid value: "/a/..": ` + plainPath}},
	"mount path above the files": {`agent: {directory: /a/b, mountPath: /a}`, `agent: {directory: /a/b, mountPath: /a/c}`,
		[]string{`spec.agent.mountPath: Invalid value: "/a": must not be spec.agent.directory (/a/b)` + hides}},
	"mount path on the files": {`agent: {mountPath: /agent}`, `agent: {mountPath: /agent, volumeMode: ImageVolume}`,
		[]string{`spec.agent.mountPath: Invalid value: "/agent": must not be spec.agent.directory (/agent)` + hides}},

	"size limit": {`agent: {sizeLimit: 0}`, `agent: {sizeLimit: 1}`, []string{`spec.agent.sizeLimit: Invalid value: "0": must be greater than 0`}},
	"claims": {`agent: {resources: {claims: [{name: gpu}]}}`, `agent: {resources: {}}`,
		[]string{`spec.agent.resources.claims: Forbidden: may not be set: the pods that the agent is injected into do not have these claims`}},
	"resource names": {`agent: {resources: {limits: {gpu: 1}}}`, `agent: {resources: {limits: {ephemeral-storage: 1}}}`,
		[]string{`spec.agent.resources.limits: Unsupported value: "gpu": supported values: "cpu", "memory", "ephemeral-storage"`}},
	"negative": {`agent: {resources: {requests: {cpu: -1}}}`, `agent: {resources: {requests: {cpu: 0}}}`,
		[]string{`spec.agent.resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0`}},
	"more than the limit": {`agent: {resources: {requests: {cpu: 2}, limits: {cpu: 1}}}`, `agent: {resources: {requests: {cpu: 1}, limits: {cpu: 1}}}`,
		[]string{`spec.agent.resources.requests[cpu]: Invalid value: "2": must be less than or equal to cpu limit of 1`}},
	"rollout": {`rollout: {window: {start: '25:00', end: '06:00'}}`, `rollout: {window: {start: '22:00', end: '06:00'}}`, nil},

	"name of a variable": {env(`A=B`, ``), env(`a.b-c`, ``), nil},
	"loader's name": {env(`JAVA_TOOL_OPTIONS`, ``), env(`PYTHONPATH`, ``),
		[]string{`spec.agent.env[0].name: Invalid value: ` + languages}},
	"our names": {env(`MAINSTAY_X`, ``), env(`MAINSTAYX`, ``),
		[]string{`spec.agent.env[0].name: Invalid value: "MAINSTAY_X": must not begin with MAINSTAY_, which is reserved for Mainstay`}},
	"two forms": {env(`A`, `, value: x, valueFrom: {secretKeyRef: {name: a, key: b}}`), env(`A`, `, valueFrom: {secretKeyRef: {name: a, key: b}}`),
		[]string{`spec.agent.env[0].valueFrom: Invalid value: "": may not be specified when value is not empty`}},
	"no source": {env(`A`, `, valueFrom: {}`), env(`A`, `, valueFrom: {configMapKeyRef: {name: a, key: b}}`), []string{oneSource}},
	"two sources": {env(`A`, `, valueFrom: {secretKeyRef: {name: a, key: b}, configMapKeyRef: {name: a, key: b}}`), `{}`,
		[]string{oneSource}},
	"resource": {env(`A`, `, valueFrom: {resourceFieldRef: {resource: ''}}`), `{}`, []string{oneSource}},
	"file":     {env(`A`, `, valueFrom: {fileKeyRef: {volumeName: '', path: '', key: ''}}`), `{}`, []string{oneSource}},
	"field": {envOfField(`status.phase`), envOfField(`status.podIPs`),
		[]string{`spec.agent.env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "status.phase": supported values: ` + fields}},
	"label":            {envOfField(`metadata.labels['a b']`), envOfField(`metadata.labels['example.com/team']`), nil},
	"annotation":       {envOfField(`metadata.annotations['a'`), envOfField(`metadata.annotations['a']`), nil},
	"ConfigMap's name": {env(`A`, `, valueFrom: {configMapKeyRef: {name: A, key: b}}`), env(`A`, `, valueFrom: {configMapKeyRef: {name: a.b, key: b}}`), nil},
	"Secret's key":     {env(`A`, `, valueFrom: {secretKeyRef: {name: a, key: b c}}`), env(`A`, `, valueFrom: {secretKeyRef: {name: a, key: b_C}}`), nil},
}

// env returns the fields of an agent with a variable.
func env(name, rest string) string { return "agent: {env: [{name: " + name + rest + "}]}" }

func envOfField(path string) string {
	return env("A", `, valueFrom: {fieldRef: {fieldPath: "`+path+`"}}`)
}

// Each rule is refused once, and a similar spec accepted.
func TestValidate(t *testing.T) {
	for name, test := range rules {
		refused := problemsOf(withFields(test.refused))
		if len(refused) == 0 || test.problems != nil && !slices.Equal(refused, test.problems) {
			t.Errorf("%s: %s", name, cmp.Diff(test.problems, refused))
		}
		if problems := problemsOf(withFields(test.accepted)); len(problems) > 0 {
			t.Errorf("%s: it should be accepted: %v", name, problems)
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
	change := withFields("agent: {resources: {limits: {a: 1, b: 1, c: -1, cpu: -1}}}")
	first := problemsOf(change)
	for range 50 {
		if again := problemsOf(change); !slices.Equal(first, again) {
			t.Fatalf("%v, then %v", first, again)
		}
	}
}

// What matches everything in many namespaces needs spec.allowAll.
func TestValidateScope(t *testing.T) {
	const forbidden = "spec.matchers[0]: Forbidden: has no deployment, or one that matches nearly every name, and requires no label, " +
		"so the pods of nearly all workloads in the selected namespaces could be replaced: select by deployment or by a required label, " +
		"or set spec.allowAll: true"
	for name, test := range map[string]struct{ namespaces, matcher, want string }{
		"all":                          {``, `{}`, forbidden},
		"all of some namespaces":       {`namespaceSelector: {matchLabels: {a: b}}`, `{}`, forbidden},
		"any name":                     {``, `{deployment: '**'}`, forbidden},
		"any container":                {``, `{container: app}`, forbidden},
		"empty labels":                 {``, `{labels: {}}`, forbidden},
		"one character and any others": {``, `{deployment: '?*'}`, forbidden},
		"any first letter":             {``, `{deployment: '[a-z0-9]*'}`, forbidden},
		"two words":                    {``, `{deployment: '*-*'}`, ""},
		"some first letters":           {``, `{deployment: '[a-c]*'}`, ""},
		"allowed":                      {`allowAll: true`, `{}`, ""},
		"named":                        {``, `{deployment: 'web*'}`, ""},
		"labels":                       {``, `{labels: {matchLabels: {a: b}}}`, ""},
		"labels that only exclude":     {``, `{labels: {matchExpressions: [{key: team, operator: NotIn, values: [a]}]}}`, forbidden},
		"selector": {"allowAll: true\nnamespaceSelector: {matchExpressions: [{key: a, operator: Is}]}", `{}`,
			`spec.namespaceSelector.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator`},
	} {
		object := instrumentationtest.Cluster("java", withFields("matchers: ["+test.matcher+"]"))
		object.Spec.AllowAll = false
		if err := yaml.UnmarshalStrict([]byte(test.namespaces), &object.Spec); err != nil {
			t.Fatal(err)
		}
		instrumentation.Default(object)
		got := ""
		for _, problem := range instrumentation.Validate(object) {
			got += problem.Error()
		}
		if got != test.want {
			t.Errorf("%s: %q, wanted %q", name, got, test.want)
		}
	}
}

// Defaulting fills in and rounds what the API server would: what is injected must equal what is
// stored.
func TestDefault(t *testing.T) {
	object := instrumentationtest.Namespaced("java", withFields("rollout: {strategy: Canary}\nagent: {resources: {limits: {cpu: 0.0001}}, "+
		"env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}"))
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
