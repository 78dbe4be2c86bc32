package postgresqlcontroller

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/database/databasecontroller"
	"github.com/mainstay-platform/mainstay/internal/kinds/postgresql"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
	"github.com/mainstay-platform/mainstay/internal/kit/optionalapi"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/policy/policyreader"
	"github.com/mainstay-platform/mainstay/internal/registration"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// podOwnerIndex finds the pods of a PostgreSQL by its name.
const podOwnerIndex = "postgresql"

// claims return the names of an instance's volume claims, whether it has them or not.
var claims = []func(string, int) string{database.VolumeName, postgresql.WALVolumeName}

// Registration returns what PostgreSQLs add to the manager.
func Registration() registration.Kind {
	return registration.New(registration.Kind{
		Name: postgresql.Controller,
		Component: &component.Traits{Type: "postgresql", MaxName: 50, HasMetadata: true,
			DataAfter: postgresql.DataAfter, Binding: postgresql.Binding()},
		AddToScheme: []func(*runtime.Scheme) error{databasev1.AddToScheme, monitoring.AddToScheme},
		Setup:       setup,
		Hooks:       scaleHooks,
		Governed:    governed,
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
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=create;patch
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
	manager := in.Manager
	if err := watch.AddIndexes(ctx, manager.GetFieldIndexer(), databasecontroller.PodIndex(podOwnerIndex, postgresql.Component)); err != nil {
		return err
	}
	prefetched := append(owned(), optionalapi.Definition())
	if in.Rules != nil {
		prefetched = append(prefetched, watch.Namespace())
	}
	if err := watch.Prefetch(ctx, manager.GetCache(), prefetched...); err != nil {
		return err
	}
	monitors, err := optionalapi.Find(monitoring.GroupVersion.WithKind("PodMonitor"), monitoring.PodMonitorCRD, manager.GetRESTMapper(),
		manager.GetCache())
	if err != nil {
		return err
	}
	built, err := build(in, monitors)
	if err != nil {
		return err
	}
	use := optionalapi.Child[*databasev1.PostgreSQL]{API: monitors, Object: &monitoring.PodMonitor{}, Owner: &databasev1.PostgreSQL{},
		IsWanted: func(*databasev1.PostgreSQL) bool { return true }}
	monitors.OnAppear = func(context.Context) error { return use.Watch(manager, built) }
	if err := manager.Add(monitors); err != nil {
		return fmt.Errorf("awaiting an optional API: %w", err)
	}
	return nil
}

// owned are the kinds of children that are watched.
func owned() []client.Object { return append(databasecontroller.Owned(), &appsv1.Deployment{}) }

// poolerOf are the objects of a pooler.
func poolerOf(database string) []plan.Object {
	meta := metav1.ObjectMeta{Name: postgresql.PoolerName(database)}
	return []plan.Object{
		&appsv1.Deployment{ObjectMeta: meta}, &corev1.Service{ObjectMeta: meta}, &networkingv1.NetworkPolicy{ObjectMeta: meta},
		&policyv1.PodDisruptionBudget{ObjectMeta: meta},
	}
}

func build(in registration.Input, monitors *optionalapi.API) (controller.Controller, error) {
	manager, changed := in.Manager, builder.WithPredicates(watch.ContentChanged())
	under := ctrl.NewControllerManagedBy(manager).
		Named(postgresql.Controller).
		For(&databasev1.PostgreSQL{}, builder.WithPredicates(watch.SpecChanged())).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(databasecontroller.OwnerOfPod(postgresql.Component)), changed).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(databasecontroller.OwnerOfVolume(postgresql.Component)),
			changed)
	for _, child := range owned() {
		if _, isVolume := child.(*corev1.PersistentVolumeClaim); !isVolume {
			under = under.Owns(child, changed)
		}
	}
	if in.Rules != nil {
		under = policyreader.Watch(under, manager.GetClient(), &databasev1.PostgreSQLList{})
	}
	if sources := in.Workloads.Sources; sources != nil && slices.Contains(sources.Kinds(), workload.Secret) {
		users := handler.EnqueueRequestsFromMapFunc(usersOf(manager.GetClient()))
		under = under.WatchesRawSource(sources.Watch(workload.Secret, users, watch.ContentChanged()))
	}
	if monitors.Available() {
		under = under.Owns(&monitoring.PodMonitor{}, changed)
	}
	return under.WithOptions(in.Options()).Build(newReconciler(in, monitors))
}

func newReconciler(in registration.Input, monitors *optionalapi.API) reconcile.Reconciler {
	r := registration.Complete(in, &reconciler.Reconciler[*databasev1.PostgreSQL, postgresql.Observed, postgresql.Decision]{
		Name:              postgresql.Controller,
		New:               func() *databasev1.PostgreSQL { return &databasev1.PostgreSQL{} },
		Children:          func(observed postgresql.Observed) plan.Children { return observed.Children },
		ProblemConditions: []string{databasev1.ConditionDegraded, databasev1.ConditionStalled},
		Kind: kind{client: in.Manager.GetClient(), poolerImage: in.PgBouncerImage, verified: &verified{}, reader: databasecontroller.Reader{
			Client: in.Manager.GetClient(), Children: in.Children(), PodIndex: podOwnerIndex, Claims: claims, Further: poolerOf,
			Catalogue: in.PostgreSQLImages, InstanceImage: in.InstanceImage, Monitors: monitors, MonitorLabels: in.MonitorLabels, Clock: in.Clock,
		}},
	})
	if in.Rules != nil {
		r.Policy = &reconciler.Policy[*databasev1.PostgreSQL, postgresql.Observed]{
			Kind: kindName, Rules: in.Rules, Wanted: postgresql.Wanted, Running: postgresql.Running,
		}
	}
	return r
}

// usersOf returns requests for the PostgreSQLs that a Secret belongs to by its name. Only those of
// the namespaces in --secret-namespaces are watched; elsewhere a change is noticed when the
// PostgreSQL is reconciled for another reason.
func usersOf(cached client.Reader) handler.MapFunc {
	return func(ctx context.Context, secret client.Object) []reconcile.Request {
		var all databasev1.PostgreSQLList
		if err := cached.List(ctx, &all, client.InNamespace(secret.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
			return nil // the cache does not fail
		}
		var found []reconcile.Request
		for i := range all.Items {
			if slices.Contains(postgresql.Secrets(&all.Items[i]), secret.GetName()) {
				found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
			}
		}
		return found
	}
}
