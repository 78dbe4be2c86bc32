package reconciler

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/apply"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// stepping is a kind with all steps. It records them, with what each of them gets.
type stepping struct {
	// missing makes the first decision name something to read.
	missing                    bool
	admission, reading, acting error
	steps                      []string
}

func (s *stepping) Admit(*mspolicyv1.PlatformPolicy) error { return s.admission }

func (s *stepping) Observe(context.Context, *mspolicyv1.PlatformPolicy) (string, error) {
	s.steps = append(s.steps, "observe")
	return "observed", nil
}

func (s *stepping) Decide(_ *mspolicyv1.PlatformPolicy, observed string) string {
	s.steps = append(s.steps, "decide "+observed)
	return "decided"
}

func (s *stepping) Complete(_ context.Context, _ *mspolicyv1.PlatformPolicy, observed *string, _ string) (bool, error) {
	if s.missing {
		*observed += " more"
	}
	return s.missing, s.reading
}

func (s *stepping) Act(_ context.Context, stored, _ *mspolicyv1.PlatformPolicy, _ string, decided *string) error {
	s.steps = append(s.steps, "act on "+stored.Name)
	*decided = "done"
	return s.acting
}

func (s *stepping) Desired(_ *mspolicyv1.PlatformPolicy, _, decided string) plan.Plan {
	s.steps = append(s.steps, "desired "+decided)
	return plan.Plan{}
}

func (s *stepping) Report(into, _ *mspolicyv1.PlatformPolicy, _, decided string, _ plan.Result) time.Duration {
	s.steps = append(s.steps, "report "+decided)
	into.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "InForce"}}
	return 0
}

// TestSteps checks which steps run, in which order, and what each gets from those before it.
func TestSteps(t *testing.T) {
	for name, test := range map[string]struct {
		kind  stepping
		fails bool
		want  []string
	}{
		"all": {want: []string{"observe", "decide observed", "act on base", "desired done", "report done"}},
		"the decision names more to read": {kind: stepping{missing: true},
			want: []string{"observe", "decide observed", "decide observed more", "act on base", "desired done", "report done"}},
		"what it names can't be read": {kind: stepping{missing: true, reading: errNoNetwork}, fails: true,
			want: []string{"observe", "decide observed"}},
		"the action fails": {kind: stepping{acting: errNoNetwork}, fails: true, want: []string{"observe", "decide observed", "act on base"}},
		"the spec is refused": {kind: stepping{admission: errors.New("not so")}, fails: true,
			want: []string{"observe", "decide observed", "report decided"}},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := schemeOf(t, mspolicyv1.AddToScheme)
			stored := living()
			cluster := fake.NewClientBuilder().WithScheme(scheme).WithObjects(stored).WithStatusSubresource(stored).Build()
			reader := children.Reader{Cached: cluster, Live: cluster, Scheme: scheme}
			r := &Reconciler[*mspolicyv1.PlatformPolicy, string, string]{
				Name: "stepping", New: newObject, Kind: &test.kind, Client: cluster, Applier: apply.New(cluster, reader),
				Recorder: events.NewFakeRecorder(10), Clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0)),
			}
			_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(stored)})
			if (err != nil) != test.fails {
				t.Errorf("the reconcile ended with %v", err)
			}
			if diff := cmp.Diff(test.want, test.kind.steps); diff != "" {
				t.Error(diff)
			}
		})
	}
}
