package platformpolicycontroller

import (
	"context"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/platformpolicy"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/policy/policyreader"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

// Registration returns what PlatformPolicies add to the manager.
func Registration() registration.Kind {
	return registration.New(registration.Kind{
		Name:           platformpolicy.Controller,
		AddToScheme:    []func(*runtime.Scheme) error{mspolicyv1.AddToScheme},
		Setup:          setup,
		Needs:          policyreader.Needs(),
		UsesNamespaces: true,
	}, admitted)
}

// gather is for how long changes of namespaces and governed objects are batched before a policy's
// numbers are computed again: with 10,000 objects that takes some tenths of a second.
const gather = 3 * time.Second

// setup adds the controller to the manager.
//
// +kubebuilder:rbac:groups=policy.mainstay.dev,resources=platformpolicies/status,verbs=patch
// +kubebuilder:rbac:groups=policy.mainstay.dev,resources=platformpolicies/finalizers,verbs=update
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,verbs=create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,namespace=default,resources=events,verbs=create;patch
func setup(_ context.Context, in registration.Input) error {
	cached := in.Manager.GetClient()
	r := registration.Complete(in, &reconciler.Reconciler[*mspolicyv1.PlatformPolicy, platformpolicy.Observed, struct{}]{
		Name: platformpolicy.Controller,
		New:  func() *mspolicyv1.PlatformPolicy { return &mspolicyv1.PlatformPolicy{} },
		ProblemConditions: []string{mspolicyv1.ConditionStalled, mspolicyv1.ConditionAuditIncomplete,
			mspolicyv1.ConditionExemptionsExpiring},
		Kind: kind{
			cached: cached, children: in.Children(), manager: userOf(cached), input: in,
			auditor: &auditor{live: in.Manager.GetAPIReader(), clock: in.Clock, namespaces: in.Watched},
		},
		Children: func(observed platformpolicy.Observed) plan.Children { return observed.Children },
	})
	everything := watch.Later(allPolicies(cached), gather)
	under := ctrl.NewControllerManagedBy(in.Manager).
		Named(platformpolicy.Controller).
		For(&mspolicyv1.PlatformPolicy{}, builder.WithPredicates(watch.SpecChanged())).
		Watches(&mspolicyv1.PlatformPolicy{}, everything, builder.WithPredicates(policyreader.Changed())).
		Owns(&admissionregistrationv1.ValidatingAdmissionPolicy{}, builder.WithPredicates(watch.ContentChanged())).
		Owns(&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}, builder.WithPredicates(watch.ContentChanged())).
		Watches(watch.Namespace(), everything, builder.WithPredicates(watch.LabelsChanged()))
	for _, other := range in.Kinds {
		if other.Governed != nil {
			under = under.Watches(other.Object, everything, builder.WithPredicates(watch.SpecChanged()))
		}
	}
	return under.WithOptions(controller.Options{RateLimiter: errclass.RateLimiter[reconcile.Request]()}).Complete(r)
}

// allPolicies returns requests for all policies: each depends on what the others enforce.
func allPolicies(cached client.Reader) handler.MapFunc {
	return func(ctx context.Context, _ client.Object) []reconcile.Request {
		return watch.Requests(ctx, cached, &mspolicyv1.PlatformPolicyList{})
	}
}
