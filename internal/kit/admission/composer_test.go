package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// compose is the Compose of the hook in these tests.
type compose = func(ctx context.Context, request ctrladmission.Request, object, old client.Object) ([]string, error)

// composing returns a hook for Deployments and DaemonSets.
func composing(t *testing.T, does compose) Hook {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := appsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return Composer{
		Name: "workloads.mainstay.dev",
		Objects: []Composed{
			{appsv1.SchemeGroupVersion.WithResource("deployments"), admissionregistrationv1.NamespacedScope,
				func() client.Object { return &appsv1.Deployment{} }},
			{appsv1.SchemeGroupVersion.WithResource("daemonsets"), admissionregistrationv1.NamespacedScope,
				func() client.Object { return &appsv1.DaemonSet{} }},
		},
		Conditions: []admissionregistrationv1.MatchCondition{{Name: "always", Expression: "true"}},
		Compose:    does,
	}.Hook(scheme)
}

// changing returns a Compose that changes the pod template of a Deployment.
func changing(change func(pod *corev1.PodTemplateSpec)) compose {
	return func(_ context.Context, _ ctrladmission.Request, object, _ client.Object) ([]string, error) {
		change(&object.(*appsv1.Deployment).Spec.Template)
		return nil, nil
	}
}

// deployment returns a Deployment as the API server sends it, with the JSON of its pod template.
func deployment(template string) string {
	return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"web"},"spec":{"replicas":0,"new":[0],"template":` + template + `}}`
}

// workload returns the request for an object of a resource. before is empty at creation.
func workload(resource, before, object string) ctrladmission.Request {
	request := ctrladmission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "uid-1", Namespace: "shop", Name: "web", Operation: admissionv1.Update,
		Resource: metav1.GroupVersionResource{Group: "apps", Version: "v1", Resource: resource},
		Object:   runtime.RawExtension{Raw: []byte(object)}, OldObject: runtime.RawExtension{Raw: []byte(before)},
	}}
	if before == "" {
		request.Operation = admissionv1.Create
	}
	return request
}

func sendWorkload(hook Hook, request ctrladmission.Request) ctrladmission.Response {
	return hook.Handler.(*ctrladmission.Webhook).Handle(context.Background(), request)
}

// composerCases have a pod template, a change to it, and the expected patch in order.
var composerCases = map[string]struct {
	template string
	change   func(pod *corev1.PodTemplateSpec)
	patch    []map[string]any
}{
	"no change": {`{"spec":{"containers":[{"name":"a","image":"b"}]}}`, func(*corev1.PodTemplateSpec) {}, nil},
	"the template has no metadata": {
		`{"spec":{"containers":[{"name":"a"}]}}`, func(pod *corev1.PodTemplateSpec) { pod.Annotations = map[string]string{"a/b": "c"} },
		[]map[string]any{add("/spec/template/metadata", map[string]any{"annotations": map[string]any{"a/b": "c"}})},
	},
	"values that the type omits survive": {
		`{"metadata":{"creationTimestamp":null},"spec":{"hostNetwork":false,"priority":0,"volumes":[],"containers":[{"name":"a","args":[],"resources":{},"tty":false}]}}`,
		func(pod *corev1.PodTemplateSpec) { pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A"}} },
		[]map[string]any{add("/spec/template/spec/containers/0/env", []any{map[string]any{"name": "A"}})},
	},
	"empty values are filled": {
		`{"metadata":null,"spec":{"volumes":[],"initContainers":null,"containers":[{"name":"a","env":[]}]}}`,
		func(pod *corev1.PodTemplateSpec) {
			pod.Labels = map[string]string{"a": "b"}
			pod.Spec.Volumes = []corev1.Volume{{Name: "v"}}
			pod.Spec.InitContainers = []corev1.Container{{Name: "i"}}
			pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A"}}
		},
		[]map[string]any{
			replace("/spec/template/metadata", map[string]any{"labels": map[string]any{"a": "b"}}),
			add("/spec/template/spec/containers/0/env/0", map[string]any{"name": "A"}),
			replace("/spec/template/spec/initContainers", []any{map[string]any{"name": "i", "resources": map[string]any{}}}),
			add("/spec/template/spec/volumes/0", map[string]any{"name": "v"}),
		},
	},
	"unknown fields survive in a container and in the variables around one that is inserted": {
		`{"spec":{"new":{"a":1},"containers":[{"name":"a","new":[1,0],"env":[{"name":"A","new":1},{"name":"B","value":"b","new":0},{"name":"C","new":false}]}]}}`,
		func(pod *corev1.PodTemplateSpec) {
			env := pod.Spec.Containers[0].Env
			env[1].Value += " c"
			pod.Spec.Containers[0].Env = slices.Insert(env, 1, corev1.EnvVar{Name: "HELPER", Value: "h"})
		},
		[]map[string]any{
			add("/spec/template/spec/containers/0/env/1", map[string]any{"name": "HELPER", "value": "h"}),
			replace("/spec/template/spec/containers/0/env/2/value", "b c"),
		},
	},
	"a container comes before one that is unknown in part": {
		`{"spec":{"initContainers":[{"name":"first","new":1}],"containers":[{"name":"a"}]}}`,
		func(pod *corev1.PodTemplateSpec) {
			pod.Spec.InitContainers = append([]corev1.Container{{Name: "ours"}}, pod.Spec.InitContainers...)
		},
		[]map[string]any{add("/spec/template/spec/initContainers/0", map[string]any{"name": "ours", "resources": map[string]any{}})},
	},
	"removing elements keeps their neighbours": {
		`{"metadata":{"annotations":{"ours":"1","new":"2"}},"spec":{"containers":[{"name":"a","volumeMounts":[{"name":"v","mountPath":"/a","new":1},{"name":"ours","mountPath":"/b"},{"name":"v","mountPath":"/c","new":2}]}]}}`,
		func(pod *corev1.PodTemplateSpec) {
			delete(pod.Annotations, "ours")
			pod.Spec.Containers[0].VolumeMounts = slices.Delete(pod.Spec.Containers[0].VolumeMounts, 1, 2)
		},
		[]map[string]any{remove("/spec/template/metadata/annotations/ours"), remove("/spec/template/spec/containers/0/volumeMounts/1")},
	},
	"the last element of a list is removed": {
		`{"spec":{"volumes":[{"name":"ours"}],"containers":[{"name":"a"}]}}`, func(pod *corev1.PodTemplateSpec) { pod.Spec.Volumes = nil },
		[]map[string]any{remove("/spec/template/spec/volumes")},
	},
}

func TestComposing(t *testing.T) {
	for name, test := range composerCases {
		for _, before := range []string{"", deployment(`{"new":1}`)} {
			t.Run(name, func(t *testing.T) {
				response := sendWorkload(composing(t, changing(test.change)), workload("deployments", before, deployment(test.template)))
				if diff := cmp.Diff(allowed, answerOf(response)); diff != "" {
					t.Error(diff)
				}
				if response.UID != "uid-1" {
					t.Errorf("UID %q", response.UID)
				}
				var patch []map[string]any
				if len(response.Patch) > 0 {
					if response.PatchType == nil || *response.PatchType != admissionv1.PatchTypeJSONPatch {
						t.Errorf("patch type %v", response.PatchType)
					}
					if err := json.Unmarshal(response.Patch, &patch); err != nil {
						t.Fatal(err)
					}
				} else if response.PatchType != nil {
					t.Error("a patch type, and no patch")
				}
				if diff := cmp.Diff(test.patch, patch); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// TestComposingArguments: Compose gets the types of its resources, the old object only if there is
// one, and the request. Its warnings are passed on, in a form that API servers pass on.
func TestComposingArguments(t *testing.T) {
	hook := composing(t, func(_ context.Context, request ctrladmission.Request, object, old client.Object) ([]string, error) {
		told := fmt.Sprintf("%s %T %T", request.Operation, object, old)
		return []string{told, "a\tb\n", strings.Repeat("ä", 256), strings.Repeat("ä", 257)}, nil
	})
	daemon := `{"apiVersion":"apps/v1","kind":"DaemonSet"}`
	for want, request := range map[string]ctrladmission.Request{
		"CREATE *v1.DaemonSet <nil>":         workload("daemonsets", "", daemon),
		"UPDATE *v1.DaemonSet *v1.DaemonSet": workload("daemonsets", daemon, daemon),
		"CREATE *v1.Deployment <nil>":        workload("deployments", "", deployment(`{}`)),
	} {
		response := sendWorkload(hook, request)
		expected := warned(want, "a b ", strings.Repeat("ä", 256), strings.Repeat("ä", 255)+"…")
		if diff := cmp.Diff(expected, answerOf(response)); diff != "" || len(response.Patch) > 0 {
			t.Errorf("%s, patch %s", diff, response.Patch)
		}
	}
}

// TestComposingNeverRefuses: after any error the object is stored as it was sent, with a warning.
func TestComposingNeverRefuses(t *testing.T) {
	spoil := func(err error) compose {
		return func(_ context.Context, _ ctrladmission.Request, object, _ client.Object) ([]string, error) {
			object.SetLabels(map[string]string{"half": "done"})
			if err == nil {
				panic("lost")
			}
			return []string{"half"}, err
		}
	}
	good, another := deployment(`{}`), `{"apiVersion":"autoscaling/v1","kind":"Scale"}`
	for name, test := range map[string]struct {
		does    compose
		request ctrladmission.Request
		want    string
	}{
		"an error":                      {spoil(errUnknown), workload("deployments", "", good), "nobody knows"},
		"a panic":                       {spoil(nil), workload("deployments", good, good), "panic: lost [recovered]"},
		"nothing":                       {nil, workload("deployments", "", ""), "reading the object: there is no content to decode"},
		"no JSON":                       {nil, workload("deployments", "", "{"), "reading the object: "},
		"a field of another type":       {nil, workload("deployments", "", deployment(`7`)), "reading the object: "},
		"another kind":                  {nil, workload("deployments", "", another), "reading the object: "},
		"one before that can't be read": {nil, workload("deployments", deployment(`7`), good), "reading the object before the update: "},
		"another resource":              {nil, workload("jobs", "", good), "{apps v1 jobs} is not a resource of this webhook"},
	} {
		t.Run(name, func(t *testing.T) {
			response := sendWorkload(composing(t, test.does), test.request)
			if !response.Allowed || len(response.Patch) > 0 || response.UID != "uid-1" || len(response.Warnings) != 1 {
				t.Fatalf("%v, patch %s, UID %q", answerOf(response), response.Patch, response.UID)
			}
			warning := response.Warnings[0]
			if !strings.HasPrefix(warning, "workloads.mainstay.dev left the object as it was sent: "+test.want) || len([]rune(warning)) > 256 {
				t.Error(warning)
			}
		})
	}
	deleted := workload("deployments", good, "")
	deleted.Operation = admissionv1.Delete
	if diff := cmp.Diff(allowed, answerOf(sendWorkload(composing(t, nil), deleted))); diff != "" {
		t.Errorf("deleted: %s", diff)
	}
}

func TestComposerHook(t *testing.T) {
	hook := composing(t, nil)
	hook.Handler = nil
	rules := make([]admissionregistrationv1.RuleWithOperations, 2)
	for i, resource := range []string{"deployments", "daemonsets"} {
		rules[i] = admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{resource},
				Scope: new(admissionregistrationv1.NamespacedScope),
			},
		}
	}
	want := Hook{
		Name: "workloads.mainstay.dev", Path: "/mutate/workloads.mainstay.dev", Mutating: true, Rules: rules,
		Conditions:    []admissionregistrationv1.MatchCondition{{Name: "always", Expression: "true"}},
		FailurePolicy: admissionregistrationv1.Ignore,
	}
	if diff := cmp.Diff(want, hook); diff != "" {
		t.Error(diff)
	}
}
