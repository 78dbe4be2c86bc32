package integration

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// newPlatform returns the smallest platform, without a cache.
func newPlatform(namespace string) *platformv1.EcommercePlatform {
	return &platformv1.EcommercePlatform{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"},
		Spec: platformv1.EcommercePlatformSpec{
			Frontend: platformv1.PlatformWeb{Image: "r.io/front:1"}, Backend: platformv1.PlatformWeb{Image: "r.io/back:1"},
			Cache: platformv1.PlatformCache{Enabled: new(false)},
		},
	}
}

// platformed waits until the status of a platform is as wanted.
func platformed(t *testing.T, platform *platformv1.EcommercePlatform, wanted func(platformv1.EcommercePlatformStatus) bool) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func(ctx context.Context) (string, error) {
		var stored platformv1.EcommercePlatform
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(platform), &stored)
		if err == nil && stored.Status.ObservedGeneration == stored.Generation && wanted(stored.Status) {
			return "", nil
		}
		text, _ := json.Marshal(stored.Status)
		return string(text), err
	}).WithContext(t.Context()).Should(gomega.BeEmpty())
}

// TestPlatformLives: a platform makes its parts in order, says what they do, follows its spec, and
// takes them away in order.
func TestPlatformLives(t *testing.T) {
	t.Parallel()
	g, space := gomega.NewWithT(t), namespace(t)
	manager := startManagerWith(t, space, nil, withImages)
	platform := newPlatform(space)
	create(t, platform)
	s := stacked{t, g, &platformv1.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "shop"}}}
	db := newDatabase(space)
	db.Name = "shop-db"
	observedRevision(t, db, "db-1")
	s.awaits()
	platformed(t, platform, func(status platformv1.EcommercePlatformStatus) bool {
		return status.Phase == "Deploying" && status.ComponentSummary == "0/3" && status.Environment == "development"
	})
	runs(t, db, 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 2, Timeline: 3, Provided: true})
	s.awaits("backend")
	s.ready("backend")
	s.awaits("backend", "frontend")
	s.ready("frontend")
	platformed(t, platform, func(status platformv1.EcommercePlatformStatus) bool {
		return status.Phase == "Running" && status.ComponentSummary == "3/3" && len(status.Endpoints) == 2
	})
	var backend msappsv1.WebApp
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: space, Name: "shop-backend"}, &backend)).To(gomega.Succeed())
	g.Expect(backend.Spec.Bindings).To(gomega.Equal([]msappsv1.Binding{{Kind: "PostgreSQL", Name: "shop-db"}}))
	g.Expect(backend.Labels).To(gomega.HaveKeyWithValue("platform", "shop"))
	g.Expect(backend.Spec.Labels).To(gomega.HaveKeyWithValue("platform", msappsv1.LabelValue("shop")))
	g.Expect(backend.Labels).To(gomega.HaveKeyWithValue(api.LabelPartOf, "shop"))
	manager.Settle(t)
	manager.Stop()
	again := startManagerWith(t, space, nil, withImages)
	again.Settle(t)
	g.Expect(testenv.In(space, again.Requests.Since(0, "PATCH ", "DELETE "))).To(gomega.BeEmpty(), "a restart writes something")

	change(t, platform, func(platform *platformv1.EcommercePlatform) { platform.Spec.Backend.Image = "r.io/back:2" })
	g.Eventually(reading(&backend, func() string { return backend.Spec.Image })).WithContext(t.Context()).Should(
		gomega.Equal("r.io/back:2"))
	change(t, s.stack, func(stack *platformv1.AppStack) { stack.Spec.Components = stack.Spec.Components[:2] })
	s.Eventually(func(ctx context.Context) (int, error) {
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(s.stack), s.stack)
		return len(s.stack.Spec.Components), err
	}).WithContext(t.Context()).Should(gomega.Equal(3), "an edit of the AppStack stays")

	deleteInOrder(s, platform, db)
}

