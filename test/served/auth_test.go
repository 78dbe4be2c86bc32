package served

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/aggregated"
	"github.com/mainstay-platform/mainstay/internal/aggregated/aggregatedtest"
)

var (
	readFarmPods = rbacv1.PolicyRule{APIGroups: []string{farmv1alpha1.GroupVersion.Group}, Resources: []string{"farmpods"},
		Verbs: []string{"get", "list", "watch"}}
	readLlamas = rbacv1.PolicyRule{APIGroups: []string{farmv1alpha1.GroupVersion.Group}, Resources: []string{"llamas"},
		Verbs: []string{"get", "list", "watch"}}
	createLlamas = rbacv1.PolicyRule{APIGroups: []string{farmv1alpha1.GroupVersion.Group}, Resources: []string{"llamas"},
		Verbs: []string{"create"}}
	listPods = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}
)

// TestFarmPodsNeedPods checks that a rule on farmpods shows no user what a rule on Pods would not.
func TestFarmPodsNeedPods(t *testing.T) {
	t.Parallel()
	namespace, other := newNamespace(t), newNamespace(t)
	for _, one := range []string{namespace, other} {
		createPod(t, one, "web")
	}
	t.Run("without list pods", func(t *testing.T) {
		t.Parallel()
		user := unique("user")
		grantUser(t, user, "", readFarmPods, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"},
			Verbs: []string{"get", "watch"}})
		asUser := newClient(t, as(user))
		for where, in := range map[string]string{"in the namespace " + namespace: namespace, "in all namespaces": ""} {
			for verb, err := range readAll(t, asUser, in) {
				expectRefused(t, verb+" "+where, err, "farmpods show Pods: the right to list pods "+where+" is missing")
			}
		}
	})
	t.Run("with list pods", func(t *testing.T) {
		t.Parallel()
		user := unique("user")
		grantUser(t, user, "", readFarmPods, listPods)
		asUser := newClient(t, as(user))
		for _, in := range []string{namespace, ""} {
			for verb, err := range readAll(t, asUser, in) {
				if err != nil {
					t.Errorf("%s in %q: %v", verb, in, err)
				}
			}
		}
	})
	t.Run("with list pods in one namespace", func(t *testing.T) {
		t.Parallel()
		user := unique("user")
		grantUser(t, user, "", readFarmPods)
		grantUser(t, user, namespace, listPods)
		asUser := newClient(t, as(user))
		for verb, err := range readAll(t, asUser, namespace) {
			if err != nil {
				t.Errorf("%s where Pods may be listed: %v", verb, err)
			}
		}
		for in, where := range map[string]string{other: "in the namespace " + other, "": "in all namespaces"} {
			for verb, err := range readAll(t, asUser, in) {
				expectRefused(t, verb+" "+where, err, "the right to list pods "+where+" is missing")
			}
		}
	})
	t.Run("with list pods but no rule", func(t *testing.T) {
		t.Parallel()
		user := unique("user")
		grantUser(t, user, "", listPods)
		for verb, err := range readAll(t, newClient(t, as(user)), namespace) {
			expectRefused(t, verb, err, `cannot `+verb+` resource "farmpods"`)
		}
	})
}

// TestLlamasNeedNoPods checks that only farmpods require the right to list Pods.
func TestLlamasNeedNoPods(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	if err := cluster.client.Create(t.Context(), newLlama(namespace, "perla")); err != nil {
		t.Fatal(err)
	}
	user := unique("user")
	grantUser(t, user, namespace, readLlamas)
	asUser := newClient(t, as(user))
	llama := &farmv1alpha1.Llama{}
	if err := asUser.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "perla"}, llama); err != nil {
		t.Error(err)
	}
	if err := asUser.List(t.Context(), &farmv1alpha1.LlamaList{}, client.InNamespace(namespace)); err != nil {
		t.Error(err)
	}
	expectRefused(t, "delete", asUser.Delete(t.Context(), llama), `cannot delete resource "llamas"`)
	expectRefused(t, "list elsewhere", asUser.List(t.Context(), &farmv1alpha1.LlamaList{}), `cannot list resource "llamas"`)
}

