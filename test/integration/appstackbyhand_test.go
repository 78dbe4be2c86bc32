package integration

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// removes deletes the WebApp of a component by hand, and waits until it is gone. Another one of its
// name may be there at once.
func (s stacked) removes(name string) {
	s.Helper()
	app := &msappsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Namespace: s.stack.Namespace, Name: "shop-" + name}}
	s.Expect(cluster.Client.Get(s.Context(), client.ObjectKeyFromObject(app), app)).To(gomega.Succeed())
	s.Expect(cluster.Client.Delete(s.Context(), app)).To(gomega.Succeed())
	s.Eventually(func() (bool, error) {
		live := &msappsv1.WebApp{}
		err := cluster.Client.Get(s.Context(), client.ObjectKeyFromObject(app), live)
		if apierrors.IsNotFound(err) || err == nil && live.UID != app.UID {
			return true, nil
		}
		if err == nil && len(live.Finalizers) > 0 { // there is no garbage collector
			live.Finalizers = nil
			_ = cluster.Client.Update(s.Context(), live)
		}
		return false, err
	}).Should(gomega.BeTrue())
}

// appliedTo returns the writes of a component's WebApp after the first n requests of a manager.
func appliedTo(manager *testenv.Manager, n int, name string) []string {
	return slices.DeleteFunc(manager.Requests.Since(n, "PATCH "), func(request string) bool {
		return !strings.HasSuffix(request, "/webapps/shop-"+name)
	})
}

// TestStackDeletedByHand: a component that is deleted by hand in the middle of an ordered deletion
// is not made again, whether the stack is being deleted or only a part of it; otherwise it is,
// after what it depends on.
func TestStackDeletedByHand(t *testing.T) {
	_, space, manager := managed(t)
	s := stacking(t, newStack(space, webPart("db"), webPart("back", "db"), webPart("front", "back"), webPart("stays")))
	s.awaits("db", "stays")
	s.ready("db")
	s.awaits("back", "db", "stays")
	s.ready("back")
	s.awaits("back", "db", "front", "stays")

	// Otherwise: it is put back, once what it depends on is there again.
	before := manager.Settle(t)
	s.removes("stays")
	s.awaits("back", "db", "front", "stays")
	s.Expect(appliedTo(manager, before, "stays")).NotTo(gomega.BeEmpty())

	// A part of the stack is removed: front is held by its finalizer, and db goes before its time.
	s.edit(func(spec *platformv1.AppStackSpec) { spec.Components = []platformv1.Component{webPart("stays")} })
	s.reports(func(status platformv1.AppStackStatus) bool {
		return of(status, "front").Phase == platformv1.ComponentDeleting && slices.Equal(of(status, "back").WaitsFor, []string{"front"})
	})
	before = manager.Settle(t)
	s.removes("db")
	s.reports(func(status platformv1.AppStackStatus) bool { return of(status, "db").Name == "" })
	manager.Settle(t)
	s.awaits("back", "front", "stays")
	s.Expect(appliedTo(manager, before, "db")).To(gomega.BeEmpty(), "it was made again")

	// The whole stack is deleted, while its components are held.
	s.Expect(cluster.Client.Delete(t.Context(), s.stack)).To(gomega.Succeed())
	s.reports(func(status platformv1.AppStackStatus) bool { return status.Phase == platformv1.PhaseDeleting })
	before = manager.Settle(t)
	s.removes("back")
	manager.Settle(t)
	s.Expect(appliedTo(manager, before, "back")).To(gomega.BeEmpty(), "it was made again")
	s.removes("stays")
	s.removes("front")
	s.Eventually(func(ctx context.Context) error {
		return cluster.Client.Get(ctx, client.ObjectKeyFromObject(s.stack), &platformv1.AppStack{})
	}).WithContext(t.Context()).Should(gomega.Satisfy(apierrors.IsNotFound))
	s.awaits()
}
