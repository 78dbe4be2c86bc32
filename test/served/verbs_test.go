package served

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
	recordsv1alpha1 "github.com/mainstay-platform/mainstay/api/records/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/aggregated"
)

// TestVerbs checks all verbs of Llamas, stored in the cluster and in memory.
func TestVerbs(t *testing.T) {
	t.Parallel()
	t.Run("records", func(t *testing.T) {
		t.Parallel()
		verbs(t, newClient(t, cluster.config))
	})
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		server := newServer(t, grantAll, func(options *aggregated.Options) {
			options.Resources, options.LlamaStorage = []string{"llamas"}, "memory"
		})
		server.awaitReady(t)
		asked := newClient(t, server.directly())
		// This subtest ends when its parallel subtests have ended.
		t.Run("verbs", func(t *testing.T) { verbs(t, asked) })
		records := &recordsv1alpha1.LlamaRecordList{}
		if err := cluster.client.List(t.Context(), records, client.MatchingLabels{"made-by": "create"}); err != nil {
			t.Fatal(err)
		}
		llamas := &farmv1alpha1.LlamaList{}
		if err := asked.List(t.Context(), llamas); err != nil {
			t.Fatal(err)
		}
		if len(llamas.Items) == 0 {
			t.Error("nothing is in memory")
		}
		for _, llama := range llamas.Items {
			for _, record := range records.Items {
				if record.Namespace == llama.Namespace {
					t.Errorf("a Llama in memory has a record %s/%s", record.Namespace, record.Name)
				}
			}
		}
	})
}

func verbs(t *testing.T, asked client.WithWatch) {
	for name, run := range map[string]func(*testing.T, client.WithWatch, string){
		"create": create, "names": namesOfLlamas, "update": update, "patch": patch, "apply": apply, "status": status,
		"preconditions": preconditions,
		"finalizers":    finalizers, "propagation": propagation, "collection": collection, "dry-run": dryRun, "invalid": invalid,
		"strict":     strict,
		"namespaces": namespaces,
		"pages":      pages,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, asked, newNamespace(t))
		})
	}
}

func create(t *testing.T, asked client.WithWatch, namespace string) {
	g := gomega.NewWithT(t)
	llama := newLlama(namespace, "perla")
	llama.Labels = map[string]string{"made-by": "create"}
	llama.Status.Conditions = []metav1.Condition{{Type: "Shorn", Status: metav1.ConditionTrue, Reason: "Summer",
		LastTransitionTime: metav1.Now()}}
	llama.Generation = 7
	g.Expect(asked.Create(t.Context(), llama)).To(gomega.Succeed())
	g.Expect(llama.UID).NotTo(gomega.BeEmpty())
	g.Expect(llama.CreationTimestamp.IsZero()).To(gomega.BeFalse())
	g.Expect(llama.Generation).To(gomega.Equal(int64(1)))
	expectReady(t, llama, 1)
	g.Expect(llama.Status.Conditions).To(gomega.HaveLen(1), "a create does not set the status")
	g.Expect(apierrors.IsAlreadyExists(asked.Create(t.Context(), newLlama(namespace, "perla")))).To(gomega.BeTrue())

	got := &farmv1alpha1.Llama{}
	g.Expect(asked.Get(t.Context(), client.ObjectKeyFromObject(llama), got)).To(gomega.Succeed())
	g.Expect(cmp.Diff(llama, got)).To(gomega.BeEmpty(), "created and read")
	list := &farmv1alpha1.LlamaList{}
	g.Expect(asked.List(t.Context(), list, client.InNamespace(namespace),
		client.MatchingFields{"metadata.name": "perla"})).To(gomega.Succeed())
	g.Expect(cmp.Diff([]farmv1alpha1.Llama{*llama}, list.Items)).To(gomega.BeEmpty(), "created and listed")

	err := asked.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "none"}, got)
	g.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue())
	g.Expect(err).To(gomega.MatchError(`llamas.farm.mainstay.dev "none" not found`))
}