// deleteInOrder deletes a platform, whose parts go from the frontend to the database.
func deleteInOrder(s stacked, platform *platformv1.EcommercePlatform, db *databasev1.PostgreSQL) {
	s.Helper()
	s.Expect(cluster.Client.Delete(s.Context(), platform)).To(gomega.Succeed())
	s.releases("frontend", []string{"backend", "frontend"})
	platformed(s.T, platform, func(status platformv1.EcommercePlatformStatus) bool {
		return status.Phase == "Deleting" && strings.Contains(status.Conditions[len(status.Conditions)-1].Message, "in reverse order")
	})
	s.releases("backend", []string{"backend"})
	s.Eventually(func(ctx context.Context) (bool, error) {
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(db), db)
		return db.DeletionTimestamp != nil, err
	}).WithContext(s.Context()).Should(gomega.BeTrue(), "the database stays")
	change(s.T, db, func(db *databasev1.PostgreSQL) { db.Finalizers = nil })
	for _, object := range []client.Object{&platformv1.AppStack{}, &platformv1.EcommercePlatform{}} {
		s.Eventually(func(ctx context.Context) bool {
			return apierrors.IsNotFound(cluster.Client.Get(ctx, client.ObjectKeyFromObject(platform), object))
		}).WithContext(s.Context()).Should(gomega.BeTrue(), "%T is left", object)
	}
	err := cluster.Client.Get(s.Context(), client.ObjectKeyFromObject(db), &databasev1.PostgreSQL{})
	s.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue(), "the database is left: %v", err)
}

// TestPlatformWithCache: the backend is bound to the cache, and a cache that is disabled goes once
// the backend runs without it.
func TestPlatformWithCache(t *testing.T) {
	t.Parallel()
	g, space := gomega.NewWithT(t), namespace(t)
	startManagerWith(t, space, nil, func(settings *setup.Settings) {
		withImages(settings)
		settings.ValkeyImages = map[string]string{"9": valkeyImage}
	})
	platform := newPlatform(space)
	platform.Spec.Cache = platformv1.PlatformCache{}
	create(t, platform)
	s := stacked{t, g, &platformv1.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "shop"}}}
	db, cache := newDatabase(space), newCache(space)
	db.Name, cache.Name = "shop-db", "shop-cache"
	observedRevision(t, db, "db-1")
	runs(t, db, 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 2, Timeline: 3, Provided: true})
	observedRevision(t, &databasev1.PostgreSQL{ObjectMeta: cache.ObjectMeta}, "sessions-1")
	s.awaits()
	runsCache(t, cache, 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 2, Provided: true})
	s.awaits("backend")
	bound := func(ctx context.Context) ([]msappsv1.Binding, error) {
		var backend msappsv1.WebApp
		err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: space, Name: "shop-backend"}, &backend)
		return backend.Spec.Bindings, err
	}
	g.Expect(bound(t.Context())).To(gomega.ContainElement(msappsv1.Binding{Kind: "Cache", Name: "shop-cache"}))
	s.ready("backend")
	s.awaits("backend", "frontend")
	s.ready("frontend")
	platformed(t, platform, func(status platformv1.EcommercePlatformStatus) bool { return status.ComponentSummary == "4/4" })
	testAllAreLabelled(t, space)

	change(t, platform, func(platform *platformv1.EcommercePlatform) { platform.Spec.Cache.Enabled = new(false) })
	g.Eventually(bound).WithContext(t.Context()).Should(gomega.HaveLen(1))
	isGoing := func(ctx context.Context) (bool, error) {
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(cache), cache)
		return cache.DeletionTimestamp != nil, err
	}
	g.Expect(isGoing(t.Context())).To(gomega.BeFalse(), "the cache goes before the backend runs without it")
	s.ready("backend")
	g.Eventually(isGoing).WithContext(t.Context()).Should(gomega.BeTrue(), "the cache stays")
}

// testAllAreLabelled checks that everything that Mainstay has made in a namespace has the label of
// the platform shop.
func testAllAreLabelled(t *testing.T, space string) {
	t.Helper()
	g := gomega.NewWithT(t)
	found := map[string]int{}
	for kind, list := range map[string]client.ObjectList{
		"AppStack": &platformv1.AppStackList{}, "WebApp": &msappsv1.WebAppList{}, "PostgreSQL": &databasev1.PostgreSQLList{},
		"Cache": &databasev1.CacheList{}, "Secret": &corev1.SecretList{}, "ConfigMap": &corev1.ConfigMapList{},
		"Service": &corev1.ServiceList{}, "PersistentVolumeClaim": &corev1.PersistentVolumeClaimList{},
		"ServiceAccount": &corev1.ServiceAccountList{}, "Deployment": &appsv1.DeploymentList{}, "StatefulSet": &appsv1.StatefulSetList{},
		"EndpointSlice": &discoveryv1.EndpointSliceList{}, "NetworkPolicy": &networkingv1.NetworkPolicyList{},
		"Role": &rbacv1.RoleList{}, "RoleBinding": &rbacv1.RoleBindingList{}, "Lease": &coordinationv1.LeaseList{},
	} {
		g.Expect(cluster.Client.List(t.Context(), list, client.InNamespace(space), client.MatchingLabels{api.LabelManagedBy: api.ManagedBy})).
			To(gomega.Succeed())
		g.Expect(meta.EachListItem(list, func(object runtime.Object) error {
			found[kind]++
			if labels := object.(client.Object).GetLabels(); labels["platform"] != "shop" {
				t.Errorf("%s %s has no label platform", kind, object.(client.Object).GetName())
			}
			return nil
		})).To(gomega.Succeed())
		if found[kind] == 0 {
			t.Errorf("there is no %s", kind)
		}
	}
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		g.Expect(found[kind]).To(gomega.Equal(2), kind)
	}
	var set appsv1.StatefulSet
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: space, Name: "shop-db"}, &set)).To(gomega.Succeed())
	g.Expect(set.Spec.Template.Labels).To(gomega.HaveKeyWithValue("platform", "shop"))
}

