package cachecontroller

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/database/databasecontroller"
	"github.com/mainstay-platform/mainstay/internal/kinds/cache"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/optionalapi"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

// observer observes with these objects, and without the right to read a Secret of that name.
func observer(t *testing.T, unreadable string, objects ...client.Object) kind {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), databasev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	refuse := func(ctx context.Context, live client.WithWatch, key client.ObjectKey, into client.Object, how ...client.GetOption) error {
		if _, isSecret := into.(*corev1.Secret); isSecret && key.Name == unreadable {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, key.Name, nil)
		}
		return live.Get(ctx, key, into, how...)
	}
	live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, cache.Controller, func(client.Object) []string { return nil }).
		WithInterceptorFuncs(interceptor.Funcs{Get: refuse}).Build()
	return kind{client: live, live: live, reader: databasecontroller.Reader{
		Client: live, PodIndex: cache.Controller, Claims: claims, Monitors: &optionalapi.API{}, Clock: clock.RealClock{},
		Children: children.Reader{Cached: live, Live: live, Scheme: scheme},
	}}
}

func newCache(passwordSecret string) *databasev1.Cache {
	c := &databasev1.Cache{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "sessions", UID: "1"}}
	c.Spec.PasswordSecret = passwordSecret
	cache.Default(c)
	return c
}

// TestUnreadableSecret: a Secret that can't be read is not taken for one that is missing. Nothing
// is decided, and so nothing is written.
func TestUnreadableSecret(t *testing.T) {
	for _, name := range []string{
		database.CertificatesName("sessions"), database.ApplicationName("sessions"), database.MetricsName("sessions"), "mine",
	} {
		if _, err := observer(t, name).Observe(t.Context(), newCache("mine")); !apierrors.IsForbidden(err) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestEmptiedCertificates: certificates whose Secret was emptied are put back, those of a Secret
// that was deleted are not.
func TestEmptiedCertificates(t *testing.T) {
	c := newCache("")
	emptied := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: database.CertificatesName("sessions"),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c, databasev1.GroupVersion.WithKind("Cache"))},
	}}
	for name, test := range map[string]struct {
		objects []client.Object
		stay    bool
	}{"emptied": {[]client.Object{emptied}, true}, "deleted": {nil, false}} {
		tested := observer(t, "", test.objects...)
		tested.reader.Issued = databasecontroller.NewIssued()
		first, err := tested.Observe(t.Context(), c)
		if err != nil || len(first.Certificates) == 0 {
			t.Fatal(err)
		}
		again, err := tested.Observe(t.Context(), c)
		if stay := cmp.Equal(first.Certificates, again.Certificates); err != nil || stay != test.stay {
			t.Errorf("%s: %v, the certificates stay: %t", name, err, stay)
		}
	}
}

// TestPasswordSecret: a Secret that is missing is told from one without content.
func TestPasswordSecret(t *testing.T) {
	named := metav1.ObjectMeta{Namespace: "shop", Name: "mine"}
	for name, test := range map[string]struct {
		objects []client.Object
		want    map[string][]byte
	}{
		"missing": {nil, nil}, "empty": {[]client.Object{&corev1.Secret{ObjectMeta: named}}, map[string][]byte{}},
		"there": {[]client.Object{&corev1.Secret{ObjectMeta: named, Data: map[string][]byte{"password": []byte("x")}}},
			map[string][]byte{"password": []byte("x")}},
	} {
		observed, err := observer(t, "", test.objects...).Observe(t.Context(), newCache("mine"))
		if diff := cmp.Diff(test.want, observed.Given); err != nil || diff != "" {
			t.Errorf("%s: %v, %s", name, err, diff)
		}
	}
}

// TestUsersOf: a Secret concerns the caches that make it, and those that name it.
func TestUsersOf(t *testing.T) {
	reader := observer(t, "", newCache("mine")).client
	for name, want := range map[string]int{"sessions-app": 1, "sessions-certificates": 1, "mine": 1, "sessions": 0, "other-app": 0} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		if got := definition(registration.Input{}).UsersOf(reader)(t.Context(), secret); len(got) != want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
