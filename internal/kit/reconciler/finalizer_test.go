package reconciler

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/apply"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

const (
	ourFinalizer   = "mainstay.dev/simple"
	theirFinalizer = "example.com/theirs"
)

// lasting is a kind that acts outside the cluster. It records its calls.
type lasting struct {
	simple
	released bool
	desired  []string
}

func (l *lasting) Desired(object *mspolicyv1.PlatformPolicy, _, _ struct{}) plan.Plan {
	state := "lives"
	switch {
	case object.ResourceVersion == "" && object.DeletionTimestamp != nil:
		state = "is absent"
	case object.DeletionTimestamp != nil:
		state = "is being deleted"
	}
	l.desired = append(l.desired, object.Name+" "+state)
	l.desired = append(l.desired, object.Finalizers...)
	return plan.Plan{}
}

func (l *lasting) Report(into, object *mspolicyv1.PlatformPolicy, observed, decided struct{}, result plan.Result) time.Duration {
	l.simple.Report(into, object, observed, decided, result)
	return time.Minute
}

func (l *lasting) Released(*mspolicyv1.PlatformPolicy, struct{}, struct{}, plan.Result) bool {
	return l.released
}

// left is the result of one reconcile of a lasting kind.
type left struct {
	// Finalizers of the object; "gone" if there is none.
	Finalizers []string
	// HasStatus reports whether a status was stored.
	HasStatus bool
	// Desired has the calls of the kind: the state of the object and its finalizers.
	Desired      []string
	RequeueAfter time.Duration
	Failed       bool
	// Events is how many events were recorded: that it is Ready, or why not.
	Events int
}

// reconcileLasting reconciles the object "base", which is stored if it is not nil. Writes of it end
// with fails, if that is an error.
func reconcileLasting(t *testing.T, r *Reconciler[*mspolicyv1.PlatformPolicy, struct{}, struct{}], stored *mspolicyv1.PlatformPolicy,
	fails error) left {
	t.Helper()
	scheme := schemeOf(t, mspolicyv1.AddToScheme)
	builder := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&mspolicyv1.PlatformPolicy{})
	if stored != nil {
		builder = builder.WithObjects(stored)
	}
	cluster := builder.WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, under client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if fails != nil {
				return fails
			}
			return under.Patch(ctx, object, patch, options...)
		},
	}).Build()
	reader := children.Reader{Cached: cluster, Live: cluster, Scheme: scheme}
	recorder := events.NewFakeRecorder(10)
	r.Name, r.New, r.Client, r.Applier, r.Recorder = "simple", newObject, cluster, apply.New(cluster, reader), recorder
	r.Clock = clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "base"}})
	got := left{RequeueAfter: result.RequeueAfter, Failed: err != nil, Events: len(recorder.Events), Desired: r.Kind.(*lasting).desired}
	var now mspolicyv1.PlatformPolicy
	switch err := cluster.Get(t.Context(), client.ObjectKey{Name: "base"}, &now); {
	case apierrors.IsNotFound(err):
		got.Finalizers = []string{"gone"}
	case err != nil:
		t.Fatal(err)
	default:
		got.Finalizers, got.HasStatus = now.Finalizers, len(now.Status.Conditions) > 0
	}
	return got
}

// lastingCase is one state of an object, and the result of its reconcile.
type lastingCase struct {
	// without is a kind without a finalizer.
	without bool
	kind    lasting
	stored  *mspolicyv1.PlatformPolicy
	// fails is the result of writes of the object.
	fails error
	want  left
}

func (c *lastingCase) run(t *testing.T) {
	r := &Reconciler[*mspolicyv1.PlatformPolicy, struct{}, struct{}]{Kind: &c.kind, Finalizer: ourFinalizer, Policy: unasked(c.stored)}
	if c.without {
		r.Finalizer = ""
	}
	if diff := cmp.Diff(c.want, reconcileLasting(t, r, c.stored, c.fails)); diff != "" {
		t.Error(diff)
	}
}

var (
	errConflict  = apierrors.NewConflict(schema.GroupResource{Resource: "platformpolicies"}, "base", errors.New("it has changed"))
	errNoNetwork = errors.New("no route")
	both         = []string{theirFinalizer, ourFinalizer}
)

func living(finalizers ...string) *mspolicyv1.PlatformPolicy {
	return &mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base", Finalizers: finalizers}}
}

func ending(finalizers ...string) *mspolicyv1.PlatformPolicy {
	object := living(finalizers...)
	object.DeletionTimestamp = new(metav1.Unix(900, 0))
	return object
}

// TestEnsureFinalizer: an object gets the finalizer before anything is done for it.
func TestEnsureFinalizer(t *testing.T) {
	for name, test := range map[string]lastingCase{
		"new": {
			stored: living(theirFinalizer),
			want:   left{Finalizers: both, HasStatus: true, Desired: append([]string{"base lives"}, both...), RequeueAfter: time.Minute, Events: 1},
		},
		"new, and the finalizer can't be added": {
			stored: living(theirFinalizer), fails: errNoNetwork, want: left{Finalizers: []string{theirFinalizer}, Failed: true, Events: 1},
		},
		"new, and another client wrote in between": {
			stored: living(theirFinalizer), fails: errConflict, want: left{Finalizers: []string{theirFinalizer}, Failed: true},
		},
		"new, and already deleted": {
			stored: living(theirFinalizer), fails: apierrors.NewNotFound(schema.GroupResource{},
				"base"), want: left{Finalizers: []string{theirFinalizer}},
		},
		"known": {
			stored: living(ourFinalizer),
			want: left{Finalizers: []string{ourFinalizer}, HasStatus: true, Desired: []string{"base lives", ourFinalizer}, RequeueAfter: time.Minute,
				Events: 1},
		},
		"a kind without a finalizer, new": {
			without: true, stored: living(theirFinalizer),
			want: left{Finalizers: []string{theirFinalizer}, HasStatus: true, Desired: []string{"base lives", theirFinalizer},
				RequeueAfter: time.Minute,
				Events:       1},
		},
	} {
		t.Run(name, test.run)
	}
}

