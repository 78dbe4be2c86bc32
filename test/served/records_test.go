package served

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
	recordsv1alpha1 "github.com/mainstay-platform/mainstay/api/records/v1alpha1"
)

// TestWritesOnce checks that each change of a Llama is one write of its record, and that a request
// without a change is none.
func TestWritesOnce(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	namespace := newNamespace(t)
	key := client.ObjectKey{Namespace: namespace, Name: "perla"}
	llama := newLlama(namespace, "perla")
	expectWrites := func(what string, want int, write func() error) {
		t.Helper()
		before := writes(t, namespace)
		g.Expect(write()).To(gomega.Succeed(), what)
		g.Expect(writes(t, namespace)-before).To(gomega.Equal(want), what)
	}
	merge := func(text string, options ...client.PatchOption) func() error {
		return func() error {
			return cluster.client.Patch(t.Context(), newLlama(namespace, "perla"), client.RawPatch(types.MergePatchType, []byte(text)), options...)
		}
	}
	expectWrites("a create as a dry-run", 0, func() error {
		return cluster.client.Create(t.Context(), newLlama(namespace, "perla"), client.DryRunAll)
	})
	expectWrites("a create", 1, func() error { return cluster.client.Create(t.Context(), llama) })
	expectWrites("an update that changes nothing", 0, func() error { return cluster.client.Update(t.Context(), llama) })
	expectWrites("a patch that changes nothing", 0, merge(`{"spec":{"weight":120}}`))
	expectWrites("a patch", 1, merge(`{"spec":{"weight":121}}`))
	expectWrites("a patch as a dry-run", 0, merge(`{"spec":{"weight":122}}`, client.DryRunAll))
	apply := func() error {
		_, err := applied(t, newClient(t, cluster.config), key, "vet", `,"finalizers":["example.com/held"]`, `{"height":1.7}`)
		return err
	}
	expectWrites("an apply", 1, apply)
	expectWrites("the same again", 0, apply)
	expectWrites("a deletion as a dry-run", 0, func() error { return cluster.client.Delete(t.Context(), llama, client.DryRunAll) })
	expectWrites("a deletion of what has finalizers", 1, func() error { return cluster.client.Delete(t.Context(), llama) })
	expectWrites("once more", 0, func() error { return cluster.client.Delete(t.Context(), llama) })
	expectWrites("its last finalizer: one for the record's finalizer, one for the record", 2, merge(`{"metadata":{"finalizers":null}}`))
	g.Expect(apierrors.IsNotFound(cluster.client.Get(t.Context(), key, &recordsv1alpha1.LlamaRecord{}))).To(gomega.BeTrue())
}

// TestRecordIsNoLlama checks that the garbage collector's actions on a Llama do not affect its
// record.
func TestRecordIsNoLlama(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	namespace := newNamespace(t)
	llama := newLlama(namespace, "perla")
	llama.Labels = map[string]string{"herd": "north"}
	llama.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "herd", UID: "1a2b"}}
	g.Expect(cluster.client.Create(t.Context(), llama)).To(gomega.Succeed())
	record := &recordsv1alpha1.LlamaRecord{}
	g.Expect(cluster.client.Get(t.Context(), client.ObjectKeyFromObject(llama), record)).To(gomega.Succeed())
	g.Expect(record.Labels).To(gomega.Equal(llama.Labels))
	g.Expect(record.ResourceVersion).To(gomega.Equal(llama.ResourceVersion))
	g.Expect(record.UID).NotTo(gomega.Equal(llama.UID))
	g.Expect(record.OwnerReferences).To(gomega.BeEmpty())
	g.Expect(record.Finalizers).To(gomega.BeEmpty())
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationOrphan, metav1.DeletePropagationForeground} {
		g.Expect(cluster.client.Delete(t.Context(), llama, client.PropagationPolicy(policy))).To(gomega.Succeed())
		g.Expect(cluster.client.Get(t.Context(), client.ObjectKeyFromObject(llama), record)).To(gomega.Succeed())
		g.Expect(record.Finalizers).To(gomega.Equal([]string{recordsv1alpha1.Finalizer}), "after a deletion with %s", policy)
		g.Expect(record.DeletionTimestamp).To(gomega.BeNil(), "only the Llama is being deleted")
	}
}

