package cachecontroller

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kinds/cache"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

const (
	resource = "caches"
	kindName = "Cache"
)

// admitted returns how Caches are admitted.
func admitted(in registration.Input) admission.Kind[*databasev1.Cache] {
	return admission.Kind[*databasev1.Cache]{
		Kind:       databasev1.GroupVersion.WithKind(kindName),
		Resource:   resource,
		Scope:      admissionregistrationv1.NamespacedScope,
		New:        func() *databasev1.Cache { return &databasev1.Cache{} },
		Default:    cache.Default,
		Validate:   cache.Validate,
		Warn:       cache.Warn,
		IsSameSpec: func(a, b *databasev1.Cache) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) },
		Govern:     cache.Govern,
		Subject: func(c *databasev1.Cache) policy.Subject {
			return cache.Wanted(c, observedBy(in))
		},
		Rules: in.Rules,
	}
}

// observedBy returns what policies need of what is observed.
func observedBy(in registration.Input) cache.Observed {
	return cache.Observed{State: database.State{Catalogue: in.ValkeyImages}}
}
