package setup

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/internal/registration"
	"github.com/mainstay-platform/mainstay/test/fuzz"
)

// strictRules has every rule, so that every check runs.
func strictRules(context.Context, string) (policy.Rules, error) {
	asked := mspolicyv1.PlatformPolicy{Spec: mspolicyv1.PlatformPolicySpec{Rules: []mspolicyv1.Rule{{
		Environment: "*", MaxReplicas: ptr.To[int32](3), AllowedRegistries: []string{"reg.io"}, RequireResourceLimits: true,
		RequiredLabels: []string{"team"},
		Defaults:       mspolicyv1.Defaults{Labels: map[string]string{"a": "b"}},
		Enforced: mspolicyv1.Enforced{
			Labels: map[string]string{"c": "d"}, SecurityProfile: "Restricted",
			SecurityContext: &mspolicyv1.SecurityContext{RunAsUser: ptr.To[int64](1000), DropCapabilities: []string{"ALL"}},
		},
	}}}}
	return policy.Set{Policies: []mspolicyv1.PlatformPolicy{asked}}.Governing("shop", nil), nil
}

// post sends one body like the API server.
func post(t *testing.T, handler http.Handler, body string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, request)
	return response
}

// bombs are short texts that were expensive to read once, or that unfold to much.
var bombs = []string{
	`{"spec":{"image":"reg.io/a:1","resources":{"limits":{"cpu":"1e-999999999"}}}}`, `{"spec":{"storage":"1e-30000000","memory":"1e999999999"}}`,
	`{"spec":{"template":{"metadata":{"annotations":{"instrumentation.mainstay.dev/injected":"[{\"resources\":{\"limits\":{\"cpu\":\"1e-999999999\"}}}]"}}}}}`,
	`{"metadata":{"annotations":{"config.mainstay.dev/reload":"` + strings.Repeat("a,", 2000) + `"}}}`,
	`{"spec":{"template":{"spec":{"containers":[` + strings.Repeat("{},", 2000) + `{}]}}}}`, `{"spec":` + strings.Repeat("[", 5000),
	`{"spec":` + strings.Repeat(`{"a":`, 200) + `1` + strings.Repeat("}", 201),
	`{"spec":{"config":{"A":"{{ range 1000000000 }}{{ range 1000000000 }}a{{ end }}{{ end }}"}}}`,
	`{"spec":{"components":[{"name":"a","type":"webApp","dependsOn":[` + strings.Repeat(`"a",`, 2000) + `"a"]}]}}`,
	`{"spec":{"matchers":[{"deployment":"` + strings.Repeat("*a", 500) + `b"}]}}`,
}

// FuzzAdmission sends an object and its old version to every webhook. Each must answer, without an
// internal error, and with memory in proportion to their length.
func FuzzAdmission(f *testing.F) {
	scheme, err := Scheme()
	if err != nil {
		f.Fatal(err)
	}
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		&instrv1.Instrumentation{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "java", Finalizers: []string{injection.Finalizer}},
			Spec: instrv1.InstrumentationSpec{Matchers: []instrv1.Matcher{{}},
				Agent: instrv1.Agent{Image: "agent:1", Language: instrv1.LanguageJava}},
		}).Build()
	hooks := wiring{Input: registration.Input{
		Manager: someManager{scheme: scheme, client: cluster}, Kinds: kinds(), Rules: strictRules, Reviewing: cluster, Version: &version.Info{},
	}}.hooks()
	for _, seed := range append(bombs,
		`{"metadata":{"name":"shop"},"spec":{"image":"reg.io/shop:1","replicas":2}}`,
		`{"spec":{"image":"x","securityContext":{"privileged":true,"capabilities":{"add":["all"]}},"sidecars":[{"name":"a"}],"autoscaling":{"max":1}}}`,
		`{"spec":{"volumes":[{"name":"a","image":{"reference":"b"}}],"initContainers":[{"name":"webapp"},{"name":"webapp"}]}}`,
		`{"metadata":{"name":"shop","namespace":"shop"},"spec":{"environment":"dev","frontend":{"image":"reg.io/f:1"},"backend":{"image":"reg.io/b:1"},"cache":{"enabled":false},"database":{"version":"17","storage":"1e9"}}}`,
		`{"spec":{"image":"reg.io/shop:1","bindings":[{"kind":"PostgreSQL","name":"db"},{"kind":"PostgreSQL","name":"db","prefix":"A_"},{"kind":"Shop"}]}}`,
		`{"spec":{"rules":[{"environment":"*","allowedRegistries":["a"],"defaults":{"resources":{"limits":{"cpu":"1"}}}}]}}`,
		`{"spec":{"application":"shop","config":{"URL":"http://{{ .Values.HOST }}","HOST":"db"},"schema":{"required":["HOST"]},"rollout":{"window":{"start":"22:00","end":"04:00"}}}}`,
		`{"spec":{"application":"shop","config":{"A":"{{ range 9 }}{{ .Values.B }}"},"files":{"A":""},"secretRefs":[{"name":"A"}],"schema":{"$ref":"#"}}}`,
		`{"spec":{"configMap":"flags","podSelector":{"app":"web"},"strategy":"Evict","window":{"timeZone":"Nowhere"},"cooldown":"-1s"}}`,
		`{"spec":{"matchers":[{"deployment":"[","labels":{"matchExpressions":[{}]}}],"agent":{"image":"A","language":"dotnet","path":"../x","env":[{"name":"="}]},"namespaceSelector":{}}}`,
		`{"metadata":{"name":"web"},"spec":{"template":{"spec":{"containers":[{"name":"app","env":[{"name":"JAVA_TOOL_OPTIONS","valueFrom":{}}],"envFrom":[{}]}]}}}}`,
		`{"spec":{"template":{"metadata":{"annotations":{"instrumentation.mainstay.dev/injected":"[{\"id\":\"0\",\"containers\":[{}]}]"}},"spec":{"containers":[null,{}]}}}}`,
		`{"metadata":{"name":"db"},"spec":{"version":"17","storage":"1Gi","replicas":6,"runAsUser":-1,"image":"A","parameters":{"a":"b"}}}`,
		`{"metadata":{"name":"sessions"},"spec":{"version":"9","memory":"1Mi","replicas":6,"tls":false,"persistence":{"storage":"x"},"parameters":{"hz":"a"}}}`,
		`{"metadata":{"name":"shop"},"spec":{"components":[{"name":"a","type":"webApp","spec":{"image":"reg.io/a:1"},"dependsOn":["b"]},{"name":"b","type":"object","spec":{"apiVersion":"v1","kind":"A"},"outputs":[{"name":"U","path":"status.u"}]}]}}`,
		`{"spec":{"replicas":-1}}`, `{"spec":null}`, `{}`, `[]`, `null`, ``,
	) {
		f.Add(seed, `{"spec":{"image":"reg.io/shop:1"}}`)
	}
	fuzz.AddBombs(f, `{"spec":{"image":"reg.io/shop:1"}}`, `{}`)
	if !isComponent(`{"image":"reg.io/shop:1"}`) { // this reads the schemas, once per process, which is no part of the cost
		f.Fatal("no WebApp is accepted")
	}
	f.Fuzz(func(t *testing.T, object, former string) {
		for _, operation := range []string{"CREATE", "UPDATE"} {
			body := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","namespace":"shop","kind":{"group":"apps","version":"v1","kind":"Deployment"},"resource":{"group":"apps","version":"v1","resource":"deployments"},"operation":"` +
				operation + `","object":` + object + `,"oldObject":` + former + `}}`
			for _, hook := range hooks {
				var answer string
				spent := measured(func() { answer = post(t, hook.Handler, body).Body.String() })
				if strings.Contains(answer, "[recovered]") || isTooMuch(spent, body) {
					t.Errorf("%s: %d bytes for %d: %s", hook.Path, spent.bytes, len(body), answer)
				}
			}
		}
	})
}

