package integration

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// kindsOnly enables only these kinds.
func kindsOnly(names ...string) func(*setup.Settings) {
	return func(settings *setup.Settings) { settings.Kinds = names }
}

// asked reports whether a manager has read, watched or written a resource in any namespace.
func asked(manager *testenv.Manager, resource string) bool {
	return slices.ContainsFunc(slices.Concat(manager.Requests.Since(0), manager.Requests.Watched()), func(call string) bool {
		return strings.HasSuffix(call, "/"+resource) || strings.Contains(call, "/"+resource+"/") && resource != "namespaces"
	})
}

// TestKindsOff checks that a disabled kind is not even read, and that the enabled kinds work
// without it.
func TestKindsOff(t *testing.T) {
	g := gomega.NewWithT(t)
	policy := stagingPolicy(t, mspolicyv1.Rule{MaxReplicas: ptr.To[int32](1)})
	app := newApp(staging(t), func(s *msappsv1.WebAppSpec) { s.Replicas = ptr.To[int32](2) })
	create(t, app)

	manager := startManagerWith(t, everywhere, nil, kindsOnly("platformpolicy"))
	inForce(t, policy)
	g.Expect(policy.Status.Violations).To(gomega.BeZero(), "it counts no WebApps")
	manager.Stop()
	for resource, wanted := range map[string]bool{"platformpolicies": true, "namespaces": true, "webapps": false, "deployments": false,
		"pods": false} {
		g.Expect(asked(manager, resource)).To(gomega.Equal(wanted), resource)
	}
	seen := read(t, app, &msappsv1.WebApp{})
	g.Expect(seen.ResourceVersion).To(gomega.Equal(app.ResourceVersion), "its object is unchanged")
	_, err := get(app, &appsv1.Deployment{})(t.Context())
	g.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue())

	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(policy), policy)).To(gomega.Succeed())
	version := policy.ResourceVersion // its last one, now that nothing writes it
	manager = startManagerWith(t, everywhere, nil, kindsOnly("webapp"))
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"), "no policy governs")
	g.Expect(violation(app)(t.Context())).To(gomega.BeEmpty())
	manager.Stop()
	for resource, wanted := range map[string]bool{"platformpolicies": false, "namespaces": false, "webapps": true, "deployments": true,
		"pods": true} {
		g.Expect(asked(manager, resource)).To(gomega.Equal(wanted), resource)
	}
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(policy), policy)).To(gomega.Succeed())
	g.Expect(policy.ResourceVersion).To(gomega.Equal(version))
}

// TestWatchNamespaces checks that objects in other namespaces are neither read nor changed nor
// counted by policies.
func TestWatchNamespaces(t *testing.T) {
	g := gomega.NewWithT(t)
	policy := stagingPolicy(t, mspolicyv1.Rule{MaxReplicas: ptr.To[int32](1)})
	two := func(s *msappsv1.WebAppSpec) { s.Replicas = ptr.To[int32](2) }
	inside, good, outside := newApp(staging(t), two), newApp(namespace(t), two), newApp(staging(t), two)
	for _, app := range []*msappsv1.WebApp{inside, good, outside} {
		create(t, app)
	}
	manager := startManagerWith(t, everywhere, nil, func(settings *setup.Settings) {
		settings.WatchNamespaces = []string{inside.Namespace, good.Namespace, "not-there-yet"}
	})
	g.Eventually(ready(inside)).WithContext(t.Context()).Should(gomega.Equal("False PolicyViolation"))
	g.Eventually(ready(good)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))
	g.Eventually(func(g gomega.Gomega) {
		g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(policy), policy)).To(gomega.Succeed())
		g.Expect(policy.Status.Namespaces).To(gomega.BeEquivalentTo(1))
		g.Expect(policy.Status.Violations).To(gomega.BeEquivalentTo(1))
	}).Should(gomega.Succeed())
	late := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "not-there-yet"}}
	create(t, late)
	app := newApp(late.Name, two)
	create(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"), "a namespace may be created later")
	manager.Stop()
	seen := read(t, outside, &msappsv1.WebApp{})
	g.Expect(seen.ResourceVersion).To(gomega.Equal(outside.ResourceVersion))
	for _, path := range manager.Requests.Watched() {
		everywhere := []string{
			"/api/v1/namespaces", "/apis/policy.mainstay.dev/v1/platformpolicies", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
			"/apis/instrumentation.mainstay.dev/v1alpha1/clusterinstrumentations",
			"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
			"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
		}
		if !slices.Contains(everywhere, path) && !strings.Contains(path, "/namespaces/") {
			t.Errorf("%s is watched in all namespaces", path)
		}
	}
}

