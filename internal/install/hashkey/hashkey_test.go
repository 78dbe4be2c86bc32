package hashkey

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

const namespace = "mainstay-system"

func secret(key string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name}, Data: map[string][]byte{entry: []byte(key)}}
}

// TestLoad: the first call creates the key, and all later calls return it.
func TestLoad(t *testing.T) {
	live := fake.NewClientBuilder().Build()
	first, err := Load(t.Context(), live, namespace)
	if err != nil || len(first) != size || bytes.Equal(first, make([]byte, size)) {
		t.Fatalf("got %d bytes, %v", len(first), err)
	}
	second, err := Load(t.Context(), live, namespace)
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("a second one has another key: %v", err)
	}
	another, err := Load(t.Context(), live, "other")
	if err != nil || bytes.Equal(first, another) {
		t.Errorf("another installation has the same key: %v", err)
	}
	stored := &corev1.Secret{}
	if err := live.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: Name}, stored); err != nil || !*stored.Immutable ||
		len(stored.OwnerReferences) != 0 {
		t.Errorf("got %+v, %v", stored, err)
	}
}

// TestLoadWithAnother: if two replicas create a key at the same time, both return the stored one.
func TestLoadWithAnother(t *testing.T) {
	faster := secret(strings.Repeat("k", size))
	live := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, under client.WithWatch, object client.Object, options ...client.CreateOption) error {
			return errors.Join(under.Create(ctx, faster.DeepCopy()), under.Create(ctx, object, options...))
		},
	}).Build()
	got, err := Load(t.Context(), live, namespace)
	if err != nil || !bytes.Equal(got, faster.Data[entry]) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestLoadRefused(t *testing.T) {
	down := errors.New("the API server is down")
	for name, test := range map[string]struct {
		stored *corev1.Secret
		calls  interceptor.Funcs
		want   string
	}{
		"too short": {secret("short"), interceptor.Funcs{}, `data["key"] has 5 bytes and must have at least 32: delete the Secret`},
		"not readable": {nil, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object,
			...client.GetOption) error {
			return down
		}}, "reading Secret mainstay-system/mainstay-hash-key with the hash key: the API server is down"},
		"not writable": {nil, interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return down
		}}, "creating Secret mainstay-system/mainstay-hash-key with the hash key: the API server is down"},
	} {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithInterceptorFuncs(test.calls)
			if test.stored != nil {
				builder = builder.WithObjects(test.stored)
			}
			if key, err := Load(t.Context(), builder.Build(), namespace); key != nil || err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}