// TestRecordDeleted checks that the deletion of a record, as with its namespace, deletes the Llama,
// which waits for its finalizers.
func TestRecordDeleted(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	namespace := newNamespace(t)
	free, held := newLlama(namespace, "free"), newLlama(namespace, "held")
	held.Finalizers = []string{"example.com/held"}
	for _, llama := range []*farmv1alpha1.Llama{free, held} {
		g.Expect(cluster.client.Create(t.Context(), llama)).To(gomega.Succeed())
		g.Expect(cluster.client.Delete(t.Context(), &recordsv1alpha1.LlamaRecord{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
			Name: llama.Name}})).To(gomega.Succeed())
	}
	g.Expect(apierrors.IsNotFound(cluster.client.Get(t.Context(), client.ObjectKeyFromObject(free), free))).To(gomega.BeTrue())
	g.Expect(cluster.client.Get(t.Context(), client.ObjectKeyFromObject(held), held)).To(gomega.Succeed())
	g.Expect(held.DeletionTimestamp).NotTo(gomega.BeNil())
	g.Expect(held.Finalizers).To(gomega.Equal([]string{"example.com/held"}))
	g.Expect(cluster.client.Patch(t.Context(), held, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(gomega.Succeed())
	for _, object := range []client.Object{&farmv1alpha1.Llama{}, &recordsv1alpha1.LlamaRecord{}} {
		g.Expect(apierrors.IsNotFound(cluster.client.Get(t.Context(), client.ObjectKeyFromObject(held), object))).To(gomega.BeTrue(), "%T",
			object)
	}
}

// TestUnreadableRecord checks that an invalid record does not affect others, is reported as what it
// is, and can be repaired or deleted.
func TestUnreadableRecord(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	namespace := newNamespace(t)
	g.Expect(cluster.client.Create(t.Context(), newLlama(namespace, "perla"))).To(gomega.Succeed())
	followed := follow(t, newClient(t, cluster.config), namespace, &farmv1alpha1.LlamaList{})
	for _, name := range []string{"mended", "deleted"} {
		record := &recordsv1alpha1.LlamaRecord{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			Finalizers: []string{recordsv1alpha1.Finalizer}}}
		record.Kept = runtime.RawExtension{Raw: []byte(`{"spec":{"weight":"heavy"}}`)}
		g.Expect(cluster.client.Create(t.Context(), record)).To(gomega.Succeed())
	}
	g.Eventually(followed.copy).Should(gomega.HaveLen(3), "the watch continues")
	g.Expect(followed.problem()).NotTo(gomega.HaveOccurred())
	list := &farmv1alpha1.LlamaList{}
	g.Expect(cluster.client.List(t.Context(), list, client.InNamespace(namespace))).To(gomega.Succeed())
	g.Expect(list.Items).To(gomega.HaveLen(3))

	mended := &farmv1alpha1.Llama{}
	g.Expect(cluster.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "mended"}, mended)).To(gomega.Succeed())
	g.Expect(meta.FindStatusCondition(mended.Status.Conditions, farmv1alpha1.ConditionReady)).To(gomega.And(
		gomega.HaveField("Status", metav1.ConditionFalse), gomega.HaveField("Reason", farmv1alpha1.ReasonUnreadable),
		gomega.HaveField("Message", gomega.ContainSubstring("spec.weight")),
	))
	err := cluster.client.Patch(t.Context(), mended.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)))
	g.Expect(apierrors.IsInvalid(err)).To(gomega.BeTrue(), "an unreadable record is not overwritten: %v", err)
	mended.Spec, mended.Finalizers = farmv1alpha1.LlamaSpec{Weight: 1, Height: 1}, nil
	g.Expect(cluster.client.Update(t.Context(), mended)).To(gomega.Succeed())
	expectReady(t, mended, mended.Generation)

	deleted := newLlama(namespace, "deleted")
	g.Expect(cluster.client.Delete(t.Context(), deleted)).To(gomega.Succeed())
	g.Expect(cluster.client.Patch(t.Context(), deleted, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(gomega.Succeed())
	g.Expect(apierrors.IsNotFound(cluster.client.Get(t.Context(), client.ObjectKeyFromObject(deleted),
		&recordsv1alpha1.LlamaRecord{}))).To(gomega.BeTrue())
	g.Eventually(followed.copy).Should(gomega.HaveLen(2))
	g.Expect(followed.problem()).NotTo(gomega.HaveOccurred())
}

// TestTerminatingNamespace checks that no object can be created in a terminating namespace.
func TestTerminatingNamespace(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	namespace := newNamespace(t)
	llama := newLlama(namespace, "perla")
	g.Expect(cluster.client.Create(t.Context(), llama)).To(gomega.Succeed())
	g.Expect(cluster.client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(gomega.Succeed())
	err := cluster.client.Create(t.Context(), newLlama(namespace, "tinto"))
	g.Expect(apierrors.IsForbidden(err)).To(gomega.BeTrue(), "%v", err)
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("being terminated")))
	llama.Spec.Weight = 121
	g.Expect(cluster.client.Update(t.Context(), llama)).To(gomega.Succeed(), "existing objects can be changed")
	g.Expect(cluster.client.Delete(t.Context(), llama)).To(gomega.Succeed())
}

