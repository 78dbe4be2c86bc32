package setup

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

// rightStack is the spec of an AppStack without a mistake, with a component of each type.
const rightStack = `{"components":[
	{"name":"db","type":"postgresql","spec":{"version":"17","replicas":3,"storage":"1Gi"}},
	{"name":"settings","type":"appConfig","spec":{"application":"shop","config":{"LOG":"info"}}},
	{"name":"watch","type":"configMonitor","spec":{"configMap":"flags","podSelector":{"app":"web"}}},
	{"name":"queue","type":"object","spec":{"apiVersion":"mq.example.com/v1","kind":"Queue","metadata":{"labels":{"a":"b"}},"spec":{"size":3}},"outputs":[{"name":"URI","path":"status.uri"}]},
	{"name":"back","type":"webApp","dependsOn":["db","settings","queue"],"spec":{"image":"reg.io/back:1","replicas":2,"port":8080,"env":[{"name":"A","value":"b"}]}},
	{"name":"front","type":"webApp","dependsOn":["back"],"inject":false,"spec":{"image":"reg.io/front:1","ingress":{"host":"shop.example.com"}}},
	{"name":"sessions","type":"cache","spec":{"version":"9","replicas":3,"memory":"256Mi"}}
],"labels":{"team":"a"},"annotations":{"note":"n"},"updates":"Independent"}`

