package integration

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	msappsv1beta1 "github.com/mainstay-platform/mainstay/api/apps/v1beta1"
	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/install/crds"
	"github.com/mainstay-platform/mainstay/internal/install/webhooks"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/internal/version"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// system is the operator's namespace on its own API server.
const system = "mainstay-system"

// webhookPatience is for how many seconds API servers wait for our webhooks. No test is about one
// that is slow, and on a busy machine a handshake alone may take longer than users wait.
const webhookPatience = 30

// governed is an API server for one test, with an operator that serves webhooks. Webhooks apply to
// every namespace, so the server cannot be shared.
type governed struct {
	config *rest.Config
	client client.Client
	// warned has the warnings since the last call of warnings.
	warned struct {
		sync.Mutex
		texts []string
	}
	// port stays the same when the operator restarts, as the name of a Service does.
	port  int
	stop  func()
	calls *testenv.Requests
	// whole is the test that determines the lifetime of the server and the operator.
	whole *testing.T
}

// HandleWarningHeader collects the warnings that kubectl would print.
func (s *governed) HandleWarningHeader(_ int, _, text string) {
	s.warned.Lock()
	defer s.warned.Unlock()
	s.warned.texts = append(s.warned.texts, text)
}

// warnings returns the warnings since the last call.
func (s *governed) warnings() []string {
	s.warned.Lock()
	defer s.warned.Unlock()
	texts := s.warned.texts
	s.warned.texts = nil
	return texts
}

