package reconciler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/apply"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestHasVanished: before a missing child is created, the API server is asked whether its owner
// still exists.
func TestHasVanished(t *testing.T) {
	scheme := schemeOf(t, mspolicyv1.AddToScheme, corev1.AddToScheme)
	owner := living()
	owner.UID, owner.Status.Conditions = "1", []metav1.Condition{{Type: "Ready"}}
	other, going := living(), ending(ourFinalizer)
	other.UID, going.UID = "2", "1"
	web := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	for name, test := range map[string]struct {
		stored []client.Object
		found  plan.Children
		want   bool
	}{
		"it is there":             {stored: []client.Object{owner}},
		"it is gone":              {want: true},
		"another has its name":    {stored: []client.Object{other}, want: true},
		"it is being deleted":     {stored: []client.Object{going}, want: true},
		"it is gone, no child is": {found: plan.Children{{Kind: "ConfigMap", Name: "web"}: {Object: web, Ownership: plan.Ours}}},
	} {
		t.Run(name, func(t *testing.T) {
			live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(test.stored...).Build()
			r := &Reconciler[*mspolicyv1.PlatformPolicy, struct{}, struct{}]{
				New: newObject, Applier: apply.New(live, children.Reader{Live: live, Scheme: scheme}),
			}
			wanted := plan.Plan{Children: []plan.Child{{Object: web.DeepCopy()}}}
			vanished, err := r.hasVanished(t.Context(), owner, wanted, test.found)
			if vanished != test.want || err != nil {
				t.Errorf("got %t, %v", vanished, err)
			}
		})
	}
}