func namesOfLlamas(t *testing.T, asked client.WithWatch, namespace string) {
	g := gomega.NewWithT(t)
	names := map[string]bool{}
	for range 3 {
		llama := newLlama(namespace, "")
		llama.GenerateName = "young-"
		g.Expect(asked.Create(t.Context(), llama)).To(gomega.Succeed())
		g.Expect(llama.Name).To(gomega.MatchRegexp(`^young-[a-z0-9]{5}$`))
		names[llama.Name] = true
	}
	g.Expect(names).To(gomega.HaveLen(3))
	g.Expect(asked.Create(t.Context(), newLlama(namespace, "dolly.the.llama"))).To(gomega.Succeed())
	for _, name := range []string{"Perla", "a_b", "-a", strings.Repeat("a", 254)} {
		err := asked.Create(t.Context(), newLlama(namespace, name))
		g.Expect(apierrors.IsInvalid(err)).To(gomega.BeTrue(), "%q: %v", name, err)
		g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("metadata.name: Invalid value")), name)
	}
}

func update(t *testing.T, asked client.WithWatch, namespace string) {
	g := gomega.NewWithT(t)
	llama := newLlama(namespace, "perla")
	g.Expect(asked.Create(t.Context(), llama)).To(gomega.Succeed())
	old := llama.DeepCopy()
	llama.Spec.Weight = 130
	g.Expect(asked.Update(t.Context(), llama)).To(gomega.Succeed())
	g.Expect(llama.Generation).To(gomega.Equal(int64(2)))
	expectReady(t, llama, 2)
	llama.Annotations = map[string]string{"a": "b"}
	g.Expect(asked.Update(t.Context(), llama)).To(gomega.Succeed())
	g.Expect(llama.Generation).To(gomega.Equal(int64(2)), "only changes of the spec increase the generation")
	g.Expect(llama.UID).To(gomega.Equal(old.UID))

	err := asked.Update(t.Context(), old)
	g.Expect(apierrors.IsConflict(err)).To(gomega.BeTrue(), "an old version: %v", err)
	err = asked.Update(t.Context(), newLlama(namespace, "none"))
	g.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue(), "an update creates none: %v", err)

	same := llama.DeepCopy()
	g.Expect(asked.Update(t.Context(), same)).To(gomega.Succeed())
	g.Expect(same.ResourceVersion).To(gomega.Equal(llama.ResourceVersion), "an update without a change writes nothing")
	anew := newLlama(namespace, "perla")
	g.Expect(asked.Update(t.Context(), anew)).To(gomega.Succeed(), "without a version the last write wins")
	g.Expect(anew.Spec.Weight).To(gomega.Equal(120.0))
	g.Expect(anew.Annotations).To(gomega.BeEmpty())
}