// mistakes are what users get wrong in an AppStack: an edit of rightStack, and the answer, with its
// field. What the API server refuses by itself is not here: by the schema of the AppStack, and by
// rules in CEL.
var mistakes = []struct{ from, to, want string }{
	{`"memory":"256Mi"`, `"memory":"31Mi"`, `spec.components[6].spec.memory: Invalid value: "31Mi": must be from 32Mi to 1Ti, for example 256Mi`},
	{`"memory":"256Mi"`, `"memory":"256Mi","parameters":{"maxmemory":"1gb"}`,
		`spec.components[6].spec.parameters[maxmemory]: Invalid value: "1gb": must not be set: it is set by spec.memory and spec.maxMemoryPercent`},
	{`"name":"db"`, `"name":"back"`,
		`spec.components[4].name: Duplicate value: "back"`},
	{`"name":"db"`, `"name":"DB"`,
		`spec.components[0].name: Invalid value: "DB": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric`},
	{`"name":"db"`, `"name":"d_b"`,
		`spec.components[0].name: Invalid value: "d_b": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric`},
	{`"name":"db"`, `"name":""`,
		`spec.components[0].name: Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric`},
	{`"name":"db"`, `"name":"dddddddddddddddddddddddddddddddddddddddddddddd"`,
		`spec.components[0].name: Invalid value: "dddddddddddddddddddddddddddddddddddddddddddddd": the PostgreSQL would be named`},
	{`"name":"front"`, `"name":"fffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"`,
		`spec.components[5].name: Invalid value: "fffffffffffffffffffffffffffffffffffffffffffffffffffffffffff": the WebApp would`},
	{`"type":"postgresql"`, `"type":"PostgreSQL"`,
		`spec.components[0].type: Unsupported value: "PostgreSQL": supported values: "appConfig", "cache", "configMonitor", "object", "postgresql", "webApp"`},
	{`"type":"postgresql"`, `"type":"postgres"`,
		`spec.components[0].type: Unsupported value: "postgres": supported values: "appConfig", "cache", "configMonitor", "object", "postgresql", "webApp"`},
	{`"type":"webApp"`, `"type":"deployment"`,
		`spec.components[4].type: Unsupported value: "deployment": supported values: "appConfig", "cache", "configMonitor", "object", "postgresql", "webApp"`},
	{`"type":"webApp"`, `"type":""`,
		`spec.components[4].type: Unsupported value: "": supported values: "appConfig", "cache", "configMonitor", "object", "postgresql", "webApp"`},
	{`"dependsOn":["back"]`, `"dependsOn":["backend"]`,
		`spec.components[5].dependsOn[0]: Not found: "backend"`},
	{`"dependsOn":["back"]`, `"dependsOn":["front"]`,
		`spec.components[5].dependsOn[0]: Invalid value: "front": must not be the component itself`},
	{`"dependsOn":["back"]`, `"dependsOn":["back","back"]`,
		`spec.components[5].dependsOn[1]: Duplicate value: "back"`},
	{`"dependsOn":["back"]`, `"dependsOn":["shop-back"]`,
		`spec.components[5].dependsOn[0]: Not found: "shop-back"`},
	{`"dependsOn":["db","settings","queue"]`, `"dependsOn":["front"]`,
		`spec.components[4].dependsOn: Invalid value: must not depend on itself through others: back -> front -> back`},
	{`"type":"postgresql",`, `"type":"postgresql","dependsOn":["back"],`,
		`spec.components[0].dependsOn: Invalid value: must not depend on itself through others: db -> back -> db`},
	{`"replicas":2`, `"replcas":2`,
		`spec.components[4].spec.replcas: Forbidden: unknown field: the kind has none of this name`},
	{`"replicas":2`, `"replicas":"2"`,
		`spec.components[4].spec.replicas: Invalid value: "string": must be of type int32`},
	{`"replicas":2`, `"replicas":2.5`,
		`spec.components[4].spec.replicas: Invalid value: "number 2.5": must be of type int32`},
	{`"replicas":2`, `"replicas":6`,
		`spec.components[4].spec.replicas: Invalid value: 6: must be at most 5 (policy "default", rule "*.maxReplicas")`},
	{`"replicas":2`, `"replicas":2,"replicas":3`,
		`spec.components[4].spec.replicas: Duplicate value`},
	{`"image":"reg.io/back:1"`, `"image":"docker.io/back:1"`,
		`spec.components[4].spec.image: Invalid value: "docker.io/back:1": must be an image of reg.io (policy "default", rule "*.allowedRegistries")`},
	{`"image":"reg.io/back:1"`, `"image":"reg.io/Back:1"`,
		`spec.components[4].spec.image: Invalid value: "reg.io/Back:1": must be an image reference, [registry[:port]/]path[:tag][@digest], with the path in lower case: invalid reference format: repository name (Back) must be lowercase`},
	{`"image":"reg.io/back:1",`, ``,
		`spec.components[4].spec.image: Invalid value: "": must be an image reference, [registry[:port]/]path[:tag][@digest], with the path in lower case: invalid reference format`},
	{`"image":"reg.io/back:1"`, `"image":["reg.io/back:1"]`,
		`spec.components[4].spec.image: Invalid value: "array": must be of type string`},
	{`"image":"reg.io/back:1"`, `"Image":"reg.io/back:1"`,
		`spec.components[4].spec.Image: Forbidden: unknown field: the kind has none of this name`},
	{`"port":8080`, `"port":80800`,
		`spec.components[4].spec.port: Invalid value: 80800: should be less than or equal to 65535`},
	{`"port":8080`, `"port":"http"`,
		`spec.components[4].spec.port: Invalid value: "string": must be of type int32`},
	{`"port":8080`, `"imagePullPolicy":"always"`,
		`spec.components[4].spec.imagePullPolicy: Unsupported value: "always": supported values: "Always", "IfNotPresent", "Never"`},
	{`"port":8080`, `"resources":{"limits":{"cpu":"much"}}`,
		`spec.components[4].spec.resources.limits.cpu: Invalid value: "much": use for example 500m or 64Mi`},
	{`"port":8080`, `"resources":{"limits":{"cpu":"1e-999999999"}}`,
		`spec.components[4].spec.resources.limits[cpu]: Invalid value: "1e-999999999": must be a quantity with an exponent between -30 and 30, for example 500m or 64Mi`},
	{`"port":8080`, `"resources":{"limit":{"cpu":"1"}}`,
		`spec.components[4].spec.resources.limit: Forbidden: unknown field: the kind has none of this name`},
	{`"port":8080`, `"terminationGracePeriodSeconds":"30s"`,
		`spec.components[4].spec.terminationGracePeriodSeconds: Invalid value: "string": must be of type int64`},
	{`"port":8080`, `"annotations":{"mainstay.dev/adopt":"x"}`,
		`spec.components[4].spec.annotations[mainstay.dev/adopt]: Forbidden: mainstay.dev/adopt is set by Mainstay or Kubernetes: choose another key`},
	{`"port":8080`, `"spec":{"port":8080}`,
		`spec.components[4].spec.spec: Forbidden: unknown field: the kind has none of this name`},
	{`"env":[{"name":"A","value":"b"}]`, `"env":{"A":"b"}`,
		`spec.components[4].spec.env: Invalid value: "object": must be of type []v1.EnvVar`},
	{`"env":[{"name":"A","value":"b"}]`, `"env":[{"name":"A","valu":"b"}]`,
		`spec.components[4].spec.env[0].valu: Forbidden: unknown field: the kind has none of this name`},
	{`"env":[{"name":"A","value":"b"}]`, `"env":[{"name":"A","value":1}]`,
		`spec.components[4].spec.env.value: Invalid value: "number": must be of type string`},
	{`"env":[{"name":"A","value":"b"}]`, `"env":[{"value":"b"}]`,
		`spec.components[4].spec.env[0].name: Invalid value: "": environment variable name must be non-empty`},
	{`"ingress":{"host":"shop.example.com"}`, `"ingress":"shop.example.com"`,
		`spec.components[5].spec.ingress: Invalid value: "string": must be of type v1.Ingress`},
	{`"ingress":{"host":"shop.example.com"}`, `"ingress":{}`,
		`spec.components[5].spec.ingress.host: Invalid value: "": should be at least 1 chars long`},
	{`"version":"17"`, `"version":17`,
		`spec.components[0].spec.version: Invalid value: "number": must be of type string`},
	{`"version":"17"`, `"version":"8"`,
		`spec.components[0].spec.version: Unsupported value: "8": supported values: "12", "13", "14", "15", "16", "17", "18"`},
	{`"storage":"1Gi"`, `"storage":"1 GB"`,
		`spec.components[0].spec.storage: Invalid value: "1 GB": use for example 1Gi`},
	{`,"storage":"1Gi"`, ``,
		`spec.components[0].spec.storage: Invalid value: "0": must be from 512Mi to 1Pi, for example 10Gi`},
	{`"storage":"1Gi"`, `"storage":"1Gi","deletionPolicy":"Remain"`,
		`spec.components[0].spec.deletionPolicy: Unsupported value: "Remain": supported values: "Retain", "Delete"`},
	{`"replicas":3`, `"replicas":9`,
		`spec.components[0].spec.replicas: Invalid value: 9: must be from 1 to 5`},
	{`"application":"shop",`, ``,
		`spec.components[1].spec.application: Invalid value: "": a lowercase RFC 1123 label must consist of lower case`},
	{`"config":{"LOG":"info"}`, `"config":{"LOG":"{{ .nothing"}`,
		`spec.components[1].spec.config.LOG: Invalid value: line 1: unclosed action`},
	{`"config":{"LOG":"info"}`, `"config":{"LOG":1}`,
		`spec.components[1].spec.config: Invalid value: "number": must be of type string`},
	{`"configMap":"flags",`, ``,
		`spec.components[2].spec: Required value: must set configMap or secret to the name of the object to watch`},
	{`"podSelector":{"app":"web"}`, `"podSelector":{}`,
		`spec.components[2].spec.podSelector: Required value: must have at least one label: an empty selector would select every pod of the namespace`},
	{`"podSelector":{"app":"web"}`, `"podSelector":{"matchLabels":{"app":"web"}}`,
		`spec.components[2].spec.podSelector: Invalid value: "object": must be of type string`},
	{`"kind":"Queue"`, `"kind":"Topic"`,
		`spec.components[3].spec.kind: Unsupported value: "mq.example.com/v1 Topic": supported values: "mq.example.com/v1 Queue"`},
	{`"apiVersion":"mq.example.com/v1","kind":"Queue"`, `"apiVersion":"v1","kind":"Secret"`,
		`spec.components[3].spec.kind: Unsupported value: "v1 Secret": supported values: "mq.example.com/v1 Queue"`},
	{`"apiVersion":"mq.example.com/v1",`, ``,
		`spec.components[3].spec.kind: Unsupported value: "Queue": supported values: "mq.example.com/v1 Queue"`},
	{`"metadata":{"labels":{"a":"b"}}`, `"metadata":{"name":"queue"}`,
		`spec.components[3].spec.metadata.name: Forbidden: only labels and annotations may be set: the name is STACK-COMPONENT`},
	{`"metadata":{"labels":{"a":"b"}}`, `"metadata":{"namespace":"other"}`,
		`spec.components[3].spec.metadata.namespace: Forbidden: only labels and annotations may be set: the name is STACK-COMPONENT`},
	{`"metadata":{"labels":{"a":"b"}}`, `"metadata":{"labels":{"a":1}}`,
		`spec.components[3].spec.metadata.labels: Invalid value: must be a map of strings`},
	{`"spec":{"size":3}}`, `"spec":{"size":3},"status":{"uri":"x"}}`,
		`spec.components[3].spec.status: Forbidden: is written by the object's own controller`},
	{`"inject":false`, `"outputs":[{"name":"URI","path":"status.url"}]`,
		`spec.components[5].outputs: Forbidden: may be set for the type object only: webApp offers the variables of its bindings, if any`},
	{`"labels":{"team":"a"}`, `"labels":{"app.kubernetes.io/name":"a"}`,
		`spec.labels[app.kubernetes.io/name]: Forbidden: app.kubernetes.io/name is set by Mainstay or Kubernetes: choose another key`},
	{`"annotations":{"note":"n"}`, `"annotations":{"mainstay.dev/adopt":"n"}`,
		`spec.annotations[mainstay.dev/adopt]: Forbidden: mainstay.dev/adopt is set by Mainstay or Kubernetes: choose another key`},
	{`"updates":"Independent"`, `"updates":"Parallel"`,
		`spec.updates: Unsupported value: "Parallel": supported values: "Independent", "Ordered"`},
}

