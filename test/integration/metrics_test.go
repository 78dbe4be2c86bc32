package integration

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// scraper reads a manager's metrics.
type scraper struct {
	url, token string
	client     *http.Client
}

// startScraped starts a manager that serves metrics, and a scraper that may read them. The manager
// watches the given namespaces, or all if there are none. A test that counts in a namespace creates
// it before: a scrape forgets one that the manager has not read yet.
func startScraped(t *testing.T, watched ...string) (*testenv.Manager, *scraper) {
	t.Helper()
	return startScrapedWith(t, func(settings *setup.Settings) { settings.WatchNamespaces = watched })
}

// startScrapedWith is like startScraped, with a change of the settings.
func startScrapedWith(t *testing.T, change func(*setup.Settings)) (*testenv.Manager, *scraper) {
	t.Helper()
	address := fmt.Sprintf("127.0.0.1:%d", testenv.Port(t))
	manager := startManagerWith(t, everywhere, nil, func(settings *setup.Settings) {
		settings.MetricsAddress = address
		change(settings)
	})
	name := namespace(t)
	create(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}})
	create(t, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: name, Name: "reader"}}})
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // without webhooks there is no CA
	t.Cleanup(transport.CloseIdleConnections)
	scraper := &scraper{url: "https://" + address, token: tokenOf(t, name, "reader"),
		client: &http.Client{Transport: transport, Timeout: within}}
	gomega.NewWithT(t).Eventually(func(ctx context.Context) (int, error) {
		status, _, err := scraper.get(ctx, "/metrics", scraper.token)
		return status, err
	}).WithContext(t.Context()).Should(gomega.Equal(http.StatusOK), "the manager fills its caches before it serves metrics")
	return manager, scraper
}

// tokenOf creates a ServiceAccount and returns a token of it.
func tokenOf(t *testing.T, namespace, name string) string {
	t.Helper()
	create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	typed, err := kubernetes.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := typed.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// get requests a path.
func (s *scraper) get(ctx context.Context, path, token string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// values returns the values of all series whose line contains each of the words.
func (s *scraper) values(ctx context.Context, words ...string) (map[string]float64, error) {
	status, body, err := s.get(ctx, "/metrics", s.token)
	if err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("status %d: %w", status, err)
	}
	found := map[string]float64{}
	for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
		line := lines.Text()
		at := strings.LastIndex(line, " ")
		if strings.HasPrefix(line, "#") || !containsAll(line, words) {
			continue
		}
		if found[line[:at]], err = strconv.ParseFloat(line[at+1:], 64); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func containsAll(line string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(line, word) {
			return false
		}
	}
	return true
}

// sum returns a function for Eventually: the sum of all series whose line contains each of the
// words.
func (s *scraper) sum(words ...string) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		found, err := s.values(ctx, words...)
		sum := 0.0
		for _, value := range found {
			sum += value
		}
		return sum, err
	}
}

// TestMetricsRequireTheRight checks that a request without a token or without the right is
// refused.
func TestMetricsRequireTheRight(t *testing.T) {
	_, scraper := startScraped(t)
	g := gomega.NewWithT(t)
	get := func(path, token string) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			status, body, err := scraper.get(ctx, path, token)
			switch status {
			case http.StatusOK:
				body = ""
			case http.StatusServiceUnavailable: // the API server has not answered in time
				err = errors.New(body)
			}
			return fmt.Sprintf("%d %s", status, strings.TrimSpace(body)), err
		}
	}
	// The authorizer learns of the role some milliseconds after its creation, and a refusal is cached
	// for ten seconds.
	g.Eventually(get("/metrics", scraper.token)).WithContext(t.Context()).Should(gomega.Equal("200 "))
	stranger := tokenOf(t, namespace(t), "stranger")
	for _, test := range []struct{ path, token, want string }{
		{"/metrics", "", "401 Unauthorized"},
		{"/metrics", "made-up", "401 Unauthorized"},
		{"/metrics", stranger, "403 Forbidden"},
		{"/debug/pprof/", scraper.token, "404 404 page not found"},
	} {
		var got string
		g.Eventually(func(ctx context.Context) (err error) {
			got, err = get(test.path, test.token)(ctx)
			return err
		}).WithContext(t.Context()).Should(gomega.Succeed())
		if got != test.want {
			t.Errorf("%s: %s; want %s", test.path, got, test.want)
		}
	}
}

