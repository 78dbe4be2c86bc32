package workloadcontroller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/apply"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
	"github.com/mainstay-platform/mainstay/internal/kit/metrics/metricstest"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/workload"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// TestResult: the result for the metrics, and when a namespace is reconciled again.
func TestResult(t *testing.T) {
	forbidden := apierrors.NewForbidden(corev1.Resource("replicasets"), "", errors.New("no right"))
	for name, test := range map[string]struct {
		pass            result
		want            metrics.Result
		atLeast, atMost time.Duration
	}{
		"nothing to do":    {want: metrics.Unchanged},
		"written":          {pass: result{writes: 1}, want: metrics.Changed},
		"something is due": {pass: result{due: time.Hour}, want: metrics.Unchanged, atLeast: time.Hour, atMost: time.Hour},
		"refused": {pass: result{writes: 2, refused: true}, want: metrics.Blocked, atLeast: time.Minute,
			atMost: 72 * time.Second},
		"refused, something due soon": {pass: result{writes: 1, refused: true, due: time.Second}, want: metrics.Blocked, atLeast: time.Second,
			atMost: time.Second},
		"refused, something due late": {pass: result{writes: 1, refused: true, due: time.Hour}, want: metrics.Blocked, atLeast: time.Minute,
			atMost: 72 * time.Second},
		"no network": {pass: result{writes: 1, err: errors.New("no route"), due: time.Second}, want: metrics.Transient,
			atLeast: time.Second, atMost: time.Second},
		"it may not be read": {pass: result{err: forbidden}, want: metrics.Blocked},
		"another client wrote in between": {pass: result{err: apierrors.NewConflict(corev1.Resource("pods"), "web", nil)},
			want: metrics.Conflict},
		"this process ends": {pass: result{err: context.Canceled}, want: metrics.Stopped},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.pass.result(); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			if got := test.pass.requeueAfter(); got < test.atLeast || got > test.atMost {
				t.Errorf("after %s, want %s to %s", got, test.atLeast, test.atMost)
			}
		})
	}
}

// TestPatchOf: the stamp and the restart are one patch. Without a restart the pod template is not
// part of it.
func TestPatchOf(t *testing.T) {
	target := &workload.Target{Ref: workload.TargetRef{Kind: "Deployment", Name: "web"}, UID: "1"}
	for want, patch := range map[string]workload.TargetPatch{
		`{"metadata":{"annotations":{"config.mainstay.dev/observed":null},"uid":"1"}}`: {},
		`{"metadata":{"annotations":{"config.mainstay.dev/observed":"{}"},"uid":"1"},` +
			`"spec":{"template":{"metadata":{"annotations":{"config.mainstay.dev/restarted-for":"flags=1#1"}}}}}`: {Observed: "{}",
			RestartedFor: "flags=1#1"},
	} {
		made := patchOf("shop", target, patch)
		if form, body, err := made.Body(); err != nil || form != types.MergePatchType || string(body) != want {
			t.Errorf("got %s %s, %v; want %s", form, body, err, want)
		}
		if made.Ref != (plan.Ref{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}) || made.APIVersion != "apps/v1" {
			t.Errorf("it is for %s, %s", made.APIVersion, made.Ref)
		}
	}
}

// cacheOf is a cache of sources that reads from a client. None of them selects pods itself.
type cacheOf struct {
	cache.Cache
	client client.Client
}

func (c cacheOf) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	return c.client.Get(ctx, key, into, options...)
}

func (cacheOf) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func (cacheOf) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return nil
}

// reconcilerOf returns a reconciler for a cluster with some objects.
func reconcilerOf(t *testing.T, now time.Time, objects ...client.Object) (*reconciler, client.Client) {
	t.Helper()
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).Build()
	sources, err := observe.NewSources(t.Context(), nil, observe.SecretAccess{}, func(cache.Options) (cache.Cache, error) {
		return cacheOf{client: c}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return &reconciler{
		applier:  apply.New(c, children.Reader{Cached: c, Live: c, Scheme: clientgoscheme.Scheme}),
		reader:   observe.Reader{Cached: c, Live: c, Sources: sources},
		recorder: events.NewFakeRecorder(10), clock: clocktesting.NewFakePassiveClock(now), rolling: newRolling(), missing: newMissing(),
		notGranted: newMissing(),
	}, c
}

// TestPanicsAreCounted: a panic counts as an error. Recovering it is up to the caller.
func TestPanicsAreCounted(t *testing.T) {
	panics := func() float64 { return metricstest.Counted(t, "mainstay_errors_total", metrics.KindWorkload, "panic") }
	before := panics()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		broken := &reconciler{clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0))}
		_, _ = broken.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "shop"}})
	}()
	if got := panics() - before; got != 1 {
		t.Errorf("%v panics are counted", got)
	}
}

