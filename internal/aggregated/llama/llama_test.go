package llama

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
)

var (
	before = metav1.NewTime(time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC))
	now    = metav1.NewTime(time.Date(2026, 11, 2, 10, 0, 0, 0, time.UTC))
)

func newLlama(change ...func(*farmv1alpha1.Llama)) *farmv1alpha1.Llama {
	made := &farmv1alpha1.Llama{ObjectMeta: metav1.ObjectMeta{Name: "perla", Namespace: "farm", Generation: 3},
		Spec: farmv1alpha1.LlamaSpec{Weight: 120, Height: 1.7}}
	made.Status.Conditions = []metav1.Condition{kept(3, before), shorn("Summer")}
	for _, one := range change {
		one(made)
	}
	return made
}

func kept(generation int64, since metav1.Time) metav1.Condition {
	return metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Kept", Message: "the Llama is stored by the farm's API server",
		ObservedGeneration: generation, LastTransitionTime: since,
	}
}

func shorn(reason string) metav1.Condition {
	return metav1.Condition{Type: "Shorn", Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: before}
}

// TestValidateTable has for each rule what it refuses and what it accepts.
func TestValidateTable(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		change func(*farmv1alpha1.Llama)
		says   string
	}{
		"right":        {func(*farmv1alpha1.Llama) {}, ""},
		"the smallest": {func(l *farmv1alpha1.Llama) { l.Spec.Weight = math.SmallestNonzeroFloat64 }, ""},
		"no weight": {func(l *farmv1alpha1.Llama) { l.Spec.Weight = 0 },
			"spec.weight: Invalid value: 0: must be greater than 0, for example spec.weight: 1.5"},
		"a negative height": {func(l *farmv1alpha1.Llama) { l.Spec.Height = -1.5 },
			"spec.height: Invalid value: -1.5: must be greater than 0, for example spec.height: 1.5"},
		"no number":         {func(l *farmv1alpha1.Llama) { l.Spec.Height = math.NaN() }, "spec.height: Invalid value"},
		"a name of a path":  {func(l *farmv1alpha1.Llama) { l.Name = "a/b" }, "metadata.name: Invalid value"},
		"a name of capital": {func(l *farmv1alpha1.Llama) { l.Name = "Perla" }, "metadata.name: Invalid value"},
		"a name with dots":  {func(l *farmv1alpha1.Llama) { l.Name = "perla.north" }, ""},
		"half a condition":  {func(l *farmv1alpha1.Llama) { l.Status.Conditions[1].Reason = "" }, "status.conditions[1].reason: Required value"},
		"twice a condition": {func(l *farmv1alpha1.Llama) { l.Status.Conditions[1].Type = "Ready" }, "status.conditions[1]: Duplicate value"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Validate(newLlama(one.change)).ToAggregate()
			if one.says == "" && err != nil || one.says != "" && (err == nil || !strings.Contains(err.Error(), one.says)) {
				t.Errorf("%v, expected %q", err, one.says)
			}
		})
	}
}

// TestValidateUpdate: an object that is being deleted does not need to become valid, and its spec
// can't change to another invalid one.
func TestValidateUpdate(t *testing.T) {
	t.Parallel()
	heavy := func(l *farmv1alpha1.Llama) { l.Spec.Weight = 0 }
	deleted := func(l *farmv1alpha1.Llama) { l.DeletionTimestamp = &now }
	for name, one := range map[string]struct {
		changed, old *farmv1alpha1.Llama
		accepted     bool
	}{
		"right":                     {newLlama(), newLlama(), true},
		"wrong as it was":           {newLlama(heavy), newLlama(heavy), false},
		"wrong, and being deleted":  {newLlama(heavy, deleted), newLlama(heavy, deleted), true},
		"wrong since being deleted": {newLlama(heavy, deleted), newLlama(deleted), false},
		"half a condition in the end": {newLlama(deleted, func(l *farmv1alpha1.Llama) { l.Status.Conditions[1].Reason = "" }), newLlama(deleted),
			false},
	} {
		if problems := ValidateUpdate(one.changed, one.old); (len(problems) == 0) != one.accepted {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

// TestPrepare: generation, status and Ready are the server's, whatever a client writes.
func TestPrepare(t *testing.T) {
	t.Parallel()
	t.Run("create", func(t *testing.T) {
		t.Parallel()
		made := newLlama()
		PrepareForCreate(made, now)
		if diff := cmp.Diff(newLlama(func(l *farmv1alpha1.Llama) { l.Generation, l.Status.Conditions = 1, []metav1.Condition{kept(1, now)} }),
			made); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("the same", func(t *testing.T) {
		t.Parallel()
		same := newLlama(func(l *farmv1alpha1.Llama) { l.Generation, l.Status = 9, farmv1alpha1.LlamaStatus{} })
		PrepareForUpdate(same, newLlama(), now)
		if diff := cmp.Diff(newLlama(), same); diff != "" {
			t.Error("it is not as it was, so that it would be written", diff)
		}
	})
	t.Run("another spec", func(t *testing.T) {
		t.Parallel()
		changed := newLlama(func(l *farmv1alpha1.Llama) { l.Spec.Weight, l.Status.Conditions = 130, nil })
		PrepareForUpdate(changed, newLlama(), now)
		want := newLlama(func(l *farmv1alpha1.Llama) {
			l.Spec.Weight, l.Generation, l.Status.Conditions[0] = 130, 4, kept(4, before)
		})
		if diff := cmp.Diff(want, changed); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("status", func(t *testing.T) {
		t.Parallel()
		changed := newLlama(func(l *farmv1alpha1.Llama) {
			l.Spec.Weight, l.Labels, l.Generation, l.Finalizers = 1, map[string]string{"a": "b"}, 9, []string{"example.com/held"}
			l.Status.Conditions = []metav1.Condition{shorn("Winter"), {Type: "Ready", Status: metav1.ConditionFalse, Reason: "Mine",
				LastTransitionTime: now}}
		})
		PrepareForStatusUpdate(changed, newLlama(), now)
		if diff := cmp.Diff(newLlama(func(l *farmv1alpha1.Llama) { l.Status.Conditions[1] = shorn("Winter") }), changed); diff != "" {
			t.Error(diff)
		}
	})
}

// TestUnreadable: the condition stays until the Llama is replaced.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	llama := newLlama(func(l *farmv1alpha1.Llama) {
		l.Spec, l.CreationTimestamp, l.Status = farmv1alpha1.LlamaSpec{}, before, farmv1alpha1.LlamaStatus{}
	})
	Unreadable(llama, errors.New("json: broken"))
	ready := meta.FindStatusCondition(llama.Status.Conditions, "Ready")
	want := &metav1.Condition{
		Type: "Ready", Status: metav1.ConditionFalse, Reason: "Unreadable", LastTransitionTime: before,
		Message: "the LlamaRecord of this name can't be read, replace the Llama or delete it: json: broken",
	}
	if diff := cmp.Diff(want, ready); diff != "" {
		t.Error(diff)
	}
	if problems := Validate(llama); len(problems) != 2 {
		t.Errorf("%v, expected weight and height", problems)
	}
	mended := newLlama()
	PrepareForUpdate(mended, llama, now)
	if diff := cmp.Diff([]metav1.Condition{kept(mended.Generation, now)}, mended.Status.Conditions); diff != "" {
		t.Error(diff)
	}
}