func patch(t *testing.T, asked client.WithWatch, namespace string) {
	g := gomega.NewWithT(t)
	llama := newLlama(namespace, "perla")
	g.Expect(asked.Create(t.Context(), llama)).To(gomega.Succeed())
	patched := llama.DeepCopy()
	g.Expect(asked.Patch(t.Context(), patched, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"height":2},"metadata":{"labels":{"herd":"north"}}}`)))).To(gomega.Succeed())
	g.Expect(patched.Spec).To(gomega.Equal(farmv1alpha1.LlamaSpec{Weight: 120, Height: 2}))
	g.Expect(patched.Labels).To(gomega.Equal(map[string]string{"herd": "north"}))
	g.Expect(patched.Generation).To(gomega.Equal(int64(2)))
	g.Expect(asked.Patch(t.Context(), patched, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/metadata/labels/herd"}]`)))).To(gomega.Succeed())
	g.Expect(patched.Labels).To(gomega.BeEmpty())
	g.Expect(asked.Patch(t.Context(), patched, client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":{"weight":99}}`)))).To(gomega.Succeed())
	g.Expect(patched.Spec).To(gomega.Equal(farmv1alpha1.LlamaSpec{Weight: 99, Height: 2}))
	version := patched.ResourceVersion
	g.Expect(asked.Patch(t.Context(), patched, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"height":2}}`)))).To(gomega.Succeed())
	g.Expect(patched.ResourceVersion).To(gomega.Equal(version), "a patch without a change writes nothing")

	err := asked.Patch(t.Context(), patched, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"spec":{"height":3}}`, llama.ResourceVersion)))
	g.Expect(apierrors.IsConflict(err)).To(gomega.BeTrue(), "of an old version: %v", err)
	err = asked.Patch(t.Context(), newLlama(namespace, "none"), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"height":3}}`)))
	g.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue(), "%v", err)
}

// applied applies a Llama as a field manager. labels has the metadata besides the name.
func applied(t *testing.T, asked client.WithWatch, key client.ObjectKey, manager, labels, spec string,
	options ...client.PatchOption) (*farmv1alpha1.Llama, error) {
	t.Helper()
	llama := &farmv1alpha1.Llama{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	body := fmt.Appendf(nil, `{"apiVersion":"farm.mainstay.dev/v1alpha1","kind":"Llama","metadata":{"name":%q%s},"spec":%s}`, key.Name, labels, spec)
	err := asked.Patch(t.Context(), llama, client.RawPatch(types.ApplyPatchType, body), append(options, client.FieldOwner(manager))...)
	return llama, err
}

func apply(t *testing.T, asked client.WithWatch, namespace string) {
	g := gomega.NewWithT(t)
	key := client.ObjectKey{Namespace: namespace, Name: "perla"}
	first, err := applied(t, asked, key, "vet", `,"labels":{"herd":"north"}`, `{"weight":120,"height":1.7}`)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	expectReady(t, first, 1)
	g.Expect(first.ManagedFields).To(gomega.HaveLen(1))
	g.Expect(first.ManagedFields[0].Manager).To(gomega.Equal("vet"))
	g.Expect(first.ManagedFields[0].FieldsV1.GetRawString()).NotTo(gomega.ContainSubstring("status"),
		"an apply does not own the status")

	again, err := applied(t, asked, key, "vet", `,"labels":{"herd":"north"}`, `{"weight":120,"height":1.7}`)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(again.ResourceVersion).To(gomega.Equal(first.ResourceVersion), "an apply without a change writes nothing")

	_, err = applied(t, asked, key, "owner", "", `{"weight":125}`)
	g.Expect(apierrors.IsConflict(err)).To(gomega.BeTrue(), "another manager's field: %v", err)
	g.Expect(err).To(gomega.MatchError(gomega.And(gomega.ContainSubstring(`conflict with "vet"`), gomega.ContainSubstring(".spec.weight"))))
	forced, err := applied(t, asked, key, "owner", "", `{"weight":125}`, client.ForceOwnership)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(forced.Spec).To(gomega.Equal(farmv1alpha1.LlamaSpec{Weight: 125, Height: 1.7}))
	g.Expect(forced.Generation).To(gomega.Equal(int64(2)))

	unset, err := applied(t, asked, key, "vet", "", `{"height":1.7}`)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(unset.Labels).To(gomega.BeEmpty(), "a field that its manager no longer applies is removed")
	g.Expect(unset.Spec.Weight).To(gomega.Equal(125.0), "unless another manager applies it")
	_, err = applied(t, asked, key, "vet", "", `{}`)
	g.Expect(apierrors.IsInvalid(err)).To(gomega.BeTrue(), "a Llama needs a height: %v", err)
	_, err = applied(t, asked, key, "vet", "", `{"height":1.7,"humps":2}`)
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("humps")), "apply knows the fields")
}

func status(t *testing.T, asked client.WithWatch, namespace string) {
	g := gomega.NewWithT(t)
	llama := newLlama(namespace, "perla")
	llama.Labels = map[string]string{"herd": "north"}
	g.Expect(asked.Create(t.Context(), llama)).To(gomega.Succeed())
	changed := llama.DeepCopy()
	changed.Spec.Weight, changed.Labels = 1, nil
	shorn := metav1.Condition{Type: "Shorn", Status: metav1.ConditionTrue, Reason: "Summer",
		LastTransitionTime: metav1.NewTime(llama.CreationTimestamp.Time)}
	changed.Status.Conditions = []metav1.Condition{shorn, {Type: "Ready", Status: metav1.ConditionFalse, Reason: "Mine",
		LastTransitionTime: metav1.Now()}}
	g.Expect(asked.Status().Update(t.Context(), changed)).To(gomega.Succeed())
	g.Expect(changed.Spec).To(gomega.Equal(llama.Spec), "a status update keeps the spec")
	g.Expect(changed.Labels).To(gomega.Equal(llama.Labels))
	g.Expect(changed.Generation).To(gomega.Equal(int64(1)))
	expectReady(t, changed, 1)
	g.Expect(meta.FindStatusCondition(changed.Status.Conditions, "Shorn")).To(gomega.HaveField("Reason", "Summer"))

	changed.Spec.Weight, changed.Status = 121, farmv1alpha1.LlamaStatus{}
	g.Expect(asked.Update(t.Context(), changed)).To(gomega.Succeed())
	g.Expect(meta.FindStatusCondition(changed.Status.Conditions, "Shorn")).To(gomega.HaveField("Reason", "Summer"),
		"an update keeps the status")
	expectReady(t, changed, 2)

	gone := changed.DeepCopy()
	g.Expect(asked.Status().Patch(t.Context(), gone, client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":[]}}`)))).To(gomega.Succeed())
	g.Expect(gone.Status.Conditions).To(gomega.HaveLen(1))
	expectReady(t, gone, 2)
	wrong := gone.DeepCopy()
	wrong.Status.Conditions = append(wrong.Status.Conditions, metav1.Condition{Type: "Shorn"})
	g.Expect(apierrors.IsInvalid(asked.Status().Update(t.Context(), wrong))).To(gomega.BeTrue())
	err := asked.Status().Update(t.Context(), newLlama(namespace, "none"))
	g.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue(), "%v", err)
}

