package watch

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// noting is a queue that records the added requests with their delays.
type noting struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	added []string
}

func (n *noting) AddAfter(request reconcile.Request, after time.Duration) {
	n.added = append(n.added, request.Name+" after "+after.String())
}

// TestLater: each event requeues what it concerns, an update also what the old object concerned.
func TestLater(t *testing.T) {
	named := func(name string) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	later := Later(func(_ context.Context, object client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: object.GetName()}}}
	}, time.Second)
	for name, test := range map[string]struct {
		happens func(handler.EventHandler, *noting)
		want    []string
	}{
		"made": {func(h handler.EventHandler, queue *noting) {
			h.Create(t.Context(), event.CreateEvent{Object: named("a")}, queue)
		}, []string{"a after 1s"}},
		"changed": {func(h handler.EventHandler, queue *noting) {
			h.Update(t.Context(), event.UpdateEvent{ObjectOld: named("a"), ObjectNew: named("b")}, queue)
		}, []string{"a after 1s", "b after 1s"}},
		"deleted": {func(h handler.EventHandler, queue *noting) {
			h.Delete(t.Context(), event.DeleteEvent{Object: named("a")}, queue)
		}, []string{"a after 1s"}},
	} {
		t.Run(name, func(t *testing.T) {
			queue := &noting{}
			test.happens(later, queue)
			if diff := cmp.Diff(test.want, queue.added); diff != "" {
				t.Error(diff)
			}
		})
	}
}
