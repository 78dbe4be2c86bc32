package apply

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// changedBy lets another manager take fields of an object from ours, a minute after our write.
func changedBy(t *testing.T, live plan.Object, manager string, paths ...fieldpath.Path) {
	t.Helper()
	entries := live.GetManagedFields()
	ours, theirs := fieldpath.NewSet(), fieldpath.NewSet(paths...)
	if err := ours.FromJSON(entries[0].FieldsV1.GetRawReader()); err != nil {
		t.Fatal(err)
	}
	written := metav1.NewTime(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))
	entries[0].Time = &written
	for _, path := range paths {
		ours = ours.Difference(fieldpath.NewSet(path))
	}
	set := func(entry *metav1.ManagedFieldsEntry, fields *fieldpath.Set) {
		raw, err := fields.ToJSON()
		if err != nil {
			t.Fatal(err)
		}
		entry.FieldsV1 = metav1.NewFieldsV1(string(raw))
	}
	set(&entries[0], ours)
	entry := metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "apps/v1",
		FieldsType: "FieldsV1", Time: new(metav1.NewTime(written.Add(time.Minute)))}
	set(&entry, theirs)
	live.SetManagedFields(append(entries, entry))
}

// container returns the path of the container of deployment, and of a field of it.
func container(field ...any) fieldpath.Path {
	of := []any{"spec", "template", "spec", "containers", fieldpath.KeyByFields("name", "webapp")}
	return fieldpath.MakePathOrDie(append(of, field...)...)
}

// TestReverts: a change is named by its field and by the manager that made it, with values only
// where they can't be secret.
func TestReverts(t *testing.T) {
	replicas, label := fieldpath.MakePathOrDie("spec", "replicas"), fieldpath.MakePathOrDie("metadata", "labels", "app")
	env := fieldpath.MakePathOrDie("env", fieldpath.KeyByFields("name", "A"), "value")
	of := func(path, from, to string) plan.RevertedField {
		return plan.RevertedField{Path: path, Change: plan.FieldChanged, From: from, To: to, By: "kubectl-edit"}
	}
	const within = `spec.template.spec.containers[name="webapp"]`
	for name, test := range map[string]struct {
		edit    func(*appsv1.Deployment)
		manager string
		paths   []fieldpath.Path
		want    []plan.RevertedField
	}{
		"a number": {func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(5)) }, "kubectl-edit", []fieldpath.Path{replicas},
			[]plan.RevertedField{of("spec.replicas", "2", "5")}},
		"an image": {func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].Image = "shop:2"
		}, "kubectl-edit", []fieldpath.Path{container("image")}, []plan.RevertedField{of(within+".image", "shop:1", "shop:2")}},
		"a variable, without its values": {func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].Env[0].Value = "s3cret"
		}, "kubectl-edit", []fieldpath.Path{append(container(), env...)}, []plan.RevertedField{of(within+`.env[name="A"].value`, "", "")}},
		"a label that was removed": {func(d *appsv1.Deployment) { delete(d.Labels, "app") }, "kubectl-edit", []fieldpath.Path{label},
			[]plan.RevertedField{{Path: "metadata.labels.app", Change: plan.FieldRemoved, By: "kubectl-edit"}}},
		"a container that was removed, once": {func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers = nil }, "kubectl-edit",
			[]fieldpath.Path{container(), container("image"), container("name")},
			[]plan.RevertedField{{Path: within, Change: plan.FieldRemoved, By: "kubectl-edit"}}},
		"the same value of another manager": {func(*appsv1.Deployment) {}, "kubectl-edit", []fieldpath.Path{replicas}, nil},
		"a value of another of our managers": {func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(5)) }, "mainstay/workload",
			[]fieldpath.Path{replicas}, nil},
		"a new spec": {func(d *appsv1.Deployment) {
			d.Spec.Replicas, d.Annotations["mainstay.dev/applied"] = new(int32(5)), "another"
		}, "kubectl-edit", []fieldpath.Path{replicas}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := testRenderer(t)
			wanted := mustRender(t, r, deployment())
			live := applied(t, r, wanted)
			changedBy(t, live, test.manager, test.paths...)
			test.edit(live)
			got, err := r.reverts(task{rendered: wanted}, live, "mainstay/webapp")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.Fields); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRevertsOfAScale: the API server records no time for what kubectl scale and autoscalers write.
