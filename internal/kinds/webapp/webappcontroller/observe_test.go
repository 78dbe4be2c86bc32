package webappcontroller

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

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