func preconditions(t *testing.T, asked client.WithWatch, namespace string) {
	g := gomega.NewWithT(t)
	llama := newLlama(namespace, "perla")
	g.Expect(asked.Create(t.Context(), llama)).To(gomega.Succeed())
	old, wrong := llama.ResourceVersion, types.UID("wrong")
	llama.Spec.Weight = 130
	g.Expect(asked.Update(t.Context(), llama)).To(gomega.Succeed())
	g.Expect(apierrors.IsConflict(asked.Delete(t.Context(), llama, client.Preconditions{UID: &wrong}))).To(gomega.BeTrue())
	g.Expect(apierrors.IsConflict(asked.Delete(t.Context(), llama, client.Preconditions{ResourceVersion: &old}))).To(gomega.BeTrue())
	g.Expect(asked.Get(t.Context(), client.ObjectKeyFromObject(llama), llama)).To(gomega.Succeed())
	g.Expect(asked.Delete(t.Context(), llama,
		client.Preconditions{UID: &llama.UID, ResourceVersion: &llama.ResourceVersion})).To(gomega.Succeed())
	g.Expect(apierrors.IsNotFound(asked.Get(t.Context(), client.ObjectKeyFromObject(llama), &farmv1alpha1.Llama{}))).To(gomega.BeTrue())
	g.Expect(apierrors.IsNotFound(asked.Delete(t.Context(), llama))).To(gomega.BeTrue())
	again := newLlama(namespace, "perla")
	g.Expect(asked.Create(t.Context(), again)).To(gomega.Succeed())
	g.Expect(again.UID).NotTo(gomega.Equal(llama.UID))
}

