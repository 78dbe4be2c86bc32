package webappcontroller

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// TestEventsThatCanNotBeListed leave a problem without an explanation, and stop nothing.
func TestEventsThatCanNotBeListed(t *testing.T) {
	lists := 0
	reader := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			lists++
			return errors.New("no network")
		},
	})
	if got, unread := (kind{live: reader}).observeEvents(t.Context(), &corev1.Pod{}); got != nil || !unread || lists != 1 {
		t.Errorf("got %v, %t after %d lists", got, unread, lists)
	}
}

// exited returns a pod whose container has exited.
func exited() corev1.Pod {
	return corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "webapp", RestartCount: 1}}}}
}

// TestPoliciesAreReadForAnExitOnly, and an error of that read stops nothing.
func TestPoliciesAreReadForAnExitOnly(t *testing.T) {
	reads := 0
	with := kind{rules: func(context.Context, string) (policy.Rules, error) {
		reads++
		return policy.Rules{}, errors.New("no network")
	}}
	for name, test := range map[string]struct {
		kind  kind
		pods  []corev1.Pod
		reads int
	}{
		"no pod":            {with, nil, 0},
		"no exit":           {with, []corev1.Pod{{}}, 0},
		"an exit":           {with, []corev1.Pod{{}, exited()}, 1},
		"there are no such": {kind{}, []corev1.Pod{exited()}, 0},
	} {
		reads = 0
		if got := test.kind.imposed(t.Context(), &msappsv1.WebApp{}, test.pods); got != nil || reads != test.reads {
			t.Errorf("%s: got %v after %d reads, want %d", name, got, reads, test.reads)
		}
	}
}
