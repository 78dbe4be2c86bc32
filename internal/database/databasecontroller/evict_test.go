package databasecontroller

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mainstay-platform/mainstay/internal/database"
)

// TestEvict: an eviction that fails keeps nothing else from being done, and the status says why.
// Some failures last: an API server evicts no pod that has two budgets.
func TestEvict(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, test := range map[string]struct {
		answer error
		want   string
	}{
		"evicted":          {nil, ""},
		"gone":             {apierrors.NewNotFound(pods, "db-1"), ""},
		"another in place": {apierrors.NewConflict(pods, "db-1", errors.New("another UID")), ""},
		"a budget":         {apierrors.NewTooManyRequests("Cannot evict pod", 0), "Cannot evict pod"},
		"a policy":         {apierrors.NewForbidden(pods, "db-1", errors.New("no")), "is forbidden: no"},
		"two budgets": {
			apierrors.NewInternalError(errors.New("this pod has more than one PodDisruptionBudget")), "more than one PodDisruptionBudget",
		},
		"a webhook is down": {apierrors.NewInternalError(errors.New("failed calling webhook\n\"a\"")), `failed calling webhook "a"`},
		"no answer in time": {context.DeadlineExceeded, "deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			decided := database.Decision{Evict: &database.Victim{Name: "db-1", UID: "uid-1"}}
			writer := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceCreateOption) error {
					return test.answer
				},
			}).Build()
			if err := Evict(t.Context(), writer, "shop", &decided); err != nil {
				t.Fatalf("nothing else would be done: %v", err)
			}
			if !strings.Contains(decided.Refused, test.want) || (decided.Refused == "") != (test.want == "") {
				t.Errorf("the status would say %q, want %q", decided.Refused, test.want)
			}
			if (decided.RequeueAfter > 0) != (test.want != "") {
				t.Errorf("it is tried again after %s", decided.RequeueAfter)
			}
		})
	}
}

// TestEvictEnds: a manager that ends reports nothing that it did not see.
func TestEvictEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	decided := database.Decision{Evict: &database.Victim{Name: "db-1"}}
	writer := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceCreateOption) error {
			cancel()
			return context.Canceled
		},
	}).Build()
	if err := Evict(ctx, writer, "shop", &decided); !errors.Is(err, context.Canceled) || decided.Refused != "" {
		t.Errorf("got %v, and %q", err, decided.Refused)
	}
}
