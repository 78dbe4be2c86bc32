package registration_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/kit/optionalapi"
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

// listing is a manager of a cluster whose API server serves some kinds, and lists their objects.
type listing struct {
	ctrl.Manager
	mapper  meta.RESTMapper
	refusal error
}

func (l listing) GetRESTMapper() meta.RESTMapper { return l.mapper }
func (listing) GetCache() cache.Cache            { return nil }
func (l listing) GetAPIReader() client.Reader    { return refusing{refusal: l.refusal} }

type refusing struct {
	client.Reader
	refusal error
}

func (r refusing) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return r.refusal
}

// TestObjectKinds: a kind of another project is not used while the cluster does not serve it, or
// its objects can't be listed; only then there may be some that are not known.
func TestObjectKinds(t *testing.T) {
	queue := schema.GroupVersionKind{Group: "mq.example.com", Version: "v1", Kind: "Queue"}
	dead := errors.New("no webhook")
	for name, test := range map[string]struct {
		scope             meta.RESTScope
		refusal           error
		missing, unlisted string
	}{
		"it is listed":     {scope: meta.RESTScopeNamespace},
		"it is not served": {missing: "the cluster does not serve mq.example.com/v1 Queue: install its definition"},
		"it can't be listed": {meta.RESTScopeNamespace, dead, "mq.example.com/v1 Queue can't be listed: no webhook",
			"mq.example.com/v1 Queue can't be listed: no webhook"},
		"it has no namespace": {meta.RESTScopeRoot, dead, "must be of a kind with a namespace", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mapper := meta.NewDefaultRESTMapper(nil)
				if test.scope != nil {
					mapper.Add(queue, test.scope)
				}
				manager := listing{mapper: mapper, refusal: test.refusal}
				api, err := optionalapi.Find(t.Context(), queue, "queues.mq.example.com", manager, nil)
				if err != nil {
					t.Fatal(err)
				}
				object := registration.ObjectKind{GroupVersionKind: queue, Resource: "queues", API: api}
				kind := registration.Input{Manager: manager, Objects: []registration.ObjectKind{object}}.Components()[0].Kind
				if kind.Missing() != test.missing || kind.Unlisted() != test.unlisted {
					t.Errorf("missing: %q\nunlisted: %q", kind.Missing(), kind.Unlisted())
				}
				if test.missing == "" {
					return
				}
				mapper.Add(queue, meta.RESTScopeNamespace)
				if kind.Missing() == "" {
					t.Error("it is used as soon as it is served, before its objects were listed")
				}
			})
		})
	}
}
