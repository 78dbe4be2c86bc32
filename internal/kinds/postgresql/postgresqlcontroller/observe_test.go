package postgresqlcontroller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
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

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/database/databasecontroller"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/kinds/postgresql"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/optionalapi"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestUnreadableSecret: a Secret that can't be read is not taken for one that is missing. Nothing
// is decided, and so nothing is written: new certificates would cut the instances off from each
// other.
func TestUnreadableSecret(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := databasev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{database.CertificatesName("db"), database.ApplicationName("db"), database.MetricsName("db")} {
		refuse := func(ctx context.Context, live client.WithWatch, key client.ObjectKey, into client.Object, how ...client.GetOption) error {
			if _, isSecret := into.(*corev1.Secret); isSecret && key.Name == name {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, key.Name, nil)
			}
			return live.Get(ctx, key, into, how...)
		}
		live := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{Get: refuse}).Build()
		tested := kind{client: live, reader: databasecontroller.Reader{Client: live, Claims: claims, Monitors: &optionalapi.API{},
			Children: children.Reader{Cached: live, Live: live, Scheme: scheme}, Clock: clock.RealClock{}}}
		db := &databasev1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
		observed, err := tested.Observe(t.Context(), db)
		if !apierrors.IsForbidden(err) || observed.Certificates != nil {
			t.Errorf("%s: got %v, and certificates: %t", name, err, observed.Certificates != nil)
		}
	}
}

// TestUnknownVolume: a claim that the cache lacks, because it has none of our labels, keeps the
// Lease from allowing new data. It counts until a record says whose data do.
func TestUnknownVolume(t *testing.T) {
	db := &databasev1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "1"}}
	postgresql.Default(db)
	initialises := func(t *testing.T, live ...client.Object) bool {
		t.Helper()
		observed, err := observer(t, live...).Observe(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		for _, child := range postgresql.Desired(db, observed, postgresql.Decision{Replicas: 1}).Children {
			if lease, isLease := child.Object.(*coordinationv1.Lease); isLease {
				return strings.Contains(lease.Annotations[api.AnnotationRecord], `"initialise":"db-0"`)
			}
		}
		t.Fatal("there is no Lease")
		return false
	}
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "shop", Name: name} }
	if !initialises(t, &corev1.PersistentVolumeClaim{ObjectMeta: named("data-other-0")}) {
		t.Error("without a volume, new data are not allowed")
	}
	if initialises(t, &corev1.PersistentVolumeClaim{ObjectMeta: named("data-db-1")}) {
		t.Error("new data are allowed beside a volume that was restored")
	}
	for system, counts := range map[string]bool{"": true, "7": false} {
		record := election.Record{System: system}
		if system != "" {
			record.Rules = []election.Rule{{Leader: election.Member{Name: "db-0", Incarnation: "1"}}}
		}
		text, err := record.Encode()
		if err != nil {
			t.Fatal(err)
		}
		lease := &coordinationv1.Lease{ObjectMeta: named("db")}
		lease.Annotations = map[string]string{api.AnnotationRecord: text}
		restored := &corev1.PersistentVolumeClaim{ObjectMeta: named("data-db-1")}
		restored.Annotations = map[string]string{api.AnnotationAdopt: "PostgreSQL/db"}
		observed, err := observer(t, lease, restored).Observe(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		if got := postgresql.Decide(db, observed).Replicas; (got == 2) != counts {
			t.Errorf("with the record %s: %d instances", text, got)
		}
	}
}

// TestSecretsOfUsers: a Secret of the PostgreSQL that has lost its data gets a password, and that
// of another owner is left alone. One that no user has any more is found, to be deleted.
func TestSecretsOfUsers(t *testing.T) {
	db := &databasev1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "1"}}
	db.Spec.Users = []databasev1.User{{Name: "ours"}, {Name: "foreign"}}
	postgresql.Default(db)
	ours := []metav1.OwnerReference{*metav1.NewControllerRef(db, databasev1.GroupVersion.WithKind("PostgreSQL"))}
	secret := func(name string, owners []metav1.OwnerReference) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, OwnerReferences: owners}}
	}
	listed := secret(contract.ProvisionsName("db"), ours)
	listed.Data = map[string][]byte{contract.ProvisionsKey: contract.Provisions{FormerSecrets: []string{"former"}}.Encode()}
	observed, err := observer(t, listed, secret("db-ours", ours), secret("db-foreign", nil), secret("former", ours)).Observe(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	if one := observed.Users["ours"]; one.Problem != "" || one.Password == "" {
		t.Errorf("our own: got %+v", one)
	}
	const want = "the Secret db-foreign exists and was not created by this PostgreSQL"
	if one := observed.Users["foreign"]; !strings.HasPrefix(one.Problem, want) || one.Password != "" {
		t.Errorf("another's: got %+v", one)
	}
	next, err := contract.ParseProvisions(observed.Provisions)
	if found := observed.Children[postgresql.Ref(db, "Secret", "former")]; err != nil || found.Ownership != plan.Ours ||
		!slices.Equal(next.FormerSecrets, []string{"former"}) {
		t.Errorf("a former one: got %+v, %+v, %v", found, next, err)
	}
}

// observer observes with a cache that is empty.
func observer(t *testing.T, live ...client.Object) kind {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), databasev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	index := func(client.Object) []string { return nil }
	cached := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&corev1.Pod{}, postgresql.Controller, index).Build()
	return kind{client: cached, reader: databasecontroller.Reader{
		Client: cached, PodIndex: postgresql.Controller, Claims: claims, Monitors: &optionalapi.API{}, Clock: clock.RealClock{},
		Children: children.Reader{
			Cached: cached, Live: fake.NewClientBuilder().WithScheme(scheme).WithObjects(live...).Build(), Scheme: scheme,
		},
	}}
}
