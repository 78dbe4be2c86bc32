package apply

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

func testRenderer(t testing.TB) renderer {
	t.Helper()
	scheme := schemeOf(t, clientgoscheme.AddToScheme, msappsv1.AddToScheme, gatewayv1.Install, monitoring.AddToScheme)
	return newRenderer(scheme)
}

func owner() *msappsv1.WebApp {
	return &msappsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop", UID: "uid-1"}}
}

// deployment returns a Deployment similar to that of a WebApp.
func deployment(changes ...func(*appsv1.Deployment)) *appsv1.Deployment {
	labels := map[string]string{"app": "shop", "app.kubernetes.io/component": "webapp"}
	one := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](2),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					ServiceAccountName: "shop", AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
					TerminationGracePeriodSeconds: ptr.To[int64](30),
					Containers: []corev1.Container{{
						Name: "webapp", Image: "shop:1",
						Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: "TCP"}},
						Env:   []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B"}},
						ReadinessProbe: &corev1.Probe{
							ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}},
							PeriodSeconds: 5, TimeoutSeconds: 2, SuccessThreshold: 1, FailureThreshold: 3,
						},
						SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false)},
					}},
				},
			},
		},
	}
	for _, change := range changes {
		change(one)
	}
	return one
}

func mustRender(t testing.TB, r renderer, child plan.Object) rendered {
	t.Helper()
	one, err := r.render(owner(), plan.Child{Object: child})
	if err != nil {
		t.Fatal(err)
	}
	return one
}

// applied returns a Deployment as the API server stores it after our apply.
func applied(t testing.TB, r renderer, wanted rendered) *appsv1.Deployment {
	t.Helper()
	typed, err := r.builtin.ObjectToTyped(wanted.object)
	if err != nil {
		t.Fatal(err)
	}
	fields, err := typed.ToFieldSet()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := fields.Difference(unmanaged).ToJSON()
	if err != nil {
		t.Fatal(err)
	}
	live := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(wanted.object.DeepCopy().Object, live); err != nil {
		t.Fatal(err)
	}
	live.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "mainstay/webapp", Operation: "Apply", APIVersion: "apps/v1",
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(raw))}}
	return live
}

func TestRender(t *testing.T) {
	got := mustRender(t, testRenderer(t), deployment())
	if got.ref != (plan.Ref{Group: "apps", Kind: "Deployment", Namespace: "web", Name: "shop"}) {
		t.Errorf("ref %v", got.ref)
	}
	content := got.object.Object
	if content["apiVersion"] != "apps/v1" || content["kind"] != "Deployment" {
		t.Errorf("%v %v", content["apiVersion"], content["kind"])
	}
	if _, has := content["status"]; has {
		t.Error("a status would be applied")
	}
	wantOwners := []metav1.OwnerReference{{
		APIVersion: "apps.mainstay.dev/v1", Kind: "WebApp", Name: "shop", UID: "uid-1", Controller: new(true), BlockOwnerDeletion: new(true),
	}}
	if diff := cmp.Diff(wantOwners, got.object.GetOwnerReferences()); diff != "" {
		t.Error(diff)
	}
	if hash := got.object.GetAnnotations()["mainstay.dev/applied"]; hash != got.hash || len(hash) != 32 {
		t.Errorf("annotation %q, hash %q", hash, got.hash)
	}
}

func TestRenderLeavesTheChildAlone(t *testing.T) {
	child := deployment(func(d *appsv1.Deployment) { d.Annotations = map[string]string{"a": "1"} })
	before := child.DeepCopy()
	mustRender(t, testRenderer(t), child)
	if diff := cmp.Diff(before, child); diff != "" {
		t.Error(diff)
	}
}

