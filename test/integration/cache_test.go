package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// withValkey lets the manager know images of caches.
func withValkey(settings *setup.Settings) {
	settings.InstanceImage = "mainstay:1.0"
	settings.ValkeyImages = map[string]string{"9": valkeyImage}
}

const valkeyImage = "registry.example.com/valkey:9.1.2"

// newCache returns a Cache of three lines.
func newCache(namespace string) *databasev1.Cache {
	return &databasev1.Cache{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sessions"},
		Spec:       databasev1.CacheSpec{Version: "9", Memory: resource.MustParse("256Mi"), Replicas: 3},
	}
}

// there returns a check that an object exists and is as wanted.
func there(namespace, name string, object client.Object, wanted func() bool) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
			return err
		}
		if !wanted() {
			return fmt.Errorf("%s is not as wanted: %+v", name, object)
		}
		return nil
	}
}

// runsCache creates the pod of an instance, as the StatefulSet's controller and our program would.
func runsCache(t *testing.T, c *databasev1.Cache, ordinal int, report contract.Report) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: fmt.Sprintf("%s-%d", c.Name, ordinal),
			Labels: map[string]string{
				api.LabelOwnerKind: "cache", api.LabelOwner: c.Name, api.LabelManagedBy: api.ManagedBy,
				appsv1.ControllerRevisionHashLabelKey: "sessions-1",
			},
			Annotations: map[string]string{api.AnnotationInstance: reported(t, report)},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "valkey", Image: valkeyImage}}},
	}
	create(t, pod)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	pod.Status.Phase = corev1.PodRunning
	if err := cluster.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

