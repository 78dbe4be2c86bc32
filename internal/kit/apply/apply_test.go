package apply

import (
	"context"
	"errors"
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

// failing returns an API server that answers an apply of the object of a name with an error, unless
// that is nil, and notes all names in tried.
func failing(refused string, answer error, tried *[]string) interceptor.Funcs {
	return interceptor.Funcs{
		Apply: func(ctx context.Context, under client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			name := object.(interface{ GetName() string }).GetName()
			*tried = append(*tried, name)
			if name == refused && answer != nil {
				return answer
			}
			return under.Apply(ctx, object, options...)
		},
	}
}

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
			refusal := apierrors.NewForbidden(corev1.Resource("configmaps"), "kept", nil)
			c := builder.WithInterceptorFuncs(failing("kept", refusal, &tried)).Build()
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

// TestHeldChildren: a child waits for those that it comes after, also where these wait themselves.
// If one of them is refused, a child that exists waits, and another is created. An error that is no
// refusal stops a plan, and an independent one only where it says nothing about other children.
func TestHeldChildren(t *testing.T) {
	scheme := schemeOf(t, clientgoscheme.AddToScheme, msappsv1.AddToScheme)
	named := func(name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name, OwnerReferences: owners}}
	}
	ref := func(name string) plan.Ref { return plan.Ref{Kind: "ConfigMap", Namespace: "web", Name: name} }
	inOrder := []plan.Child{{Object: named("a")}, {Object: named("b"), After: []plan.Ref{ref("a")}},
		{Object: named("c"), After: []plan.Ref{ref("b")}}}
	refusal := apierrors.NewForbidden(corev1.Resource("configmaps"), "a", nil)
	broken := apierrors.NewInternalError(errors.New("failed calling webhook"))
	a, bc, abc := []string{"a"}, []string{"b", "c"}, []string{"a", "b", "c"}
	for name, test := range map[string]struct {
		existing            []string
		err                 error
		isDependent, isKept bool // isKept: the child that is not wanted
		tried, held         []string
	}{
		"all are changed":      {existing: append(abc, "old"), tried: a, held: bc},
		"the first is refused": {existing: append(abc, "old"), err: refusal, tried: a, held: bc},
		"the others are new":   {existing: a, err: refusal, tried: []string{"a", "b"}, held: []string{"c"}},
		"its webhook is down":  {existing: append(abc, "old"), err: broken, tried: a, held: abc},
		"the API server is":    {existing: append(abc, "old"), err: errors.New("refused"), tried: a, held: abc, isKept: true},
		"no plan of parts":     {existing: append(abc, "old"), err: broken, isDependent: true, tried: a, held: abc, isKept: true},
	} {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithScheme(scheme)
			for _, existing := range test.existing {
				builder = builder.WithObjects(named(existing, metav1.OwnerReference{APIVersion: "apps.mainstay.dev/v1", Kind: "WebApp",
					Name: "shop", UID: "uid-1", Controller: new(true)}))
			}
			var tried []string
			c := builder.WithInterceptorFuncs(failing("a", test.err, &tried)).Build()
			reader := children.Reader{Cached: c, Live: c, Scheme: scheme}
			found, err := reader.Find(t.Context(), owner(), named("a"), named("b"), named("c"), named("old"))
			if err != nil {
				t.Fatal(err)
			}
			wanted := plan.Plan{Children: inOrder, Independent: !test.isDependent}
			result, err := New(c, reader).Apply(t.Context(), owner(), "mainstay/test", wanted, found)
			if !errors.Is(err, test.err) {
				t.Errorf("got error %v, want %v", err, test.err)
			}
			var held []string
			for _, ref := range result.Held {
				held = append(held, ref.Name)
			}
			if diff := cmp.Diff(test.tried, tried) + cmp.Diff(test.held, held); diff != "" {
				t.Errorf("tried and held: %s", diff)
			}
			isKept := c.Get(t.Context(), client.ObjectKey{Namespace: "web", Name: "old"}, &corev1.ConfigMap{}) == nil
			if isKept != test.isKept {
				t.Errorf("the child that is not wanted is kept: %v", isKept)
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
