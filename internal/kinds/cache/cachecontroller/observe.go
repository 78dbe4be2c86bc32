package cachecontroller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/cache"
)

// Observe reads everything that decisions about c depend on.
//
// +kubebuilder:rbac:groups=database.mainstay.dev,resources=caches,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=services;serviceaccounts;configmaps;persistentvolumeclaims,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=podmonitors,verbs=get;list;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=events,verbs=list
func (k kind) Observe(ctx context.Context, c *databasev1.Cache) (cache.Observed, error) {
	state, err := k.reader.Observe(ctx, c, cache.Common(c, cache.Observed{}))
	observed := cache.Observed{State: state}
	if err != nil || c.Spec.PasswordSecret == "" {
		return observed, err
	}
	observed.Given, err = k.observePassword(ctx, c)
	return observed, err
}

// observePassword reads the Secret that the spec names; nil if there is none. One that can't be
// read is not taken for one that is missing.
//
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
func (k kind) observePassword(ctx context.Context, c *databasev1.Cache) (map[string][]byte, error) {
	var secret corev1.Secret
	err := k.live.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: c.Spec.PasswordSecret}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the Secret %s/%s: %w", c.Namespace, c.Spec.PasswordSecret, err)
	case secret.Data == nil:
		return map[string][]byte{}, nil
	}
	return secret.Data, nil
}