// TestForged checks that the server accepts a user name only from the API server.
func TestForged(t *testing.T) {
	t.Parallel()
	path := "/apis/farm.mainstay.dev/v1alpha1/farmpods"
	forged := map[string]string{"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
	selfCert, selfKey := selfSigned(t)
	otherCert, otherKey, err := aggregatedtest.Certificate(cluster.folder, "somebody-else")
	if err != nil {
		t.Fatal(err)
	}
	for name, one := range map[string]struct {
		question
		status int
	}{
		"no certificate": {question{path: path, header: forged}, http.StatusUnauthorized},
		"a self-signed certificate": {question{path: path, header: forged, certFile: selfCert, keyFile: selfKey},
			http.StatusUnauthorized},
		"a certificate for another name": {question{path: path, header: forged, certFile: otherCert, keyFile: otherKey},
			http.StatusUnauthorized},
		"the right certificate and no user": {question{path: path, certFile: cluster.frontCert, keyFile: cluster.frontKey},
			http.StatusUnauthorized},
		"the right certificate":                 {asProxied(path, "admin", "system:masters"), http.StatusOK},
		"the right certificate, without rights": {asProxied(path, "nobody", "system:authenticated"), http.StatusForbidden},
		"the right certificate, for anonymous":  {asProxied(path, "system:anonymous", "system:unauthenticated"), http.StatusUnauthorized},
		"a made up token": {question{path: path, header: map[string]string{"Authorization": "Bearer made-up"}},
			http.StatusUnauthorized},
		"impersonation without certificate": {question{path: path, header: map[string]string{"Impersonate-User": "admin"}},
			http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := ask(t, cluster.server, one.question); got.Status != one.status {
				t.Errorf("answered %d, expected %d: %s", got.Status, one.status, got.Body)
			}
		})
	}
}

// TestWithoutCredentials checks that requests without credentials are refused, except for probes.
func TestWithoutCredentials(t *testing.T) {
	t.Parallel()
	farm := "/apis/farm.mainstay.dev/v1alpha1"
	for path, status := range map[string]int{
		"/livez": http.StatusOK, "/readyz": http.StatusOK,
		"/": http.StatusUnauthorized, "/apis": http.StatusUnauthorized, "/metrics": http.StatusUnauthorized,
		"/openapi/v2": http.StatusUnauthorized,
		"/openapi/v3": http.StatusUnauthorized, "/version": http.StatusUnauthorized, "/healthz": http.StatusUnauthorized,
		"/livez/ping":      http.StatusUnauthorized,
		"/readyz/farmpods": http.StatusUnauthorized, "/debug/pprof/": http.StatusUnauthorized, farm: http.StatusUnauthorized,
		farm + "/farmpods": http.StatusUnauthorized, farm + "/llamas": http.StatusUnauthorized, "/livez/../metrics": http.StatusUnauthorized,
	} {
		if got := ask(t, cluster.server, question{path: path}); got.Status != status {
			t.Errorf("%s: answered %d, expected %d: %s", path, got.Status, status, got.Body)
		}
	}
}

// TestNoProfiles checks that no user, not even with all rights, may profile the server or change
// its log level.
func TestNoProfiles(t *testing.T) {
	t.Parallel()
	asked := func(method, path string) answer {
		question := asProxied(path, "admin", "system:masters")
		question.method = method
		return ask(t, cluster.server, question)
	}
	for _, path := range []string{"/debug/pprof", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/profile", "/debug/pprof/symbol",
		"/debug/pprof/trace", "/debug/pprof/heap"} {
		if got := asked(http.MethodGet, path); got.Status != http.StatusNotFound {
			t.Errorf("%s: answered %d, expected 404: %s", path, got.Status, got.Body)
		}
	}
	if got := asked(http.MethodPut, "/debug/flags/v"); got.Status != http.StatusNotFound {
		t.Errorf("the level of the log: answered %d, expected 404: %s", got.Status, got.Body)
	}
	// On this path the library treats all methods alike.
	if got := asked(http.MethodDelete, "/metrics"); !strings.Contains(got.Body, "# TYPE apiserver_request_total counter") {
		t.Errorf("metrics were deleted: answered %d: %s", got.Status, got.Body)
	}
}

