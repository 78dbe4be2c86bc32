package integration

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	msappsv1beta1 "github.com/mainstay-platform/mainstay/api/apps/v1beta1"
	"github.com/mainstay-platform/mainstay/internal/install/crds"
	"github.com/mainstay-platform/mainstay/internal/kinds/webapp"
	"github.com/mainstay-platform/mainstay/internal/kit/transport"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/test/faults/proxy"
)

const webappsCRD = "webapps.apps.mainstay.dev"

// world is an API server of its own, because changes of CRDs would disturb other tests, with a
// webhook that it can reach.
type world struct {
	config *rest.Config
	// apps reads and writes both versions of WebApp, crds reads and writes CRDs. writes is the number
	// of write calls of crds.
	apps, crds client.Client
	writes     *atomic.Int32
	etcd       string
	webhook    apiextensionsv1.WebhookClientConfig
	// converted is the number of reviews that the webhook answered.
	converted *atomic.Int32
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	server := ownServer(t)
	config := server.Config
	w := &world{config: config, etcd: server.Environment.ControlPlane.Etcd.URL.String(), writes: &atomic.Int32{}, converted: &atomic.Int32{}}
	w.apps = clientOf(t, config)
	counted := rest.CopyConfig(config)
	counted.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transport.Func(func(request *http.Request) (*http.Response, error) {
			if proxy.Parse(request).IsWrite() {
				w.writes.Add(1)
			}
			return next.RoundTrip(request)
		})
	})
	w.crds = definitionsOf(t, counted)
	w.startWebhook(t)
	return w
}

// startWebhook serves the conversion over HTTPS as the manager does.
func (w *world) startWebhook(t *testing.T) {
	t.Helper()
	handler, err := setup.Converter(w.apps.Scheme())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		w.converted.Add(1)
		handler.ServeHTTP(response, request)
	}))
	t.Cleanup(server.Close)
	w.webhook = apiextensionsv1.WebhookClientConfig{
		URL:      new(server.URL + "/convert"),
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
}

