package appstackcontroller

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/install/crds"
	"github.com/mainstay-platform/mainstay/internal/kinds/appstack"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

// Registration returns what AppStacks add to the manager.
func Registration() registration.Kind {
	return registration.New(registration.Kind{
		Name:        appstack.Controller,
		AddToScheme: []func(*runtime.Scheme) error{platformv1.AddToScheme},
		Setup:       setup,
		Needs:       []watch.Need{watch.All(&platformv1.AppStack{})},
		Composes:    true,
	}, admitted)
}

// newObserver returns the observer of a running manager.
func newObserver(in registration.Input, kinds component.Kinds) observer {
	return observer{cached: in.Manager.GetClient(), children: in.Children(), scheme: in.Manager.GetScheme(), kinds: kinds}
}

// setup adds the controller to the manager. What it may do to components is granted for each kind
// that is on.
//
// +kubebuilder:rbac:groups=platform.mainstay.dev,resources=appstacks,verbs=patch
// +kubebuilder:rbac:groups=platform.mainstay.dev,resources=appstacks/status,verbs=patch
// +kubebuilder:rbac:groups=platform.mainstay.dev,resources=appstacks/finalizers,verbs=update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:part=appstackwebapp,groups=apps.mainstay.dev,resources=webapps,verbs=create;patch;delete
// +kubebuilder:rbac:part=appstackappconfig,groups=config.mainstay.dev,resources=appconfigs,verbs=create;patch;delete
// +kubebuilder:rbac:part=appstackconfigmonitor,groups=config.mainstay.dev,resources=configmonitors,verbs=create;patch;delete
// +kubebuilder:rbac:part=appstackpostgresql,groups=database.mainstay.dev,resources=postgresqls,verbs=create;patch;delete
func setup(ctx context.Context, in registration.Input) error {
	manager, components := in.Manager, in.Components()
	kinds := kindsOf(components)
	under := ctrl.NewControllerManagedBy(manager).
		Named(appstack.Controller).
		For(&platformv1.AppStack{}, builder.WithPredicates(watch.SpecChanged()))
	for _, c := range components {
		index := watch.Index{Object: c.Object, Name: ownerIndex, Values: ownerOf}
		if err := watch.AddIndexes(ctx, manager.GetFieldIndexer(), index); err != nil {
			return err
		}
		under = under.Owns(c.Object, builder.WithPredicates(watch.ContentChanged()))
	}
	converter, err := crds.Converter()
	if err != nil {
		return fmt.Errorf("reading the schemas of components: %w", err)
	}
	observes := newObserver(in, kinds)
	r := registration.Complete(in, &reconciler.Reconciler[*platformv1.AppStack, appstack.Observed, appstack.Decision]{
		Name:              appstack.Controller,
		New:               func() *platformv1.AppStack { return &platformv1.AppStack{} },
		Children:          func(observed appstack.Observed) plan.Children { return observed.Children },
		ProblemConditions: []string{platformv1.ConditionDegraded, platformv1.ConditionStalled},
		Finalizer:         appstack.Finalizer,
		Kind:              kind{observer: observes, live: manager.GetAPIReader()},
	})
	r.Applier = r.Applier.WithOwnKinds(converter)
	return under.WithOptions(in.Options()).Complete(r)
}
