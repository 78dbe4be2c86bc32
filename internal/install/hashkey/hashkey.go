// Package hashkey keeps the key under which an installation hashes what is secret. Hashes stand where people may read who may not
// read Secrets; without the key nobody can try out which password has a hash.
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
	// Name is that of the Secret, in the manager's own namespace.
	Name = "mainstay-hash-key"
	// entry is the Secret's only one.
	entry = "key"
	// size of a key, in bytes: that of the hash, more would give nothing (RFC 2104).
	size = 32
)

// Load returns the key, and makes it if there is none. Of several replicas that make one at a time, one succeeds, and the others
// take its key. Nothing ever changes it: with another, what was hashed before can't be compared any more. The Secret belongs to nothing
// and outlives the installation, so that the next one knows what pods were started with.
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
		return nil, fmt.Errorf("making Secret %s/%s, the key that Secrets are hashed with: %w", namespace, Name, err)
	}
	ctrl.Log.WithName("setup").Info("Made the key that Secrets are hashed with", "Secret", namespace+"/"+Name)
	return key, nil
}

// get reads the key. The error is that of the API server, which may be that there is none, or says that what is there is no key.
func get(ctx context.Context, live client.Reader, namespace string) ([]byte, error) {
	secret := &corev1.Secret{}
	if err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: Name}, secret); err != nil {
		return nil, fmt.Errorf("reading Secret %s/%s, the key that Secrets are hashed with: %w", namespace, Name, err)
	}
	if key := secret.Data[entry]; len(key) >= size {
		return key, nil
	}
	return nil, fmt.Errorf("reading Secret %s/%s: its entry %q has %d bytes, and a key has %d at least; delete the Secret, and another is made",
		namespace, Name, entry, len(secret.Data[entry]), size)
}