func newGoverned(t *testing.T) *governed {
	t.Helper()
	config := ownServer(t).Config
	s := &governed{config: config, whole: t, port: testenv.Port(t)}
	watched := rest.CopyConfig(config)
	watched.WarningHandler = s
	s.client = clientOf(t, watched)
	if err := crds.Install(t.Context(), definitionsOf(t, config)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{system, "production", "shop-prod", "elsewhere"} {
		s.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return s
}

// start runs the operator as in production, but without leader election, and waits until its
// webhooks are called.
func (s *governed) start(t *testing.T) {
	t.Helper()
	s.startWith(t, func(*setup.Settings) {})
}

// startWith is like start, with other settings.
func (s *governed) startWith(t *testing.T, change func(*setup.Settings)) {
	t.Helper()
	settings := testenv.Settings()
	settings.Namespace = system
	settings.DefaultPolicy = true
	settings.Webhooks.Enabled = true
	settings.Webhooks.Host, settings.Webhooks.Port = "127.0.0.1", s.port
	settings.Webhooks.URL = fmt.Sprintf("https://127.0.0.1:%d", s.port)
	settings.Webhooks.Certificates.Name = "mainstay-webhook"
	settings.Webhooks.Certificates.Settle = 200 * time.Millisecond
	settings.Webhooks.TimeoutSeconds = webhookPatience
	change(&settings)
	answering := make(chan struct{})
	operator := testenv.RunManager(s.whole, s.config, testenv.ManagerOptions{
		Requests: &testenv.Requests{Before: func(request *http.Request) { awaitWebhooks(request, answering) }},
		Settings: func(usual *setup.Settings) { *usual = settings },
	})
	s.calls, s.stop = operator.Requests, operator.Stop
	g := gomega.NewWithT(t)
	g.Eventually(s.validated).WithContext(t.Context()).Should(gomega.MatchError(gomega.ContainSubstring("maxReplicas")),
		"webhooks are called and have read the default policy")
	// The mutating ones are in a configuration of their own, which the API server may see later.
	g.Eventually(s.defaulted).WithContext(t.Context()).Should(gomega.HaveKey("managed-by"))
	close(answering)
}

// awaitWebhooks holds a request that patches a workload until the webhooks answer: it would succeed
// without them, and be made again.
func awaitWebhooks(request *http.Request, answering <-chan struct{}) {
	if request.Method != http.MethodPatch || !strings.HasPrefix(request.URL.Path, "/apis/apps/v1/") {
		return
	}
	select {
	case <-answering:
	case <-request.Context().Done():
	}
}

// validated returns the answer to an app with too many replicas.
func (s *governed) validated(ctx context.Context) error {
	return s.client.Create(ctx, s.app("elsewhere", func(a *msappsv1.WebApp) { a.Spec.Replicas = ptr.To[int32](11) }), client.DryRunAll)
}

// defaulted returns the labels that an app without any gets: those of the default policy.
func (s *governed) defaulted(ctx context.Context) (map[string]string, error) {
	app := s.app("elsewhere", func(a *msappsv1.WebApp) { a.Name = "probe" })
	err := s.client.Create(ctx, app, client.DryRunAll)
	return app.Labels, err
}

func (s *governed) create(t *testing.T, object client.Object) {
	t.Helper()
	if err := s.client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// app returns a WebApp that complies with all rules of the default policy.
func (s *governed) app(namespace string, change ...func(*msappsv1.WebApp)) *msappsv1.WebApp {
	app := newApp(namespace, func(spec *msappsv1.WebAppSpec) {
		limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("64Mi")}
		spec.Resources = corev1.ResourceRequirements{Limits: limits}
	})
	for _, apply := range change {
		apply(app)
	}
	return app
}

// update changes a stored app, and returns the error of the API server.
func (s *governed) update(ctx context.Context, app *msappsv1.WebApp, edit func(*msappsv1.WebApp)) error {
	if err := s.client.Get(ctx, client.ObjectKeyFromObject(app), app); err != nil {
		return err
	}
	before := app.DeepCopy()
	edit(app)
	return s.client.Patch(ctx, app, client.MergeFrom(before))
}

// scale does what kubectl scale does.
func (s *governed) scale(ctx context.Context, app *msappsv1.WebApp, replicas int32, options ...client.SubResourcePatchOption) error {
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	options = append(options, client.WithSubResourceBody(&autoscalingv1.Scale{}))
	return s.client.SubResource("scale").Patch(ctx, app, patch, options...)
}

func TestAdmission(t *testing.T) {
	t.Parallel()
	s := newGoverned(t)
	s.startWith(t, func(settings *setup.Settings) {
		withImages(settings)
		withValkey(settings)
		settings.DefaultPolicyRegistries = []string{"docker.io/mainstay"}
	})
	t.Run("refused in production", s.testRefused)
	t.Run("databases", s.testDatabases)
	t.Run("caches", s.testCaches)
	t.Run("an autoscaler that allows too many", s.testAutoscaler)
	t.Run("scale", s.testScale)
	t.Run("registries", s.testRegistries)
	t.Run("defaulted and enforced", s.testReplaced)
	t.Run("imposed where the user is silent", s.testImposed)
	t.Run("a policy made stricter", s.testStricter)
	t.Run("v1beta1", s.testOlderVersion)
	t.Run("fields owned through v1beta1", s.testOwnership)
	t.Run("configuration", s.testAppConfig)
	t.Run("policies are checked too", s.testPolicies)
	t.Run("ungoverned objects", s.testUngoverned)
	t.Run("a misspelt source gets a warning", s.testReload)
	t.Run("webhook configurations are restored", s.testConfigurations)
	t.Run("webhook configurations of a later release", s.testRolledBack)
	t.Run("no writes at rest or after a restart", s.testSilence)
	t.Run("the webhook does not answer", s.testNoAnswer)
}

func (s *governed) testRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*msappsv1.WebAppSpec)
		says   string
	}{
		"11 replicas": {
			func(spec *msappsv1.WebAppSpec) { spec.Replicas = ptr.To[int32](11) },
			`spec.replicas: Invalid value: 11: must be at most 10 (policy "default", rule "*.maxReplicas")`,
		},
		"an image of another registry": {
			func(spec *msappsv1.WebAppSpec) { spec.Image = "docker.io/mainstay-evil/web:1" },
			`spec.image: Invalid value: "docker.io/mainstay-evil/web:1": must be an image of docker.io/mainstay (policy "default", rule "production.allowedRegistries")`,
		},
		"no limits": {
			func(spec *msappsv1.WebAppSpec) { spec.Resources = corev1.ResourceRequirements{} },
			`spec.resources.limits[cpu]: Required value: must be more than 0 (policy "default", rule "production.requireResourceLimits"): add limits: {cpu: 500m}; spec.resources.limits[memory]: Required value: `,
		},
		"an init container without limits": {
			func(spec *msappsv1.WebAppSpec) {
				spec.InitContainers = []msappsv1.Container{{Name: "setup", Image: "docker.io/mainstay/demo-web:1.0"}}
			},
			"spec.initContainers[0].resources.limits[cpu]",
		},
		"an invalid spec": {
			func(spec *msappsv1.WebAppSpec) {
				spec.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
			},
			`spec.volumeMounts[0].name: Not found: "data"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			app := s.app("production", func(a *msappsv1.WebApp) { test.change(&a.Spec) })
			err := s.client.Create(t.Context(), app)
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %s", err, test.says)
			}
		})
	}
}

func (s *governed) testAutoscaler(t *testing.T) {
	g := gomega.NewWithT(t)
	app := s.app("production", func(a *msappsv1.WebApp) {
		a.Name, a.Spec.Replicas, a.Spec.Autoscaling = "scaled", nil, &msappsv1.Autoscaling{Min: 2, Max: 11}
	})
	g.Expect(s.client.Create(t.Context(), app)).To(gomega.MatchError(gomega.ContainSubstring("spec.autoscaling.max: Invalid value: 11: must be at most 10")))
	app.Spec.Autoscaling.Max = 10
	s.create(t, app)
	g.Expect(s.scale(t.Context(), app, 3)).To(gomega.MatchError(gomega.ContainSubstring(
		"must not set both spec.replicas and spec.autoscaling: omit replicas, which the autoscaler sets")))
}

func (s *governed) testScale(t *testing.T) {
	g := gomega.NewWithT(t)
	app := s.app("production", func(a *msappsv1.WebApp) { a.Name = "steps" })
	s.create(t, app)
	g.Expect(s.scale(t.Context(), app, 10)).To(gomega.Succeed())
	g.Expect(s.scale(t.Context(), app, 11)).To(gomega.MatchError(gomega.ContainSubstring("spec.replicas: Invalid value: 11: must be at most 10")))
	g.Expect(s.scale(t.Context(), app, 0)).To(gomega.MatchError(gomega.ContainSubstring(
		"spec.replicas: " + testenv.InvalidValue(t, s.config, "0", "integer") + ": " + noReplicas)))
	g.Expect(s.update(t.Context(), app, func(a *msappsv1.WebApp) { a.Spec.Replicas = ptr.To[int32](12) })).To(
		gomega.MatchError(gomega.ContainSubstring("spec.replicas: Invalid value: 12")))
	// The subresource status is no way around.
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":12},"status":{"phase":"Running"}}`))
	g.Expect(s.client.Status().Patch(t.Context(), app.DeepCopy(), patch)).To(gomega.Succeed())
	g.Expect(s.client.Get(t.Context(), client.ObjectKeyFromObject(app), app)).To(gomega.Succeed())
	g.Expect(*app.Spec.Replicas).To(gomega.BeNumerically("==", 10))
}

