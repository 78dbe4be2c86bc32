package ecommerceplatformcontroller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/install/crds"
	"github.com/mainstay-platform/mainstay/internal/kinds/ecommerceplatform"
	"github.com/mainstay-platform/mainstay/internal/kit/apply"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
	"github.com/mainstay-platform/mainstay/internal/kit/optionalapi"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

// Registration returns what platforms add to the manager.
func Registration() registration.Kind {
	return registration.New(registration.Kind{
		Name:        ecommerceplatform.Controller,
		AddToScheme: []func(*runtime.Scheme) error{platformv1.AddToScheme, monitoring.AddToScheme},
		Setup:       setup,
		Awaited:     []string{monitoring.PrometheusRuleCRD},
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

// setup adds the controller to the manager. PrometheusRules are used if the cluster has the kind,
// and from the moment it is installed.
//
// +kubebuilder:rbac:groups=platform.mainstay.dev,resources=ecommerceplatforms,verbs=patch
// +kubebuilder:rbac:groups=platform.mainstay.dev,resources=ecommerceplatforms/status,verbs=patch
// +kubebuilder:rbac:groups=platform.mainstay.dev,resources=ecommerceplatforms/finalizers,verbs=update
// +kubebuilder:rbac:groups=platform.mainstay.dev,resources=appstacks,verbs=create;patch;delete
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=create;patch;delete
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=prometheusrules,verbs=create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
func setup(_ context.Context, in registration.Input) error {
	converter, err := crds.Converter()
	if err != nil {
		return fmt.Errorf("reading the schema of AppStacks: %w", err)
	}
	rules, err := optionalapi.Find(monitoring.GroupVersion.WithKind("PrometheusRule"), monitoring.PrometheusRuleCRD,
		in.Manager.GetRESTMapper(), in.Manager.GetCache())
	if err != nil {
		return err
	}
	built, err := build(in, rules, converter)
	if err != nil {
		return err
	}
	use := optionalapi.Child[*platformv1.EcommercePlatform]{API: rules, Object: &monitoring.PrometheusRule{},
		Owner: &platformv1.EcommercePlatform{}, IsWanted: func(*platformv1.EcommercePlatform) bool { return true }}
	rules.OnAppear = func(context.Context) error { return use.Watch(in.Manager, built) }
	if err := in.Manager.Add(rules); err != nil {
		return fmt.Errorf("awaiting an optional API: %w", err)
	}
	return nil
}

func build(in registration.Input, rules *optionalapi.API, converter managedfields.TypeConverter) (controller.Controller, error) {
	type decision = ecommerceplatform.Decision
	r := registration.Complete(in, &reconciler.Reconciler[*platformv1.EcommercePlatform, ecommerceplatform.Observed, decision]{
		Name:              ecommerceplatform.Controller,
		New:               func() *platformv1.EcommercePlatform { return &platformv1.EcommercePlatform{} },
		Children:          func(observed ecommerceplatform.Observed) plan.Children { return observed.Children },
		ProblemConditions: []string{platformv1.ConditionDegraded, platformv1.ConditionStalled},
		Finalizer:         ecommerceplatform.Finalizer,
		Kind: kind{children: in.Children(), namespaces: namespacesOf(in, in.Manager.GetAPIReader()),
			installation: installationOf(in), rules: rules, ruleLabels: in.RuleLabels},
	})
	r.Applier = apply.New(r.Client, in.Children()).WithOwnKinds(converter)
	under := ctrl.NewControllerManagedBy(in.Manager).
		Named(ecommerceplatform.Controller).
		For(&platformv1.EcommercePlatform{}, builder.WithPredicates(watch.SpecChanged())).
		Owns(&platformv1.AppStack{}, builder.WithPredicates(watch.ContentChanged())).
		Owns(&corev1.ConfigMap{}, builder.WithPredicates(watch.ContentChanged()))
	if rules.Available() {
		under = under.Owns(&monitoring.PrometheusRule{}, builder.WithPredicates(watch.ContentChanged()))
	}
	built, err := under.WithOptions(in.Options()).Build(r)
	if err != nil {
		return nil, fmt.Errorf("building the controller: %w", err)
	}
	return built, nil
}
