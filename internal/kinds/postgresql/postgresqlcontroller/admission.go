package postgresqlcontroller

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kinds/postgresql"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

const (
	resource = "postgresqls"
	kindName = "PostgreSQL"
)

// admitted returns how PostgreSQLs are admitted.
func admitted(in registration.Input) admission.Kind[*databasev1.PostgreSQL] {
	return admission.Kind[*databasev1.PostgreSQL]{
		Kind:     databasev1.GroupVersion.WithKind(kindName),
		Resource: resource,
		Scope:    admissionregistrationv1.NamespacedScope,
		New:      func() *databasev1.PostgreSQL { return &databasev1.PostgreSQL{} },
		Default:  postgresql.Default,
		Validate: postgresql.Validate,
		Warn:     func(db *databasev1.PostgreSQL) []string { return postgresql.Warn(db, in.PostgreSQLImages) },
		Review: func(ctx context.Context, db *databasev1.PostgreSQL, before **databasev1.PostgreSQL) (admission.Review, error) {
			if before == nil || db.Spec.Pooler != nil || (*before).Spec.Pooler == nil {
				return admission.Review{}, nil
			}
			return admission.Review{Warnings: warnOfPooler(ctx, in.Manager.GetClient(), db, *before)}, nil
		},
		IsSameSpec: func(a, b *databasev1.PostgreSQL) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) },
		Govern:     postgresql.Govern,
		Subject: func(db *databasev1.PostgreSQL) policy.Subject {
			return postgresql.Wanted(db, observedBy(in))
		},
		Rules: in.Rules,
	}
}

// warnOfPooler warns of what the removal of a pooler means for applications that use it. Without
// them, the pooler is removed all the same.
//
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=list;watch
func warnOfPooler(ctx context.Context, cached client.Reader, db, before *databasev1.PostgreSQL) []string {
	var all appsv1.DeploymentList
	if err := cached.List(ctx, &all, client.InNamespace(db.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Listing the applications that use the pooler failed: there is no warning of its removal")
		return nil
	}
	return postgresql.WarnOfPooler(db, before, all.Items)
}

// observedBy returns what policies need of what is observed.
func observedBy(in registration.Input) postgresql.Observed {
	return postgresql.Observed{State: database.State{Catalogue: in.PostgreSQLImages}, PoolerImage: in.PgBouncerImage}
}
