package apply

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
)

// TestOwnKindsWithoutSchemas: a child that can't be compared is an error, not one that is as it
// should be, and not one that is applied in each reconcile.
func TestOwnKindsWithoutSchemas(t *testing.T) {
	broken := errors.New("broken")
	scheme := testRenderer(t).scheme
	r := New(nil, children.Reader{Scheme: scheme}).
		WithOwnKinds(func() (managedfields.TypeConverter, error) { return nil, broken }).render
	wanted := mustRender(t, r, &msappsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Name: "front"}})
	live := &msappsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"mainstay.dev/applied": wanted.hash}}}
	for range 2 {
		if same, err := r.same(wanted, live, "mainstay/appstack"); same || !errors.Is(err, broken) {
			t.Errorf("got %t, %v", same, err)
		}
	}
}