// validationOf returns the handler that validates a kind, such as appstack, with all kinds on, a
// kind of another project, and a policy that limits replicas and registries. existing are in the
// cache.
func validationOf(t *testing.T, kind string, existing ...client.Object) admission.Hook {
	t.Helper()
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	cluster := fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}).WithObjects(existing...).Build()
	queue := schema.GroupVersionKind{Group: "mq.example.com", Version: "v1", Kind: "Queue"}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(queue, meta.RESTScopeNamespace)
	rules := func(context.Context, string) (policy.Rules, error) {
		limits := mspolicyv1.PlatformPolicy{Spec: mspolicyv1.PlatformPolicySpec{Rules: []mspolicyv1.Rule{{
			Environment: "*", MaxReplicas: ptr.To[int32](5), AllowedRegistries: []string{"reg.io"},
		}}}}
		limits.Name = "default"
		return policy.Set{Policies: []mspolicyv1.PlatformPolicy{limits}}.Governing("shop", nil), nil
	}
	in := registration.Input{
		Manager: mappingManager{someManager{scheme: scheme, client: cluster}, mapper}, Kinds: kinds(), Rules: rules, Reviewing: cluster,
		Version: &version.Info{}, PostgreSQLImages: map[string]string{"17": "reg.io/postgres:17"},
		ValkeyImages: map[string]string{"9": "reg.io/valkey:9"}, InstanceImage: "reg.io/mainstay:1",
		Objects: []registration.ObjectKind{{GroupVersionKind: queue, Resource: "queues"}},
	}
	for _, hook := range (wiring{Input: in}).hooks() {
		if strings.Contains(hook.Path, kind) && strings.Contains(hook.Path, "validate") {
			return hook
		}
	}
	t.Fatal("there is no webhook for " + kind)
	return admission.Hook{}
}