// TestHash pins one hash. With another computation, the next upgrade would write every child of
// every application once.
func TestHash(t *testing.T) {
	r := testRenderer(t)
	first := mustRender(t, r, deployment()).hash
	const want = "5efafe0bde9dc14fa2759e088cde57ca"
	if first != want {
		t.Errorf("got %s, want %s", first, want)
	}
	for range 20 {
		if again := mustRender(t, r, deployment()).hash; again != first {
			t.Fatalf("the same object has the hashes %s and %s", first, again)
		}
	}
	for name, change := range map[string]func(*appsv1.Deployment){
		"a value":          func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "shop:2" },
		"a value taken":    func(d *appsv1.Deployment) { d.Spec.Replicas = nil },
		"an order":         func(d *appsv1.Deployment) { e := d.Spec.Template.Spec.Containers[0].Env; e[0], e[1] = e[1], e[0] },
		"an annotation":    func(d *appsv1.Deployment) { d.Annotations = map[string]string{"a": "1"} },
		"its name":         func(d *appsv1.Deployment) { d.Name = "other" },
		"an empty mapping": func(d *appsv1.Deployment) { d.Spec.Template.Spec.Affinity = &corev1.Affinity{} },
	} {
		t.Run(name, func(t *testing.T) {
			if mustRender(t, r, deployment(change)).hash == first {
				t.Error("the hash is the same")
			}
		})
	}
	t.Run("but not the status", func(t *testing.T) {
		if mustRender(t, r, deployment(func(d *appsv1.Deployment) { d.Status.Replicas = 7 })).hash != first {
			t.Error("the hash is another")
		}
	})
	t.Run("another owner", func(t *testing.T) {
		other := owner()
		other.UID = "uid-2"
		if got, err := r.render(other, plan.Child{Object: deployment()}); err != nil || got.hash == first {
			t.Errorf("got %s, %v", got.hash, err)
		}
	})
}

func TestSame(t *testing.T) {
	r := testRenderer(t)
	wanted := mustRender(t, r, deployment())
	editFields := func(edit func(string) string) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) {
			raw := d.ManagedFields[0].FieldsV1.GetRawString()
			edited := edit(raw)
			if edited == raw {
				panic("nothing was edited")
			}
			d.ManagedFields[0].FieldsV1.SetRawString(edited)
		}
	}
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment)
		want   bool
	}{
		"as it was applied":                  {func(*appsv1.Deployment) {}, true},
		"fields of others are ignored":       {func(d *appsv1.Deployment) { d.Labels["x"] = "1"; d.Spec.MinReadySeconds = 9 }, true},
		"defaults of the server are ignored": {func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = ptr.To[int32](10) }, true},
		"another hash":                       {func(d *appsv1.Deployment) { d.Annotations["mainstay.dev/applied"] = "x" }, false},
		"no hash":                            {func(d *appsv1.Deployment) { delete(d.Annotations, "mainstay.dev/applied") }, false},
		"a field that changed its owner":     {editFields(func(s string) string { return strings.Replace(s, `"f:replicas":{},`, "", 1) }), false},
		"a field too many": {editFields(func(s string) string {
			return strings.Replace(s, `"f:replicas":{}`, `"f:paused":{},"f:replicas":{}`, 1)
		}), false},
		"no field of ours":          {func(d *appsv1.Deployment) { d.ManagedFields = nil }, false},
		"fields of another manager": {func(d *appsv1.Deployment) { d.ManagedFields[0].Manager = "kubectl" }, false},
		"fields of an update":       {func(d *appsv1.Deployment) { d.ManagedFields[0].Operation = "Update" }, false},
		"fields of a subresource":   {func(d *appsv1.Deployment) { d.ManagedFields[0].Subresource = "scale" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			live := applied(t, r, wanted)
			test.change(live)
			got, err := r.same(wanted, live, "mainstay/webapp")
			if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
	t.Run("fields that can't be read are an error", func(t *testing.T) {
		live := applied(t, r, wanted)
		live.ManagedFields[0].FieldsV1.SetRawString("{")
		if _, err := r.same(wanted, live, "mainstay/webapp"); err == nil {
			t.Error("there is none")
		}
	})
}

func TestSameForTheGatewayAPI(t *testing.T) {
	r := testRenderer(t)
	wanted := mustRender(t, r, &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		Spec: gatewayv1.HTTPRouteSpec{Hostnames: []gatewayv1.Hostname{"a.example.com"}}})
	live := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"mainstay.dev/applied": wanted.hash}}}
	if same, err := r.same(wanted, live, "mainstay/webapp"); err != nil || same {
		t.Errorf("got %t, %v", same, err)
	}
}