// TestMetricsOfAWebApp checks the metrics of a WebApp from its creation to the deletion of its
// namespace.
func TestMetricsOfAWebApp(t *testing.T) {
	// Objects of other tests must not be counted.
	app := newApp(staging(t))
	manager, scraper := startScraped(t, app.Namespace)
	g := gomega.NewWithT(t)
	inNamespace := `namespace="` + app.Namespace + `"`
	readyCount := func(ctx context.Context) (float64, error) {
		return scraper.sum("mainstay_ready_duration_seconds_count", inNamespace)(ctx)
	}
	create(t, app)
	makeAvailable(t, app)
	g.Eventually(readyCount).WithContext(t.Context()).Should(gomega.Equal(1.0))
	const objects = "mainstay_objects"
	g.Eventually(scraper.sum(objects, `kind="WebApp"`, `phase="Ready"`)).WithContext(t.Context()).Should(gomega.Equal(1.0))
	if all, err := scraper.values(t.Context(), objects, `kind="WebApp"`); err != nil || len(all) != 9 {
		t.Errorf("phases: %v, %v", all, err)
	}
	for what, atLeast := range map[string]float64{
		`mainstay_reconcile_total kind="WebApp" result="changed" ` + inNamespace:               2,
		`mainstay_reconcile_duration_seconds_count kind="WebApp"`:                              2,
		`mainstay_reconcile_duration_seconds_bucket le="2.5"`:                                  2,
		`mainstay_api_requests_total verb="apply" resource="deployments.apps" code="2xx"`:      1,
		`mainstay_api_requests_total verb="patch" resource="webapps.apps.mainstay.dev/status"`: 2,
		`mainstay_api_requests_total verb="watch" resource="webapps.apps.mainstay.dev"`:        1,
		`mainstay_info version="0.0.0-dev"`:                                                    1,
		`controller_runtime_reconcile_total controller="webapp"`:                               2,
	} {
		g.Eventually(scraper.sum(strings.Fields(what)...)).WithContext(t.Context()).Should(gomega.BeNumerically(">=", atLeast), what)
	}
	// Not ready for a while and ready again, also after a restart of the manager, must not count
	// twice.
	testNotReadyAgain(t, app)
	manager.Stop()
	_, scraper = startScraped(t, app.Namespace)
	testNotReadyAgain(t, app)
	if got, err := readyCount(t.Context()); err != nil || got != 1 {
		t.Errorf("it counts %v times as ready (%v)", got, err)
	}
}

// testNotReadyAgain makes an app not ready for a while.
func testNotReadyAgain(t *testing.T, app *msappsv1.WebApp) {
	g := gomega.NewWithT(t)
	var stored msappsv1.WebApp
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(app), &stored); err != nil {
		t.Fatal(err)
	}
	first := stored.Status.FirstReadyTime
	change(t, &stored, func(app *msappsv1.WebApp) { app.Spec.Replicas = new(*app.Spec.Replicas + 1) })
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.HavePrefix("False"))
	makeAvailable(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.HavePrefix("True"))
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(app), &stored)).To(gomega.Succeed())
	if first == nil || !stored.Status.FirstReadyTime.Equal(first) {
		t.Errorf("it was first ready at %v, and then at %v", first, stored.Status.FirstReadyTime)
	}
}

