package integration

import (
	"slices"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// queueKind is a kind of somebody else.
var queueKind = schema.GroupVersionKind{Group: "mq.example.com", Version: "v1", Kind: "Queue"}

// queues returns its definition.
func queues() *apiextensionsv1.CustomResourceDefinition {
	keep := true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "queues." + queueKind.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: queueKind.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "queues", Singular: "queue", Kind: queueKind.Kind, ListKind: "QueueList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: queueKind.Version, Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &keep,
				}},
			}},
		},
	}
}

// withQueues lets stacks have objects of that kind.
func withQueues(settings *setup.Settings) {
	settings.StackObjects = []string{"queues.v1.mq.example.com/Queue"}
}

// TestStackObjects: an object of a kind that the cluster gets later is created then, kept, and its
// outputs are injected once it is ready. An edit is reverted, with an event. The second reconcile
// writes nothing.
func TestStackObjects(t *testing.T) {
	t.Parallel()
	space := namespace(t)
	manager := startManagerWith(t, space, nil, withQueues)
	queue := platformv1.Component{
		Name: "queue", Type: "object", Outputs: []platformv1.Output{{Name: "URI", Path: "status.uri"}},
		Spec: runtime.RawExtension{Raw: []byte(`{"apiVersion":"mq.example.com/v1","kind":"Queue","spec":{"size":3,"users":[{"name":"a"}]}}`)},
	}
	s := stacking(t, newStack(space, webPart("web", "queue"), queue))
	s.reports(func(status platformv1.AppStackStatus) bool {
		ready := meta.FindStatusCondition(status.Conditions, "Ready")
		return ready != nil && ready.Reason == "InvalidSpec"
	})
	definition := queues()
	s.Expect(definitionsOf(t, cluster.Config).Create(t.Context(), definition)).To(gomega.Succeed())
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(queueKind)
	key := client.ObjectKey{Namespace: space, Name: "shop-queue"}
	s.Eventually(func() error { return cluster.Client.Get(t.Context(), key, live) }).Should(gomega.Succeed())
	s.Expect(live.GetLabels()).To(gomega.HaveKeyWithValue("app.kubernetes.io/part-of", "shop"))

	write := func(value any, status bool, path ...string) {
		s.Eventually(func() error {
			if err := cluster.Client.Get(t.Context(), key, live); err != nil {
				return err
			}
			s.Expect(unstructured.SetNestedField(live.Object, value, path...)).To(gomega.Succeed())
			if status {
				return cluster.Client.Status().Update(t.Context(), live)
			}
			return cluster.Client.Update(t.Context(), live)
		}).Should(gomega.Succeed())
	}
	write(map[string]any{"uri": "mq:1", "observedGeneration": int64(1)}, true, "status")
	s.awaits("web")
	app := &msappsv1.WebApp{}
	s.Expect(cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: space, Name: "shop-web"}, app)).To(gomega.Succeed())
	s.Expect(app.Spec.Env).To(gomega.Equal([]corev1.EnvVar{{Name: "QUEUE_URI", Value: "mq:1"}}))

	write(int64(7), false, "spec", "size")
	size := func() (int64, error) {
		err := cluster.Client.Get(t.Context(), key, live)
		value, _, _ := unstructured.NestedInt64(live.Object, "spec", "size")
		return value, err
	}
	s.Eventually(size).Should(gomega.Equal(int64(3)))
	s.Eventually(eventsOn(s.stack)).WithContext(t.Context()).Should(gomega.ContainElement(gomega.ContainSubstring(
		"Reverted: a change of Queue " + space + "/shop-queue is undone: spec.size was changed from 3 to 7 by ")))
	write([]any{map[string]any{"name": "a", "defaulted": true}}, false, "spec", "users")
	before := manager.Settle(t)
	manager.Stop()
	again := startManagerWith(t, space, nil, withQueues)
	again.Settle(t)
	s.Expect(testenv.In(space, again.Requests.Since(0, "PATCH "))).To(gomega.BeEmpty(),
		"a restart writes nothing; before: %d requests", before)

	goesLast(s, key, live)
}

// goesLast removes the queue from the stack: it is deleted once the pods run without it.
func goesLast(s stacked, key client.ObjectKey, live *unstructured.Unstructured) {
	s.Helper()
	s.edit(func(spec *platformv1.AppStackSpec) { spec.Components = []platformv1.Component{webPart("web")} })
	s.Eventually(func() ([]corev1.EnvVar, error) {
		var without msappsv1.WebApp
		err := cluster.Client.Get(s.Context(), client.ObjectKey{Namespace: s.stack.Namespace, Name: "shop-web"}, &without)
		return without.Spec.Env, err
	}).Should(gomega.BeEmpty())
	s.reports(func(status platformv1.AppStackStatus) bool {
		return slices.Equal(of(status, "queue").WaitsFor, []string{"web"})
	})
	s.Expect(cluster.Client.Get(s.Context(), key, live)).To(gomega.Succeed())
	s.Expect(live.GetDeletionTimestamp()).To(gomega.BeNil(), "it goes before the pods run without it")
	s.ready("web")
	s.Eventually(func() (*metav1.Time, error) {
		err := cluster.Client.Get(s.Context(), key, live)
		return live.GetDeletionTimestamp(), err
	}).ShouldNot(gomega.BeNil())
}

