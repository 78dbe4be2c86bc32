package reconciler

import (
	"context"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

// TestTheStatusOfAnObjectThatIsGone: that the cache still has an object, and the API server no
// longer, is no failure: it would be retried, and recorded in an event. A missing resource is one.
func TestTheStatusOfAnObjectThatIsGone(t *testing.T) {
	scheme := schemeOf(t, mspolicyv1.AddToScheme)
	resource := schema.GroupResource{Group: "policy.mainstay.dev", Resource: "platformpolicies"}
	for name, test := range map[string]struct {
		answer error
		fails  bool
	}{
		"no such object":   {apierrors.NewNotFound(resource, "base"), false},
		"no such resource": {apierrors.NewGenericServerResponse(http.StatusNotFound, "patch", resource, "base", "not found", 0, true), true},
		"another error":    {apierrors.NewInternalError(context.DeadlineExceeded), true},
	} {
		t.Run(name, func(t *testing.T) {
			stored := &mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base", ResourceVersion: "41"}}
			answering := fake.NewClientBuilder().WithScheme(scheme).WithObjects(stored).WithInterceptorFuncs(interceptor.Funcs{
				SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
					return test.answer
				}}).Build()
			reported := stored.DeepCopy()
			reported.Status.Phase = "Active"
			wrote, err := patchStatus(t.Context(), answering, "mainstay/test", stored, reported)
			if wrote || (err != nil) != test.fails {
				t.Errorf("wrote %t, error %v", wrote, err)
			}
		})
	}
}
