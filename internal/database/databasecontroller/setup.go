package databasecontroller

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
	"github.com/mainstay-platform/mainstay/internal/kit/optionalapi"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/internal/policy/policyreader"
	"github.com/mainstay-platform/mainstay/internal/registration"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Kind is what the controllers of kinds of databases differ in. T are the objects, and O is what is
// observed of one.
type Kind[T reconciler.Object, O any] struct {
	// Name is that of the controller, and of the index of its pods. Kind is that of the objects, and
	// Component the label of their children.
	Name, Kind, Component string
	New                   func() T
	NewList               func() client.ObjectList
	// Catalogue has the server's image of each major version.
	Catalogue map[string]string
	// Claims return the names of an instance's volume claims, whether it has them or not.
	Claims []func(database string, ordinal int) string
	// Owned are empty objects of the kinds of children that are cached, beside Owned; Further is
	// that of Reader. Both may be nil.
	Owned   []client.Object
	Further func(database string) []plan.Object
	// Secrets are the names of the Secrets whose changes concern an object.
	Secrets func(T) []string
	// Children are those that were observed.
	Children func(O) plan.Children
	// Wanted and Running return what policies check: in a defaulted object, and in what runs.
	Wanted  func(T, O) policy.Subject
	Running func(T, O) *policy.Subject
	// Steps returns the steps of the kind, given what reads most of what it observes.
	Steps func(Reader) reconciler.Kind[T, O, database.Decision]
}

// Setup adds the controller to the manager. What the manager grants to the instances, and so has to
// have itself, is in package database.
func (k Kind[T, O]) Setup(ctx context.Context, in registration.Input) error {
	manager := in.Manager
	if err := watch.AddIndexes(ctx, manager.GetFieldIndexer(), PodIndex(k.Name, k.Component)); err != nil {
		return err
	}
	prefetched := append(k.owned(), optionalapi.Definition())
	if in.Rules != nil {
		prefetched = append(prefetched, watch.Namespace())
	}
	if err := watch.Prefetch(ctx, manager.GetCache(), prefetched...); err != nil {
		return err
	}
	monitors, err := optionalapi.FindServed(ctx, monitoring.GroupVersion.WithKind("PodMonitor"), monitoring.PodMonitorCRD, manager)
	if err != nil {
		return err
	}
	built, err := k.build(in, monitors)
	if err != nil {
		return err
	}
	use := optionalapi.Child[T]{API: monitors, Object: &monitoring.PodMonitor{}, Owner: k.New(), IsWanted: func(T) bool { return true }}
	monitors.OnAppear = func(context.Context) error { return use.Watch(manager, built) }
	if err := manager.Add(monitors); err != nil {
		return fmt.Errorf("awaiting an optional API: %w", err)
	}
	return nil
}

// owned are the kinds of children that are watched.
func (k Kind[T, O]) owned() []client.Object { return append(Owned(), k.Owned...) }

func (k Kind[T, O]) build(in registration.Input, monitors *optionalapi.API) (controller.Controller, error) {
	manager, changed := in.Manager, builder.WithPredicates(watch.ContentChanged())
	under := ctrl.NewControllerManagedBy(manager).
		Named(k.Name).
		For(k.New(), builder.WithPredicates(watch.SpecChanged())).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(OwnerOfPod(k.Component)), changed).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(OwnerOfVolume(k.Component)), changed)
	for _, child := range k.owned() {
		if _, isVolume := child.(*corev1.PersistentVolumeClaim); !isVolume {
			under = under.Owns(child, changed)
		}
	}
	if in.Rules != nil {
		under = policyreader.Watch(under, manager.GetClient(), k.NewList())
	}
	if sources := in.Workloads.Sources; sources != nil && slices.Contains(sources.Kinds(), workload.Secret) {
		users := handler.EnqueueRequestsFromMapFunc(k.UsersOf(manager.GetClient()))
		under = under.WatchesRawSource(sources.Watch(workload.Secret, users, watch.ContentChanged()))
	}
	if monitors.Available() {
		under = under.Owns(&monitoring.PodMonitor{}, changed)
	}
	return under.WithOptions(in.Options()).Build(k.newReconciler(in, monitors))
}

func (k Kind[T, O]) newReconciler(in registration.Input, monitors *optionalapi.API) reconcile.Reconciler {
	r := registration.Complete(in, &reconciler.Reconciler[T, O, database.Decision]{
		Name:              k.Name,
		New:               k.New,
		Children:          k.Children,
		ProblemConditions: []string{databasev1.ConditionDegraded, databasev1.ConditionStalled},
		Kind: k.Steps(Reader{
			Client: in.Manager.GetClient(), Children: in.Children(), PodIndex: k.Name, Claims: k.Claims, Further: k.Further,
			Catalogue: k.Catalogue, InstanceImage: in.InstanceImage, Monitors: monitors, MonitorLabels: in.MonitorLabels, Clock: in.Clock,
			AddressType: addressType(in.Manager.GetConfig().Host), Issued: NewIssued(),
		}),
	})
	if in.Rules != nil {
		r.Policy = &reconciler.Policy[T, O]{Kind: k.Kind, Rules: in.Rules, Wanted: k.Wanted, Running: k.Running}
	}
	return r
}

// addressType returns the family of the cluster's addresses: that of the API server's. It is IPv4
// where the API server is known by a name.
func addressType(apiServer string) discoveryv1.AddressType {
	parsed, err := url.Parse(apiServer)
	if err != nil {
		return discoveryv1.AddressTypeIPv4
	}
	if ip, err := netip.ParseAddr(parsed.Hostname()); err == nil && ip.Is6() && !ip.Is4In6() {
		return discoveryv1.AddressTypeIPv6
	}
	return discoveryv1.AddressTypeIPv4
}

// UsersOf returns requests for the objects that a Secret concerns, by its name. Only those of the
// namespaces in --secret-namespaces are watched; elsewhere a change is noticed when the object is
// reconciled for another reason.
func (k Kind[T, O]) UsersOf(cached client.Reader) handler.MapFunc {
	return func(ctx context.Context, secret client.Object) []reconcile.Request {
		all := k.NewList()
		if err := cached.List(ctx, all, client.InNamespace(secret.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
			return nil // the cache does not fail
		}
		var found []reconcile.Request
		_ = meta.EachListItem(all, func(item runtime.Object) error { // the function returns no error
			if one := item.(T); slices.Contains(k.Secrets(one), secret.GetName()) {
				found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(one)})
			}
			return nil
		})
		return found
	}
}
