package ecommerceplatformcontroller

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/install/crds"
	"github.com/mainstay-platform/mainstay/internal/kinds/ecommerceplatform"
	"github.com/mainstay-platform/mainstay/internal/kit/apply"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

// Registration returns what platforms add to the manager.
func Registration() registration.Kind {
	return registration.New(registration.Kind{
		Name:        ecommerceplatform.Controller,
		AddToScheme: []func(*runtime.Scheme) error{platformv1.AddToScheme},
		Setup:       setup,
		Needs: []watch.Need{
			watch.All(&platformv1.EcommercePlatform{}),
			// With the managed fields, by which it is seen that they are as they should be.
			{Object: &platformv1.AppStack{}, Select: labels.Everything()},
		},
	}, admitted)
}

// namespacesOf returns a reader that asks the cache first if that has namespaces.
func namespacesOf(in registration.Input, live client.Reader) namespaces {
	if !in.HasNamespaces() {
		return namespaces{live: live}
	}
	return namespaces{cached: in.Manager.GetClient(), live: live}
}

// setup adds the controller to the manager.
//
// +kubebuilder:rbac:groups=platform.mainstay.dev,resources=ecommerceplatforms,verbs=patch
// +kubebuilder:rbac:groups=platform.mainstay.dev,resources=ecommerceplatforms/status,verbs=patch
// +kubebuilder:rbac:groups=platform.mainstay.dev,resources=ecommerceplatforms/finalizers,verbs=update
// +kubebuilder:rbac:groups=platform.mainstay.dev,resources=appstacks,verbs=create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
func setup(_ context.Context, in registration.Input) error {
	converter, err := crds.Converter()
	if err != nil {
		return fmt.Errorf("reading the schema of AppStacks: %w", err)
	}
	type decision = ecommerceplatform.Decision
	r := registration.Complete(in, &reconciler.Reconciler[*platformv1.EcommercePlatform, ecommerceplatform.Observed, decision]{
		Name:              ecommerceplatform.Controller,
		New:               func() *platformv1.EcommercePlatform { return &platformv1.EcommercePlatform{} },
		Children:          func(observed ecommerceplatform.Observed) plan.Children { return observed.Children },
		ProblemConditions: []string{platformv1.ConditionDegraded, platformv1.ConditionStalled},
		Finalizer:         ecommerceplatform.Finalizer,
		Kind: kind{children: in.Children(), namespaces: namespacesOf(in, in.Manager.GetAPIReader()),
			installation: installationOf(in)},
	})
	r.Applier = apply.New(r.Client, in.Children()).WithOwnKinds(converter)
	err = ctrl.NewControllerManagedBy(in.Manager).
		Named(ecommerceplatform.Controller).
		For(&platformv1.EcommercePlatform{}, builder.WithPredicates(watch.SpecChanged())).
		Owns(&platformv1.AppStack{}, builder.WithPredicates(watch.ContentChanged())).
		WithOptions(in.Options()).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building the controller: %w", err)
	}
	return nil
}
