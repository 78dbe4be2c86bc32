// Package platformpolicycontroller reads and writes for the kind PlatformPolicy; package
// platformpolicy decides.
package platformpolicycontroller

import (
	"context"
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/platformpolicy"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

// kind implements the reconciler's interface for PlatformPolicy.
type kind struct {
	cached   client.Reader
	children children.Reader
	// manager returns the user name of this manager.
	manager func(context.Context) (string, error)
	auditor *auditor
	input   registration.Input
}

var _ reconciler.Kind[*mspolicyv1.PlatformPolicy, platformpolicy.Observed, struct{}] = kind{}

// Admit validates; there are no defaults.
func (k kind) Admit(stored *mspolicyv1.PlatformPolicy) error {
	return errclass.InvalidSpec(platformpolicy.Validate(stored, k.input.Environments))
}

// Observe reads all policies, all namespaces, all governed objects and the children from the cache.
//
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,verbs=get;list;watch
// +kubebuilder:rbac:groups=policy.mainstay.dev,resources=platformpolicies,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
func (k kind) Observe(ctx context.Context, stored *mspolicyv1.PlatformPolicy) (platformpolicy.Observed, error) {
	observed := platformpolicy.Observed{Namespaces: map[string]map[string]string{}, Ungoverned: k.input.Ungoverned,
		Watched: k.input.Watched}
	var err error
	if policy.GovernsWorkloads(stored) {
		if observed.Manager, err = k.manager(ctx); err != nil {
			return observed, fmt.Errorf("asking for the manager's user name: %w", err)
		}
		if observed.Applied, err = k.applied(ctx); err != nil {
			return observed, err
		}
	}
	var possible []plan.Object
	for _, name := range platformpolicy.ChildNames(stored) {
		meta := metav1.ObjectMeta{Name: name}
		possible = append(possible, &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta},
			&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta})
	}
	observed.Children, err = k.children.Find(ctx, stored, possible...)
	if err != nil {
		return observed, err
	}
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(watch.Namespace().GroupVersionKind())
	if err := k.cached.List(ctx, namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return observed, fmt.Errorf("listing namespaces: %w", err)
	}
	for _, namespace := range namespaces.Items {
		isWatched := len(k.input.Watched) == 0 || slices.Contains(k.input.Watched, namespace.Name)
		if isWatched && !slices.Contains(k.input.Ungoverned, namespace.Name) {
			observed.Namespaces[namespace.Name] = namespace.Labels
		}
	}
	var all mspolicyv1.PlatformPolicyList
	if err := k.cached.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return observed, fmt.Errorf("listing PlatformPolicies: %w", err)
	}
	observed.Policies = policy.Set{Policies: all.Items, Environments: k.input.Environments, Now: k.input.Clock.Now()}
	for _, other := range k.input.Kinds {
		if other.Governed == nil {
			continue
		}
		objects, err := other.Governed(ctx, k.input)
		if err != nil {
			return observed, err
		}
		observed.Objects = append(observed.Objects, objects...)
	}
	if policy.GovernsWorkloads(stored) {
		observed.Audit, observed.NextAudit, err = k.auditor.audit(ctx, observed)
	}
	return observed, err
}

// applied returns the policies that have a ValidatingAdmissionPolicy.
//
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies,verbs=list;watch
func (k kind) applied(ctx context.Context) (map[types.UID]bool, error) {
	var all admissionregistrationv1.ValidatingAdmissionPolicyList
	if err := k.cached.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing ValidatingAdmissionPolicies: %w", err)
	}
	applied := map[types.UID]bool{}
	for i := range all.Items {
		if owner := metav1.GetControllerOf(&all.Items[i]); owner != nil {
			applied[owner.UID] = true
		}
	}
	return applied, nil
}

// Decide returns nothing: what is to be done follows from the desired state.
func (kind) Decide(*mspolicyv1.PlatformPolicy, platformpolicy.Observed) struct{} { return struct{}{} }

// Desired returns the admission policy and its binding.
func (kind) Desired(stored *mspolicyv1.PlatformPolicy, observed platformpolicy.Observed, _ struct{}) plan.Plan {
	return platformpolicy.Desired(stored, observed)
}

// userOf returns a function that asks the API server once for the user name of a client. It is for
// one reconcile at a time.
//
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=selfsubjectreviews,verbs=create
func userOf(writer client.Client) func(context.Context) (string, error) {
	var name string
	return func(ctx context.Context) (string, error) {
		if name != "" {
			return name, nil
		}
		var review authenticationv1.SelfSubjectReview
		err := writer.Create(ctx, &review)
		name = review.Status.UserInfo.Username
		return name, err
	}
}

// Report sets the status. The next reconcile is due with the next audit, or when the state of an
// exemption changes.
func (kind) Report(into, stored *mspolicyv1.PlatformPolicy, observed platformpolicy.Observed, _ struct{},
	result plan.Result) time.Duration {
	into.Status = platformpolicy.Status(stored, observed, result)
	return requeue.Sooner(observed.NextAudit, platformpolicy.NextExpiry(stored, observed.Policies.Now))
}