func finalizers(t *testing.T, asked client.WithWatch, namespace string) {
	g := gomega.NewWithT(t)
	llama := newLlama(namespace, "perla")
	llama.Finalizers = []string{"example.com/one", "example.com/two"}
	g.Expect(asked.Create(t.Context(), llama)).To(gomega.Succeed())
	g.Expect(asked.Delete(t.Context(), llama)).To(gomega.Succeed())
	deleted := &farmv1alpha1.Llama{}
	g.Expect(asked.Get(t.Context(), client.ObjectKeyFromObject(llama), deleted)).To(gomega.Succeed())
	g.Expect(deleted.DeletionTimestamp).NotTo(gomega.BeNil())
	version := deleted.ResourceVersion
	g.Expect(asked.Delete(t.Context(), deleted)).To(gomega.Succeed(), "once more")
	g.Expect(asked.Get(t.Context(), client.ObjectKeyFromObject(llama), deleted)).To(gomega.Succeed())
	g.Expect(deleted.ResourceVersion).To(gomega.Equal(version), "a second deletion changes nothing")

	deleted.Finalizers = []string{"example.com/three", "example.com/one"}
	err := asked.Update(t.Context(), deleted)
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("metadata.finalizers")), "no finalizer may be added during deletion")
	deleted.Finalizers = []string{"example.com/two"}
	g.Expect(asked.Update(t.Context(), deleted)).To(gomega.Succeed())
	deleted.Finalizers = nil
	g.Expect(asked.Update(t.Context(), deleted)).To(gomega.Succeed())
	g.Expect(apierrors.IsNotFound(asked.Get(t.Context(), client.ObjectKeyFromObject(llama), deleted))).To(gomega.BeTrue(),
		"deleted with its last finalizer")
	g.Expect(asked.Create(t.Context(), newLlama(namespace, "perla"))).To(gomega.Succeed(), "and its name is free")
}