func (s *governed) testRegistries(t *testing.T) {
	g := gomega.NewWithT(t)
	policy := &mspolicyv1.PlatformPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "registries"},
		Spec: mspolicyv1.PlatformPolicySpec{Rules: []mspolicyv1.Rule{{Environment: "*",
			AllowedRegistries: []string{"reg.io", "docker.io/mainstay"}}}},
	}
	s.create(t, policy)
	defer func() { g.Expect(s.client.Delete(t.Context(), policy)).To(gomega.Succeed()) }()
	digest := "@sha256:" + strings.Repeat("ab", 32)
	try := func(image string, change ...func(*msappsv1.WebApp)) error {
		app := s.app("elsewhere", append(change, func(a *msappsv1.WebApp) { a.Spec.Image = image })...)
		return s.client.Create(t.Context(), app, client.DryRunAll)
	}
	g.Eventually(func() error { return try("nginx") }).Should(gomega.MatchError(gomega.ContainSubstring(
		`spec.image: Invalid value: "nginx": must be an image of reg.io, docker.io/mainstay (policy "registries", rule "*.allowedRegistries")`)))
	for _, image := range []string{"reg.io.evil.com/shop:1", "evil.com/reg.io/shop", "reg.io:5000/shop", "evil.io/shop" + digest,
		"docker.io/mainstayed/shop:1", "localhost/shop"} {
		g.Expect(try(image)).To(gomega.MatchError(gomega.ContainSubstring(fmt.Sprintf("spec.image: Invalid value: %q: must be an image of",
			image))), image)
	}
	for _, image := range []string{"reg.io/shop", "reg.io/team/shop:1.2" + digest, "mainstay/demo-web:1.0",
		"docker.io/mainstay/demo-web" + digest} {
		g.Expect(try(image)).To(gomega.Succeed(), image)
	}
	g.Expect(try("reg.io/shop:1", func(a *msappsv1.WebApp) {
		a.Spec.InitContainers = []msappsv1.Container{{Name: "setup", Image: "evil.io/setup:1"}}
	})).To(gomega.MatchError(gomega.ContainSubstring(`spec.initContainers[0].image: Invalid value: "evil.io/setup:1"`)))
	g.Expect(try("reg.io/shop:1", func(a *msappsv1.WebApp) {
		a.Spec.Sidecars = []msappsv1.Container{{Name: "proxy", Image: "evil.io/proxy:1"}}
	})).To(gomega.MatchError(gomega.ContainSubstring(`spec.sidecars[0].image: Invalid value: "evil.io/proxy:1"`)))
	g.Expect(try("reg.io/shop:1", func(a *msappsv1.WebApp) {
		a.Spec.Volumes = []msappsv1.Volume{{Name: "model", Image: &corev1.ImageVolumeSource{Reference: "evil.io/model:1"}}}
	})).To(gomega.MatchError(gomega.ContainSubstring(`spec.volumes[0].image.reference: Invalid value: "evil.io/model:1"`)))
}

