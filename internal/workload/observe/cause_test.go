package observe

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mainstay-platform/mainstay/internal/workload"
)

// TestCauses: the pods of a suspect are read, in one request with a limit, and of no other
// workload. What can't be read has no cause.
func TestCauses(t *testing.T) {
	target := func(name string) workload.Target {
		return workload.Target{Ref: workload.TargetRef{Kind: "Deployment", Name: name}}
	}
	broken := func(name, app string) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metaOf(name)}
		pod.Labels = map[string]string{"app": app}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", Image: "b:1", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such tag"}}}}
		return pod
	}
	var fails error
	asked := 0
	live := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(broken("web-1", "web"), broken("api-1", "api")).
		WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, under client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
				asked++
				if (&client.ListOptions{}).ApplyOptions(options).Limit == 0 {
					t.Error("a list without a limit")
				}
				return errors.Join(fails, under.List(ctx, into, options...))
			},
		}).Build()
	reader := Reader{Cached: cached(t, deployment("web"), deployment("api")), Live: live}
	targets := []workload.Target{target("api"), target("web"), target("gone")}
	want := workload.Causes{1: {Reason: "ImagePullFailed", Message: "1 of 1 pods: image b:1 of container a can't be pulled: no such tag"}}
	if diff := cmp.Diff(want, reader.Causes(t.Context(), "shop", targets, []int{1, 2}, time.Now())); diff != "" || asked != 1 {
		t.Errorf("%d requests, -want +got:\n%s", asked, diff)
	}
	fails = errors.New("no")
	if got := reader.Causes(t.Context(), "shop", targets, []int{1}, time.Now()); len(got) > 0 {
		t.Errorf("what can't be read: %v", got)
	}
	if reader.Causes(t.Context(), "shop", targets, nil, time.Now()); asked != 2 {
		t.Errorf("%d requests", asked)
	}
}
