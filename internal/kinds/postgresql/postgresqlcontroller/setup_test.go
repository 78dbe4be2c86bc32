package postgresqlcontroller

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

// TestUsersOf: a Secret concerns those that own it by its name, in its namespace. Nothing that the
// manager does depends on those with which images are pulled.
func TestUsersOf(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := databasev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	named := func(namespace, name string, pulls ...corev1.LocalObjectReference) *databasev1.PostgreSQL {
		return &databasev1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: databasev1.PostgreSQLSpec{ImagePullSecrets: pulls}}
	}
	cached := fake.NewClientBuilder().WithScheme(scheme).WithObjects(named("shop", "db"), named("shop", "orders",
		corev1.LocalObjectReference{Name: "registry"}), named("web", "db")).Build()
	for name, want := range map[string][]string{
		"db-app": {"db"}, "db-certificates": {"db"}, "db-metrics": {"db"}, "orders-app": {"orders"}, "registry": nil,
		"db": nil, "app": nil,
	} {
		var got []string
		for _, request := range definition(registration.Input{}).UsersOf(cached)(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}) {
			got = append(got, request.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestWarnOfPooler: the applications of the namespace are looked at.
func TestWarnOfPooler(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := appsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	app := func(namespace, name string) *appsv1.Deployment {
		one := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		one.Spec.Template.Annotations = map[string]string{"mainstay.dev/bindings": "PostgreSQL/db=1:db-pooler"}
		return one
	}
	cached := fake.NewClientBuilder().WithScheme(scheme).WithObjects(app("shop", "web"), app("other", "api")).Build()
	db := &databasev1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
	before := db.DeepCopy()
	before.Spec.Pooler, before.Status.Pooler = &databasev1.Pooler{}, &databasev1.PoolerStatus{SecretName: "db-pooler"}
	if got := warnOfPooler(t.Context(), cached, db, before); len(got) != 1 || !strings.Contains(got[0], "(web)") {
		t.Errorf("got %q", got)
	}
}

// TestPoolerIsRemovedUnwarned: that the applications can't be read refuses nothing.
func TestPoolerIsRemovedUnwarned(t *testing.T) {
	before := &databasev1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
	db := before.DeepCopy()
	before.Spec.Pooler = &databasev1.Pooler{}
	knowsNothing := manager{cached: fake.NewClientBuilder().WithScheme(runtime.NewScheme()).Build()}
	review, err := admitted(registration.Input{Manager: knowsNothing}).Review(t.Context(), db, &before)
	if err != nil || len(review.Warnings) != 0 {
		t.Errorf("got %q, %v", review.Warnings, err)
	}
}

// manager has a client, and no more.
type manager struct {
	ctrl.Manager
	cached client.Client
}

func (m manager) GetClient() client.Client { return m.cached }
