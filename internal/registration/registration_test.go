package registration_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

// manager has what webhooks need.
type manager struct{ ctrl.Manager }

func (manager) GetScheme() *runtime.Scheme { return runtime.NewScheme() }

// TestNew: what the admission says is not said again, and a kind's further webhooks come last.
func TestNew(t *testing.T) {
	kind := registration.New(registration.Kind{
		Name:  "pod",
		Hooks: func(registration.Input) []admission.Hook { return []admission.Hook{{Name: "more"}} },
	}, func(registration.Input) admission.Kind[*corev1.Pod] {
		return admission.Kind[*corev1.Pod]{
			Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: "pods", New: func() *corev1.Pod { return &corev1.Pod{} },
			Default: func(*corev1.Pod) {}, Validate: func(*corev1.Pod) field.ErrorList { return nil },
		}
	})
	if _, isPod := kind.Object.(*corev1.Pod); !isPod || kind.Definition() != "pods." || kind.GroupKind.Kind != "Pod" || kind.Version != "v1" {
		t.Errorf("got %T, %s, %s, %s", kind.Object, kind.Definition(), kind.GroupKind, kind.Version)
	}
	var names []string
	for _, hook := range kind.Hooks(registration.Input{Manager: manager{}}) {
		names = append(names, hook.Name)
	}
	if diff := cmp.Diff([]string{"pods.", "more"}, names); diff != "" {
		t.Error(diff)
	}
}

// TestHasNamespaces: one kind that reads them is enough.
func TestHasNamespaces(t *testing.T) {
	without, with := registration.Kind{Name: "a"}, registration.Kind{Name: "b", UsesNamespaces: true}
	if (registration.Input{Kinds: []registration.Kind{without}}).HasNamespaces() {
		t.Error("no kind reads namespaces")
	}
	if !(registration.Input{Kinds: []registration.Kind{without, with}}).HasNamespaces() {
		t.Error("one kind reads namespaces")
	}
}