func reported(t *testing.T, report contract.Report) string {
	t.Helper()
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// cacheSays lets an instance report something else.
func cacheSays(t *testing.T, pod *corev1.Pod, report contract.Report) {
	t.Helper()
	before := pod.DeepCopy()
	pod.Annotations[api.AnnotationInstance] = reported(t, report)
	if err := cluster.Client.Patch(t.Context(), pod, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// TestCacheLives: from the three lines to children, to a primary that is in the status, to a
// failover that is reported, to hibernation; what was edited is undone, and at rest nothing is
// written.
func TestCacheLives(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	recorded := &testenv.Requests{}
	c := newCache(namespace(t))
	startManagerWith(t, c.Namespace, recorded, withValkey)
	create(t, c)
	set, live := &appsv1.StatefulSet{}, &databasev1.Cache{}
	eventually := func(name string, object client.Object, wanted func() bool, why string) {
		t.Helper()
		g.Eventually(there(c.Namespace, name, object, wanted)).WithContext(t.Context()).Should(gomega.Succeed(), why)
	}
	eventually("sessions", set, always, "no StatefulSet")
	checkCacheChildren(t, c, set)
	following := contract.Report{Role: contract.Replica, State: "Following", Term: 2}
	first := runsCache(t, c, 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 2, Provided: true})
	second := runsCache(t, c, 1, following)
	runsCache(t, c, 2, following)
	is := func(phase databasev1.CachePhase, primary, instances string) func() bool {
		return func() bool {
			return live.Status.Phase == phase && live.Status.Primary == primary && live.Status.InstanceSummary == instances
		}
	}
	eventually("sessions", live, is("Running", "sessions-0", "3/3"), "it does not run")
	g.Expect(meta.IsStatusConditionTrue(live.Status.Conditions, databasev1.ConditionReplicated)).To(gomega.BeTrue())

	quiet := recorded.Settle(t)
	settings := &corev1.ConfigMap{}
	g.Expect(there(c.Namespace, "sessions-config", settings, always)(t.Context())).To(gomega.Succeed())
	settings.Data[contract.SettingsKey] = "edited"
	g.Expect(cluster.Client.Update(t.Context(), settings)).To(gomega.Succeed())
	eventually("sessions-config", settings, func() bool { return settings.Data[contract.SettingsKey] != "edited" }, "an edit is not undone")
	for _, call := range testenv.In(c.Namespace, recorded.Since(quiet, "POST ", "PATCH ", "DELETE ", "PUT ")) {
		g.Expect(call).To(gomega.Or(gomega.ContainSubstring("/configmaps/sessions-config"), gomega.ContainSubstring("/caches/sessions/status")),
			"more is written than what was edited")
	}

	cacheSays(t, first, contract.Report{State: "Starting"})
	eventually("sessions", live, func() bool { return live.Status.Phase == databasev1.CachePhaseFailingOver }, "no failover is reported")
	next := contract.Report{Role: contract.Primary, State: "Leading", Term: 3, Provided: true, Cause: string(election.Gone), Gap: 2}
	cacheSays(t, second, next)
	cacheSays(t, first, contract.Report{Role: contract.Replica, State: "Following", Term: 3})
	eventually("sessions", live, func() bool {
		change := live.Status.PrimaryChange
		return live.Status.Primary == "sessions-1" && change != nil && change.From == "sessions-0" && !change.Planned
	}, "the next primary is not in the status")

	hibernateCache(t, c)
}

// checkCacheChildren checks that everything that instances need is there, and no volume.
func checkCacheChildren(t *testing.T, c *databasev1.Cache, set *appsv1.StatefulSet) {
	t.Helper()
	g := gomega.NewWithT(t)
	g.Eventually(there(c.Namespace, "sessions", &policyv1.PodDisruptionBudget{}, always)).WithContext(t.Context()).Should(gomega.Succeed())
	for name, object := range map[string]client.Object{
		"sessions-certificates": &corev1.Secret{}, "sessions-app": &corev1.Secret{}, "sessions-metrics": &corev1.Secret{},
		"sessions-config": &corev1.ConfigMap{}, "sessions-ca": &corev1.ConfigMap{}, "sessions-instance": &rbacv1.Role{},
		"sessions": &coordinationv1.Lease{}, "sessions-rw": &discoveryv1.EndpointSlice{}, "sessions-ro": &corev1.Service{},
	} {
		g.Expect(there(c.Namespace, name, object, always)(t.Context())).To(gomega.Succeed(), name)
	}
	g.Expect(there(c.Namespace, "sessions", &networkingv1.NetworkPolicy{}, always)(t.Context())).To(gomega.Succeed())
	claims := &corev1.PersistentVolumeClaimList{}
	g.Expect(cluster.Client.List(t.Context(), claims, client.InNamespace(c.Namespace))).To(gomega.Succeed())
	g.Expect(claims.Items).To(gomega.BeEmpty(), "a cache in memory has volumes")
	server := set.Spec.Template.Spec.Containers[0]
	g.Expect(server.Name + " " + server.Image).To(gomega.Equal("valkey " + valkeyImage))
}

// hibernateCache stops the instances of a cache, and checks that the rest stays.
func hibernateCache(t *testing.T, c *databasev1.Cache) {
	t.Helper()
	g, set, live := gomega.NewWithT(t), &appsv1.StatefulSet{}, c.DeepCopy()
	slice := &discoveryv1.EndpointSlice{}
	g.Expect(there(c.Namespace, "sessions-rw", slice, always)(t.Context())).To(gomega.Succeed())
	slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.7"}}}
	g.Expect(cluster.Client.Update(t.Context(), slice, client.FieldOwner(naming.Manager("instance")))).To(gomega.Succeed())
	g.Expect(cluster.Client.Patch(t.Context(), live, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"hibernated":true}}`)))).
		To(gomega.Succeed())
	g.Eventually(there(c.Namespace, "sessions", set, func() bool { return *set.Spec.Replicas == 0 })).WithContext(t.Context()).
		Should(gomega.Succeed(), "it does not hibernate")
	for ordinal := range 3 {
		g.Expect(cluster.Client.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: fmt.Sprintf("sessions-%d", ordinal),
		}}, client.GracePeriodSeconds(0))).To(gomega.Succeed())
	}
	g.Eventually(there(c.Namespace, "sessions", live, func() bool {
		return live.Status.Phase == databasev1.CachePhaseHibernated && live.Status.InstanceSummary == "0/0" && live.Status.Primary == ""
	})).WithContext(t.Context()).Should(gomega.Succeed(), "it does not say that it hibernates")
	g.Eventually(there(c.Namespace, "sessions-rw", slice, func() bool { return len(slice.Endpoints) == 0 })).WithContext(t.Context()).
		Should(gomega.Succeed(), "its Service leads to an address that another pod may get")
	g.Expect(there(c.Namespace, "sessions-rw", &corev1.Service{}, always)(t.Context())).To(gomega.Succeed(), "the Services are gone")
}

// TestCachePersists: with persistence each instance has a volume, which outlives the Cache.
func TestCachePersists(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	c := newCache(namespace(t))
	c.Spec.Persistence = &databasev1.CachePersistence{Storage: resource.MustParse("1Gi")}
	startManagerWith(t, c.Namespace, nil, withValkey)
	create(t, c)
	set, claim := &appsv1.StatefulSet{}, &corev1.PersistentVolumeClaim{}
	g.Eventually(there(c.Namespace, "sessions", set, always)).WithContext(t.Context()).Should(gomega.Succeed())
	g.Expect(there(c.Namespace, "data-sessions-2", claim, always)(t.Context())).To(gomega.Succeed())
	g.Expect(claim.OwnerReferences).To(gomega.BeEmpty(), "a retained volume goes with its owner")
	g.Expect(set.Spec.VolumeClaimTemplates).To(gomega.HaveLen(1))
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"persistence":null}}`))
	err := cluster.Client.Patch(t.Context(), c.DeepCopy(), patch)
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("can't be added or removed")))
	reclaimsVolumes(t, c)
}