// TestFieldsOfServiceMonitors: they are the ones that the API server records for an applied
// ServiceMonitor, or each reconcile would apply it again.
func TestFieldsOfServiceMonitors(t *testing.T) {
	r := testRenderer(t)
	made := mustRender(t, r, &monitoring.ServiceMonitor{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"app": "shop"}},
		Spec: monitoring.ServiceMonitorSpec{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}},
			Endpoints: []monitoring.Endpoint{{Port: "http", TargetPort: new(intstr.FromInt32(8080)),
				Relabelings: []monitoring.Relabeling{{SourceLabels: []string{"__address__"}, Action: "replace"}}}},
		},
	})
	of, err := r.fielderOf(made.object.GroupVersionKind()).ObjectToTyped(made.object)
	if err != nil {
		t.Fatal(err)
	}
	fields, err := of.ToFieldSet()
	if err != nil {
		t.Fatal(err)
	}
	text, err := fields.Difference(unmanaged).ToJSON()
	if err != nil {
		t.Fatal(err)
	}
	// As kube-apiserver 1.37 records it, with the operator's own definition (see newMonitoring).
	want := `{"f:metadata":{"f:annotations":{"f:mainstay.dev/applied":{}},"f:labels":{"f:app":{}},` +
		`"f:ownerReferences":{"k:{\"uid\":\"uid-1\"}":{}}},"f:spec":{"f:endpoints":{},"f:selector":{}}}`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
}

