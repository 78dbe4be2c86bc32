package postgresqlcontroller

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"

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
		Kind:       databasev1.GroupVersion.WithKind(kindName),
		Resource:   resource,
		Scope:      admissionregistrationv1.NamespacedScope,
		New:        func() *databasev1.PostgreSQL { return &databasev1.PostgreSQL{} },
		Default:    postgresql.Default,
		Validate:   postgresql.Validate,
		Warn:       func(db *databasev1.PostgreSQL) []string { return postgresql.Warn(db, in.PostgreSQLImages) },
		IsSameSpec: func(a, b *databasev1.PostgreSQL) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) },
		Govern:     postgresql.Govern,
		Subject: func(db *databasev1.PostgreSQL) policy.Subject {
			return postgresql.Wanted(db, observedBy(in))
		},
		Rules: in.Rules,
	}
}

// observedBy returns what policies need of what is observed.
func observedBy(in registration.Input) postgresql.Observed {
	return postgresql.Observed{State: database.State{Catalogue: in.PostgreSQLImages}, PoolerImage: in.PgBouncerImage}
}