// mappingManager is a manager that knows a kind of another project.
type mappingManager struct {
	someManager
	mapper meta.RESTMapper
}

func (m mappingManager) GetRESTMapper() meta.RESTMapper { return m.mapper }

// answered is the answer of a webhook.
type answered struct {
	Allowed  bool
	Warnings []string
	Status   struct {
		Message string
		Details struct {
			Causes []struct{ Field, Message string }
		}
	}
}

// told returns why a request was refused, each reason with its field.
func (a answered) told() string {
	var told []string
	for _, cause := range a.Status.Details.Causes {
		told = append(told, cause.Field+": "+cause.Message)
	}
	if told == nil { // what a policy forbids has no causes
		_, forbidden, _ := strings.Cut(a.Status.Message, "is forbidden: ")
		told = append(told, forbidden)
	}
	return strings.Join(told, "\n")
}

// ask sends a request to a webhook: its operation and objects.
func ask(t *testing.T, hook admission.Hook, request string) answered {
	t.Helper()
	body := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","namespace":"shop",` + request + `}}`
	var review struct{ Response answered }
	if err := json.Unmarshal(post(t, hook.Handler, body).Body.Bytes(), &review); err != nil {
		t.Fatal(err)
	}
	return review.Response
}

// TestStackMistakes: each mistake is refused, with its field and what is right, and without it the
// stack is accepted.
func TestStackMistakes(t *testing.T) {
	hook := validationOf(t, "appstack")
	answer := func(spec string) (bool, string) {
		answered := ask(t, hook, `"operation":"CREATE","object":{"apiVersion":"platform.mainstay.dev/v1","kind":"AppStack",`+
			`"metadata":{"namespace":"shop","name":"shop"},"spec":`+spec+`}`)
		return answered.Allowed, answered.told()
	}
	if isAllowed, told := answer(rightStack); !isAllowed {
		t.Fatalf("without a mistake it is refused: %s", told)
	}
	for _, one := range mistakes {
		wrong := strings.Replace(rightStack, one.from, one.to, 1)
		if wrong == rightStack {
			t.Errorf("%s: edits nothing", one.from)
			continue
		}
		if isAllowed, told := answer(wrong); isAllowed || !strings.HasPrefix(told, one.want) {
			t.Errorf("%s:\ngot  %s\nwant %s", one.to, told, one.want)
		}
	}
}
