package postgresqlcontroller

import (
	"context"
	"testing"

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
	"github.com/mainstay-platform/mainstay/internal/kinds/postgresql"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/optionalapi"
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
	for _, name := range []string{postgresql.CertificatesName("db"), postgresql.ApplicationName("db"), postgresql.MetricsName("db")} {
		refuse := func(ctx context.Context, live client.WithWatch, key client.ObjectKey, into client.Object, how ...client.GetOption) error {
			if _, isSecret := into.(*corev1.Secret); isSecret && key.Name == name {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, key.Name, nil)
			}
			return live.Get(ctx, key, into, how...)
		}
		live := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{Get: refuse}).Build()
		tested := kind{client: live, children: children.Reader{Cached: live, Live: live, Scheme: scheme}, monitors: &optionalapi.API{},
			clock: clock.RealClock{}}
		db := &databasev1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
		observed, err := tested.Observe(t.Context(), db)
		if !apierrors.IsForbidden(err) || observed.Certificates != nil {
			t.Errorf("%s: got %v, and certificates: %t", name, err, observed.Certificates != nil)
		}
	}
}