func propagation(t *testing.T, asked client.WithWatch, namespace string) {
	g := gomega.NewWithT(t)
	for policy, finalizer := range map[metav1.DeletionPropagation]string{
		metav1.DeletePropagationForeground: metav1.FinalizerDeleteDependents, metav1.DeletePropagationOrphan: metav1.FinalizerOrphanDependents,
	} {
		llama := newLlama(namespace, "llama-"+strings.ToLower(string(policy)))
		g.Expect(asked.Create(t.Context(), llama)).To(gomega.Succeed())
		g.Expect(asked.Delete(t.Context(), llama, client.PropagationPolicy(policy))).To(gomega.Succeed())
		g.Expect(asked.Get(t.Context(), client.ObjectKeyFromObject(llama), llama)).To(gomega.Succeed(), "the garbage collector must find it")
		g.Expect(llama.Finalizers).To(gomega.Equal([]string{finalizer}))
		g.Expect(llama.DeletionTimestamp).NotTo(gomega.BeNil())
		llama.Finalizers = nil
		g.Expect(asked.Update(t.Context(), llama)).To(gomega.Succeed(), "as the garbage collector does")
		g.Expect(apierrors.IsNotFound(asked.Get(t.Context(), client.ObjectKeyFromObject(llama), llama))).To(gomega.BeTrue())
	}
	llama := newLlama(namespace, "background")
	g.Expect(asked.Create(t.Context(), llama)).To(gomega.Succeed())
	g.Expect(asked.Delete(t.Context(), llama, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(gomega.Succeed())
	g.Expect(apierrors.IsNotFound(asked.Get(t.Context(), client.ObjectKeyFromObject(llama), llama))).To(gomega.BeTrue())
}

func collection(t *testing.T, asked client.WithWatch, namespace string) {
	g := gomega.NewWithT(t)
	for i := range 6 {
		llama := newLlama(namespace, fmt.Sprintf("l%d", i))
		llama.Labels = map[string]string{"herd": []string{"north", "south"}[i%2]}
		g.Expect(asked.Create(t.Context(), llama)).To(gomega.Succeed())
	}
	g.Expect(asked.DeleteAllOf(t.Context(), &farmv1alpha1.Llama{}, client.InNamespace(namespace),
		client.MatchingLabels{"herd": "north"})).To(gomega.Succeed())
	left, err := listVersions(t.Context(), asked, &farmv1alpha1.LlamaList{}, namespace, "")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(left).To(gomega.And(gomega.HaveLen(3), gomega.HaveKey("l1"), gomega.HaveKey("l3"), gomega.HaveKey("l5")))
	g.Expect(asked.DeleteAllOf(t.Context(), &farmv1alpha1.Llama{}, client.InNamespace(namespace),
		client.MatchingFields{"metadata.name": "l3"})).To(gomega.Succeed())
	left, err = listVersions(t.Context(), asked, &farmv1alpha1.LlamaList{}, namespace, "")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(left).To(gomega.And(gomega.HaveLen(2), gomega.Not(gomega.HaveKey("l3"))))
}

func dryRun(t *testing.T, asked client.WithWatch, namespace string) {
	g := gomega.NewWithT(t)
	llama := newLlama(namespace, "perla")
	g.Expect(asked.Create(t.Context(), llama, client.DryRunAll)).To(gomega.Succeed())
	g.Expect(llama.UID).NotTo(gomega.BeEmpty())
	expectReady(t, llama, 1)
	g.Expect(apierrors.IsNotFound(asked.Get(t.Context(), client.ObjectKeyFromObject(llama), llama))).To(gomega.BeTrue())
	_, err := applied(t, asked, client.ObjectKey{Namespace: namespace, Name: "tinto"}, "vet", "", `{"weight":1,"height":1}`, client.DryRunAll)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	list := &farmv1alpha1.LlamaList{}
	g.Expect(asked.List(t.Context(), list, client.InNamespace(namespace))).To(gomega.Succeed())
	g.Expect(list.Items).To(gomega.BeEmpty())

	llama = newLlama(namespace, "perla")
	g.Expect(asked.Create(t.Context(), llama)).To(gomega.Succeed())
	changed := llama.DeepCopy()
	changed.Spec.Weight = 130
	g.Expect(asked.Update(t.Context(), changed, client.DryRunAll)).To(gomega.Succeed())
	g.Expect(changed.Generation).To(gomega.Equal(int64(2)), "the answer is that of a real update")
	g.Expect(asked.Patch(t.Context(), llama.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"height":3}}`)), client.DryRunAll)).To(gomega.Succeed())
	changed = llama.DeepCopy()
	changed.Status.Conditions = append(changed.Status.Conditions, metav1.Condition{
		Type: "Shorn", Status: metav1.ConditionTrue, Reason: "Summer", LastTransitionTime: metav1.Now(),
	})
	g.Expect(asked.Status().Update(t.Context(), changed, client.DryRunAll)).To(gomega.Succeed())
	g.Expect(asked.Delete(t.Context(), llama.DeepCopy(), client.DryRunAll)).To(gomega.Succeed())
	g.Expect(asked.Delete(t.Context(), llama.DeepCopy(), client.DryRunAll,
		client.PropagationPolicy(metav1.DeletePropagationForeground))).To(gomega.Succeed())
	g.Expect(asked.DeleteAllOf(t.Context(), &farmv1alpha1.Llama{}, client.InNamespace(namespace), client.DryRunAll)).To(gomega.Succeed())
	_, err = applied(t, asked, client.ObjectKeyFromObject(llama), "vet", "", `{"weight":1}`, client.DryRunAll, client.ForceOwnership)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	got := &farmv1alpha1.Llama{}
	g.Expect(asked.Get(t.Context(), client.ObjectKeyFromObject(llama), got)).To(gomega.Succeed())
	g.Expect(cmp.Diff(llama, got)).To(gomega.BeEmpty(), "the dry runs changed nothing")
	invalid := newLlama(namespace, "heavy")
	invalid.Spec.Weight = -1
	g.Expect(apierrors.IsInvalid(asked.Create(t.Context(), invalid, client.DryRunAll))).To(gomega.BeTrue())
}

// invalid checks that errors name the field, the given value and the accepted values.
func invalid(t *testing.T, asked client.WithWatch, namespace string) {
	g := gomega.NewWithT(t)
	g.Expect(asked.Create(t.Context(), newLlama(namespace, "perla"))).To(gomega.Succeed())
	for spec, says := range map[string][]string{
		`{"weight":0,"height":1}`:     {"spec.weight: Invalid value: 0: ", "must be greater than 0, for example spec.weight: 1.5"},
		`{"weight":-2.5,"height":1}`:  {"spec.weight: Invalid value: -2.5: ", "must be greater than 0"},
		`{"weight":1}`:                {"spec.height: Invalid value: 0: ", "must be greater than 0, for example spec.height: 1.5"},
		`{}`:                          {"spec.weight", "spec.height"},
		`{"weight":"1","height":1}`:   {".spec.weight: expected numeric"},
		`{"weight":1e999,"height":1}`: {"spec.weight", "expected numeric"},
	} {
		_, err := applied(t, asked, client.ObjectKey{Namespace: namespace, Name: "tinto"}, "vet", "", spec)
		expectSays(t, "apply "+spec, err, says...)
	}
	for spec, says := range map[string][]string{
		`{"weight":0}`:    {"spec.weight: Invalid value: 0: ", "must be greater than 0, for example spec.weight: 1.5"},
		`{"weight":null}`: {"spec.weight: Invalid value: 0: "},
		`{"weight":"1"}`:  {"weight", "string"},
	} {
		err := asked.Patch(t.Context(), newLlama(namespace, "perla"), client.RawPatch(types.MergePatchType, []byte(`{"spec":`+spec+`}`)))
		expectSays(t, "patch "+spec, err, says...)
	}
}

// strict checks that an unknown field is refused under strict validation, as with kubectl.
func strict(t *testing.T, asked client.WithWatch, namespace string) {
	g := gomega.NewWithT(t)
	patched := func(validation string) error {
		return asked.Patch(t.Context(), newLlama(namespace, "perla"), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"humps":2,"weight":7}}`)), client.FieldValidation(validation))
	}
	g.Expect(asked.Create(t.Context(), newLlama(namespace, "perla"))).To(gomega.Succeed())
	expectSays(t, "strict", patched("Strict"), `unknown field "spec.humps"`)
	llama := &farmv1alpha1.Llama{}
	g.Expect(asked.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "perla"}, llama)).To(gomega.Succeed())
	g.Expect(llama.Spec.Weight).To(gomega.Equal(120.0))
	g.Expect(patched("Ignore")).To(gomega.Succeed())
	g.Expect(asked.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "perla"}, llama)).To(gomega.Succeed())
	g.Expect(llama.Spec.Weight).To(gomega.Equal(7.0))
}