// TestPlatformRefused: by the schema, by the installation, and by what is in the way.
func TestPlatformRefused(t *testing.T) {
	t.Parallel()
	g, space := gomega.NewWithT(t), namespace(t)
	startManagerWith(t, space, nil, withImages)
	for want, change := range map[string]func(*platformv1.EcommercePlatform){
		"must be a DNS label of at most 41 characters": func(p *platformv1.EcommercePlatform) {
			p.Name = "a23456789012345678901234567890123456789012"
		},
		"spec.backend.image": func(p *platformv1.EcommercePlatform) { p.Spec.Backend.Image = "" },
		"must have a host, or a route": func(p *platformv1.EcommercePlatform) {
			p.Spec.Ingress = &platformv1.PlatformIngress{}
		},
		"spec.backend.autoscaling: Invalid value": func(p *platformv1.EcommercePlatform) {
			p.Spec.Backend.Autoscaling = &msappsv1.Autoscaling{Min: 3, Max: 2}
		},
		"spec.frontend.port: Invalid value: 70000":        func(p *platformv1.EcommercePlatform) { p.Spec.Frontend.Port = 70000 },
		`spec.database.type: Unsupported value: "oracle"`: func(p *platformv1.EcommercePlatform) { p.Spec.Database.Type = "oracle" },
	} {
		platform := newPlatform(space)
		change(platform)
		g.Expect(cluster.Client.Create(t.Context(), platform)).To(gomega.MatchError(gomega.ContainSubstring(want)))
	}
	mysql := newPlatform(space)
	mysql.Name, mysql.Spec.Database.Type = "mysql", platformv1.DatabaseMySQL
	create(t, mysql)
	invalid := func(message string) func(platformv1.EcommercePlatformStatus) bool {
		return func(status platformv1.EcommercePlatformStatus) bool {
			return status.Phase == "Failed" && status.Conditions[len(status.Conditions)-1].Type == "Stalled" &&
				status.Conditions[len(status.Conditions)-1].Message == message
		}
	}
	platformed(t, mysql, invalid(`spec.database.type: Invalid value: "mysql": kind MySQLCluster is not installed: use postgresql`))
	again := newPlatform(space)
	again.Name = mysql.Name
	g.Expect(apierrors.IsAlreadyExists(cluster.Client.Create(t.Context(), again))).To(gomega.BeTrue(), "a second platform of the name")
	taken := newPlatform(space)
	taken.Name = "taken"
	create(t, &platformv1.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "taken"},
		Spec: platformv1.AppStackSpec{Components: []platformv1.Component{webPart("web")}}})
	create(t, taken)
	platformed(t, taken, func(status platformv1.EcommercePlatformStatus) bool {
		return status.Conditions[len(status.Conditions)-1].Reason == "Conflict"
	})
	change(t, mysql, func(p *platformv1.EcommercePlatform) { p.Labels = map[string]string{"a": "b"} })
	err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(mysql), mysql)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	before := mysql.DeepCopy()
	mysql.Spec.Database.Type = platformv1.DatabasePostgreSQL
	err = cluster.Client.Patch(t.Context(), mysql, client.MergeFrom(before)) // its status may be written meanwhile
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("spec.database.type can't change")))
}

// TestPlatformSamples: the API server accepts them, under strict validation.
func TestPlatformSamples(t *testing.T) {
	t.Parallel()
	space := namespace(t)
	for _, file := range []string{"staging-platform.yaml", "platform/ecommerceplatform.yaml", "platform/production-store.yaml"} {
		sample := readSample(t, "../../config/samples/"+file)
		sample.SetNamespace(space)
		err := cluster.Client.Create(t.Context(), sample, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