// TestBearerToken checks that the server accepts a token of the cluster, with the rights of its
// user.
func TestBearerToken(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reader"}}
	if err := cluster.client.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	grantUser(t, "system:serviceaccount:"+namespace+":reader", namespace, readLlamas)
	request := &authenticationv1.TokenRequest{}
	if err := cluster.client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	bearer := map[string]string{"Authorization": "Bearer " + request.Status.Token}
	own := "/apis/farm.mainstay.dev/v1alpha1/namespaces/" + namespace
	for path, status := range map[string]int{
		own + "/llamas": http.StatusOK, own + "/farmpods": http.StatusForbidden, "/apis/farm.mainstay.dev/v1alpha1/llamas": http.StatusForbidden,
	} {
		if got := ask(t, cluster.server, question{path: path, header: bearer}); got.Status != status {
			t.Errorf("%s: answered %d, expected %d: %s", path, got.Status, status, got.Body)
		}
	}
}

// remembered is how long our server caches an answer about a user's rights.
const remembered = 10 * time.Second

// TestReviewsAreCached checks that the API server is asked once for each of the two rights that a
// request requires, and not again for every request.
func TestReviewsAreCached(t *testing.T) {
	t.Parallel()
	server := newServer(t, grantAll, func(options *aggregated.Options) { options.Resources = []string{"farmpods"} })
	server.awaitReady(t)
	user := unique("user")
	grantUser(t, user, "", readFarmPods, listPods)
	reviews := func() int {
		return countCalls(t, server.user, "subjectaccessreviews", func(call auditv1.Event) bool {
			return call.ObjectRef != nil && call.ObjectRef.Resource == "subjectaccessreviews"
		})
	}
	before, begun := reviews(), time.Now()
	// most is how many reviews there may be. On a machine so slow that the requests take longer than
	// answers are cached, each right is asked for once per cache period.
	most := func() int { return 2 * (1 + int(time.Since(begun)/remembered)) }
	asked := 0
	for ; asked < 20 || asked <= most() && time.Since(begun) < within; asked++ {
		if got := ask(t, server.Server, asProxied("/apis/farm.mainstay.dev/v1alpha1/namespaces/default/farmpods",
			user)); got.Status != http.StatusOK {
			t.Fatal(got)
		}
	}
	got, want := reviews()-before, most()
	if got < 2 || got > want {
		t.Errorf("%d reviews for %d equal requests, expected 2 to %d", got, asked, want)
	}
	if want >= asked {
		t.Logf("%d requests took %s: as many reviews would have been right", asked, time.Since(begun))
	}
}

// TestNotReady checks that the readiness probe names the resources that the server may not read.
func TestNotReady(t *testing.T) {
	t.Parallel()
	server := newServer(t, grantNothing, func(options *aggregated.Options) { options.Resources = []string{"farmpods"} })
	g := gomega.NewWithT(t)
	detail := func() answer { return ask(t, server.Server, asProxied("/readyz/farmpods", "admin", "system:masters")) }
	g.Eventually(detail).Should(gomega.And(
		gomega.HaveField("Status", http.StatusInternalServerError),
		gomega.HaveField("Body", gomega.ContainSubstring("waiting for the cache of farmpods")),
	))
	g.Expect(ask(t, server.Server, question{path: "/readyz"})).To(gomega.And(
		gomega.HaveField("Status", http.StatusInternalServerError), gomega.HaveField("Body", gomega.ContainSubstring("[-]farmpods failed")),
	))
	g.Expect(ask(t, server.Server, question{path: "/livez"})).To(gomega.HaveField("Status", http.StatusOK), "that is no reason for a restart")
	refused := ask(t, server.Server, asProxied("/apis/farm.mainstay.dev/v1alpha1/farmpods", "admin", "system:masters"))
	g.Expect(refused).To(gomega.HaveField("Status", http.StatusTooManyRequests), "the client retries, here or at another replica")
	rights, err := serverRights()
	g.Expect(err).NotTo(gomega.HaveOccurred())
	grantUser(t, server.user, "", rights...)
	server.awaitReady(t)
}