// FuzzConversion sends an object to the conversion webhook, in both directions.
func FuzzConversion(f *testing.F) {
	scheme, err := Scheme()
	if err != nil {
		f.Fatal(err)
	}
	handler, err := Converter(scheme)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		`{"apiVersion":"apps.mainstay.dev/v1beta1","kind":"WebApp","spec":{"image":"a","host":"b"}}`,
		`{"apiVersion":"apps.mainstay.dev/v1","kind":"WebApp","spec":{"image":"a","ingress":{"host":"b","path":"/c"}}}`,
		`{"apiVersion":"apps.mainstay.dev/v1beta1","kind":"WebApp","metadata":{"annotations":{"mainstay.dev/v1-spec":"{"}}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment"}`, `{"kind":"WebApp"}`, `{}`, `null`,
	} {
		f.Add(seed)
	}
	fuzz.AddBombs(f, `{"apiVersion":"apps.mainstay.dev/v1beta1","kind":"WebApp","metadata":{"annotations":{"mainstay.dev/v1-spec":"{}"}}}`)
	f.Fuzz(func(t *testing.T, object string) {
		defer fuzz.BudgetOf(t, constantCost, object, object, object)() // once for each version
		for _, version := range []string{"v1", "v1beta1", "v0"} {
			body := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"1","desiredAPIVersion":"apps.mainstay.dev/` +
				version + `","objects":[` + object + `]}}`
			if answer := post(t, handler, body).Body.String(); strings.Contains(answer, "internal error occurred during conversion") {
				t.Errorf("to %s: %s", version, answer)
			}
		}
	})
}

func TestWebhookSettings(t *testing.T) {
	for name, test := range map[string]struct {
		settings  WebhookSettings
		namespace string
		want      string
	}{
		"off":          {WebhookSettings{}, "", ""},
		"by a Service": {WebhookSettings{Enabled: true, Port: 9443, Service: "webhook"}, "system", ""},
		"by a URL":     {WebhookSettings{Enabled: true, Port: 9443, URL: "https://10.0.0.1:9443"}, "system", ""},
		"nowhere":      {WebhookSettings{Enabled: true, Port: 9443}, "system", "--webhook-service or --webhook-url"},
		"no namespace": {WebhookSettings{Enabled: true, Port: 9443, Service: "webhook"}, "", "--namespace"},
		"no port": {WebhookSettings{Enabled: true, Service: "webhook"}, "system",
			"--webhook-port: invalid value 0: must be between 1 and 65535"},
		"plain text":     {WebhookSettings{Enabled: true, Port: 9443, URL: "http://10.0.0.1:9443"}, "system", "--webhook-url"},
		"a URL's rubble": {WebhookSettings{Enabled: true, Port: 9443, URL: "10.0.0.1"}, "system", "--webhook-url"},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.settings.validate(test.namespace)
			if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