func (s *governed) testReplaced(t *testing.T) {
	g := gomega.NewWithT(t)
	s.warnings()
	root := func(a *msappsv1.WebApp) {
		a.Name = "root"
		a.Labels = map[string]string{"version": "v7"}
		a.Spec.SecurityContext = &corev1.SecurityContext{RunAsUser: ptr.To[int64](0), Privileged: new(true),
			Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}}
		a.Spec.PodSecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(false)}
	}
	app := s.app("shop-prod", root)
	s.create(t, app)
	g.Expect(app.Labels).To(gomega.Equal(map[string]string{"managed-by": "mainstay", "version": "v7"}), "the user's own label stays")
	g.Expect(app.Spec.SecurityProfile).To(gomega.Equal(msappsv1.SecurityRestricted))
	g.Expect(app.Spec.SecurityContext).To(gomega.Equal(&corev1.SecurityContext{
		RunAsUser: ptr.To[int64](1000), RunAsNonRoot: new(true), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
		Capabilities: &corev1.Capabilities{},
	}))
	g.Expect(app.Spec.PodSecurityContext).To(gomega.Equal(&corev1.PodSecurityContext{}))
	warnings := strings.Join(s.warnings(), "\n")
	g.Expect(warnings).To(gomega.ContainSubstring("spec.securityContext.privileged is removed: a PlatformPolicy enforces securityProfile Restricted"))
	g.Expect(warnings).To(gomega.ContainSubstring("spec.securityContext.runAsUser"))

	// A tenant cannot undo it.
	g.Expect(s.update(t.Context(), app, func(a *msappsv1.WebApp) {
		a.Spec.SecurityProfile = msappsv1.SecurityDefault
		a.Spec.SecurityContext = &corev1.SecurityContext{RunAsUser: ptr.To[int64](2000)}
	})).To(gomega.Succeed())
	g.Expect(app.Spec.SecurityProfile).To(gomega.Equal(msappsv1.SecurityRestricted))
	g.Expect(app.Spec.SecurityContext.RunAsUser).To(gomega.HaveValue(gomega.BeNumerically("==", 1000)))
	g.Expect(s.warnings()).To(gomega.ContainElement("spec.securityContext.runAsUser: 2000 is replaced by 1000, which a PlatformPolicy enforces"))

	elsewhere := s.app("elsewhere", root, func(a *msappsv1.WebApp) { a.Spec.Resources = corev1.ResourceRequirements{} })
	s.create(t, elsewhere)
	g.Expect(elsewhere.Spec.SecurityProfile).To(gomega.Equal(msappsv1.SecurityDefault))
	g.Expect(elsewhere.Spec.SecurityContext.RunAsUser).To(gomega.HaveValue(gomega.BeNumerically("==", 0)))
	g.Expect(elsewhere.Labels).To(gomega.HaveKeyWithValue("managed-by", "mainstay"))
}

