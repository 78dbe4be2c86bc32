// Package policyreader reads which rules govern a namespace.
package policyreader

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// ungoverned are the namespaces of Kubernetes itself, which no policy governs.
var ungoverned = []string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}

// Ungoverned are the namespaces that no policy governs: Kubernetes' own and, unless it is empty,
// Mainstay's, so that neither can be locked out of mending itself.
func Ungoverned(own string) []string {
	if own == "" {
		return slices.Clone(ungoverned)
	}
	return append(slices.Clone(ungoverned), own)
}

// Reader reads rules. It is safe for use by many goroutines.
type Reader struct {
	// Cached holds PlatformPolicies and the metadata of Namespaces.
	Cached client.Reader
	// Live asks the API server: for a namespace so new that the cache lacks it.
	Live client.Reader
	// Ungoverned are namespaces that no policy governs.
	Ungoverned []string
	// Known waits until all policies are there that are about to be made, and is an error if they are not
	// in time; nil means that there are none.
	Known func(ctx context.Context) error
}

// Rules are those that govern a namespace; none for an ungoverned one. An error means that nobody
// knows which do: the caller must not act as if there were none.
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
	found := watch.Namespace()
	err := r.Cached.Get(ctx, client.ObjectKey{Name: namespace}, found)
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, client.ObjectKey{Name: namespace}, found)
	}
	if err != nil {
		return policy.Rules{}, fmt.Errorf("reading namespace %s, whose environment decides which policies govern it: %w", namespace, err)
	}
	var all mspolicyv1.PlatformPolicyList
	if err := r.Cached.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return policy.Rules{}, fmt.Errorf("listing PlatformPolicies: %w", err)
	}
	return policy.Governing(all.Items, namespace, found.Labels), nil
}

// CacheOptions say what the cache must hold for a Reader beside namespaces: all policies.
func CacheOptions() map[client.Object]ctrlcache.ByObject {
	return map[client.Object]ctrlcache.ByObject{
		&mspolicyv1.PlatformPolicy{}: {Label: labels.Everything(), Transform: ctrlcache.TransformStripManagedFields()},
	}
}
