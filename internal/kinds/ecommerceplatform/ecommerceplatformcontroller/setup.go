package ecommerceplatformcontroller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
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
		Awaited:     []string{monitoring.PrometheusRuleCRD, monitoring.PodMonitorCRD, monitoring.ServiceMonitorCRD},
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
func setup(ctx context.Context, in registration.Input) error {
	uses, err := monitors(ctx, in)
	if err != nil {
		return err
	}
	built, err := build(in, uses)
	if err != nil {
		return err
	}
	for _, use := range uses {
		use.API.OnAppear = func(context.Context) error { return use.Watch(in.Manager, built) }
		if err := in.Manager.Add(use.API); err != nil {
			return fmt.Errorf("awaiting an optional API: %w", err)
		}
	}
	return nil
}

// use is an optional API that monitors platforms or their parts.
type use = optionalapi.Child[*platformv1.EcommercePlatform]

// monitors returns the optional APIs: first that of the alerts, which platforms make, and then
// those of what the parts make, of which platforms only say whether they are there.
func monitors(ctx context.Context, in registration.Input) ([]use, error) {
	var uses []use
	for _, one := range []struct {
		kind, crd string
		object    client.Object
	}{
		{"PrometheusRule", monitoring.PrometheusRuleCRD, &monitoring.PrometheusRule{}},
		{"PodMonitor", monitoring.PodMonitorCRD, nil},
		{"ServiceMonitor", monitoring.ServiceMonitorCRD, nil},
	} {
		api, err := optionalapi.FindServed(ctx, monitoring.GroupVersion.WithKind(one.kind), one.crd, in.Manager)
		if err != nil {
			return nil, err
		}
		uses = append(uses, use{API: api, Object: one.object, Owner: &platformv1.EcommercePlatform{},
			IsWanted: func(platform *platformv1.EcommercePlatform) bool {
				return ptr.Deref(platform.Spec.Monitoring.Enabled, true)
			}})
	}
	return uses, nil
}

func build(in registration.Input, uses []use) (controller.Controller, error) {
	rules := uses[0].API
	var apis []*optionalapi.API
	for _, one := range uses {
		apis = append(apis, one.API)
	}
	type decision = ecommerceplatform.Decision
	r := registration.Complete(in, &reconciler.Reconciler[*platformv1.EcommercePlatform, ecommerceplatform.Observed, decision]{
		Name:              ecommerceplatform.Controller,
		New:               func() *platformv1.EcommercePlatform { return &platformv1.EcommercePlatform{} },
		Children:          func(observed ecommerceplatform.Observed) plan.Children { return observed.Children },
		ProblemConditions: []string{platformv1.ConditionDegraded, platformv1.ConditionStalled},
		Finalizer:         ecommerceplatform.Finalizer,
		Kind: kind{children: in.Children(), namespaces: namespacesOf(in, in.Manager.GetAPIReader()),
			installation: installationOf(in), rules: rules, ruleLabels: in.RuleLabels, monitors: apis},
	})
	r.Applier = apply.New(r.Client, in.Children()).WithOwnKinds(crds.Converter)
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