// TestRemoveFinalizer: a deleted object keeps the finalizer until everything is undone, and no
// longer.
func TestRemoveFinalizer(t *testing.T) {
	for name, test := range map[string]lastingCase{
		"being deleted, not undone": {
			stored: ending(ourFinalizer),
			want: left{Finalizers: []string{ourFinalizer}, HasStatus: true, Desired: []string{"base is being deleted", ourFinalizer},
				RequeueAfter: time.Minute, Events: 1},
		},
		"being deleted, not undone, whatever admission says": {
			kind: lasting{simple: simple{admission: errors.New("not so")}}, stored: ending(ourFinalizer),
			want: left{Finalizers: []string{ourFinalizer}, HasStatus: true, Desired: []string{"base is being deleted", ourFinalizer},
				RequeueAfter: time.Minute, Events: 1},
		},
		"being deleted, undone": {
			kind: lasting{released: true}, stored: ending(ourFinalizer),
			want: left{Finalizers: []string{"gone"}, Desired: []string{"base is being deleted", ourFinalizer}},
		},
		"being deleted, undone, with another finalizer": {
			kind: lasting{released: true}, stored: ending(both...),
			want: left{Finalizers: []string{theirFinalizer}, Desired: append([]string{"base is being deleted"}, both...)},
		},
		"being deleted, undone, and another client wrote in between": {
			kind: lasting{released: true}, stored: ending(ourFinalizer), fails: errConflict,
			want: left{Finalizers: []string{ourFinalizer}, Desired: []string{"base is being deleted", ourFinalizer}, Failed: true},
		},
		"being deleted without our finalizer": {stored: ending(theirFinalizer),
			want: left{Finalizers: []string{theirFinalizer}, HasStatus: true, Events: 1}},
		"absent": {want: left{Finalizers: []string{"gone"}, Desired: []string{"base is absent"},
			RequeueAfter: time.Minute}},
		"absent, undone": {kind: lasting{released: true}, want: left{Finalizers: []string{"gone"},
			Desired: []string{"base is absent"}, RequeueAfter: time.Minute}},
		"absent, and the policies can't be read": {
			kind: lasting{simple: simple{observation: errNoNetwork}}, want: left{Finalizers: []string{"gone"}, Failed: true},
		},
		"a kind without a finalizer, being deleted": {without: true, stored: ending(ourFinalizer),
			want: left{Finalizers: []string{ourFinalizer}, HasStatus: true, Events: 1}},
		"a kind without a finalizer, absent": {without: true, want: left{Finalizers: []string{"gone"}}},
	} {
		t.Run(name, test.run)
	}
}

// unasked returns policies that can't be read, for an object that is absent or being deleted: they
// must not be read.
func unasked(stored *mspolicyv1.PlatformPolicy) *Policy[*mspolicyv1.PlatformPolicy, struct{}] {
	if stored != nil && stored.DeletionTimestamp == nil {
		return nil
	}
	return &Policy[*mspolicyv1.PlatformPolicy, struct{}]{
		Rules: func(context.Context, string) (policy.Rules, error) {
			return policy.Rules{}, errors.New("no policy is asked")
		},
	}
}

// TestIsReleased: false until the plan is carried out, and then as the kind decides, if it
// implements Finalizing.
func TestIsReleased(t *testing.T) {
	deployment := plan.Ref{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	refused := plan.Result{Refused: map[plan.Ref]string{deployment: "no"}}
	unwritten := plan.Result{Patched: []plan.Ref{{Kind: "Deployment", Namespace: "shop", Name: "api"}},
		Unwritten: map[plan.Ref]string{deployment: "no route"}}
	slowed := plan.Result{Slowed: map[plan.Ref]string{deployment: "someone else changes it"}, SlowedFor: time.Second}
	stored := ending(ourFinalizer)
	stored.ResourceVersion = "1"
	for name, test := range map[string]struct {
		kind   Kind[*mspolicyv1.PlatformPolicy, struct{}, struct{}]
		course run[*mspolicyv1.PlatformPolicy, struct{}, struct{}]
		want   bool
	}{
		"all is undone":       {kind: simple{}, want: true},
		"a patch was refused": {kind: simple{}, course: run[*mspolicyv1.PlatformPolicy, struct{}, struct{}]{result: refused}},
		"a patch failed":      {kind: simple{}, course: run[*mspolicyv1.PlatformPolicy, struct{}, struct{}]{result: unwritten}},
		"a patch is slowed":   {kind: simple{}, course: run[*mspolicyv1.PlatformPolicy, struct{}, struct{}]{result: slowed}},
		"it failed":           {kind: simple{}, course: run[*mspolicyv1.PlatformPolicy, struct{}, struct{}]{err: errors.New("no route")}},
		"it failed, whatever it says": {kind: &lasting{released: true},
			course: run[*mspolicyv1.PlatformPolicy, struct{}, struct{}]{err: errors.New("no route")}},
		"the kind says so": {kind: &lasting{released: true}, course: run[*mspolicyv1.PlatformPolicy, struct{}, struct{}]{result: refused},
			want: true},
		"the kind says not yet": {kind: &lasting{}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler[*mspolicyv1.PlatformPolicy, struct{}, struct{}]{Kind: test.kind, Finalizer: ourFinalizer}
			if got := r.isReleased(stored, &test.course); got != test.want {
				t.Errorf("%t, want %t", got, test.want)
			}
		})
	}
}
