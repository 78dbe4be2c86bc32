package apply

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestPrunedSecretsAreNotAwaited: a child that is never cached is deleted without asking the cache
// for it, which would open a watch of all objects of the kind.
func TestPrunedSecretsAreNotAwaited(t *testing.T) {
	scheme := schemeOf(t, clientgoscheme.AddToScheme, msappsv1.AddToScheme)
	owner := &msappsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop", UID: "uid-1"}}
	controller := metav1.OwnerReference{APIVersion: "apps.mainstay.dev/v1", Kind: "WebApp", Name: "shop", UID: "uid-1", Controller: new(true)}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop", UID: "uid-2",
		OwnerReferences: []metav1.OwnerReference{controller}}}
	live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(secret).Build()
	cached := interceptor.NewClient(live, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("the cache was asked for a Secret")
		},
	})
	reader := children.Reader{Cached: cached, Live: live, Scheme: scheme}
	found := plan.Children{}
	if err := reader.FindLive(t.Context(), owner, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, found); err != nil {
		t.Fatal(err)
	}
	result, err := New(live, reader).Apply(t.Context(), owner, "mainstay/webapp", plan.Plan{}, found)
	if err != nil || len(result.Changes) != 1 || result.Changes[0].Operation != plan.Deleted {
		t.Errorf("got %+v, %v", result, err)
	}
	if err := live.Get(t.Context(), client.ObjectKeyFromObject(secret), &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
}

// TestUncachedChildrenAreReadOnce: a child that no cache holds is read from the API server, unless
// the kind has just read it there.
func TestUncachedChildrenAreReadOnce(t *testing.T) {
	scheme := schemeOf(t, clientgoscheme.AddToScheme, msappsv1.AddToScheme)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "apps.mainstay.dev/v1", Kind: "WebApp", Name: "shop", UID: "uid-1", Controller: new(true)},
	}}}
	wanted := plan.Plan{Children: []plan.Child{{
		Object: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, Uncached: true, CreateOnce: true,
	}}}
	for name, isObserved := range map[string]bool{"observed by the kind": true, "not observed": false} {
		reads := 0
		live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(secret.DeepCopy()).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, under client.WithWatch, key client.ObjectKey, into client.Object, how ...client.GetOption) error {
				reads++
				return under.Get(ctx, key, into, how...)
			},
		}).Build()
		reader, found := children.Reader{Cached: live, Live: live, Scheme: scheme}, plan.Children{}
		if isObserved {
			if err := reader.FindLive(t.Context(), owner(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, found); err != nil {
				t.Fatal(err)
			}
		}
		result, err := New(live, reader).Apply(t.Context(), owner(), "mainstay/test", wanted, found)
		if err != nil || len(result.Changes) > 0 || reads != 1 {
			t.Errorf("%s: %d reads, %+v, %v", name, reads, result, err)
		}
	}
}
