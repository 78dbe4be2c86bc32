package apply

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestRefusedChildren: a child that was not created blocks the children that need it, and no
// others.
func TestRefusedChildren(t *testing.T) {
	scheme := schemeOf(t, clientgoscheme.AddToScheme, msappsv1.AddToScheme)
	named := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name, Labels: map[string]string{"app": "shop"}}}
	}
	ref := func(name string) plan.Ref { return plan.Ref{Kind: "ConfigMap", Namespace: "web", Name: name} }
	wanted := plan.Plan{Children: []plan.Child{
		{Object: named("kept")}, {Object: named("main"), Needs: []plan.Ref{ref("kept")}}, {Object: named("other")},
	}}
	for name, test := range map[string]struct {
		exists bool
		want   []string
	}{
		"its creation is refused": {false, []string{"kept", "other"}},
		"its update is refused":   {true, []string{"kept", "main", "other"}},
	} {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithScheme(scheme)
			if test.exists {
				existing := named("kept")
				existing.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps.mainstay.dev/v1", Kind: "WebApp", Name: "shop", UID: "uid-1",
					Controller: new(true)}}
				builder = builder.WithObjects(existing)
			}
			var tried []string
			c := builder.WithInterceptorFuncs(interceptor.Funcs{
				Apply: func(ctx context.Context, under client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
					name := object.(interface{ GetName() string }).GetName()
					tried = append(tried, name)
					if name == "kept" {
						return apierrors.NewForbidden(corev1.Resource("configmaps"), name, nil)
					}
					return under.Apply(ctx, object, options...)
				},
			}).Build()
			reader := children.Reader{Cached: c, Live: c, Scheme: scheme}
			found, err := reader.Find(t.Context(), owner(), named("kept"), named("main"), named("other"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := New(c, reader).Apply(t.Context(), owner(), "mainstay/test", wanted, found); errclass.Of(err) != errclass.Blocked {
				t.Errorf("the refusal is not returned: %v", err)
			}
			if diff := cmp.Diff(test.want, tried); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAllConflictsAtOnce: a foreign object is a conflict also where its child is blocked by another
// conflict, so that users learn of all at once.
func TestAllConflictsAtOnce(t *testing.T) {
	scheme := schemeOf(t, clientgoscheme.AddToScheme, msappsv1.AddToScheme)
	named := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name}}
	}
	ref := func(name string) plan.Ref { return plan.Ref{Kind: "ConfigMap", Namespace: "web", Name: name} }
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(named("account"), named("main")).Build()
	wanted := plan.Plan{Children: []plan.Child{{Object: named("account")}, {Object: named("main"), Needs: []plan.Ref{ref("account")}},
		{Object: named("absent"), Needs: []plan.Ref{ref("account")}}}}
	reader := children.Reader{Cached: fake.NewClientBuilder().WithScheme(scheme).Build(), Live: c, Scheme: scheme}
	result, err := New(c, reader).Apply(t.Context(), owner(), "mainstay/test", wanted, plan.Children{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]plan.Ref{ref("account"), ref("main")}, result.Conflicts); diff != "" || len(result.Changes) > 0 {
		t.Errorf("changed %v: %s", result.Changes, diff)
	}
}
