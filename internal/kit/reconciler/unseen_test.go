package reconciler

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mainstay-platform/mainstay/api"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/apply"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/metrics/metricstest"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// changing is a kind whose status is what the test sets.
type changing struct {
	simple
	phase *atomic.Value
}

func (c changing) Report(into, _ *mspolicyv1.PlatformPolicy, _, _ struct{}, _ plan.Result) time.Duration {
	into.Status.Phase = api.Phase(c.phase.Load().(string))
	return 0
}

// TestAStatusThatTheCacheDoesNotShow: a status that changes there and back, while the cache has not
// shown the change, is written back. It was left as it was, and nothing came to correct it.
func TestAStatusThatTheCacheDoesNotShow(t *testing.T) {
	for name, answer := range map[string]error{"written": nil, "written, without an answer": errors.New("EOF")} {
		t.Run(name, func(t *testing.T) {
			scheme := schemeOf(t, mspolicyv1.AddToScheme)
			stored := &mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base"}, Status: mspolicyv1.PlatformPolicyStatus{Phase: "Active"}}
			live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(stored).WithStatusSubresource(stored).Build()
			key := client.ObjectKeyFromObject(stored)
			if err := live.Get(t.Context(), key, stored); err != nil {
				t.Fatal(err)
			}
			var lags atomic.Bool
			lags.Store(true)
			cluster := interceptor.NewClient(live, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
					if lags.Load() {
						stored.DeepCopyInto(into.(*mspolicyv1.PlatformPolicy))
						return nil
					}
					return c.Get(ctx, key, into, options...)
				},
				SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch,
					options ...client.SubResourcePatchOption,
				) error {
					return errors.Join(c.SubResource(sub).Patch(ctx, object, patch, options...), answer)
				},
			})
			kind := changing{phase: &atomic.Value{}}
			r := &Reconciler[*mspolicyv1.PlatformPolicy, struct{}, struct{}]{Name: "changing", New: newObject, Kind: kind, Client: cluster,
				Applier:  apply.New(cluster, children.Reader{Cached: cluster, Live: live, Scheme: scheme}),
				Recorder: events.NewFakeRecorder(10), Clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0))}
			reconcileTo := func(phase string) error {
				kind.phase.Store(phase)
				within, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				defer cancel()
				_, err := r.Reconcile(within, ctrl.Request{NamespacedName: key})
				return err
			}
			if err := reconcileTo("Degraded"); err == nil {
				t.Error("the cache does not show the status, and nothing says so")
			}
			counted := func() float64 { return metricstest.Counted(t, "mainstay_errors_total", "PlatformPolicy") }
			before := counted()
			if err := reconcileTo("Active"); err == nil {
				t.Error("the status is right in a cache that lags, and nothing says that it does")
			}
			if got := counted() - before; got != 1 {
				t.Errorf("a cache that lags counts as %v errors", got)
			}
			lags.Store(false)
			_ = reconcileTo("Active")
			var now mspolicyv1.PlatformPolicy
			if err := live.Get(t.Context(), key, &now); err != nil || now.Status.Phase != "Active" {
				t.Errorf("the status says %q (%v)", now.Status.Phase, err)
			}
		})
	}
}

// TestAnObjectThatIsGoneIsNotAwaited: its last status is forgotten.
func TestAnObjectThatIsGoneIsNotAwaited(t *testing.T) {
	scheme := schemeOf(t, mspolicyv1.AddToScheme)
	none := fake.NewClientBuilder().WithScheme(scheme).Build()
	for _, version := range []string{"7", unanswered} {
		r := &Reconciler[*mspolicyv1.PlatformPolicy, struct{}, struct{}]{Name: "simple", New: newObject, Client: none}
		key := client.ObjectKey{Name: "base"}
		r.unseen.Store(key, version)
		if err := r.awaitWrite(t.Context(), key); err != nil {
			t.Error(err)
		}
		if _, isUnseen := r.unseen.Load(key); isUnseen {
			t.Errorf("the version %q is still awaited", version)
		}
	}
}