// TestMetricsOfErrors checks the counts of errors and of denials by policy.
func TestMetricsOfErrors(t *testing.T) {
	stagingPolicy(t, mspolicyv1.Rule{MaxReplicas: new(int32(1))})
	app := newApp(staging(t))
	_, scraper := startScraped(t)
	g := gomega.NewWithT(t)
	g.Eventually(scraper.sum("mainstay_leader")).WithContext(t.Context()).Should(gomega.Equal(1.0))
	failures := scraper.sum("mainstay_errors_total", `kind="WebApp"`, `class="terminal"`)
	before, err := failures(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	create(t, app)
	denied := scraper.sum("mainstay_policy_denials_total", `namespace="`+app.Namespace+`"`, `by="controller"`)
	g.Eventually(denied).WithContext(t.Context()).Should(gomega.Equal(1.0))
	if after, err := failures(t.Context()); err != nil || after <= before {
		t.Errorf("%v errors, before %v (%v)", after, before, err)
	}
	// A change that is denied counts as another denial. A change that is allowed does not.
	change(t, app, func(app *msappsv1.WebApp) { app.Spec.Replicas = new(int32(3)) })
	g.Eventually(denied).WithContext(t.Context()).Should(gomega.Equal(2.0))
	change(t, app, func(app *msappsv1.WebApp) { app.Spec.Replicas = new(int32(1)) })
	g.Eventually(violation(app)).WithContext(t.Context()).Should(gomega.BeEmpty())
	if got, err := denied(t.Context()); err != nil || got != 2 {
		t.Errorf("%v denials (%v)", got, err)
	}
}

// TestMetricsOfFailedRestarts checks that a failed restart is counted, even while another
// workload waits and causes a requeue anyway.
func TestMetricsOfFailedRestarts(t *testing.T) {
	ns := namespace(t)
	// No cooldown ends by itself, however long it all takes.
	stopped := clocktesting.NewFakePassiveClock(time.Now().Add(time.Hour))
	manager, scraper := startScrapedWith(t, func(settings *setup.Settings) {
		settings.WatchNamespaces, settings.Clock = []string{ns}, stopped
	})
	g := gomega.NewWithT(t)
	counted := func(result string) func(context.Context) (float64, error) {
		return scraper.sum("mainstay_reconcile_total", `kind="Workload"`, `namespace="`+ns+`"`, `result="`+result+`"`)
	}
	setData(t, ns, "flags", "a", "1")
	waiting := user(ns, "waiting", "flags", auto())
	create(t, waiting)
	g.Eventually(startedFor(waiting)).WithContext(t.Context()).Should(gomega.Equal("first"))
	setData(t, ns, "flags", "a", "2")
	g.Eventually(startedFor(waiting)).WithContext(t.Context()).Should(gomega.Equal(content("flags", "a", "2")))
	setData(t, ns, "flags", "a", "3")
	manager.Settle(t)
	manager.Requests.Break("/deployments/web")
	create(t, user(ns, "web", "flags", auto()))
	g.Eventually(counted("transient")).WithContext(t.Context()).Should(gomega.BeNumerically(">", 0.0))
	manager.Requests.Break("")
	manager.Requests.Forbid("/deployments/other")
	create(t, user(ns, "other", "flags", auto()))
	g.Eventually(counted("blocked")).WithContext(t.Context()).Should(gomega.BeNumerically(">", 0.0))
	g.Expect(startedFor(waiting)(t.Context())).To(gomega.Equal(content("flags", "a", "2")), "it did not wait")
}

// TestMetricsHaveEachDeclared checks that exactly the documented metrics exist, with their labels.
// For metrics of events that do not occur here, the test calls package metrics itself, as the
// controllers do. The tests above check that the controllers do.
func TestMetricsHaveEachDeclared(t *testing.T) {
	_, scraper := startScraped(t)
	g := gomega.NewWithT(t)
	metrics.Denied("WebApp", "default", metrics.ByAdmission)
	metrics.Reconciled(metrics.Pass{Kind: "WebApp", Result: metrics.Transient})
	metrics.BecameReady("WebApp", "default", time.Second)
	metrics.Contested("WebApp", "default")
	metrics.Restarted("default")
	metrics.RolledOut("default", time.Second)
	create(t, newApp(namespace(t)))
	g.Eventually(scraper.sum("mainstay_objects", `kind="WebApp"`)).WithContext(t.Context()).Should(gomega.BeNumerically(">=", 1))
	var body string
	g.Eventually(func() (string, error) {
		var err error
		_, body, err = scraper.get(t.Context(), "/metrics", scraper.token)
		return body, err
	}).Should(gomega.ContainSubstring("controller_runtime_active_workers"), "the controllers have started")
	for _, metric := range slices.Concat(metrics.Declared(), metrics.Others()) {
		// End-to-end tests check the metrics of webhooks and of our API server.
		if strings.Contains(metric.Name, "certificate") || strings.Contains(metric.Name, "webhook") ||
			strings.Contains(metric.Name, "apiservice") {
			continue
		}
		if !strings.Contains(body, "# TYPE "+metric.Name+" "+metric.Type+"\n") {
			t.Errorf("there is no %s %s", metric.Type, metric.Name)
		}
		if diff := cmp.Diff(labelsOf(body, metric.Name), documented(metric), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("labels of %s: seen (-), documented (+): %s", metric.Name, diff)
		}
	}
	for line := range strings.Lines(body) {
		name, ours := strings.CutPrefix(line, "# TYPE mainstay_")
		isDeclared := func(metric metrics.Metric) bool { return metric.Name == "mainstay_"+strings.Fields(name)[0] }
		if ours && !slices.ContainsFunc(metrics.Declared(), isDeclared) {
			t.Errorf("mainstay_%s is not documented", name)
		}
	}
}

// TestMetricsOfRestarts checks that a change of configuration is counted once, and measured until
// the last pod runs with it.
func TestMetricsOfRestarts(t *testing.T) {
	in := namespace(t)
	_, scraper := startScraped(t)
	g := gomega.NewWithT(t)
	deployment := newDeployment(in, "web")
	create(t, newFlags(in, map[string]string{"COLOUR": "red"}), deployment)
	watched{deployment}.by(t, newMonitor(in))
	of := `namespace="` + in + `"`
	g.Expect(scraper.sum("mainstay_config_restarts_total", of)(t.Context())).To(gomega.BeZero())

	setFlag(t, in, "COLOUR", "blue")
	g.Eventually(scraper.sum("mainstay_config_restarts_total", of)).WithContext(t.Context()).Should(gomega.Equal(1.0))
	g.Expect(scraper.sum("mainstay_config_rollout_duration_seconds_count", of)(t.Context())).To(gomega.BeZero(),
		"pods are still to be replaced")
	rollOut(t, deployment)
	g.Eventually(scraper.sum("mainstay_config_rollout_duration_seconds_count", of)).WithContext(t.Context()).Should(gomega.Equal(1.0))
}

// documented returns the labels of a metric, sorted.
func documented(metric metrics.Metric) []string {
	var names []string
	for _, label := range metric.Labels {
		names = append(names, label.Name)
	}
	slices.Sort(names)
	return names
}

// labelsOf returns the labels of a metric's series in a scrape, sorted, without le, the label of
// every histogram.
func labelsOf(body, metric string) []string {
	seen := map[string]bool{}
	series := regexp.MustCompile(`(?m)^` + metric + `(?:_bucket|_count|_sum)?\{(.*)\} `)
	for _, match := range series.FindAllStringSubmatch(body, -1) {
		for _, label := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(match[1], -1) {
			seen[label[1]] = true
		}
	}
	delete(seen, "le")
	return slices.Sorted(maps.Keys(seen))
}

// TestMetricsForgetNamespaces checks that series of deleted namespaces are removed. No namespace
// can be deleted here, so it uses one that never existed.
func TestMetricsForgetNamespaces(t *testing.T) {
	_, scraper := startScraped(t)
	g := gomega.NewWithT(t)
	g.Eventually(scraper.sum("mainstay_leader")).WithContext(t.Context()).Should(gomega.Equal(1.0))
	metrics.Denied("WebApp", "never-was", metrics.ByController)
	metrics.Denied("WebApp", "default", metrics.ByController)
	g.Eventually(scraper.values).WithContext(t.Context()).WithArguments(`namespace="never-was"`).Should(gomega.BeEmpty())
	if found, err := scraper.values(t.Context(), `namespace="default"`); err != nil || len(found) == 0 {
		t.Errorf("a namespace that is there is forgotten: %v, %v", found, err)
	}
}

// TestMetricsOfWatchedNamespaces checks that objects are counted over all watched namespaces, and
// only those.
func TestMetricsOfWatchedNamespaces(t *testing.T) {
	first, second, other := namespace(t), namespace(t), namespace(t)
	_, scraper := startScraped(t, first, second)
	g := gomega.NewWithT(t)
	count := scraper.sum("mainstay_objects", `kind="WebApp"`)
	// The metric appears only when all namespaces have been read.
	g.Eventually(scraper.values).WithContext(t.Context()).WithArguments("mainstay_objects").ShouldNot(gomega.BeEmpty())
	for _, name := range []string{first, second, other} {
		create(t, newApp(name))
	}
	g.Eventually(count).WithContext(t.Context()).Should(gomega.Equal(2.0))
	app := newApp(second)
	if err := cluster.Client.Delete(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	g.Eventually(count).WithContext(t.Context()).Should(gomega.Equal(1.0))
	// No scrape removes the series of an existing namespace.
	reconciled := scraper.sum("mainstay_reconcile_total", `namespace="`+first+`"`)
	g.Eventually(reconciled).WithContext(t.Context()).Should(gomega.BeNumerically(">", 0))
	for range 3 {
		if got, err := reconciled(t.Context()); err != nil || got == 0 {
			t.Errorf("%v reconciles (%v)", got, err)
		}
	}
}
