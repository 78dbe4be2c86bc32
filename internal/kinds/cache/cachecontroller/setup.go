package cachecontroller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/database/databasecontroller"
	"github.com/mainstay-platform/mainstay/internal/kinds/cache"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

// claims return the names of an instance's volume claims, whether it has them or not.
var claims = []func(string, int) string{database.VolumeName}

// Registration returns what Caches add to the manager.
func Registration() registration.Kind {
	return registration.New(registration.Kind{
		Name: cache.Controller,
		Component: &component.Traits{Type: "cache", MaxName: 50, HasMetadata: true,
			DataAfter: cache.DataAfter, Binding: cache.Binding(), Children: databasecontroller.PossibleChildren(claims, nil)},
		AddToScheme: []func(*runtime.Scheme) error{databasev1.AddToScheme, monitoring.AddToScheme},
		Setup:       setup,
		Hooks:       registration.Scales(admitted),
		Governed:    registration.Governed(&databasev1.CacheList{}, admitted),
		Awaited:     []string{monitoring.PodMonitorCRD},
		Needs: []watch.Need{
			watch.All(&databasev1.Cache{}),
			{Object: &corev1.Pod{}, Select: watch.OwnedPods, Unused: []watch.Part{watch.ManagedFields}},
		},
	}, admitted)
}

// setup adds the controller to the manager. What the manager grants to the instances, and so has to
// have itself, is in package database.
//
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=create;patch;delete
// +kubebuilder:rbac:groups="",resources=services;serviceaccounts;configmaps,verbs=create;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=create;patch;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=create;patch;delete
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=podmonitors,verbs=create;patch;delete
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=create;patch;delete
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create;patch
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=create;patch
// +kubebuilder:rbac:groups=database.mainstay.dev,resources=caches/status,verbs=patch
// +kubebuilder:rbac:groups=database.mainstay.dev,resources=caches/finalizers,verbs=update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
func setup(ctx context.Context, in registration.Input) error {
	return definition(in).Setup(ctx, in)
}

// definition returns what the controller is built from.
func definition(in registration.Input) databasecontroller.Kind[*databasev1.Cache, cache.Observed] {
	return databasecontroller.Kind[*databasev1.Cache, cache.Observed]{
		Name: cache.Controller, Kind: kindName, Component: cache.Component,
		New:       func() *databasev1.Cache { return &databasev1.Cache{} },
		NewList:   func() client.ObjectList { return &databasev1.CacheList{} },
		Catalogue: in.ValkeyImages,
		Claims:    claims,
		Secrets:   cache.Secrets,
		Children:  func(observed cache.Observed) plan.Children { return observed.Children },
		Wanted:    cache.Wanted,
		Running:   cache.Running,
		Steps: func(reader databasecontroller.Reader) reconciler.Kind[*databasev1.Cache, cache.Observed, cache.Decision] {
			return kind{client: in.Manager.GetClient(), live: in.Manager.GetAPIReader(), reader: reader}
		},
	}
}