func namespaces(t *testing.T, asked client.WithWatch, namespace string) {
	g := gomega.NewWithT(t)
	other := newNamespace(t)
	here, there := newLlama(namespace, "perla"), newLlama(other, "perla")
	there.Spec.Weight = 99
	g.Expect(asked.Create(t.Context(), here)).To(gomega.Succeed())
	g.Expect(asked.Create(t.Context(), there)).To(gomega.Succeed())
	g.Expect(here.UID).NotTo(gomega.Equal(there.UID))
	g.Expect(asked.Delete(t.Context(), there)).To(gomega.Succeed())
	g.Expect(asked.Get(t.Context(), client.ObjectKeyFromObject(here), here)).To(gomega.Succeed())
	g.Expect(here.Spec.Weight).To(gomega.Equal(120.0))
	err := asked.Create(t.Context(), newLlama("no-such-namespace", "perla"))
	g.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue(), "a namespace that does not exist: %v", err)
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("no-such-namespace")))
}

// pages checks that a list in pages has each object once, in order of the keys, in one namespace
// and in all, with and without labels.
func pages(t *testing.T, asked client.WithWatch, namespace string) {
	g := gomega.NewWithT(t)
	spaces := []string{namespace, newNamespace(t)}
	slices.Sort(spaces)
	var all, north []string
	for _, in := range spaces {
		for i, name := range []string{"a", "b", "c", "d", "e"} {
			llama := newLlama(in, name)
			llama.Labels = map[string]string{"pages-of": namespace, "herd": []string{"north", "south"}[i%2]}
			g.Expect(asked.Create(t.Context(), llama)).To(gomega.Succeed())
			all = append(all, in+"/"+name)
			if i%2 == 0 {
				north = append(north, in+"/"+name)
			}
		}
	}
	ofOne := func(keys []string, in string) []string {
		return slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return !strings.HasPrefix(key, in+"/") })
	}
	labels := client.MatchingLabels{"pages-of": namespace, "herd": "north"}
	for _, in := range spaces {
		g.Expect(paged(t, asked, client.InNamespace(in))).To(gomega.Equal(ofOne(all, in)), "of one namespace")
		g.Expect(paged(t, asked, client.InNamespace(in), labels)).To(gomega.Equal(ofOne(north, in)), "of one namespace, with labels")
	}
	g.Expect(paged(t, asked, labels)).To(gomega.Equal(north), "of all namespaces, with labels")
	// The list has objects of other tests too.
	ours := slices.DeleteFunc(paged(t, asked), func(key string) bool { return !slices.Contains(spaces, strings.Split(key, "/")[0]) })
	g.Expect(ours).To(gomega.Equal(all), "of all namespaces")
}