// stored returns a WebApp of the namespace default as stored in etcd. It reads through etcd's JSON
// gateway, because the API server would convert the object.
func (w *world) stored(t *testing.T, name string) map[string]any {
	t.Helper()
	key := base64.StdEncoding.EncodeToString([]byte("/registry/apps.mainstay.dev/webapps/default/" + name))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.etcd+"/v3/kv/range", strings.NewReader(fmt.Sprintf(`{"key":%q}`, key)))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
	}()
	var answer struct {
		Kvs []struct{ Value []byte }
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || len(answer.Kvs) != 1 {
		t.Fatalf("%d objects %s in etcd, %v", len(answer.Kvs), name, err)
	}
	var object map[string]any
	if err := json.Unmarshal(answer.Kvs[0].Value, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// definition returns the current CRD.
func (w *world) definition(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var live apiextensionsv1.CustomResourceDefinition
	if err := w.crds.Get(t.Context(), client.ObjectKey{Name: webappsCRD}, &live); err != nil {
		t.Fatal(err)
	}
	return &live
}

// installOld installs the CRD that had only v1beta1.
func (w *world) installOld(t *testing.T) {
	t.Helper()
	if _, err := envtest.InstallCRDs(w.config, envtest.CRDInstallOptions{Paths: []string{filepath.Join("testdata",
		"webapps-v1beta1.yaml")}}); err != nil {
		t.Fatal(err)
	}
}

// small returns a v1beta1 WebApp in the namespace default.
func small(name, host string) *msappsv1beta1.WebApp {
	return &msappsv1beta1.WebApp{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       msappsv1beta1.WebAppSpec{Image: "shop:1", Replicas: ptr.To[int32](2), Host: host},
	}
}

// full returns an app as v1, once the API server serves that version.
func (w *world) full(name string) func(context.Context) (*msappsv1.WebApp, error) {
	return func(ctx context.Context) (*msappsv1.WebApp, error) {
		app := &msappsv1.WebApp{}
		return app, w.apps.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, app)
	}
}

// served returns the versions in which apps can be listed.
func (w *world) served(ctx context.Context) []string {
	var served []string
	for version, list := range map[string]client.ObjectList{"v1": &msappsv1.WebAppList{}, "v1beta1": &msappsv1beta1.WebAppList{}} {
		if err := w.apps.List(ctx, list); err == nil {
			served = append(served, version)
		}
	}
	slices.Sort(served)
	return served
}

// TestVersionsUpgrade follows objects stored as v1beta1 through the complete upgrade.
func TestVersionsUpgrade(t *testing.T) {
	w, g, ctx := newWorld(t), gomega.NewWithT(t), t.Context()
	w.installOld(t)
	invalid := small("invalid", "")
	invalid.Spec.Image = "No Image In v1"
	poison := small("poison", "")
	poison.Annotations = map[string]string{"mainstay.dev/v1-spec": "{"}
	for _, app := range []*msappsv1beta1.WebApp{small("shop", "shop.example.com"), small("plain", ""), invalid, poison} {
		g.Eventually(func() error { return w.apps.Create(ctx, app.DeepCopy()) }).Should(gomega.Succeed())
	}
	// More than one page of the migration.
	for i := range 500 {
		g.Expect(w.apps.Create(ctx, small(fmt.Sprintf("x-%d", i), ""))).To(gomega.Succeed())
	}
	g.Expect(w.stored(t, "shop")).To(gomega.HaveKeyWithValue("apiVersion", "apps.mainstay.dev/v1beta1"))

	g.Expect(crds.Install(ctx, w.crds)).To(gomega.Succeed())
	g.Eventually(w.served).WithContext(ctx).Should(gomega.Equal([]string{"v1"}), "only v1 is served without the webhook")
	g.Expect(crds.Unmigrated(ctx, w.crds, []string{webappsCRD})).To(gomega.Equal([]string{webappsCRD}))
	err := crds.Withdraw(ctx, w.crds)
	g.Expect(err).To(gomega.Succeed(), "there is no version to withdraw yet")

	g.Expect(crds.Convert(ctx, w.crds, w.webhook)).To(gomega.Succeed())
	g.Eventually(w.served).WithContext(ctx).Should(gomega.Equal([]string{"v1", "v1beta1"}))
	g.Eventually(w.full("shop")).WithContext(ctx).Should(gomega.HaveField("Spec.Ingress", gomega.HaveField("Host", "shop.example.com")))
	g.Eventually(w.full("plain")).WithContext(ctx).Should(gomega.HaveField("Spec.Ingress", gomega.BeNil()))
	err = crds.Withdraw(ctx, w.crds)
	g.Expect(err).To(gomega.MatchError(gomega.And(gomega.ContainSubstring(webappsCRD), gomega.ContainSubstring("stored in v1beta1"))))

	g.Expect(w.stored(t, "shop")).To(gomega.HaveKeyWithValue("apiVersion", "apps.mainstay.dev/v1beta1"), "reading does not migrate")
	g.Expect(crds.Migrate(ctx, w.crds, []string{webappsCRD})).To(gomega.Succeed())
	for _, name := range []string{"invalid", "plain", "shop", "x-0", "x-99", "x-499"} {
		g.Expect(w.stored(t, name)).To(gomega.HaveKeyWithValue("apiVersion", "apps.mainstay.dev/v1"))
	}
	g.Expect(w.stored(t, "shop")["spec"]).To(gomega.HaveKeyWithValue("ingress", gomega.HaveKeyWithValue("host", "shop.example.com")))
	g.Expect(w.full("shop")(ctx)).To(gomega.And(gomega.HaveField("Generation", int64(1)),
		gomega.HaveField("ManagedFields", gomega.HaveLen(1))),
		"the migration changed more than the version")
	g.Expect(w.definition(t).Status.StoredVersions).To(gomega.Equal([]string{"v1"}))
	g.Expect(crds.Unmigrated(ctx, w.crds, []string{webappsCRD})).To(gomega.BeEmpty())

	before := w.writes.Load()
	g.Expect(crds.Migrate(ctx, w.crds, []string{webappsCRD})).To(gomega.Succeed())
	g.Expect(crds.Convert(ctx, w.crds, w.webhook)).To(gomega.Succeed())
	g.Expect(w.writes.Load()).To(gomega.Equal(before), "the second pass writes nothing")

	g.Expect(crds.Withdraw(ctx, w.crds)).To(gomega.Succeed())
	g.Eventually(w.served).WithContext(ctx).Should(gomega.Equal([]string{"v1"}))
	g.Expect(w.definition(t).Spec.Conversion.Strategy).To(gomega.Equal(apiextensionsv1.NoneConverter))
	before = w.writes.Load()
	g.Expect(crds.Withdraw(ctx, w.crds)).To(gomega.Succeed())
	g.Expect(w.writes.Load()).To(gomega.Equal(before), "the second pass writes nothing")
	g.Expect(w.full("shop")(ctx)).To(gomega.HaveField("Spec.Ingress.Host", "shop.example.com"))
}

// TestVersionsInstallKeepsTheConversion checks that an upgrade keeps serving the versions that an
// earlier release serves.
func TestVersionsInstallKeepsTheConversion(t *testing.T) {
	w, g, ctx := newWorld(t), gomega.NewWithT(t), t.Context()
	g.Expect(crds.Convert(ctx, w.crds, w.webhook)).To(gomega.MatchError(gomega.ContainSubstring(": not installed")))
	g.Expect(crds.Install(ctx, w.crds)).To(gomega.Succeed())
	g.Expect(crds.Convert(ctx, w.crds, w.webhook)).To(gomega.Succeed())
	// mark makes the CRD look as if another release had written it.
	mark := func(release string) {
		t.Helper()
		g.Eventually(func() error { // unless the API server writes the status in between
			live := w.definition(t)
			live.Annotations["mainstay.dev/applied"], live.Annotations["mainstay.dev/release"] = "other", release
			return w.crds.Update(ctx, live)
		}).Should(gomega.Succeed())
	}
	mark("0.0.0-alpha")
	g.Expect(crds.Install(ctx, w.crds)).To(gomega.Succeed())
	live := w.definition(t)
	g.Expect(live.Annotations["mainstay.dev/applied"]).NotTo(gomega.Equal("other"), "Install did nothing")
	g.Expect(live.Spec.Conversion.Webhook.ClientConfig.URL).To(gomega.Equal(w.webhook.URL))
	for _, version := range live.Spec.Versions {
		g.Expect(version.Served).To(gomega.BeTrue(), version.Name)
	}
	// The CRD of a later release is left alone, except for the address of the conversion webhook,
	// which this release serves.
	mark("999.0.0")
	before := w.writes.Load()
	other := apiextensionsv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/convert"), CABundle: w.webhook.CABundle}
	for _, err := range []error{crds.Install(ctx, w.crds), crds.Convert(ctx, w.crds, other)} {
		g.Expect(err).To(gomega.Succeed())
	}
	g.Expect(w.writes.Load()).To(gomega.Equal(before + 1))
	live = w.definition(t)
	g.Expect(live.Annotations).To(gomega.And(gomega.HaveKeyWithValue("mainstay.dev/release", "999.0.0"),
		gomega.HaveKeyWithValue("mainstay.dev/applied", "other")))
	g.Expect(live.Spec.Conversion.Webhook.ClientConfig.URL).To(gomega.Equal(other.URL))
	g.Expect(crds.Convert(ctx, w.crds, other)).To(gomega.Succeed())
	g.Expect(w.writes.Load()).To(gomega.Equal(before+1), "the second pass writes nothing")
}

// TestVersionsInstallRestores checks that Install restores what another client has changed,
// although the annotations still name this release's text, and that it otherwise writes nothing.
func TestVersionsInstallRestores(t *testing.T) {
	w, g, ctx := newWorld(t), gomega.NewWithT(t), t.Context()
	g.Expect(crds.Install(ctx, w.crds)).To(gomega.Succeed())
	g.Expect(crds.Convert(ctx, w.crds, w.webhook)).To(gomega.Succeed())
	before := w.writes.Load()
	g.Expect(crds.Install(ctx, w.crds)).To(gomega.Succeed())
	g.Expect(w.writes.Load()).To(gomega.Equal(before), "nothing has changed")
	for _, entry := range w.definition(t).ManagedFields {
		// Helm 4 applies the definitions of the next release as this manager, without force.
		g.Expect(entry.Manager == "helm" && entry.Operation == metav1.ManagedFieldsOperationUpdate).To(gomega.BeFalse())
	}

	properties := func(of *apiextensionsv1.CustomResourceDefinition) map[string]apiextensionsv1.JSONSchemaProps {
		return of.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
	}
	g.Eventually(func() error { // unless the API server writes the status in between
		live := w.definition(t)
		delete(properties(live), "paused")
		return w.crds.Update(ctx, live)
	}).Should(gomega.Succeed())
	g.Expect(properties(w.definition(t))).NotTo(gomega.HaveKey("paused"))
	before = w.writes.Load()
	g.Expect(crds.Install(ctx, w.crds)).To(gomega.Succeed())
	g.Expect(w.writes.Load()).To(gomega.Equal(before + 1))
	live := w.definition(t)
	g.Expect(properties(live)).To(gomega.HaveKey("paused"))
	g.Expect(live.Spec.Conversion.Webhook.ClientConfig.URL).To(gomega.Equal(w.webhook.URL))
	for _, version := range live.Spec.Versions {
		g.Expect(version.Served).To(gomega.BeTrue(), version.Name)
	}
}

// TestVersionsKeepAnotherText checks that of a definition with another text only the conversion and
// the served versions change: of a later release after a rollback, and of any other where the
// manager does not install definitions. Without a webhook only the storage version is served.
func TestVersionsKeepAnotherText(t *testing.T) {
	w, g, ctx := newWorld(t), gomega.NewWithT(t), t.Context()
	g.Expect(crds.Install(ctx, w.crds)).To(gomega.Succeed())
	both := []string{"v1", "v1beta1"}
	convert := func() error { return crds.Convert(ctx, w.crds, w.webhook) }
	withdraw := func() error { return crds.Withdraw(ctx, w.crds) }
	release := func() error { return crds.Release(ctx, w.crds) }
	for name, annotations := range map[string]map[string]string{
		"a later release": {"mainstay.dev/applied": "other", "mainstay.dev/release": "999.0.0"},
		"no release":      nil,
		"ours":            w.definition(t).Annotations,
	} {
		g.Eventually(func() error { // unless the API server writes the status in between
			live := w.definition(t)
			live.Annotations, live.Spec.Names.ShortNames = annotations, []string{"later"}
			return w.crds.Update(ctx, live)
		}).Should(gomega.Succeed())
		for at, step := range []struct {
			do       func() error
			strategy apiextensionsv1.ConversionStrategyType
			served   []string
		}{
			{convert, apiextensionsv1.WebhookConverter, both}, {withdraw, apiextensionsv1.NoneConverter, both[:1]},
			{convert, apiextensionsv1.WebhookConverter, both}, {release, apiextensionsv1.NoneConverter, both[:1]},
		} {
			g.Expect(step.do()).To(gomega.Succeed(), "%s, step %d", name, at)
			live := w.definition(t)
			g.Expect(live.Spec.Conversion.Strategy).To(gomega.Equal(step.strategy), "%s, step %d", name, at)
			for _, version := range live.Spec.Versions {
				g.Expect(version.Served).To(gomega.Equal(slices.Contains(step.served, version.Name)), "%s, step %d: %s", name, at, version.Name)
			}
			g.Expect(live.Spec.Names.ShortNames).To(gomega.Equal([]string{"later"}), "%s, step %d", name, at)
			g.Expect(maps.Equal(live.Annotations, annotations)).To(gomega.BeTrue(), "%s, step %d: %v", name, at, live.Annotations)
			before := w.writes.Load()
			g.Expect(step.do()).To(gomega.Succeed())
			g.Expect(w.writes.Load()).To(gomega.Equal(before), "%s, step %d: the second pass writes nothing", name, at)
		}
	}
}

// TestVersionsMigrateTrimsNothingOnAnError checks that storedVersions stays unchanged if an object
// cannot be rewritten.
func TestVersionsMigrateTrimsNothingOnAnError(t *testing.T) {
	w, g, ctx := newWorld(t), gomega.NewWithT(t), t.Context()
	w.installOld(t)
	for _, name := range []string{"a", "b", "c"} {
		g.Eventually(func() error { return w.apps.Create(ctx, small(name, "")) }).Should(gomega.Succeed())
	}
	g.Expect(crds.Install(ctx, w.crds)).To(gomega.Succeed())
	g.Expect(crds.Convert(ctx, w.crds, w.webhook)).To(gomega.Succeed())
	g.Eventually(w.served).WithContext(ctx).Should(gomega.Equal([]string{"v1", "v1beta1"}))
	migrate := func(intercept func(*http.Request) error) error {
		config := rest.CopyConfig(w.config)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return transport.Func(func(request *http.Request) (*http.Response, error) {
				if err := intercept(request); err != nil {
					return nil, err
				}
				return next.RoundTrip(request)
			})
		})
		c, err := crds.NewClient(config)
		if err != nil {
			return err
		}
		return crds.Migrate(ctx, c, []string{webappsCRD})
	}
	isRewrite := func(request *http.Request, name string) bool {
		return request.Method == http.MethodPatch && strings.HasSuffix(request.URL.Path, "/webapps/"+name+"/status")
	}

	g.Expect(migrate(func(request *http.Request) error {
		if isRewrite(request, "b") {
			return context.DeadlineExceeded
		}
		return nil
	})).To(gomega.MatchError(gomega.ContainSubstring("rewriting default/b")))
	g.Expect(crds.Unmigrated(ctx, w.crds, []string{webappsCRD})).To(gomega.Equal([]string{webappsCRD}))

	// The CRD changes during the migration.
	g.Expect(migrate(func(request *http.Request) error {
		if !isRewrite(request, "c") {
			return nil
		}
		live := w.definition(t)
		live.Spec.Names.ShortNames = append(live.Spec.Names.ShortNames, "wapp")
		return w.crds.Update(ctx, live)
	})).To(gomega.MatchError(gomega.ContainSubstring("the definition changed during the migration")))
	g.Eventually(func() []string { return w.definition(t).Status.AcceptedNames.ShortNames }).Should(gomega.ContainElement("wapp"),
		"the API server writes the status, and the next migration would meet that")
	g.Expect(crds.Unmigrated(ctx, w.crds, []string{webappsCRD})).To(gomega.Equal([]string{webappsCRD}))

	// An object that is deleted during the migration is no error.
	g.Expect(migrate(func(request *http.Request) error {
		if !isRewrite(request, "c") {
			return nil
		}
		return w.apps.Delete(ctx, &msappsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}})
	})).To(gomega.Succeed())
	g.Expect(w.definition(t).Status.StoredVersions).To(gomega.Equal([]string{"v1"}))
}