func TestDropNulls(t *testing.T) {
	got := map[string]any{
		"a": nil, "b": map[string]any{"c": nil, "d": "e"}, "f": []any{map[string]any{"g": nil, "h": int64(0)},
			"i"}, "j": map[string]any{}, "k": "", "l": false,
	}
	dropNulls(got)
	want := map[string]any{
		"b": map[string]any{"d": "e"}, "f": []any{map[string]any{"h": int64(0)}, "i"}, "j": map[string]any{}, "k": "", "l": false,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func entry(manager, operation, apiVersion, subresource, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationType(operation), APIVersion: apiVersion, Subresource: subresource,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
	}
}

func TestTakenOverEntries(t *testing.T) {
	const ours = "mainstay/webapp"
	for name, test := range map[string]struct{ given, want []metav1.ManagedFieldsEntry }{
		"no managed fields": {nil, []metav1.ManagedFieldsEntry{entry(ours, "Apply", "apps/v1", "", `{}`)}},
		"all become ours": {
			[]metav1.ManagedFieldsEntry{
				entry("kubectl-client-side-apply", "Update", "apps/v1", "", `{"f:spec":{"f:replicas":{}}}`),
				entry("helm", "Apply", "apps/v1", "", `{"f:spec":{"f:paused":{}}}`),
				entry(ours, "Apply", "apps/v1", "", `{"f:metadata":{"f:labels":{"f:app":{}}}}`),
			},
			[]metav1.ManagedFieldsEntry{entry(ours, "Apply", "apps/v1", "", `{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:paused":{},"f:replicas":{}}}`)},
		},
		"status and scale stay": {
			[]metav1.ManagedFieldsEntry{
				entry("kubectl", "Update", "apps/v1", "", `{"f:spec":{"f:paused":{}}}`),
				entry("kube-controller-manager", "Update", "apps/v1", "status", `{"f:status":{"f:replicas":{}}}`),
				entry("kube-controller-manager", "Update", "apps/v1", "scale", `{"f:spec":{"f:replicas":{}}}`),
			},
			[]metav1.ManagedFieldsEntry{
				entry(ours, "Apply", "apps/v1", "", `{"f:spec":{"f:paused":{}}}`),
				entry("kube-controller-manager", "Update", "apps/v1", "status", `{"f:status":{"f:replicas":{}}}`),
				entry("kube-controller-manager", "Update", "apps/v1", "scale", `{"f:spec":{"f:replicas":{}}}`),
			},
		},
		"finalizers and owners stay": {
			[]metav1.ManagedFieldsEntry{
				entry("mainstay/appstack", "Update", "apps/v1", "", `{"f:metadata":{"f:finalizers":{".":{},"v:\"a/b\"":{}}}}`),
				entry("helm", "Apply", "apps/v1", "", `{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"u\"}":{}}},"f:spec":{"f:paused":{}}}`),
				entry(ours, "Apply", "apps/v1", "", `{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"v\"}":{}}}}`),
			},
			[]metav1.ManagedFieldsEntry{
				entry(ours, "Apply", "apps/v1", "", `{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"v\"}":{}}},"f:spec":{"f:paused":{}}}`),
				entry("mainstay/appstack", "Update", "apps/v1", "", `{"f:metadata":{"f:finalizers":{".":{},"v:\"a/b\"":{}}}}`),
				entry("helm", "Apply", "apps/v1", "", `{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"u\"}":{}}}}`),
			},
		},
		"another version's fields may be called differently": {
			[]metav1.ManagedFieldsEntry{entry("old", "Update", "apps/v1beta1", "", `{"f:spec":{"f:rollbackTo":{}}}`)},
			[]metav1.ManagedFieldsEntry{
				entry(ours, "Apply", "apps/v1", "", `{}`), entry("old", "Update", "apps/v1beta1", "", `{"f:spec":{"f:rollbackTo":{}}}`),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := takenOverEntries(&metav1.ObjectMeta{ManagedFields: test.given}, ours, "apps/v1")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	if _, err := takenOverEntries(&metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{entry("x", "Update", "apps/v1", "", `{`)}}, ours, "apps/v1"); err == nil {
		t.Error("fields that can't be read are an error")
	}
}

func TestOwnedFields(t *testing.T) {
	object := deployment(func(d *appsv1.Deployment) {
		d.ManagedFields = []metav1.ManagedFieldsEntry{
			entry("mainstay/webapp", "Apply", "apps/v1", "", `{"f:spec":{"f:replicas":{}}}`),
			entry("mainstay/webapp", "Update", "apps/v1", "status", `{"f:status":{}}`),
			entry("mainstay/handover", "Apply", "apps/v1", "", `{"f:spec":{"f:paused":{}}}`),
		}
	})
	owned, err := ownedFields(object, "mainstay/webapp")
	if err != nil {
		t.Fatal(err)
	}
	if !owned.Equals(fieldpath.NewSet(fieldpath.MakePathOrDie("spec", "replicas"))) {
		t.Errorf("got %s", owned)
	}
	for name, test := range map[string]struct {
		ownership plan.Ownership
		path      []string
		want      bool
	}{
		"what we applied":                 {plan.Ours, []string{"spec", "replicas"}, true},
		"what another applied":            {plan.Ours, []string{"spec", "paused"}, false},
		"any field of an object to adopt": {plan.Consenting, []string{"spec", "paused"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ownsPath(plan.Found{Object: object, Ownership: test.ownership}, "mainstay/webapp", test.path)
			if err != nil || got != test.want {
				t.Errorf("got %t, %v", got, err)
			}
		})
	}
}

func TestKeepOurManagedFields(t *testing.T) {
	object := &corev1.Service{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "a"},
		{Manager: "mainstay/webapp"}, {Manager: "b"}}}}
	KeepOurManagedFields(object)
	if len(object.ManagedFields) != 1 || object.ManagedFields[0].Manager != "mainstay/webapp" {
		t.Errorf("got %v", object.ManagedFields)
	}
}

// schemeOf returns a scheme with the types of some groups.
func schemeOf(t testing.TB, groups ...func(*runtime.Scheme) error) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range groups {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}
