package integration

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// badAgents are specs that must be refused, and similar ones that must be accepted. A case has the
// whole spec except for image and language, which have defaults.
var badAgents = map[string]badInput{
	"no matcher": {bad: "matchers: []", good: "matchers: [{}]", field: "spec.matchers", message: "at least 1 items"},
	"an unknown field": {bad: "matchers: [{deploy: web}]", good: "matchers: [{deployment: web}]", field: "spec.matchers[0].deploy",
		message: "unknown field"},
	"a pattern in upper case": {bad: "matchers: [{deployment: Web}]", good: "matchers: [{deployment: 'w?b-*'}]",
		field: "spec.matchers[0].deployment", message: "must consist of lower case letters"},
	"a pattern that is open": {bad: "matchers: [{container: '[a'}]", good: "matchers: [{container: '[a-c]pp'}]",
		field: "spec.matchers[0].container", message: "wildcards * (any characters)"},
	"a kind of no workload": {bad: "matchers: [{kinds: [Job]}]", good: "matchers: [{kinds: [DaemonSet]}]",
		field: "spec.matchers[0].kinds[0]", message: "Unsupported value"},
	"a selector": {
		bad:   "matchers: [{labels: {matchExpressions: [{key: a, operator: Like, values: [b]}]}}]",
		good:  "matchers: [{labels: {matchExpressions: [{key: a, operator: In, values: [b]}]}}]",
		field: "spec.matchers[0].labels.matchExpressions[0].operator", message: "not a valid selector operator",
	},
	"a variable's name": {bad: "matchers: [{env: [{name: 'a=b'}]}]", good: "matchers: [{env: [{name: 'a.b', value: c}]}]",
		field: "spec.matchers[0].env[0].name", message: "environment variable name"},
	"the language's variable": {bad: "matchers: [{env: [{name: JAVA_TOOL_OPTIONS, value: a}]}]",
		good: "matchers: [{env: [{name: NODE_OPTIONS, value: a}]}]", field: "spec.matchers[0].env[0].name",
		message: "is already set by spec.agent.language"},
	"a variable of ours": {bad: "matchers: [{env: [{name: MAINSTAY_A, value: a}]}]",
		good: "matchers: [{env: [{name: MAIN_A, value: a}]}]", field: "spec.matchers[0].env[0].name", message: "is reserved for Mainstay"},
	"a variable of two sources": {bad: "matchers: [{env: [{name: A, value: a, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}]",
		good: "matchers: [{env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}]", field: "spec.matchers[0].env[0].valueFrom",
		message: "may not be specified when value is not empty"},
	"a field that pods lack": {bad: "matchers: [{env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.owner}}}]}]",
		good:  "matchers: [{env: [{name: A, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['app']\"}}}]}]",
		field: "spec.matchers[0].env[0].valueFrom.fieldRef.fieldPath", message: `supported values: "metadata.name"`},

	"an image": {bad: "agent: {image: A b, language: java}", good: "agent: {image: a/b:1, language: java}",
		field: "spec.agent.image", message: "image reference"},
	"no image": {bad: "agent: {language: java}", good: "agent: {image: a, language: java}", field: "spec.agent.image",
		message: "Required value"},
	"no language": {bad: "agent: {image: a}", good: "agent: {image: a, language: custom}", field: "spec.agent.language",
		message: "Required value"},
	"an unknown language": {bad: "agent: {image: a, language: cobol}", good: "agent: {image: a, language: ruby}",
		field: "spec.agent.language", message: "Unsupported value"},
	"a mount path": {bad: "agent: {image: a, language: java, mountPath: agent}",
		good: "agent: {image: a, language: java, mountPath: /opt/agent}", field: "spec.agent.mountPath",
		message: "must be an absolute path"},
	"a mount path with ..": {bad: "agent: {image: a, language: java, mountPath: /a/../b}",
		good: "agent: {image: a, language: java, mountPath: /a/b}", field: "spec.agent.mountPath", message: "without '.' and '..'"},
	"a mount path that hides the files": {bad: "agent: {image: a, language: java, mountPath: /opt, directory: /opt/agent}",
		good: "agent: {image: a, language: java, mountPath: /opt/a, directory: /opt/b}", field: "spec.agent.mountPath",
		message: "hide the files"},
	"a size": {bad: "agent: {image: a, language: java, sizeLimit: 12 apples}",
		good: "agent: {image: a, language: java, sizeLimit: 12Mi}", field: "spec.agent.sizeLimit", message: "should match"},
	"no size": {bad: "agent: {image: a, language: java, sizeLimit: 0}",
		good: "agent: {image: a, language: java, sizeLimit: 1}", field: "spec.agent.sizeLimit", message: "greater than 0"},
	"a request above the limit": {bad: "agent: {image: a, language: java, resources: {requests: {cpu: 2}, limits: {cpu: 1}}}",
		good: "agent: {image: a, language: java, resources: {requests: {cpu: 1}, limits: {cpu: 1}}}", field: "spec.agent.resources.requests[cpu]",
		message: "less than or equal to cpu limit of 1"},
	"options of another language": {bad: "agent: {image: a, language: ruby, options: a}",
		good: "agent: {image: a, language: java, options: a}", field: "spec.agent", message: "spec.agent.options requires language java"},
	"options with a space": {bad: "agent: {image: a, language: java, options: a b}",
		good: "agent: {image: a, language: java, options: 'a=b,c=d'}", field: "spec.agent.options", message: "should match"},
	"dotnet by itself": {bad: "agent: {image: a, language: dotnet}",
		good: "agent: {image: a, language: dotnet, path: a.so, profiler: '{918728DD-259F-4A6A-AC2B-B85E1B658318}'}", field: "spec.agent",
		message: "language dotnet requires spec.agent.profiler"},
	"a command that is never run": {bad: "agent: {image: a, language: java, volumeMode: ImageVolume, command: [cp]}",
		good: "agent: {image: a, language: java, volumeMode: InitContainer, command: [cp]}", field: "spec.agent",
		message: "must be empty with volumeMode ImageVolume"},

	"canaries without the strategy": {bad: "rollout: {canary: {count: 1}}", good: "rollout: {strategy: Canary, canary: {count: 1}}",
		field: "spec.rollout", message: "requires spec.rollout.strategy Canary"},
	"canaries by two measures": {bad: "rollout: {strategy: Canary, canary: {count: 1, percent: 10}}",
		good: "rollout: {strategy: Canary, canary: {percent: 10}}", field: "spec.rollout.canary", message: "must not set both count and percent"},
	"none at a time": {bad: "rollout: {maxParallel: 0}", good: "rollout: {maxParallel: 1}", field: "spec.rollout.maxParallel",
		message: "greater than or equal to 1"},
	"a time zone": {bad: "rollout: {window: {start: '22:00', end: '23:00', timeZone: Mars}}",
		good: "rollout: {window: {start: '22:00', end: '23:00', timeZone: Europe/Berlin}}", field: "spec.rollout.window.timeZone",
		message: "IANA time zone database"},
}

