package apply

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestCreate: a name that the cache does not know costs no read while it is free. An object that
// has it is read, and stays as it is if it is not ours. One that has the name of a decisive child
// ends the run, with the object among what was found.
func TestCreate(t *testing.T) {
	ref := plan.Ref{Kind: "ConfigMap", Namespace: "web", Name: "shop"}
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop"}, Data: map[string]string{"key": "theirs"}}
	busy := apierrors.NewConflict(corev1.Resource("resourcequotas"), "small", errors.New("it changed"))
	taken := []client.Object{foreign}
	for name, test := range map[string]struct {
		child  plan.Child
		stored []client.Object
		// refused is the answer to each apply; nil applies.
		refused error
		reads   int
		want    error
		// conflict and created are what the result says.
		conflict, created bool
	}{
		"the name is free":                  {created: true},
		"the name is free, with a dry run":  {child: plan.Child{DryRunFirst: true}, created: true},
		"the name is free, once":            {child: plan.Child{CreateOnce: true}, created: true},
		"the name is taken":                 {stored: taken, reads: 1, conflict: true},
		"the name is taken, with a dry run": {child: plan.Child{DryRunFirst: true}, stored: taken, reads: 1, conflict: true},
		"the name is taken, once":           {child: plan.Child{CreateOnce: true}, stored: taken, reads: 1, conflict: true},
		"the name is taken, decisive":       {child: plan.Child{Decisive: true}, stored: taken, reads: 1, want: ErrTaken},
		"the name is taken, decisive, with a dry run": {child: plan.Child{Decisive: true, DryRunFirst: true}, stored: taken, reads: 1,
			want: ErrTaken},
		"another conflict": {refused: busy, reads: 1, want: busy},
	} {
		t.Run(name, func(t *testing.T) {
			reads := 0
			scheme := testRenderer(t).scheme
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(test.stored...).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, under client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
					reads++
					return under.Get(ctx, key, into, options...)
				},
				Apply: func(ctx context.Context, under client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
					if test.refused != nil {
						return test.refused
					}
					return under.Apply(ctx, object, options...)
				},
			}).Build()
			cached := fake.NewClientBuilder().WithScheme(scheme).Build()
			child, found := test.child, plan.Children{}
			child.Uncached = true
			child.Object = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Data: map[string]string{"key": "ours"}}
			result, err := New(c, children.Reader{Cached: cached, Live: c, Scheme: scheme}).Apply(t.Context(), owner(), "mainstay/test",
				plan.Plan{Children: []plan.Child{child}}, found)
			if !errors.Is(err, test.want) {
				t.Errorf("it returned %v, not %v", err, test.want)
			}
			if reads != test.reads {
				t.Errorf("%d reads, not %d", reads, test.reads)
			}
			if got := len(result.Conflicts) > 0; got != test.conflict {
				t.Errorf("conflicts: %v", result.Conflicts)
			}
			if got := len(result.Changes) > 0; got != test.created {
				t.Errorf("changes: %v", result.Changes)
			}
			if len(test.stored) > 0 && (found[ref].Ownership != plan.Foreign || found[ref].Object.(*corev1.ConfigMap).Data["key"] != "theirs") {
				t.Errorf("it found %+v", found[ref])
			}
		})
	}
}