func (s *governed) testStricter(t *testing.T) {
	g := gomega.NewWithT(t)
	app := s.app("elsewhere", func(a *msappsv1.WebApp) { a.Name, a.Spec.Replicas = "strict", ptr.To[int32](8) })
	s.create(t, app)
	policy := &mspolicyv1.PlatformPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "strict"},
		Spec: mspolicyv1.PlatformPolicySpec{Rules: []mspolicyv1.Rule{{
			Environment: "*", MaxReplicas: ptr.To[int32](5), Enforced: mspolicyv1.Enforced{SecurityProfile: "Restricted"},
		}}},
	}
	s.create(t, policy)
	defer func() { g.Expect(s.client.Delete(t.Context(), policy)).To(gomega.Succeed()) }()
	// Tried without effect: were 9 stored before the webhook knows the policy, 9 would be no worse
	// than before.
	g.Eventually(func() error { return s.scale(t.Context(), app, 9, client.DryRunAll) }).Should(
		gomega.MatchError(gomega.ContainSubstring(`Invalid value: 9: must be at most 5 (policy "strict`)))
	g.Expect(s.update(t.Context(), app, func(a *msappsv1.WebApp) { a.Labels["team"] = "shop" })).To(gomega.Succeed())
	g.Expect(app.Spec.SecurityProfile).To(gomega.Equal(msappsv1.SecurityDefault), "a label causes no rollout")
	g.Expect(s.update(t.Context(), app, func(a *msappsv1.WebApp) { a.Spec.RestartedAt = new(metav1.Now()) })).To(gomega.Succeed(),
		"no worse than before")
	g.Expect(app.Spec.SecurityProfile).To(gomega.Equal(msappsv1.SecurityRestricted), "a change of the spec applies the policy")
	g.Expect(s.scale(t.Context(), app, 7)).To(gomega.Succeed(), "a step in the right direction")
}

