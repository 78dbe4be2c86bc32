package postgresqlcontroller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/postgresql"
)

// Observe reads everything that decisions about db depend on.
//
// +kubebuilder:rbac:groups=database.mainstay.dev,resources=postgresqls,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=statefulsets;deployments,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=services;serviceaccounts;configmaps;persistentvolumeclaims,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=podmonitors,verbs=get;list;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=events,verbs=list
func (k kind) Observe(ctx context.Context, db *databasev1.PostgreSQL) (postgresql.Observed, error) {
	state, err := k.reader.Observe(ctx, db, postgresql.Common(db, postgresql.Observed{}))
	observed := postgresql.Observed{State: state, PoolerImage: k.poolerImage}
	if err != nil {
		return observed, err
	}
	if db.Spec.Pooler != nil || db.Status.Pooler != nil {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: postgresql.PoolerName(db.Name)}}
		if err := k.reader.Children.FindLive(ctx, db, secret, observed.Children); err != nil {
			return observed, err
		}
	}
	if postgresql.MayPoolerLeave(db, observed.Now) {
		apps, err := k.boundApps(ctx, db, observed.Now)
		if err != nil {
			return observed, err
		}
		observed.PoolerWaitsFor = apps.Behind(db)
	}
	return observed, k.observeProvisions(ctx, db, &observed)
}
