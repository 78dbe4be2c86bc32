// Package hashkey keeps the key with which an installation hashes Secrets. Hashes are visible to
// people who may not read Secrets. Without the key they can't find out by trial which password a
// hash is of.
package hashkey

import (
	"context"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
)

const (
	// Name is the name of the Secret, in the manager's own namespace.
	Name = "mainstay-hash-key"
	// entry is the Secret's only key.
	entry = "key"
	// size is the size of a key in bytes: that of the hash, because a longer key adds no strength (RFC
	// 2104).
	size = 32
)

// Load returns the key, and creates it if there is none. If several replicas create it at the same
// time, one succeeds and the others use its key. The key never changes, because hashes made with
// different keys can't be compared. The Secret has no owner and outlives the installation, so that
// the next one can compare hashes of what pods were started with.
//
// +kubebuilder:rbac:part=secrets,groups="",namespace=mainstay-system,resources=secrets,resourceNames=mainstay-hash-key,verbs=get
// +kubebuilder:rbac:part=secrets,groups="",namespace=mainstay-system,resources=secrets,verbs=create
func Load(ctx context.Context, live client.Client, namespace string) ([]byte, error) {
	key, err := get(ctx, live, namespace)
	if !apierrors.IsNotFound(err) {
		return key, err
	}
	made := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name, Labels: map[string]string{api.LabelManagedBy: api.ManagedBy}},
		Immutable:  new(true),
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{entry: make([]byte, size)},
	}
	_, _ = rand.Read(made.Data[entry]) // it never fails
	key = made.Data[entry]
	err = live.Create(ctx, made, client.FieldOwner(naming.Manager("hash-key")))
	switch {
	case apierrors.IsAlreadyExists(err):
		return get(ctx, live, namespace)
	case err != nil:
		return nil, fmt.Errorf("creating Secret %s/%s with the hash key: %w", namespace, Name, err)
	}
	ctrl.Log.WithName("setup").Info("Created the key with which Secrets are hashed", "Secret", namespace+"/"+Name)
	return key, nil
}

// get reads the key. It returns the API server's error, which may be NotFound, or an error that
// says why the Secret has no valid key.
func get(ctx context.Context, live client.Reader, namespace string) ([]byte, error) {
	secret := &corev1.Secret{}
	if err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: Name}, secret); err != nil {
		return nil, fmt.Errorf("reading Secret %s/%s with the hash key: %w", namespace, Name, err)
	}
	if key := secret.Data[entry]; len(key) >= size {
		return key, nil
	}
	return nil, fmt.Errorf("reading Secret %s/%s: data[%q] has %d bytes and must have at least %d: delete the Secret, and the manager makes a new key; no workload restarts",
		namespace, Name, entry, len(secret.Data[entry]), size)
}
