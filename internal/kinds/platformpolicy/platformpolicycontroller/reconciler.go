// Package platformpolicycontroller reads and writes for the kind PlatformPolicy; package
// platformpolicy decides.
package platformpolicycontroller

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/platformpolicy"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
)

// kind implements the reconciler's interface for PlatformPolicy. It has no children.
type kind struct {
	cached  client.Reader
	options Options
}

var _ reconciler.Kind[*mspolicyv1.PlatformPolicy, platformpolicy.Observed, struct{}] = kind{}

// Admit validates; there are no defaults.
func (kind) Admit(policy *mspolicyv1.PlatformPolicy) error {
	if problems := platformpolicy.Validate(policy); len(problems) > 0 {
		return errclass.InvalidSpecError{Err: problems.ToAggregate()}
	}
	return nil
}

// Observe reads all policies, all namespaces and all governed objects from the cache.
//
// +kubebuilder:rbac:groups=policy.mainstay.dev,resources=platformpolicies,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
func (k kind) Observe(ctx context.Context, _ *mspolicyv1.PlatformPolicy) (platformpolicy.Observed, error) {
	observed := platformpolicy.Observed{Namespaces: map[string]map[string]string{}}
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(watch.Namespace().GroupVersionKind())
	if err := k.cached.List(ctx, namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return observed, fmt.Errorf("listing namespaces: %w", err)
	}
	for _, namespace := range namespaces.Items {
		isWatched := len(k.options.Watched) == 0 || slices.Contains(k.options.Watched, namespace.Name)
		if isWatched && !slices.Contains(k.options.Ungoverned, namespace.Name) {
			observed.Namespaces[namespace.Name] = namespace.Labels
		}
	}
	var all mspolicyv1.PlatformPolicyList
	if err := k.cached.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return observed, fmt.Errorf("listing PlatformPolicies: %w", err)
	}
	observed.Policies = all.Items
	for _, governed := range k.options.Governed {
		objects, err := governed.Objects(ctx, k.cached)
		if err != nil {
			return observed, err
		}
		observed.Objects = append(observed.Objects, objects...)
	}
	return observed, nil
}

// Decide returns nothing: what is to be done follows from the desired state.
func (kind) Decide(*mspolicyv1.PlatformPolicy, platformpolicy.Observed) struct{} { return struct{}{} }

// Desired is nothing.
func (kind) Desired(_ *mspolicyv1.PlatformPolicy, _ platformpolicy.Observed, _ struct{}) plan.Plan {
	return plan.Plan{}
}

// Report sets the status.
func (kind) Report(into, policy *mspolicyv1.PlatformPolicy, observed platformpolicy.Observed, _ struct{},
	result plan.Result) time.Duration {
	into.Status = platformpolicy.Status(policy, observed, result)
	return 0
}