// TestVersionsSideBySide has clients of both versions work on the same objects.
func TestVersionsSideBySide(t *testing.T) {
	w, g, ctx := newWorld(t), gomega.NewWithT(t), t.Context()
	g.Expect(crds.Install(ctx, w.crds)).To(gomega.Succeed())
	g.Expect(crds.Convert(ctx, w.crds, w.webhook)).To(gomega.Succeed())
	g.Eventually(w.served).WithContext(ctx).Should(gomega.Equal([]string{"v1", "v1beta1"}))
	t.Run("update", w.testUpdate)
	t.Run("apply", w.testApply)
	t.Run("bad stash", w.testBadStash)
	t.Run("scale and status", w.testSubresources)
	t.Run("deprecated", w.testDeprecated)
}

// testUpdate checks that a v1beta1 client that reads, changes and writes loses no field that it
// does not know.
func (w *world) testUpdate(t *testing.T) {
	g, ctx := gomega.NewWithT(t), t.Context()
	app := newApp("default", func(s *msappsv1.WebAppSpec) {
		s.Env = []corev1.EnvVar{{Name: "A", Value: "b"}}
		s.Ingress = &msappsv1.Ingress{Host: "a.example.com", Path: "/x", TLSSecretName: "tls"}
	})
	app.Name = "update"
	g.Expect(w.apps.Create(ctx, app)).To(gomega.Succeed())
	key := client.ObjectKeyFromObject(app)
	var old msappsv1beta1.WebApp
	g.Expect(w.apps.Get(ctx, key, &old)).To(gomega.Succeed())
	g.Expect(old.Spec).To(gomega.Equal(msappsv1beta1.WebAppSpec{Image: "mainstay/demo-web:1.0", Replicas: ptr.To[int32](2), Port: 8080,
		Host: "a.example.com"}))
	old.Spec.Image, old.Spec.Host = "shop:2", "b.example.com"
	g.Expect(w.apps.Update(ctx, &old)).To(gomega.Succeed())
	want := app.Spec.DeepCopy()
	want.Image, want.Ingress.Host = "shop:2", "b.example.com"
	g.Expect(w.full("update")(ctx)).To(gomega.HaveField("Spec", *want))
	g.Expect(w.stored(t, "update")).To(gomega.HaveKeyWithValue("apiVersion", "apps.mainstay.dev/v1"))
	g.Expect(w.stored(t, "update")["metadata"]).NotTo(gomega.HaveKey("annotations"), "a stash was stored")

	old.Spec.Host = ""
	g.Expect(w.apps.Update(ctx, &old)).To(gomega.Succeed())
	g.Expect(w.full("update")(ctx)).To(gomega.HaveField("Spec.Ingress", gomega.BeNil()))
}

