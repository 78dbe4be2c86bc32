// Package policyreader reads which rules govern a namespace.
package policyreader

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// ungoverned are the namespaces of Kubernetes itself, which no policy governs.
var ungoverned = []string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}

// Ungoverned returns the namespaces that no policy governs: Kubernetes' own and, unless it is
// empty, Mainstay's, so that a policy can't keep either from being repaired.
func Ungoverned(own string) []string {
	if own == "" {
		return slices.Clone(ungoverned)
	}
	return append(slices.Clone(ungoverned), own)
}

// Reader reads rules. It is safe for concurrent use.
type Reader struct {
	// Cached has PlatformPolicies and the metadata of Namespaces.
	Cached client.Reader
	// Live reads from the API server: for a namespace that is too new for the cache.
	Live         client.Reader
	Environments policy.Environments
	// Clock says which exemptions have ended.
	Clock clock.PassiveClock
	// Ungoverned are namespaces that no policy governs.
	Ungoverned []string
	// Known waits until all policies exist that are about to be created, and returns an error if that
	// takes too long; nil means that there are none.
	Known func(ctx context.Context) error
}

// Rules returns the rules that govern a namespace; none for an ungoverned one. After an error it is
// unknown which do: the caller must not act as if there were none.
//
// +kubebuilder:rbac:part=platformpolicy,groups=policy.mainstay.dev,resources=platformpolicies,verbs=list;watch
// +kubebuilder:rbac:part=platformpolicy,groups="",resources=namespaces,verbs=get;list;watch
func (r Reader) Rules(ctx context.Context, namespace string) (policy.Rules, error) {
	if slices.Contains(r.Ungoverned, namespace) {
		return policy.Rules{}, nil
	}
	if r.Known != nil {
		if err := r.Known(ctx); err != nil {
			return policy.Rules{}, err
		}
	}
	found, err := watch.ReadNamespace(ctx, r.Cached, r.Live, namespace)
	if err != nil {
		return policy.Rules{}, fmt.Errorf("reading namespace %s, whose environment decides which policies govern it: %w", namespace, err)
	}
	var all mspolicyv1.PlatformPolicyList
	if err := r.Cached.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return policy.Rules{}, fmt.Errorf("listing PlatformPolicies: %w", err)
	}
	return policy.Set{Policies: all.Items, Environments: r.Environments, Now: r.Clock.Now()}.Governing(namespace, found.Labels), nil
}

// Needs returns what a Reader reads from the cache in addition to namespaces: all policies.
func Needs() []watch.Need { return []watch.Need{watch.All(&mspolicyv1.PlatformPolicy{})} }