func TestRevertsOfAScale(t *testing.T) {
	r := testRenderer(t)
	wanted := mustRender(t, r, deployment())
	live := applied(t, r, wanted)
	changedBy(t, live, "kubectl", fieldpath.MakePathOrDie("spec", "replicas"))
	live.Spec.Replicas = new(int32(5))
	entries := live.GetManagedFields()
	entries[len(entries)-1].Subresource, entries[len(entries)-1].Time = "scale", nil
	got, err := r.reverts(task{rendered: wanted}, live, "mainstay/webapp")
	if err != nil {
		t.Fatal(err)
	}
	want := []plan.RevertedField{{Path: "spec.replicas", Change: plan.FieldChanged, From: "2", To: "5", By: "kubectl"}}
	if diff := cmp.Diff(want, got.Fields); diff != "" {
		t.Error(diff)
	}
	if last := writersOf(live, "mainstay/webapp").last(); last != "" {
		t.Errorf("%s is said to have written last", last)
	}
}

// TestRevertsOfData: of a ConfigMap, also keys that someone added are named, and no value is.
func TestRevertsOfData(t *testing.T) {
	r := testRenderer(t)
	wanted := mustRender(t, r, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Data: map[string]string{"a": "1"}})
	live := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: wanted.object.GetAnnotations(),
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "mainstay/appconfig", Operation: "Apply",
			FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:a":{}},"f:metadata":{"f:annotations":{"f:mainstay.dev/applied":{}},"f:ownerReferences":{"k:{\"uid\":\"uid-1\"}":{}}}}`)}}},
		Data: map[string]string{"a": "s3cret", "b": "s3cret"}}
	changedBy(t, live, "kubectl", fieldpath.MakePathOrDie("data", "a"), fieldpath.MakePathOrDie("data", "b"))
	live.OwnerReferences = wanted.object.GetOwnerReferences()
	got, err := r.reverts(task{rendered: wanted, Child: plan.Child{ReclaimData: true}}, live, "mainstay/appconfig")
	if err != nil {
		t.Fatal(err)
	}
	want := []plan.RevertedField{{Path: "data.a", Change: plan.FieldChanged, By: "kubectl"}, {Path: "data.b", Change: plan.FieldAdded, By: "kubectl"}}
	if diff := cmp.Diff(want, got.Fields); diff != "" {
		t.Error(diff)
	}
}

// TestRevertsOfASpec: of a spec that is taken back, also what someone added is named, once.
func TestRevertsOfASpec(t *testing.T) {
	r := testRenderer(t)
	wanted := mustRender(t, r, deployment())
	live := applied(t, r, wanted)
	sidecar := []any{"spec", "template", "spec", "containers", fieldpath.KeyByFields("name", "sidecar")}
	changedBy(t, live, "kubectl-edit", fieldpath.MakePathOrDie("metadata", "labels", "a"), fieldpath.MakePathOrDie(sidecar...),
		fieldpath.MakePathOrDie(append(sidecar, "name")...))
	added := plan.RevertedField{Path: `spec.template.spec.containers[name="sidecar"]`, Change: plan.FieldAdded, By: "kubectl-edit"}
	for isReclaimed, want := range map[bool][]plan.RevertedField{false: nil, true: {added}} {
		got, err := r.reverts(task{rendered: wanted, Child: plan.Child{ReclaimSpec: isReclaimed}}, live, "mainstay/webapp")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Fields); diff != "" {
			t.Errorf("%t: %s", isReclaimed, diff)
		}
	}
}

// TestRevertsOfAnUnknownKind: of a child whose kind is not in the scheme, the fields that differ
// are named, a list as one; not what the API server or others have added, nor what is ours and
// differs because a webhook has replaced it.
func TestRevertsOfAnUnknownKind(t *testing.T) {
	r := testRenderer(t)
	wanted := mustRender(t, r, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "mq.example.com/v1", "kind": "Queue", "metadata": map[string]any{"name": "shop", "labels": map[string]any{"team": "a"}},
		"spec": map[string]any{"image": "mq:1", "size": int64(3), "user": "app", "hosts": []any{"a"},
			"plugins": []any{map[string]any{"name": "x"}}},
	}})
	const theirs = `{"f:spec":{"f:size":{},"f:hosts":{"v:\"b\"":{}}},"f:metadata":{"f:labels":{"f:team":{}}}}`
	of := func(path, from, to string) plan.RevertedField {
		return plan.RevertedField{Path: path, Change: plan.FieldChanged, From: from, To: to, By: "kubectl-edit"}
	}
	edited := []plan.RevertedField{of("metadata.labels.team", "a", "b"), of("spec.hosts", "", ""), of("spec.size", "3", "7"),
		{Path: "spec.user", Change: plan.FieldRemoved, By: "kubectl-edit"}}
	for name, test := range map[string]struct {
		hash, manager string
		want          []plan.RevertedField
	}{
		"edited":                    {wanted.hash, "kubectl-edit", edited},
		"another of our managers":   {wanted.hash, "mainstay/workload", nil},
		"what we desire is another": {"another", "kubectl-edit", nil},
	} {
		live := &unstructured.Unstructured{Object: wanted.object.DeepCopy().Object}
		live.SetAnnotations(map[string]string{"mainstay.dev/applied": test.hash, "note": "n"})
		live.SetLabels(map[string]string{"team": "b"})
		live.SetOwnerReferences(append(live.GetOwnerReferences(), metav1.OwnerReference{APIVersion: "v1", Kind: "Secret", Name: "x", UID: "x"}))
		live.Object["spec"] = map[string]any{"image": "mirror/mq:1", "size": int64(7), "hosts": []any{"a", "b"}, "added": true,
			"plugins": []any{map[string]any{"name": "x", "defaulted": true}}}
		written := metav1.NewTime(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))
		ours, others := entry("mainstay/appstack", "Apply", "mq.example.com/v1", "", `{"f:spec":{"f:image":{},"f:plugins":{}}}`),
			entry(test.manager, "Update", "mq.example.com/v1", "", theirs)
		ours.Time, others.Time = &written, new(metav1.NewTime(written.Add(time.Minute)))
		live.SetManagedFields([]metav1.ManagedFieldsEntry{ours, others})
		got, err := r.reverts(task{rendered: wanted}, live, "mainstay/appstack")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, got.Fields); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if last := writersOf(live, "mainstay/appstack").last(); last != test.manager {
			t.Errorf("%s: %q is said to have written last", name, last)
		}
	}
}

// TestMemory: only a child that has existed, and is still desired, is created again. A difference
// is new once, until nobody makes it for five minutes.
func TestMemory(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))
	memory := newMemory(clock)
	service, budget := plan.Ref{Kind: "Service", Name: "shop"}, plan.Ref{Kind: "PodDisruptionBudget", Name: "shop"}
	memory.remember("a", []plan.Ref{service, budget})
	if !memory.hasExisted("a", service) || memory.hasExisted("b", service) {
		t.Error("the children of another owner are taken for it, or its own are not")
	}
	if memory.remember("a", []plan.Ref{service}); memory.hasExisted("a", budget) {
		t.Error("a child that was not desired meanwhile would be made again")
	}
	change := func(to string) plan.Revert {
		return plan.Revert{Ref: service, Fields: []plan.RevertedField{{Path: "spec.type", Change: plan.FieldChanged, From: "a", To: to}}}
	}
	if !memory.isNew(change("b")) || !memory.isNew(change("c")) || memory.isNew(change("b")) {
		t.Error("a difference is not reported once")
	}
	clock.SetTime(clock.Now().Add(forgetAfter + time.Second))
	if !memory.isNew(change("b")) {
		t.Error("it is never reported again")
	}
}