// applyAs applies the spec of WebApp default/apply as a field manager, in a version, without force.
func applyAs(t *testing.T, c client.Client, manager, version, spec string) error {
	t.Helper()
	object := &unstructured.Unstructured{}
	text := "apiVersion: apps.mainstay.dev/" + version + "\nkind: WebApp\nmetadata: {name: apply, namespace: default}\nspec: " + spec
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	return c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(manager))
}

// testApply has two managers apply through different versions. Each keeps its own fields.
func (w *world) testApply(t *testing.T) {
	g, ctx := gomega.NewWithT(t), t.Context()
	apply := func(manager, version, spec string) error { return applyAs(t, w.apps, manager, version, spec) }
	spec := func() msappsv1.WebAppSpec {
		t.Helper()
		app, err := w.full("apply")(ctx)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		return app.Spec
	}
	g.Expect(apply("team", "v1", "{image: shop:1, env: [{name: A, value: a}], ingress: {host: a.b, path: /x}}")).To(gomega.Succeed())
	g.Expect(apply("ops", "v1beta1", "{image: shop:1, replicas: 3}")).To(gomega.Succeed())
	g.Expect(spec()).To(gomega.And(gomega.HaveField("Replicas", gomega.HaveValue(gomega.Equal(int32(3)))),
		gomega.HaveField("Env", gomega.HaveLen(1)), gomega.HaveField("Ingress.Path", "/x")))

	// Each manager continues to apply. Fields of one remain when the other removes its own.
	g.Expect(apply("ops", "v1beta1", "{image: shop:1}")).To(gomega.Succeed())
	g.Expect(spec()).To(gomega.And(gomega.HaveField("Replicas", gomega.BeNil()),
		gomega.HaveField("Env", gomega.HaveLen(1)), gomega.HaveField("Ingress.Path", "/x")))
	g.Expect(apply("team", "v1", "{image: shop:1, paused: true, env: [{name: A, value: b}], ingress: {host: a.b, path: /y}}")).To(
		gomega.Succeed())
	g.Expect(spec()).To(gomega.And(gomega.HaveField("Paused", true), gomega.HaveField("Ingress.Path", "/y"),
		gomega.HaveField("Env", gomega.ConsistOf(gomega.HaveField("Value", "b")))))

	// While the managed fields have an entry of v1beta1, fields that a v1 manager removes come back
	// from the stash. Once the webhook has converted the entry to v1, they are removed. See
	// webapp.OwnAsV1.
	without := "{image: shop:1, ingress: {host: a.b, path: /y}}"
	g.Expect(apply("team", "v1", without)).To(gomega.Succeed())
	g.Expect(spec()).To(gomega.And(gomega.HaveField("Paused", true), gomega.HaveField("Env", gomega.HaveLen(1))))
	g.Expect(apply("team", "v1", "{image: shop:1, paused: true, env: [{name: A, value: b}], ingress: {host: a.b, path: /y}}")).To(
		gomega.Succeed())
	app, err := w.full("apply")(ctx)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(webapp.OwnAsV1(app)).To(gomega.BeTrue())
	g.Expect(w.apps.Update(ctx, app)).To(gomega.Succeed())
	g.Expect(apply("team", "v1", without)).To(gomega.Succeed())
	g.Expect(spec()).To(gomega.And(gomega.HaveField("Paused", false), gomega.HaveField("Env", gomega.BeEmpty())))

	// A conflict is detected across versions.
	err = apply("ops", "v1beta1", "{image: shop:2}")
	g.Expect(apierrors.IsConflict(err)).To(gomega.BeTrue(), "%v", err)
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("team")))
	err = apply("ops", "v1beta1", "{image: shop:1, host: other.b}")
	g.Expect(apierrors.IsConflict(err)).To(gomega.BeTrue(), "%v", err)
}

