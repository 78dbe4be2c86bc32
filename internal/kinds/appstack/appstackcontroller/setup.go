package appstackcontroller

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/install/crds"
	"github.com/mainstay-platform/mainstay/internal/kinds/appstack"
	"github.com/mainstay-platform/mainstay/internal/kit/apply"
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

// newObserver returns the observer of a running manager. It reads the cache itself: the manager's
// client reads objects of other projects' kinds from the API server.
func newObserver(in registration.Input, kinds component.Kinds) observer {
	reader := in.Children()
	reader.Cached = in.Manager.GetCache()
	return observer{cached: reader.Cached, children: reader, scheme: in.Manager.GetScheme(), kinds: kinds}
}

// setup adds the controller to the manager. What it may do to components is granted for each kind
// that is on, and by the chart for those of other projects.
//
// +kubebuilder:rbac:groups=platform.mainstay.dev,resources=appstacks,verbs=patch
// +kubebuilder:rbac:groups=platform.mainstay.dev,resources=appstacks/status,verbs=patch
// +kubebuilder:rbac:groups=platform.mainstay.dev,resources=appstacks/finalizers,verbs=update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:part=appstackwebapp,groups=apps.mainstay.dev,resources=webapps,verbs=get;create;patch;delete
// +kubebuilder:rbac:part=appstackappconfig,groups=config.mainstay.dev,resources=appconfigs,verbs=get;create;patch;delete
// +kubebuilder:rbac:part=appstackconfigmonitor,groups=config.mainstay.dev,resources=configmonitors,verbs=get;create;patch;delete
// +kubebuilder:rbac:part=appstackcache,groups=database.mainstay.dev,resources=caches,verbs=get;create;patch;delete
// +kubebuilder:rbac:part=appstackpostgresql,groups=database.mainstay.dev,resources=postgresqls,verbs=get;create;patch;delete
// +kubebuilder:rbac:part=appstackobjects,groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
func setup(ctx context.Context, in registration.Input) error {
	manager := in.Manager
	under := ctrl.NewControllerManagedBy(manager).
		Named(appstack.Controller).
		For(&platformv1.AppStack{}, builder.WithPredicates(watch.SpecChanged()))
	for _, c := range in.Components() {
		if c.Type == component.TypeObject {
			continue
		}
		if err := watch.AddIndexes(ctx, manager.GetFieldIndexer(), indexOf(c.Object)); err != nil {
			return err
		}
		under = under.Owns(c.Object, builder.WithPredicates(watch.ContentChanged()))
	}
	running, err := under.WithOptions(in.Options()).Build(newReconciler(in))
	if err != nil {
		return fmt.Errorf("building the controller: %w", err)
	}
	for _, use := range external(in) {
		if err := use.start(ctx, manager, running); err != nil {
			return err
		}
	}
	return nil
}

func indexOf(object client.Object) watch.Index {
	return watch.Index{Object: object, Name: ownerIndex, Values: ownerOf}
}

func newReconciler(in registration.Input) reconcile.Reconciler {
	observes := newObserver(in, kindsOf(in.Components()))
	r := registration.Complete(in, &reconciler.Reconciler[*platformv1.AppStack, appstack.Observed, appstack.Decision]{
		Name:              appstack.Controller,
		New:               func() *platformv1.AppStack { return &platformv1.AppStack{} },
		Children:          func(observed appstack.Observed) plan.Children { return observed.Children },
		ProblemConditions: []string{platformv1.ConditionDegraded, platformv1.ConditionStalled},
		Finalizer:         appstack.Finalizer,
		Kind:              kind{observer: observes, live: in.Manager.GetAPIReader(), clock: in.Clock},
	})
	r.Applier = apply.New(r.Client, observes.children).WithOwnKinds(crds.Converter)
	return r
}