// TestLostNamespace checks that a namespace that is deleted, and its Role with it, keeps the
// manager from serving no other: neither while it runs nor at its next start.
func TestLostNamespace(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	kept, lost := newApp(namespace(t)), newApp(namespace(t))
	for _, app := range []*msappsv1.WebApp{kept, lost} {
		create(t, app)
	}
	as := rest.CopyConfig(cluster.Config)
	as.Impersonate.UserName = "manager-of-" + kept.Namespace
	everyone := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: as.Impersonate.UserName}}
	create(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: kept.Namespace}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"*"}},
		{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{APIGroups: []string{"policy.mainstay.dev", "admissionregistration.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{APIGroups: []string{"instrumentation.mainstay.dev"}, Resources: []string{"clusterinstrumentations"}, Verbs: []string{"*"}},
	}})
	create(t, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: kept.Namespace}, Subjects: everyone,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: kept.Namespace}})
	for _, app := range []*msappsv1.WebApp{kept, lost} {
		create(t, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "manager"}, Subjects: everyone,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}})
		// A manager that starts before that waits for some seconds only, and does without the namespace.
		awaitRight(t, as, authorizationv1.ResourceAttributes{Namespace: app.Namespace, Verb: "list", Group: "apps", Resource: "deployments"})
	}
	start := func() *testenv.Manager {
		return testenv.StartManager(t, as, testenv.ManagerOptions{Namespace: everywhere, Settings: func(settings *setup.Settings) {
			settings.WatchNamespaces = []string{kept.Namespace, lost.Namespace}
		}})
	}
	manager := start()
	g.Eventually(ready(kept)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))
	g.Eventually(ready(lost)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))

	g.Expect(cluster.Client.Delete(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: lost.Namespace,
		Name: "manager"}})).To(gomega.Succeed())
	replicas := func(app *msappsv1.WebApp, count int32) func(context.Context) (int32, error) {
		change(t, app, func(a *msappsv1.WebApp) { a.Spec.Replicas = &count })
		return func(ctx context.Context) (int32, error) {
			deployment, err := get(app, &appsv1.Deployment{})(ctx)
			if err != nil {
				return 0, err
			}
			return *deployment.Spec.Replicas, nil
		}
	}
	g.Eventually(replicas(kept, 3)).WithContext(t.Context()).Should(gomega.BeEquivalentTo(3), "while it runs")
	manager.Stop()
	start()
	g.Eventually(replicas(kept, 4)).WithContext(t.Context()).Should(gomega.BeEquivalentTo(4), "after a restart")
}

// TestGrantedWhereItCounts checks that the chart grants rights on namespaced resources in Roles,
// and all others in ClusterRoles.
func TestGrantedWhereItCounts(t *testing.T) {
	files, err := filepath.Glob("../../charts/mainstay/files/rbac/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no rights were found: %v", err)
	}
	_, lists, err := discovery.NewDiscoveryClientForConfigOrDie(cluster.Config).ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	namespaced := map[string]bool{}
	for _, list := range lists {
		group, _, isGroup := strings.Cut(list.GroupVersion, "/")
		if !isGroup {
			group = ""
		}
		for _, resource := range list.APIResources {
			namespaced[group+"/"+resource.Name] = resource.Namespaced
		}
	}
	checked := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		scopes := map[string][]rbacv1.PolicyRule{}
		if err := yaml.UnmarshalStrict(content, &scopes); err != nil {
			t.Fatal(err)
		}
		for scope, rules := range scopes {
			for _, rule := range rules {
				for _, resource := range rule.Resources {
					is, known := namespaced[rule.APIGroups[0]+"/"+resource]
					if !known {
						// The API server lacks this API, or it is a subresource that only exists as a right.
						t.Logf("%s: unknown resource %s of %q", file, resource, rule.APIGroups[0])
						continue
					}
					checked++
					if is != (scope != "cluster") {
						t.Errorf("%s: %s of %q is under %s", file, resource, rule.APIGroups[0], scope)
					}
				}
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d resources were checked", checked)
	}
}