// testBadStash checks that an invalid stash adds nothing, does not block reads, and is refused by
// Validate.
func (w *world) testBadStash(t *testing.T) {
	g, ctx := gomega.NewWithT(t), t.Context()
	app := small("bad-stash", "")
	app.Annotations = map[string]string{"mainstay.dev/v1-spec": `{"paused":"yes"}`}
	g.Expect(w.apps.Create(ctx, app)).To(gomega.Succeed())
	bad, err := w.full("bad-stash")(ctx)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	webapp.Default(bad)
	g.Expect(webapp.Validate(bad).ToAggregate()).To(gomega.MatchError(gomega.And(
		gomega.ContainSubstring("metadata.annotations[mainstay.dev/v1-spec]"), gomega.ContainSubstring("paused"))))
	g.Expect(w.apps.Delete(ctx, app)).To(gomega.Succeed())

	// What v1's schema does not have is dropped by the API server, also from a converted object.
	app = small("bad-stash", "")
	app.Annotations = map[string]string{"mainstay.dev/v1-spec": `{"hostNetwork":true,"paused":true}`}
	g.Expect(w.apps.Create(ctx, app)).To(gomega.Succeed())
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(msappsv1.GroupVersion.WithKind("WebApp"))
	g.Expect(w.apps.Get(ctx, client.ObjectKeyFromObject(app), stored)).To(gomega.Succeed())
	g.Expect(stored.Object["spec"]).To(gomega.And(gomega.HaveKeyWithValue("paused", true), gomega.Not(gomega.HaveKey("hostNetwork"))))
	g.Expect(w.apps.Delete(ctx, app)).To(gomega.Succeed())

	// A forged stash that v1's schema would refuse is checked by Validate, not by the API server.
	app = small("bad-stash", "")
	app.Annotations = map[string]string{"mainstay.dev/v1-spec": `{"autoscaling":{"max":3},"resources":{"requests":{"cpu":"1"}}}`}
	g.Expect(w.apps.Create(ctx, app)).To(gomega.Succeed())
	forged, err := w.full("bad-stash")(ctx)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	webapp.Default(forged)
	g.Expect(webapp.Validate(forged).ToAggregate()).To(gomega.MatchError(gomega.ContainSubstring("may not be set together with autoscaling")))
}