// paged returns the namespaces and names of Llamas, read in pages of two.
func paged(t *testing.T, asked client.Reader, options ...client.ListOption) []string {
	t.Helper()
	g := gomega.NewWithT(t)
	var keys []string
	page := &farmv1alpha1.LlamaList{}
	for {
		g.Expect(asked.List(t.Context(), page, append(options, client.Limit(2), client.Continue(page.Continue))...)).To(gomega.Succeed())
		g.Expect(len(page.Items)).To(gomega.BeNumerically("<=", 2))
		for _, one := range page.Items {
			keys = append(keys, one.Namespace+"/"+one.Name)
		}
		if page.Continue == "" {
			return keys
		}
	}
}

// expectReady checks the condition Ready, which the server computes.
func expectReady(t *testing.T, llama *farmv1alpha1.Llama, generation int64) {
	t.Helper()
	ready := meta.FindStatusCondition(llama.Status.Conditions, farmv1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue || ready.Reason != farmv1alpha1.ReasonKept ||
		ready.ObservedGeneration != generation {
		t.Errorf("%s: Ready is %+v, expected True of generation %d", llama.Name, ready, generation)
	}
}

func expectSays(t *testing.T, what string, err error, says ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: was accepted", what)
		return
	}
	for _, one := range says {
		if !strings.Contains(err.Error(), one) {
			t.Errorf("%s: %v, expected to read %q", what, err, one)
		}
	}
}

// writes returns how often the shared server has written in a namespace.
func writes(t *testing.T, namespace string) int {
	t.Helper()
	return countCalls(t, sharedServer, namespace, func(call auditv1.Event) bool {
		return call.ObjectRef != nil && call.ObjectRef.Resource == "llamarecords" && call.ObjectRef.Namespace == namespace &&
			call.Verb != "get" && call.Verb != "list" && call.Verb != "watch"
	})
}