// reclaimsVolumes scales a cache of three in, and lets the volumes of the removed instances be
// deleted.
func reclaimsVolumes(t *testing.T, c *databasev1.Cache) {
	t.Helper()
	g := gomega.NewWithT(t)
	change := func(spec string) {
		t.Helper()
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":`+spec+`}`))
		g.Expect(cluster.Client.Patch(t.Context(), c.DeepCopy(), patch)).To(gomega.Succeed())
	}
	deleted := func(ctx context.Context) (ordinals []int, err error) {
		for ordinal := range 3 {
			claim := &corev1.PersistentVolumeClaim{}
			if err := there(c.Namespace, fmt.Sprintf("data-sessions-%d", ordinal), claim, always)(ctx); err != nil {
				return nil, err
			}
			if claim.DeletionTimestamp != nil {
				ordinals = append(ordinals, ordinal)
			}
		}
		return ordinals, nil
	}
	g.Eventually(func(ctx context.Context) error { return leads(ctx, c, "sessions-0") }).WithContext(t.Context()).Should(gomega.Succeed())
	observedRevision(t, c, "sessions-1")
	runsCache(t, c, 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 2, Provided: true})
	change(`{"replicas":1}`)
	set := &appsv1.StatefulSet{}
	g.Eventually(there(c.Namespace, "sessions", set, func() bool { return *set.Spec.Replicas == 1 })).WithContext(t.Context()).
		Should(gomega.Succeed())
	observedRevision(t, c, "sessions-1")
	live := &databasev1.Cache{}
	g.Eventually(there(c.Namespace, "sessions", live, func() bool {
		return live.Status.Phase == databasev1.CachePhaseRunning && live.Status.InstanceSummary == "1/1"
	})).WithContext(t.Context()).Should(gomega.Succeed())
	g.Expect(deleted(t.Context())).To(gomega.BeEmpty(), "volumes are deleted without a word of the user")
	change(`{"reclaim":"Delete"}`)
	g.Eventually(deleted).WithContext(t.Context()).Should(gomega.Equal([]int{1, 2}))
}

