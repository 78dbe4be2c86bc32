package cachecontroller

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

// governed returns all cached Caches, as policies check them.
func governed(ctx context.Context, in registration.Input) ([]policy.Object, error) {
	var stored databasev1.CacheList
	if err := in.Manager.GetClient().List(ctx, &stored); err != nil {
		return nil, fmt.Errorf("listing Caches: %w", err)
	}
	objects := make([]policy.Object, 0, len(stored.Items))
	for i := range stored.Items {
		c := &stored.Items[i]
		cache.Default(c)
		objects = append(objects, policy.Object{Kind: kindName, Namespace: c.Namespace, Name: c.Name,
			Subject: cache.Wanted(c, observedBy(in))})
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
