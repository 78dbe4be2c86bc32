package served

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
)

// TestMetrics checks that a user with only the right to get /metrics gets all documented metrics
// with their labels, and that others get none.
func TestMetrics(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	createPod(t, namespace, "web")
	reader := newClient(t, cluster.config)
	if err := reader.List(t.Context(), &farmv1alpha1.FarmPodList{}, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	events, err := reader.Watch(t.Context(), &farmv1alpha1.FarmPodList{}, client.InNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()

	scraper := unique("scraper")
	read := func(user string) answer { return ask(t, cluster.server, asProxied("/metrics", user)) }
	if got := read(unique("nobody")); got.Status != http.StatusForbidden || strings.Contains(got.Body, "apiserver_request_total") {
		t.Errorf("without the right the answer is %d: %s", got.Status, got.Body)
	}
	grantMetrics(t, scraper)
	g := gomega.NewWithT(t)
	g.Eventually(func() string { return read(scraper).Body }).Should(gomega.ContainSubstring(`apiserver_longrunning_requests{`), "a watch is under way")
	body := read(scraper).Body
	for _, metric := range metrics.Served() {
		if !strings.Contains(body, "# TYPE "+metric.Name+" "+metric.Type+"\n") {
			t.Errorf("%s %s is missing", metric.Type, metric.Name)
		}
		series := regexp.MustCompile(`(?m)^`+metric.Name+`(?:_bucket)?\{.*group="farm\.mainstay\.dev".*resource="farmpods".*\}`).FindAllString(body, -1)
		for _, label := range metric.Labels {
			if !slices.ContainsFunc(series, func(one string) bool { return regexp.MustCompile(`[{,]` + label.Name + `="[^"]`).MatchString(one) }) {
				t.Errorf("no %s of farmpods has a label %s: %q", metric.Name, label.Name, series)
			}
		}
	}
	for _, one := range []string{
		`apiserver_request_total\{code="200",.*group="farm\.mainstay\.dev",resource="farmpods",.*verb="LIST"`,
		`apiserver_longrunning_requests\{.*group="farm\.mainstay\.dev",resource="farmpods",.*verb="WATCH"`,
		`process_resident_memory_bytes `, `go_goroutines `,
	} {
		if !regexp.MustCompile(`(?m)^` + one).MatchString(body) {
			t.Errorf("%s is missing", one)
		}
	}
}

// grantMetrics grants a user the right to get /metrics, as the chart's ClusterRole does, and waits
// until that is effective, because refusals are cached.
func grantMetrics(t *testing.T, user string) {
	t.Helper()
	name := metav1.ObjectMeta{Name: unique("rights")}
	for _, one := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: name, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
		},
	} {
		if err := cluster.client.Create(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	gomega.NewWithT(t).Eventually(func() (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
		}}
		err := cluster.client.Create(t.Context(), review)
		return review.Status.Allowed, err
	}).Should(gomega.BeTrue())
}