func (s *governed) testOlderVersion(t *testing.T) {
	g := gomega.NewWithT(t)
	s.warnings()
	small := &msappsv1beta1.WebApp{
		ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "small"},
		Spec:       msappsv1beta1.WebAppSpec{Image: "mainstay/demo-web:1.0", Replicas: ptr.To[int32](11), Host: "shop.example.com"},
	}
	g.Eventually(func() error { return s.client.Create(t.Context(), small.DeepCopy(), client.DryRunAll) }).Should(
		gomega.MatchError(gomega.ContainSubstring("spec.replicas: Invalid value: 11: must be at most 10")))
	small.Spec.Replicas = ptr.To[int32](2)
	s.create(t, small)
	g.Expect(s.warnings()).To(gomega.ContainElement(gomega.ContainSubstring("use apps.mainstay.dev/v1")))
	g.Expect(small.Labels).To(gomega.HaveKeyWithValue("managed-by", "mainstay"))
	var full msappsv1.WebApp
	g.Expect(s.client.Get(t.Context(), client.ObjectKeyFromObject(small), &full)).To(gomega.Succeed())
	g.Expect(full.Spec.Ingress.Host).To(gomega.Equal("shop.example.com"))

	g.Expect(s.update(t.Context(), full.DeepCopy(), func(a *msappsv1.WebApp) {
		metav1.SetMetaDataAnnotation(&a.ObjectMeta, "mainstay.dev/v1-spec", "{}")
	})).To(gomega.MatchError(gomega.ContainSubstring("metadata.annotations[mainstay.dev/v1-spec]: Forbidden: belongs to the v1beta1 form")))

	// The schema of v1beta1 lacks autoscaling. Scaling through it must not bypass the check.
	g.Expect(s.update(t.Context(), &full, func(a *msappsv1.WebApp) {
		a.Spec.Replicas, a.Spec.Autoscaling = nil, &msappsv1.Autoscaling{Max: 3, CPU: new(int32(80))}
	})).To(
		gomega.MatchError(gomega.ContainSubstring("spec.resources.requests[cpu]: Required value")))
	g.Expect(s.update(t.Context(), &full, func(a *msappsv1.WebApp) {
		a.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
		a.Spec.Replicas, a.Spec.Autoscaling = nil, &msappsv1.Autoscaling{Max: 3}
	})).To(gomega.Succeed())
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":2}}`))
	g.Eventually(func() error {
		return s.client.SubResource("scale").Patch(t.Context(), small, patch, client.WithSubResourceBody(&autoscalingv1.Scale{}))
	}).Should(gomega.MatchError(gomega.ContainSubstring("spec.autoscaling chooses the number of replicas")))
	// Another number: the first is already stored, by a scale that was admitted before the webhook had
	// seen the autoscaler.
	patch = client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":3}}`))
	g.Expect(s.client.Patch(t.Context(), small,
		patch)).To(gomega.MatchError(gomega.ContainSubstring("spec.replicas: Forbidden: may not be set together with autoscaling")))
}

func (s *governed) testPolicies(t *testing.T) {
	g := gomega.NewWithT(t)
	policy := &mspolicyv1.PlatformPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "bad"},
		Spec:       mspolicyv1.PlatformPolicySpec{Rules: []mspolicyv1.Rule{{Environment: "*", AllowedRegistries: []string{"nginx"}}}},
	}
	g.Expect(s.client.Create(t.Context(), policy)).To(gomega.MatchError(gomega.ContainSubstring(`spec.rules[0].allowedRegistries[0]: Invalid value: "nginx"`)))
}

func (s *governed) testUngoverned(t *testing.T) {
	g := gomega.NewWithT(t)
	many := func(a *msappsv1.WebApp) { a.Name, a.Spec.Replicas = "many", ptr.To[int32](11) }
	for _, namespace := range []string{metav1.NamespaceSystem, system} {
		app := s.app(namespace, many)
		s.create(t, app)
		g.Expect(app.Labels).To(gomega.BeEmpty(), namespace)
		g.Expect(s.client.Delete(t.Context(), app)).To(gomega.Succeed())
	}
}

// testReload checks that a workload that asks for restarts by a name that does not exist, or of a
// Secret that may not be read, gets one short warning, whatever was written, and that no other
// workload gets one.
func (s *governed) testReload(t *testing.T) {
	g := gomega.NewWithT(t)
	s.create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "flags"}})
	warned := func(text string) func() []string {
		return func() []string {
			s.warnings()
			web := user("elsewhere", "web", "flags", map[string]string{configv1.AnnotationReload: text})
			g.Expect(s.client.Create(t.Context(), web, client.DryRunAll)).To(gomega.Succeed())
			return s.warnings()
		}
	}
	const annotation, end = "metadata.annotations[config.mainstay.dev/reload]: ", ": use auto, false, or names of ConfigMaps and Secrets"
	g.Eventually(warned("flags")).Should(gomega.BeEmpty(), "the cache has the ConfigMap")
	for text, want := range map[string]string{
		"yes":        annotation + "ConfigMap/yes does not exist" + end,
		"flags,flag": annotation + "ConfigMap/flag does not exist" + end,
		"true":       "", "auto": "", "false": "",
		"secret/not-granted": "Secret/not-granted: changes restart nothing, because Mainstay may not read the Secrets of namespace elsewhere: " +
			"add it to secrets.namespaces",
		"deploy/web":               annotation + `Invalid value: "deploy/web": must be auto, false, or a list of names such as flags, secret/database`,
		strings.Repeat("a", 1<<17): annotation + "Invalid value: ",
	} {
		got := warned(text)()
		if want == "" {
			g.Expect(got).To(gomega.BeEmpty(), text)
			continue
		}
		g.Expect(got).To(gomega.ConsistOf(gomega.HavePrefix(want)), "%.40s", text)
		g.Expect(len(got[0])).To(gomega.BeNumerically("<=", 300))
	}
}