// TestReadyToWrite checks that a server that stores objects is not ready before it has read the
// cluster's admission webhooks and policies, and that a server that stores none does not read them.
func TestReadyToWrite(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	reader := newServer(t, grantAll, func(options *aggregated.Options) { options.Resources = []string{"farmpods"} })
	writer := newServer(t, grantNothing, func(options *aggregated.Options) {
		options.Resources, options.LlamaStorage = []string{"llamas"}, "memory"
	})
	admission := func(server *ownServer) answer {
		return ask(t, server.Server, asProxied("/readyz/admission", "admin", "system:masters"))
	}
	g.Eventually(func() answer { return admission(writer) }).Should(gomega.And(
		gomega.HaveField("Status", http.StatusInternalServerError),
		gomega.HaveField("Body", gomega.ContainSubstring("waiting for the cache of the cluster's admission webhooks and policies")),
	))
	g.Expect(ask(t, writer.Server, question{path: "/readyz"})).To(gomega.HaveField("Body", gomega.ContainSubstring("[-]admission failed")))
	rights, err := serverRights()
	g.Expect(err).NotTo(gomega.HaveOccurred())
	grantUser(t, writer.user, "", rights...)
	writer.awaitReady(t)
	g.Expect(admission(writer)).To(gomega.HaveField("Status", http.StatusOK))
	reader.awaitReady(t)
	g.Expect(admission(reader)).To(gomega.HaveField("Status", http.StatusNotFound))
}

// readAll calls all verbs of FarmPods, and returns the error of each.
func readAll(t *testing.T, reader client.WithWatch, namespace string) map[string]error {
	t.Helper()
	errs := map[string]error{"list": reader.List(t.Context(), &farmv1alpha1.FarmPodList{}, client.InNamespace(namespace))}
	events, err := reader.Watch(t.Context(), &farmv1alpha1.FarmPodList{}, client.InNamespace(namespace))
	if err == nil {
		events.Stop()
	}
	errs["watch"] = err
	if namespace != "" {
		errs["get"] = reader.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "farm-web"}, &farmv1alpha1.FarmPod{})
	}
	return errs
}

func expectRefused(t *testing.T, what string, err error, says string) {
	t.Helper()
	if !apierrors.IsForbidden(err) {
		t.Errorf("%s: %v, expected to be refused", what, err)
		return
	}
	gomega.NewWithT(t).Expect(err).To(gomega.MatchError(gomega.ContainSubstring(says)), what)
}

// as returns the configuration of a user's requests through the API server.
func as(user string) *rest.Config {
	config := rest.CopyConfig(cluster.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	return config
}

// grantUser grants a user rights in a namespace, or everywhere, and waits until they are effective.
func grantUser(t *testing.T, user, namespace string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	name := metav1.ObjectMeta{Namespace: namespace, Name: unique("rights")}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	role, binding := client.Object(&rbacv1.ClusterRole{ObjectMeta: name, Rules: rules}), client.Object(&rbacv1.ClusterRoleBinding{
		ObjectMeta: name, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
	})
	if namespace != "" {
		role, binding = &rbacv1.Role{ObjectMeta: name, Rules: rules}, &rbacv1.RoleBinding{
			ObjectMeta: name, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name.Name},
		}
	}
	for _, one := range []client.Object{role, binding} {
		if err := cluster.client.Create(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	for _, rule := range rules {
		for _, verb := range rule.Verbs {
			right := authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: rule.APIGroups[0], Resource: rule.Resources[0]}
			if err := awaitAllowed(t.Context(), user, right); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// selfSigned returns a certificate that no known CA has signed.
func selfSigned(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	folder := t.TempDir()
	certFile, keyFile = filepath.Join(folder, "client.crt"), filepath.Join(folder, "client.key")
	certificate, key, err := certutil.GenerateSelfSignedCertKey("front-proxy", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := certutil.WriteCert(certFile, certificate); err != nil {
		t.Fatal(err)
	}
	if err := keyutil.WriteKey(keyFile, key); err != nil {
		t.Fatal(err)
	}
	return certFile, keyFile
}

// newLlama returns a valid Llama.
func newLlama(namespace, name string) *farmv1alpha1.Llama {
	return &farmv1alpha1.Llama{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: farmv1alpha1.LlamaSpec{Weight: 120, Height: 1.7}}
}

// createPod creates a Pod, and waits until its FarmPod is served.
func createPod(t *testing.T, namespace, name string, change ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "demo"}}
	for _, one := range change {
		one(pod)
	}
	if err := cluster.client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	gomega.NewWithT(t).Eventually(func() error {
		return cluster.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: farmv1alpha1.FarmPodPrefix + name},
			&farmv1alpha1.FarmPod{})
	}).Should(gomega.Succeed())
	return pod
}