// testSubresources checks that scale and status work through v1beta1.
func (w *world) testSubresources(t *testing.T) {
	g, ctx := gomega.NewWithT(t), t.Context()
	app := newApp("default", func(s *msappsv1.WebAppSpec) { s.Paused = true })
	app.Name = "scale"
	g.Expect(w.apps.Create(ctx, app)).To(gomega.Succeed())
	g.Expect(w.apps.SubResource("scale").Patch(ctx, small("scale", ""), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":5}}`)))).To(gomega.Succeed())
	g.Expect(w.apps.Status().Patch(ctx, small("scale", ""), client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"Running"}}`)))).To(gomega.Succeed())
	g.Expect(w.full("scale")(ctx)).To(gomega.And(gomega.HaveField("Spec.Replicas", gomega.HaveValue(gomega.Equal(int32(5)))),
		gomega.HaveField("Spec.Paused", true), gomega.HaveField("Status.Phase", msappsv1.PhaseRunning)))
}

// testDeprecated checks that a client of v1beta1 gets a warning, and a client of v1 does not.
func (w *world) testDeprecated(t *testing.T) {
	g, ctx := gomega.NewWithT(t), t.Context()
	var warned bytes.Buffer
	config := rest.CopyConfig(w.config)
	config.WarningHandler = rest.NewWarningWriter(&warned, rest.WarningWriterOptions{})
	c, err := client.New(config, client.Options{Scheme: w.apps.Scheme()})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(c.List(ctx, &msappsv1.WebAppList{})).To(gomega.Succeed())
	g.Expect(warned.String()).To(gomega.BeEmpty())
	g.Expect(c.List(ctx, &msappsv1beta1.WebAppList{})).To(gomega.Succeed())
	g.Expect(warned.String()).To(gomega.ContainSubstring("use apps.mainstay.dev/v1"))
}