// testConfigurations deletes and edits the webhook configurations.
func (s *governed) testConfigurations(t *testing.T) {
	g := gomega.NewWithT(t)
	refused := func() error {
		return s.client.Create(t.Context(), s.app("elsewhere", func(a *msappsv1.WebApp) { a.Name, a.Spec.Replicas = "again", ptr.To[int32](11) }),
			client.DryRunAll)
	}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhooks.Name}}
	g.Expect(s.client.Delete(t.Context(), validating)).To(gomega.Succeed())
	g.Eventually(refused).Should(gomega.MatchError(gomega.ContainSubstring("maxReplicas")))
	edit := func() error {
		if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(validating), validating); err != nil {
			return err
		}
		validating.Webhooks[0].FailurePolicy = ptr.To(admissionregistrationv1.Ignore)
		return s.client.Update(t.Context(), validating, client.FieldOwner("kubectl-edit"))
	}
	g.Eventually(edit).Should(gomega.Succeed())
	g.Eventually(func() (admissionregistrationv1.FailurePolicyType, error) {
		err := s.client.Get(t.Context(), client.ObjectKeyFromObject(validating), validating)
		return *validating.Webhooks[0].FailurePolicy, err
	}).Should(gomega.Equal(admissionregistrationv1.Fail))
	for _, webhook := range validating.Webhooks {
		g.Expect(*webhook.TimeoutSeconds).To(gomega.BeNumerically("==", webhookPatience))
		g.Expect(*webhook.SideEffects).To(gomega.Equal(admissionregistrationv1.SideEffectClassNone))
	}
	// While the configuration is created again, an edit may be overwritten before it is seen. So it is
	// made until it is reported.
	g.Eventually(func() ([]string, error) {
		if err := edit(); err != nil {
			return nil, err
		}
		var all eventsv1.EventList
		err := s.client.List(t.Context(), &all, client.InNamespace(metav1.NamespaceDefault))
		var notes []string
		for _, event := range all.Items {
			if event.Regarding.Kind == "ValidatingWebhookConfiguration" {
				notes = append(notes, event.Note)
			}
		}
		return notes, err
	}).WithPolling(time.Second).Should(gomega.ContainElements(
		gomega.HavePrefix("ValidatingWebhookConfiguration mainstay was deleted, and is created again"),
		gomega.ContainSubstring("failurePolicy was changed from Fail to Ignore by kubectl-edit")))
	g.Eventually(func() (admissionregistrationv1.FailurePolicyType, error) {
		err := s.client.Get(t.Context(), client.ObjectKeyFromObject(validating), validating)
		return *validating.Webhooks[0].FailurePolicy, err
	}).Should(gomega.Equal(admissionregistrationv1.Fail))
}