// TestUnobservedTemplate: a Deployment begins to use a source. Until its controller has observed
// that, the newest ReplicaSet is one of before, so nothing is decided, and it is looked at again.
func TestUnobservedTemplate(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		observed int64
		// made is how long after noon the newest ReplicaSet was made. The source is of 12:01.
		made                 time.Duration
		isNoted, isRestarted bool
		due                  time.Duration
	}{
		"not observed yet":                {1, 0, false, false, time.Second},
		"observed, and there is a newer":  {2, time.Hour, true, false, 0},
		"observed, and there is no newer": {2, 0, true, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			meta := func(name string, created time.Time) metav1.ObjectMeta {
				return metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{"app": "web"},
					CreationTimestamp: metav1.NewTime(created)}
			}
			web := &appsv1.Deployment{ObjectMeta: meta("web", noon), Status: appsv1.DeploymentStatus{ObservedGeneration: test.observed}}
			web.Generation, web.Annotations = 2, map[string]string{configv1.AnnotationReload: "flags"}
			web.Spec.Selector = &metav1.LabelSelector{MatchLabels: web.Labels}
			set := &appsv1.ReplicaSet{ObjectMeta: meta("web-1", noon.Add(test.made))}
			set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(web, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
			r, c := reconcilerOf(t, noon.Add(2*time.Hour), web, set,
				&corev1.ConfigMap{ObjectMeta: meta("flags", noon.Add(time.Minute)), Data: map[string]string{"a": "1"}})
			if done := r.reconcile(t.Context(), "shop"); done.err != nil || done.due != test.due {
				t.Errorf("due after %s, %v; want %s", done.due, done.err, test.due)
			}
			var live appsv1.Deployment
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(web), &live); err != nil {
				t.Fatal(err)
			}
			isNoted := live.Annotations[configv1.AnnotationObserved] != ""
			isRestarted := live.Spec.Template.Annotations[configv1.AnnotationRestartedFor] != ""
			if isNoted != test.isNoted || isRestarted != test.isRestarted {
				t.Errorf("its content is recorded: %t, it is restarted: %t", isNoted, isRestarted)
			}
		})
	}
}

// TestRefusedRestart: a refusal is part of what is observed until the restart is written. After the
// first one, the namespace is decided again at once, because another workload may go.
func TestRefusedRestart(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	ran := workload.Stamp{Sources: map[string]workload.SeenSource{"ConfigMap/flags": {All: "x"}}}
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1", CreationTimestamp: metav1.NewTime(noon),
		Annotations: map[string]string{configv1.AnnotationReload: "flags", configv1.AnnotationObserved: ran.String()}}}
	web.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	r, c := reconcilerOf(t, noon.Add(time.Hour), web,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "flags"}, Data: map[string]string{"a": "1"}})
	isLet := false
	refusing := interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
		Patch: func(ctx context.Context, under client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if !isLet {
				return apierrors.NewForbidden(appsv1.Resource("deployments"), object.GetName(), errors.New("a policy says no"))
			}
			return under.Patch(ctx, object, patch, options...)
		},
	})
	r.applier = apply.New(refusing, children.Reader{Cached: c, Live: c, Scheme: clientgoscheme.Scheme})
	r.reader.Refusals = observe.NewRefusals()
	for _, step := range []struct {
		what           string
		isLet, refused bool
		due            time.Duration
	}{
		{"it is refused", false, true, time.Second},
		{"it is refused again", false, true, 0},
		{"the policy is gone", true, false, 0},
	} {
		isLet = step.isLet
		if done := r.reconcile(t.Context(), "shop"); done.err != nil || done.refused != step.refused || done.due != step.due {
			t.Errorf("%s: refused: %t, due after %s, %v", step.what, done.refused, done.due, done.err)
		}
		snapshot, err := r.reader.Snapshot(t.Context(), "shop")
		if err != nil {
			t.Fatal(err)
		}
		if got := snapshot.Targets[0].Refusal.Message; strings.Contains(got, "a policy says no") != step.refused {
			t.Errorf("%s: it is remembered as %q", step.what, got)
		}
	}
}
