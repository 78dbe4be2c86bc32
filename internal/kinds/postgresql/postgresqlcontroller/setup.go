package postgresqlcontroller

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/database/databasecontroller"
	"github.com/mainstay-platform/mainstay/internal/kinds/postgresql"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

// claims return the names of an instance's volume claims, whether it has them or not.
var claims = []func(string, int) string{database.VolumeName, postgresql.WALVolumeName}

// Registration returns what PostgreSQLs add to the manager.
func Registration() registration.Kind {
	return registration.New(registration.Kind{
		Name: postgresql.Controller,
		Component: &component.Traits{Type: "postgresql", MaxName: 50, HasMetadata: true,
			DataAfter: postgresql.DataAfter, Binding: postgresql.Binding(),
			Children: databasecontroller.PossibleChildren(claims, poolerOf)},
		AddToScheme: []func(*runtime.Scheme) error{databasev1.AddToScheme, monitoring.AddToScheme},
		Setup:       setup,
		Hooks:       registration.Scales(admitted),
		Governed:    registration.Governed(&databasev1.PostgreSQLList{}, admitted),
		Awaited:     []string{monitoring.PodMonitorCRD},
		Needs: []watch.Need{
			watch.All(&databasev1.PostgreSQL{}),
			{Object: &corev1.Pod{}, Select: watch.OwnedPods, Unused: []watch.Part{watch.ManagedFields}},
		},
	}, admitted)
}

// setup adds the controller to the manager. What the manager grants to the instances, and so has to
// have itself, is in package database.
//
// +kubebuilder:rbac:groups=apps,resources=statefulsets;deployments,verbs=create;patch;delete
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
// +kubebuilder:rbac:groups=database.mainstay.dev,resources=postgresqls/status,verbs=patch
// +kubebuilder:rbac:groups=database.mainstay.dev,resources=postgresqls/finalizers,verbs=update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
func setup(ctx context.Context, in registration.Input) error {
	return definition(in).Setup(ctx, in)
}

// definition returns what the controller is built from.
func definition(in registration.Input) databasecontroller.Kind[*databasev1.PostgreSQL, postgresql.Observed] {
	return databasecontroller.Kind[*databasev1.PostgreSQL, postgresql.Observed]{
		Name: postgresql.Controller, Kind: kindName, Component: postgresql.Component,
		New:       func() *databasev1.PostgreSQL { return &databasev1.PostgreSQL{} },
		NewList:   func() client.ObjectList { return &databasev1.PostgreSQLList{} },
		Catalogue: in.PostgreSQLImages,
		Claims:    claims,
		Owned:     []client.Object{&appsv1.Deployment{}}, Further: poolerOf,
		Secrets:  postgresql.Secrets,
		Children: func(observed postgresql.Observed) plan.Children { return observed.Children },
		Wanted:   postgresql.Wanted,
		Running:  postgresql.Running,
		Steps: func(reader databasecontroller.Reader) reconciler.Kind[*databasev1.PostgreSQL, postgresql.Observed, postgresql.Decision] {
			return kind{client: in.Manager.GetClient(), poolerImage: in.PgBouncerImage, verified: &verified{}, reader: reader}
		},
	}
}

// poolerOf are the objects of a pooler.
func poolerOf(database string) []plan.Object {
	meta := metav1.ObjectMeta{Name: postgresql.PoolerName(database)}
	return []plan.Object{
		&appsv1.Deployment{ObjectMeta: meta}, &corev1.Service{ObjectMeta: meta}, &networkingv1.NetworkPolicy{ObjectMeta: meta},
		&policyv1.PodDisruptionBudget{ObjectMeta: meta},
	}
}
