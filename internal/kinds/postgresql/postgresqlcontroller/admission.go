package postgresqlcontroller

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

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

// governed returns all cached PostgreSQLs, as policies check them.
func governed(ctx context.Context, in registration.Input) ([]policy.Object, error) {
	var stored databasev1.PostgreSQLList
	if err := in.Manager.GetClient().List(ctx, &stored); err != nil {
		return nil, fmt.Errorf("listing PostgreSQLs: %w", err)
	}
	objects := make([]policy.Object, 0, len(stored.Items))
	for i := range stored.Items {
		db := &stored.Items[i]
		postgresql.Default(db)
		objects = append(objects, policy.Object{Kind: kindName, Namespace: db.Namespace, Name: db.Name,
			Subject: postgresql.Wanted(db, observedBy(in))})
	}
	return objects, nil
}

// scaleHooks returns the webhook of the subresource scale.
func scaleHooks(in registration.Input) []admission.Hook {
	scale := admission.Scale{
		Kind:     kindName,
		Resource: schema.GroupResource{Group: databasev1.GroupVersion.Group, Resource: resource},
		Versions: []string{databasev1.GroupVersion.Version},
		Field:    field.NewPath("spec", "replicas"),
		Refuse:   func(context.Context, types.NamespacedName) (string, error) { return "", nil },
		Rules:    in.Rules,
	}
	return []admission.Hook{scale.Hook(in.Manager.GetScheme())}
}