// TestCachePassword: the password of a user's Secret is in the one with which applications connect,
// and follows it; one that is missing changes nothing, is named, and is noticed once it exists.
func TestCachePassword(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	c := newCache(namespace(t))
	c.Spec.PasswordSecret = "mine"
	startManagerWith(t, c.Namespace, nil, withValkey)
	create(t, c)
	live, secret := &databasev1.Cache{}, &corev1.Secret{}
	g.Eventually(there(c.Namespace, "sessions", live, func() bool {
		ready := meta.FindStatusCondition(live.Status.Conditions, databasev1.ConditionReady)
		return ready != nil && ready.Reason == databasev1.ReasonPasswordUnavailable && strings.Contains(ready.Message, "mine")
	})).WithContext(t.Context()).Should(gomega.Succeed())
	err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: c.Namespace, Name: "sessions"}, &appsv1.StatefulSet{})
	g.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue(), "pods are made without a password: %v", err)

	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: "mine"},
		Data: map[string][]byte{"password": []byte("first-password")}})
	has := func(password string) func() bool {
		return func() bool {
			return string(secret.Data["password"]) == password && strings.Contains(string(secret.Data["uri"]), ":"+password+"@sessions-rw.")
		}
	}
	g.Eventually(there(c.Namespace, "sessions-app", secret, has("first-password"))).WithContext(t.Context()).Should(gomega.Succeed())
	g.Eventually(there(c.Namespace, "sessions", &appsv1.StatefulSet{}, always)).WithContext(t.Context()).Should(gomega.Succeed())

	next := client.RawPatch("application/merge-patch+json", []byte(`{"stringData":{"password":"second-password"}}`))
	mine := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: "mine"}}
	g.Expect(cluster.Client.Patch(t.Context(), mine, next)).To(gomega.Succeed())
	// No Secret is watched here: while the password can be used, another one is noticed with the next
	// change.
	touch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"maxMemoryPercent":71}}`))
	g.Expect(cluster.Client.Patch(t.Context(), live, touch)).To(gomega.Succeed())
	g.Eventually(there(c.Namespace, "sessions-app", secret, has("second-password"))).WithContext(t.Context()).Should(gomega.Succeed())
	g.Expect(string(secret.Data["password.previous"])).To(gomega.Equal("first-password"), "the former password is not accepted meanwhile")
}

// TestCacheBesideAnother: an object of another owner with a child's name is not touched, and named
// with how to allow it to be taken over.
func TestCacheBesideAnother(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	c := newCache(namespace(t))
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: "sessions-app"}, Data: map[string][]byte{"mine": []byte("x")}})
	startManagerWith(t, c.Namespace, nil, withValkey)
	create(t, c)
	live, secret := &databasev1.Cache{}, &corev1.Secret{}
	g.Eventually(there(c.Namespace, "sessions", live, func() bool {
		ready := meta.FindStatusCondition(live.Status.Conditions, databasev1.ConditionReady)
		return ready != nil && ready.Reason == api.ReasonConflict && strings.Contains(ready.Message, "Cache/sessions")
	})).WithContext(t.Context()).Should(gomega.Succeed())
	g.Expect(there(c.Namespace, "sessions-app", secret, func() bool { return len(secret.Data) == 1 })(t.Context())).To(gomega.Succeed())
	err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: c.Namespace, Name: "sessions"}, &appsv1.StatefulSet{})
	g.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue(), "pods would use a foreign Secret: %v", err)
}

// testCaches: the default policy's production admits a Cache that has a limit of cpu and an allowed
// image, and refuses the others. Memory is in its spec anyway.
func (s *governed) testCaches(t *testing.T) {
	g := gomega.NewWithT(t)
	enough := func(c *databasev1.Cache) {
		c.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	}
	for want, change := range map[string]func(*databasev1.Cache){
		`spec.resources.limits[cpu]: Required value: must be more than 0 (policy "default", rule "production.requireResourceLimits")`: func(
			c *databasev1.Cache) {
			c.Spec.Image = "docker.io/mainstay/valkey:9"
		},
		`spec.version: Invalid value: "` + valkeyImage + `": must be an image of docker.io/mainstay ` +
			`(policy "default", rule "production.allowedRegistries")`: enough,
		`spec.resources.limits.memory: Forbidden: it is computed from spec.memory`: func(c *databasev1.Cache) {
			c.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
		},
	} {
		c := newCache("production")
		change(c)
		g.Expect(s.client.Create(t.Context(), c)).To(gomega.MatchError(gomega.ContainSubstring(want)))
	}
	c := newCache("production")
	enough(c)
	c.Spec.Image = "docker.io/mainstay/valkey:9"
	s.create(t, c)
	g.Eventually(func(ctx context.Context) error {
		return s.client.Get(ctx, client.ObjectKeyFromObject(c), &appsv1.StatefulSet{})
	}).WithContext(t.Context()).Should(gomega.Succeed())
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":6}}`))
	err := s.client.SubResource("scale").Patch(t.Context(), c.DeepCopy(), patch)
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("spec.replicas: " + testenv.InvalidValue(t, s.config, "6", "integer"))))
}

// TestCacheInAStack: a WebApp that depends on a Cache is bound to it.
func TestCacheInAStack(t *testing.T) {
	t.Parallel()
	space := namespace(t)
	startManagerWith(t, space, nil, withValkey)
	s := stacking(t, newStack(space, webPart("web", "sessions"), platformv1.Component{Name: "sessions", Type: "cache",
		Spec: runtime.RawExtension{Raw: []byte(`{"version":"9","memory":"64Mi"}`)}}))
	c := newCache(space)
	c.Name = "shop-sessions"
	s.Eventually(there(space, c.Name, &appsv1.StatefulSet{}, always)).WithContext(t.Context()).Should(gomega.Succeed())
	s.awaits()
	runsCache(t, c, 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 1, Provided: true})
	s.awaits("web")
	app := &msappsv1.WebApp{}
	s.Expect(there(space, "shop-web", app, always)(t.Context())).To(gomega.Succeed())
	s.Expect(app.Spec.Bindings).To(gomega.Equal([]msappsv1.Binding{{Kind: "Cache", Name: "shop-sessions"}}))
}
