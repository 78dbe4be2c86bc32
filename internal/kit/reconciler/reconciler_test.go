package reconciler

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/apply"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/metrics/metricstest"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/trace"
)

// simple is a kind of PlatformPolicies without children. They are Ready unless there is a failure.
type simple struct {
	admission, observation error
	panics                 bool
}

func newObject() *mspolicyv1.PlatformPolicy { return &mspolicyv1.PlatformPolicy{} }

func (s simple) Admit(*mspolicyv1.PlatformPolicy) error                      { return s.admission }
func (simple) Decide(*mspolicyv1.PlatformPolicy, struct{}) struct{}          { return struct{}{} }
func (simple) Desired(_ *mspolicyv1.PlatformPolicy, _, _ struct{}) plan.Plan { return plan.Plan{} }

func (s simple) Observe(context.Context, *mspolicyv1.PlatformPolicy) (struct{}, error) {
	if s.panics {
		panic("a defect")
	}
	return struct{}{}, s.observation
}

func (simple) Report(into, _ *mspolicyv1.PlatformPolicy, _, _ struct{}, result plan.Result) time.Duration {
	into.Status.Phase, into.Status.Conditions = "Active", []metav1.Condition{{Type: "Ready", Status: "True", Reason: "InForce"}}
	if result.Failure != nil {
		into.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: result.Failure.Reason}}
	}
	return 0
}

// recorded is the output of one reconcile: its log lines, and its spans by name with their results.
type recorded struct {
	lines []string
	spans map[string]string
}

// reconcile reconciles one object of the kind.
func reconcile(t *testing.T, kind simple, verbosity int) (recorded, error) {
	t.Helper()
	scheme := schemeOf(t, mspolicyv1.AddToScheme)
	stored := &mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base", Generation: 7, ResourceVersion: "41"},
		Status: mspolicyv1.PlatformPolicyStatus{Phase: "Pending"}}
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithObjects(stored).WithStatusSubresource(stored).Build()
	reader := children.Reader{Cached: cluster, Live: cluster, Scheme: scheme}
	r := &Reconciler[*mspolicyv1.PlatformPolicy, struct{}, struct{}]{Name: "simple", New: newObject, Kind: kind, Client: cluster,
		Applier:  apply.New(cluster, reader),
		Recorder: events.NewFakeRecorder(10), Clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0))}
	exporter := tracetest.NewInMemoryExporter()
	trace.Listen(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)))
	t.Cleanup(func() { trace.Listen(nil) })
	got := recorded{spans: map[string]string{}}
	logger := funcr.New(func(_, line string) { got.lines = append(got.lines, line) }, funcr.Options{Verbosity: verbosity})
	_, err := r.Reconcile(ctrl.LoggerInto(t.Context(), logger), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(stored)})
	for _, span := range exporter.GetSpans() {
		got.spans[span.Name] = span.Status.Description
		for _, attribute := range span.Attributes {
			if attribute.Key == "mainstay.result" {
				got.spans[span.Name] = strings.TrimSpace(attribute.Value.AsString() + " " + span.Status.Description)
			}
		}
	}
	return got, err
}