// badClusterAgents are cases that only a ClusterInstrumentation can have.
var badClusterAgents = map[string]badInput{
	"all of the cluster": {bad: "matchers: [{}]", good: "matchers: [{}]\nallowAll: true", field: "spec.matchers[0]",
		message: "set spec.allowAll: true"},
	"all, by a pattern": {bad: "matchers: [{deployment: '**'}]", good: "matchers: [{deployment: 'a*'}]", field: "spec.matchers[0]",
		message: "set spec.allowAll: true"},
	"one of several for all": {bad: "matchers: [{deployment: web}, {container: app}]",
		good: "matchers: [{deployment: web}, {deployment: api, container: app}]", field: "spec.matchers[1]", message: "set spec.allowAll: true"},
	"a namespace selector": {bad: "namespaceSelector: {matchLabels: {a: 'b c'}}", good: "namespaceSelector: {matchLabels: {a: b}}",
		field: "spec.namespaceSelector.matchLabels", message: "label"},
}

// agentManifest returns an Instrumentation as a user would write it.
func agentManifest(t *testing.T, kind, spec string) *unstructured.Unstructured {
	t.Helper()
	for field, given := range map[string]string{"matchers:": "matchers: [{deployment: web}]",
		"agent:": "agent: {image: agent:1, language: java}"} {
		if !strings.Contains("\n"+spec, "\n"+field) {
			spec += "\n" + given
		}
	}
	text := "apiVersion: instrumentation.mainstay.dev/v1alpha1\nkind: " + kind +
		"\nmetadata:\n  name: bad\nspec:\n  " + strings.ReplaceAll(spec, "\n", "\n  ") + "\n"
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatalf("the case is not valid YAML: %v\n%s", err, text)
	}
	return object
}

// badInstrumentations checks that schema or webhook refuse invalid specs, and name the field and
// the accepted values.
func badInstrumentations(t *testing.T, s *governed) {
	t.Helper()
	made, err := dynamic.NewForConfig(s.config)
	if err != nil {
		t.Fatal(err)
	}
	resource := func(name string) dynamic.NamespaceableResourceInterface {
		return made.Resource(schema.GroupVersionResource{Group: "instrumentation.mainstay.dev", Version: "v1alpha1", Resource: name})
	}
	check := func(about, kind string, client dynamic.ResourceInterface, test badInput) {
		t.Run(kind+" "+about, func(t *testing.T) {
			options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
			_, err := client.Create(t.Context(), agentManifest(t, kind, test.bad), options)
			switch {
			case err == nil:
				t.Errorf("accepted:\n%s", test.bad)
			case !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) && !apierrors.IsBadRequest(err):
				t.Errorf("got %v", err)
			case !strings.Contains(err.Error(), test.field) || !strings.Contains(err.Error(), test.message):
				t.Errorf("the error lacks %q or %q: %v", test.field, test.message, err)
			}
			if _, err := client.Create(t.Context(), agentManifest(t, kind, test.good), options); err != nil {
				t.Errorf("the accepted manifest is refused: %v\n%s", err, test.good)
			}
		})
	}
	for about, test := range badAgents {
		check(about, "Instrumentation", resource("instrumentations").Namespace("elsewhere"), test)
	}
	for about, test := range badClusterAgents {
		check(about, "ClusterInstrumentation", resource("clusterinstrumentations"), test)
	}
}