// TestSamples checks that the documented manifests are accepted under strict validation.
func TestSamples(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	namespace := newNamespace(t)
	files, err := filepath.Glob("../../config/samples/farm/*.yaml")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(files).NotTo(gomega.BeEmpty())
	for _, file := range files {
		text, err := os.ReadFile(file)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		sample := &unstructured.Unstructured{}
		g.Expect(yaml.Unmarshal(text, &sample.Object)).To(gomega.Succeed())
		sample.SetNamespace(namespace)
		g.Expect(cluster.client.Create(t.Context(), sample, client.FieldValidation("Strict"))).To(gomega.Succeed(), file)
	}
}

// TestKeptWhole checks that a Llama survives its conversion to a record and back without loss.
func TestKeptWhole(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	llama := newLlama(newNamespace(t), "perla")
	llama.Spec = farmv1alpha1.LlamaSpec{Weight: 120.1, Height: 1e-300}
	llama.Annotations = map[string]string{"text": "two\nlines, \"quoted\" <&> \u2028 \U0001F999"}
	g.Expect(cluster.client.Create(t.Context(), llama)).To(gomega.Succeed())
	record := &recordsv1alpha1.LlamaRecord{}
	g.Expect(cluster.client.Get(t.Context(), client.ObjectKeyFromObject(llama), record)).To(gomega.Succeed())
	kept := &farmv1alpha1.Llama{}
	g.Expect(json.Unmarshal(record.Kept.Raw, kept)).To(gomega.Succeed())
	got := &farmv1alpha1.Llama{}
	g.Expect(cluster.client.Get(t.Context(), client.ObjectKeyFromObject(llama), got)).To(gomega.Succeed())
	g.Expect(got.Spec).To(gomega.Equal(farmv1alpha1.LlamaSpec{Weight: 120.1, Height: 1e-300}))
	g.Expect(got.Annotations).To(gomega.Equal(map[string]string{"text": "two\nlines, \"quoted\" <&> \u2028 \U0001F999"}))
	kept.ResourceVersion = got.ResourceVersion
	got.TypeMeta, kept.TypeMeta = metav1.TypeMeta{}, metav1.TypeMeta{}
	g.Expect(cmp.Diff(got, kept)).To(gomega.BeEmpty())
}

// TestConcurrentWrites checks that writes without a version never conflict with other such writes,
// and that no change is lost.
func TestConcurrentWrites(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	llama := newLlama(newNamespace(t), "perla")
	g.Expect(cluster.client.Create(t.Context(), llama)).To(gomega.Succeed())
	const writers, each = 8, 10
	done := make(chan error, writers)
	for writer := range writers {
		go func(ctx context.Context) {
			for i := range each {
				text := fmt.Appendf(nil, `{"metadata":{"labels":{"w%d-%d":"x"}}}`, writer, i)
				if err := cluster.client.Patch(ctx, llama.DeepCopy(), client.RawPatch(types.MergePatchType, text)); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}(t.Context())
	}
	for range writers {
		g.Expect(<-done).To(gomega.Succeed())
	}
	g.Expect(cluster.client.Get(t.Context(), client.ObjectKeyFromObject(llama), llama)).To(gomega.Succeed())
	g.Expect(llama.Labels).To(gomega.HaveLen(writers * each))
}