// TestStackAdoptsAnObject: an object of another project that a stack takes over keeps what the
// manifest does not have: its operator or its owner may have set it.
func TestStackAdoptsAnObject(t *testing.T) {
	t.Parallel()
	g, space, kind := gomega.NewWithT(t), namespace(t), schema.GroupVersionKind{Group: "adopted.example.com", Version: "v1", Kind: "Queue"}
	definition := queues()
	definition.Name, definition.Spec.Group = "queues."+kind.Group, kind.Group
	g.Expect(definitionsOf(t, cluster.Config).Create(t.Context(), definition)).To(gomega.Succeed())
	g.Eventually(func() error {
		existing := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(1), "storage": "200Gi"}}}
		existing.SetGroupVersionKind(kind)
		existing.SetNamespace(space)
		existing.SetName("shop-queue")
		existing.SetLabels(map[string]string{"team": "a"})
		existing.SetAnnotations(map[string]string{api.AnnotationAdopt: "AppStack/shop", "mq.example.com/cookie": "c"})
		return cluster.Client.Create(t.Context(), existing)
	}).Should(gomega.Succeed())
	startManagerWith(t, space, nil, func(settings *setup.Settings) {
		settings.StackObjects = []string{"queues.v1.adopted.example.com/Queue"}
	})
	stacking(t, newStack(space, platformv1.Component{Name: "queue", Type: "object",
		Spec: runtime.RawExtension{Raw: []byte(`{"apiVersion":"adopted.example.com/v1","kind":"Queue","spec":{"size":3}}`)}}))
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(kind)
	g.Eventually(func() ([]metav1.OwnerReference, error) {
		err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: space, Name: "shop-queue"}, live)
		return live.GetOwnerReferences(), err
	}).Should(gomega.HaveLen(1))
	g.Expect(live.Object["spec"]).To(gomega.Equal(map[string]any{"size": int64(3), "storage": "200Gi"}))
	g.Expect(live.GetLabels()).To(gomega.HaveKeyWithValue("team", "a"))
	g.Expect(live.GetAnnotations()).To(gomega.HaveKeyWithValue("mq.example.com/cookie", "c"))
}

// unlistable returns the definition of a kind whose objects of the version v1 can't be read: they
// are stored as v1beta1, and nothing converts them.
func unlistable(group string) *apiextensionsv1.CustomResourceDefinition {
	definition := queues()
	definition.Name, definition.Spec.Group = "queues."+group, group
	stored := *definition.Spec.Versions[0].DeepCopy()
	stored.Name = "v1beta1"
	definition.Spec.Versions[0].Storage = false
	definition.Spec.Versions = append(definition.Spec.Versions, stored)
	definition.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/convert")},
			ConversionReviewVersions: []string{"v1"},
		},
	}
	return definition
}

// TestUnlistableStackObjects: a kind whose objects can't be listed does not keep a manager from
// starting, nor other stacks from being reconciled. It is used once they can be listed.
func TestUnlistableStackObjects(t *testing.T) {
	t.Parallel()
	g, space, kind := gomega.NewWithT(t), namespace(t), schema.GroupVersionKind{Group: "dead.example.com", Version: "v1", Kind: "Queue"}
	extensions, definition := definitionsOf(t, cluster.Config), unlistable(kind.Group)
	g.Expect(extensions.Create(t.Context(), definition)).To(gomega.Succeed())
	g.Eventually(func() error {
		old := &unstructured.Unstructured{}
		old.SetGroupVersionKind(kind.GroupKind().WithVersion("v1beta1"))
		old.SetNamespace(space)
		old.SetName("old")
		return cluster.Client.Create(t.Context(), old)
	}).Should(gomega.Succeed())
	startManagerWith(t, space, nil, func(settings *setup.Settings) {
		settings.StackObjects = []string{"queues.v1.dead.example.com/Queue"}
	})

	queue := platformv1.Component{Name: "queue", Type: "object",
		Spec: runtime.RawExtension{Raw: []byte(`{"apiVersion":"dead.example.com/v1","kind":"Queue","spec":{"size":3}}`)}}
	affected := newStack(space, queue)
	affected.Name = "affected"
	a := stacking(t, affected)
	stacking(t, newStack(space, webPart("web"))).awaits("web")
	a.reports(func(status platformv1.AppStackStatus) bool {
		ready := meta.FindStatusCondition(status.Conditions, "Ready")
		return ready != nil && ready.Reason == "InvalidSpec" && strings.Contains(ready.Message, "dead.example.com/v1 Queue can't be listed")
	})

	g.Eventually(func() error {
		if err := extensions.Get(t.Context(), client.ObjectKeyFromObject(definition), definition); err != nil {
			return err
		}
		definition.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
		return extensions.Update(t.Context(), definition)
	}).Should(gomega.Succeed())
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(kind)
	g.Eventually(func() error {
		return cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: space, Name: "affected-queue"}, live)
	}).Should(gomega.Succeed())
}