// TestReconcileRecords: each reconcile logs its start and its end, and has spans. The end has the
// new phase if there is one.
func TestReconcileRecords(t *testing.T) {
	lines := func(result, phase string) []string {
		const at = `"generation"=7 "resourceVersion"="41" "phase"=`
		return []string{`"level"=1 "msg"="Reconciling" ` + at + `"Pending"`,
			`"level"=1 "msg"="Reconciled" ` + at + `"` + phase + `" "duration"="0s" "result"="` + result + `"`}
	}
	for name, test := range map[string]struct {
		kind          simple
		result, phase string
		spans         map[string]string
		fails         bool
	}{
		"all is well": {simple{}, "changed", "Active", map[string]string{
			"Reconcile": "changed", "get": "", "admit": "", "observe": "", "policy": "", "decide": "", "desired": "", "apply": "", "status": "",
		}, false},
		"it can't be read": {simple{observation: errors.New("no network")}, "transient", "Pending", map[string]string{
			"Reconcile": "transient no network", "get": "", "admit": "", "observe": "no network",
		}, true},
		"it is refused": {simple{admission: errors.New("not so")}, "transient", "Active", map[string]string{
			"Reconcile": "transient not so", "get": "", "admit": "not so", "observe": "", "decide": "", "policy": "", "status": "",
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := reconcile(t, test.kind, 1)
			if (err != nil) != test.fails {
				t.Errorf("it returned %v", err)
			}
			if diff := cmp.Diff(lines(test.result, test.phase), got.lines); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.spans, got.spans); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got, _ := reconcile(t, simple{}, 0); len(got.lines) > 0 {
		t.Errorf("at level 0 it logs %q", got.lines)
	}
}

// TestReconcileRecordsPanic: a panic counts as an error. Recovering it is up to the caller.
func TestReconcileRecordsPanic(t *testing.T) {
	panics := func() float64 { return metricstest.Counted(t, "mainstay_errors_total", "panic") }
	before := panics()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = reconcile(t, simple{panics: true}, 1)
	}()
	if got := panics() - before; got != 1 {
		t.Errorf("%v panics are counted", got)
	}
}

// TestAnObjectThatIsGoneGetsNoEvent checks that a failure is recorded for an object that exists,
// and not for one that was deleted, or made anew, since it was read.
func TestAnObjectThatIsGoneGetsNoEvent(t *testing.T) {
	scheme := schemeOf(t, mspolicyv1.AddToScheme)
	object := func(change func(*metav1.ObjectMeta)) *mspolicyv1.PlatformPolicy {
		made := &mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base", UID: "1", ResourceVersion: "41"}}
		change(&made.ObjectMeta)
		return made
	}
	for name, test := range map[string]struct {
		now    *mspolicyv1.PlatformPolicy
		events int
	}{
		"exists":  {object(func(*metav1.ObjectMeta) {}), 1},
		"deleted": {nil, 0},
		"is being deleted": {object(func(meta *metav1.ObjectMeta) {
			meta.DeletionTimestamp, meta.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.com/x"}
		}), 0},
		"made anew": {object(func(meta *metav1.ObjectMeta) { meta.UID = "2" }), 0},
	} {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithScheme(scheme)
			if test.now != nil {
				builder = builder.WithObjects(test.now)
			}
			recorder := events.NewFakeRecorder(10)
			r := &Reconciler[*mspolicyv1.PlatformPolicy, struct{}, struct{}]{New: newObject, Client: builder.Build(), Recorder: recorder}
			failure := errors.New("no network")
			if err := r.recordFailure(t.Context(), object(func(*metav1.ObjectMeta) {}), failure); !errors.Is(err, failure) {
				t.Errorf("returned %v", err)
			}
			if got := len(recorder.Events); got != test.events {
				t.Errorf("%d events, want %d", got, test.events)
			}
		})
	}
}

// TestObserveAddsWhatIsKnown: what an earlier try has read from the API server is among the
// children of a kind that has some, once Observe has returned; for another kind it has no place.
func TestObserveAddsWhatIsKnown(t *testing.T) {
	live, cached := plan.Ref{Kind: "Service", Name: "live"}, plan.Ref{Kind: "Service", Name: "cached"}
	known, observed := plan.Children{live: {IsLive: true}, cached: {}}, plan.Children{}
	r := &Reconciler[*mspolicyv1.PlatformPolicy, struct{}, struct{}]{Kind: simple{}}
	if _, err := r.observe(t.Context(), newObject(), known); err != nil {
		t.Error(err)
	}
	r.Children = func(struct{}) plan.Children { return observed }
	if _, err := r.observe(t.Context(), newObject(), known); err != nil || len(observed) != 1 || !observed[live].IsLive {
		t.Errorf("got %v, %v", observed, err)
	}
}

// schemeOf returns a scheme with the types of some groups.
func schemeOf(t testing.TB, groups ...func(*runtime.Scheme) error) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range groups {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}