// testRolledBack checks that in the configurations of a later release only the client configuration
// is changed, and that missing ones are created as ours.
func (s *governed) testRolledBack(t *testing.T) {
	g := gomega.NewWithT(t)
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhooks.Name}}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhooks.Name}}
	g.Expect(s.client.Get(t.Context(), client.ObjectKeyFromObject(validating), validating)).To(gomega.Succeed())
	own := validating.DeepCopy()
	validating.Annotations[api.AnnotationRelease] = "999.0.0"
	validating.Webhooks[0].TimeoutSeconds = ptr.To[int32](7)
	validating.Webhooks[0].ClientConfig.CABundle = nil
	g.Expect(s.client.Update(t.Context(), validating)).To(gomega.Succeed())
	g.Eventually(func() ([]byte, error) {
		err := s.client.Get(t.Context(), client.ObjectKeyFromObject(validating), validating)
		return validating.Webhooks[0].ClientConfig.CABundle, err
	}).Should(gomega.Equal(own.Webhooks[0].ClientConfig.CABundle))
	g.Expect(*validating.Webhooks[0].TimeoutSeconds).To(gomega.BeNumerically("==", 7))
	g.Expect(validating.Annotations).To(gomega.HaveKeyWithValue(api.AnnotationRelease, "999.0.0"))
	g.Expect(s.client.Delete(t.Context(), mutating)).To(gomega.Succeed())
	g.Eventually(func() error { return s.client.Get(t.Context(), client.ObjectKeyFromObject(mutating), mutating) }).Should(gomega.Succeed())
	g.Expect(mutating.Annotations).To(gomega.HaveKeyWithValue(api.AnnotationRelease, version.Version))

	validating.Annotations[api.AnnotationRelease] = version.Version
	g.Expect(s.client.Update(t.Context(), validating)).To(gomega.Succeed())
	g.Eventually(func() (int32, error) {
		err := s.client.Get(t.Context(), client.ObjectKeyFromObject(validating), validating)
		return *validating.Webhooks[0].TimeoutSeconds, err
	}).Should(gomega.BeNumerically("==", webhookPatience))
}

// testSilence checks that neither correct configurations nor a restart cause writes.
func (s *governed) testSilence(t *testing.T) {
	g := gomega.NewWithT(t)
	s.stop()
	s.start(t)
	// The CRDs are checked last, after the webhook configurations. The publisher checks them again if
	// the certificate became known meanwhile.
	g.Eventually(func() int {
		return len(s.calls.Since(0, "GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/webapps"))
	}).Should(gomega.BeNumerically(">=", 2), "one read before the start, one by the publisher")
	calls := func() []string {
		return s.calls.Since(0, "/secrets", "/customresourcedefinitions", "POST /apis/policy", "/admissionregistration")
	}
	g.Consistently(calls, time.Second).Should(gomega.HaveEach(gomega.HavePrefix("GET")))
}

func (s *governed) testNoAnswer(t *testing.T) {
	g := gomega.NewWithT(t)
	app := s.app("elsewhere", func(a *msappsv1.WebApp) { a.Name = "alone" })
	s.create(t, app)
	s.stop()
	err := s.client.Create(t.Context(), s.app("elsewhere", func(a *msappsv1.WebApp) { a.Name = "late" }))
	g.Expect(apierrors.IsInternalError(err)).To(gomega.BeTrue(), "%v", err)
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring(`failed calling webhook "webapps.apps.mainstay.dev"`)))
	g.Expect(s.scale(t.Context(), app, 3)).To(gomega.MatchError(gomega.ContainSubstring("failed calling webhook")))
	// Updates that change neither spec nor labels succeed, and so do all deletions.
	g.Expect(s.update(t.Context(), app, func(a *msappsv1.WebApp) {
		a.Annotations, a.Finalizers = map[string]string{"example.com/note": "1"}, []string{"example.com/held"}
	})).To(gomega.Succeed())
	g.Expect(s.client.Delete(t.Context(), app)).To(gomega.Succeed())
	g.Expect(s.update(t.Context(), app, func(a *msappsv1.WebApp) { a.Finalizers, a.Labels = nil, nil })).To(gomega.Succeed(),
		"a deletion is never blocked")
	g.Expect(apierrors.IsNotFound(s.client.Get(t.Context(), client.ObjectKeyFromObject(app), app))).To(gomega.BeTrue())

	s.start(t)
	s.create(t, s.app("elsewhere", func(a *msappsv1.WebApp) { a.Name = "late" }))
}
