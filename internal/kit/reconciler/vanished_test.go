package reconciler

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/apply"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestHasVanished: before a missing child is created, the API server is asked whether its owner
// still exists and, at the same time, whether the child's name is free.
func TestHasVanished(t *testing.T) {
	owner := living()
	owner.UID, owner.Status.Conditions = "1", []metav1.Condition{{Type: "Ready"}}
	other, going := living(), ending(ourFinalizer)
	other.UID, going.UID = "2", "1"
	web := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	for name, test := range map[string]struct {
		stored []client.Object
		// unreadable is whether the child can't be read.
		unreadable bool
		want       bool
		// known is whether apply need not read the child, and ownership what it is.
		known     bool
		ownership plan.Ownership
	}{
		"it is there, the name is free":       {stored: []client.Object{owner}, known: true, ownership: plan.Absent},
		"it is there, the name is taken":      {stored: []client.Object{owner, web}, known: true, ownership: plan.Foreign},
		"it is there, the name can't be read": {stored: []client.Object{owner}, unreadable: true},
		"it is gone":                          {want: true},
		"another has its name":                {stored: []client.Object{other}, want: true},
		"it is being deleted":                 {stored: []client.Object{going}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			found := plan.Children{}
			vanished, err := askBoth(t, owner, web, found, test.unreadable, test.stored...)
			if vanished != test.want || err != nil {
				t.Errorf("got %t, %v", vanished, err)
			}
			got, known := found[plan.Ref{Kind: "ConfigMap", Name: "web"}]
			if known != test.known || got.Ownership != test.ownership {
				t.Errorf("of the child it knows %t: %v", known, got.Ownership)
			}
		})
	}
}

// askBoth asks whether owner has vanished, for whose child web nothing is known. Each read waits
// until the other one is under way.
func askBoth(t *testing.T, owner *mspolicyv1.PlatformPolicy, web *corev1.ConfigMap, found plan.Children, unreadable bool,
	stored ...client.Object) (bool, error) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{mspolicyv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	var underWay sync.WaitGroup
	underWay.Add(2)
	live := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(stored...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, under client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			underWay.Done()
			underWay.Wait()
			if _, isChild := into.(*corev1.ConfigMap); isChild && unreadable {
				return errNoNetwork
			}
			return under.Get(ctx, key, into, options...)
		},
	}).Build()
	r := &Reconciler[*mspolicyv1.PlatformPolicy, struct{}, struct{}]{
		New: newObject, Applier: apply.New(live, children.Reader{Live: live, Scheme: scheme}),
	}
	type answer struct {
		vanished bool
		err      error
	}
	answers := make(chan answer, 1)
	go func() {
		vanished, err := r.hasVanished(t.Context(), owner, plan.Plan{Children: []plan.Child{{Object: web.DeepCopy()}}}, found)
		answers <- answer{vanished, err}
	}()
	select {
	case got := <-answers:
		return got.vanished, got.err
	case <-time.After(time.Minute):
		t.Fatal("the reads are made one after the other")
		return false, nil
	}
}
