package webapp

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

func suspended(changes ...func(*msappsv1.WebAppSpec)) func(*msappsv1.WebApp) {
	return spec(func(s *msappsv1.WebAppSpec) {
		s.Suspend = true
		for _, change := range changes {
			change(s)
		}
	})
}

func autoscaled(s *msappsv1.WebAppSpec) { s.Autoscaling = &msappsv1.Autoscaling{Min: 3, Max: 9} }

// stopped changes a Deployment to one without pods. Without an annotation it has not been
// suspended.
func stopped(annotation string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		d.Spec.Replicas = new(int32(0))
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation}
		if annotation != "" {
			d.Annotations = map[string]string{api.AnnotationResumeReplicas: annotation}
		}
	}
}

var suspendedStatus = map[string]statusCase{
	"it is suspended once no pod is left": {
		app: suspended(), observed: running(stopped("2")), phase: "Suspended", message: "set it to false to resume",
		conditions: []string{"Ready=False Suspended", "Progressing=False Suspended", healthy, "Suspended=True Suspended", active},
	},
	"pods that run are stopped": {
		app: suspended(), observed: running(), phase: "Deploying", message: "stopping the pods (2 left)",
		conditions: []string{"Ready=False Suspending", "Progressing=True Suspending", healthy, active},
	},
	"a pod that is terminating is left": {
		app: suspended(), observed: with(running(stopped("2")), corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}}),
		phase: "Deploying", message: "stopping the pods (1 left)",
		conditions: []string{"Ready=False Suspending", "Progressing=True Suspending", healthy, active},
	},
	"a pod that has ended is none": {
		app: suspended(), observed: with(running(stopped("2")), corev1.Pod{Status: corev1.PodStatus{Phase: "Failed"}}), phase: "Suspended",
		conditions: []string{"Ready=False Suspended", "Progressing=False Suspended", healthy, "Suspended=True Suspended", active},
	},
	"a Deployment that was just written is not believed": {
		app: suspended(), observed: running(stopped("2"), func(d *appsv1.Deployment) { d.Generation++ }), phase: "Deploying",
		message:    "is being scaled to 0",
		conditions: []string{"Ready=False Suspending", "Progressing=True Suspending", healthy, active},
	},
	"what keeps pods from running does not matter": {
		app: suspended(routed, func(s *msappsv1.WebAppSpec) { s.ServiceAccountName = "robot" }),
		observed: func() Observed {
			observed := running(stopped("2"))
			observed.ServiceAccountMissing = true
			return observed
		}(),
		phase:      "Suspended",
		conditions: []string{"Ready=False Suspended", "Progressing=False Suspended", healthy, "Suspended=True Suspended", active},
	},
	"paused before it could be stopped": {
		app: suspended(func(s *msappsv1.WebAppSpec) { s.Paused = true }), observed: running(), result: plan.Result{Withheld: aService},
		phase: "Paused", conditions: []string{"Ready=False PausedByUser", "Progressing=False PausedByUser", healthy, "Paused=True PausedByUser"},
	},
	"paused after it was stopped": {
		app: suspended(func(s *msappsv1.WebAppSpec) { s.Paused = true }), observed: running(stopped("2")), phase: "Paused",
		conditions: []string{"Ready=False Suspended", "Progressing=False Suspended", healthy, "Suspended=True Suspended",
			"Paused=True PausedByUser"},
	},
	"a refused child is a problem all the same": {
		app: suspended(), observed: running(stopped("2")), result: plan.Result{Failure: &plan.Failure{Reason: "Refused", Message: "no"}},
		phase: "Failed", conditions: []string{"Ready=False Refused", "Progressing=False Refused", "Degraded=True Refused", active},
	},
}

func TestStatusOfSuspended(t *testing.T) { checkStatus(t, suspendedStatus) }

// TestSuspendAndResume follows the number of replicas through a suspension: it is what is applied,
// and what the Deployment then has, except that another client scales it to 1 once.
func TestSuspendAndResume(t *testing.T) {
	five := func(s *msappsv1.WebAppSpec) { s.Replicas = new(int32(5)) }
	for name, test := range map[string]struct {
		spec func(*msappsv1.WebAppSpec)
		// without is the number if the spec loses its own in the same change.
		resumed, without *int32
	}{
		"a number in the spec":       {five, new(int32(5)), new(int32(5))},
		"an autoscaler":              {autoscaled, new(int32(3)), new(int32(2))},
		"a number of another client": {func(*msappsv1.WebAppSpec) {}, new(int32(2)), new(int32(2))},
		"none":                       {func(s *msappsv1.WebAppSpec) { s.Replicas = new(int32(0)) }, new(int32(0)), new(int32(1))},
	} {
		t.Run(name, func(t *testing.T) {
			observed := running()
			for _, scaled := range []int32{1, 0, 0} {
				written := desiredDeployment(admitted(suspended(test.spec)), observed)
				if diff := cmp.Diff(new(int32(0)), written.Spec.Replicas); diff != "" {
					t.Fatal(diff)
				}
				observed = running(stopped(written.Annotations[api.AnnotationResumeReplicas]),
					func(d *appsv1.Deployment) { d.Spec.Replicas = new(scaled) })
			}
			written := desiredDeployment(admitted(spec(test.spec)), observed)
			if diff := cmp.Diff(test.resumed, written.Spec.Replicas); diff != "" {
				t.Error(diff)
			}
			if written.Annotations[api.AnnotationResumeReplicas] != "" {
				t.Error("the annotation stays")
			}
			if diff := cmp.Diff(test.without, desiredDeployment(admitted(), observed).Spec.Replicas); diff != "" {
				t.Errorf("without a number in the spec: %s", diff)
			}
		})
	}
}

// TestResumeReplicas: what an annotation may say. Without a number, resuming means one pod.
func TestResumeReplicas(t *testing.T) {
	for text, want := range map[string]*int32{
		"": nil, "1": new(int32(1)), "10000": new(int32(10000)), "0": nil, "-1": nil, "10001": nil, "x": nil, "000002": nil,
	} {
		if diff := cmp.Diff(want, resumeReplicas(map[string]string{api.AnnotationResumeReplicas: text})); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
	for name, observed := range map[string]Observed{
		"a new Deployment": {}, "one that a user had scaled to 0": running(stopped("")), "one with another text": running(stopped("x")),
	} {
		if got := resumeAnnotation(admitted(suspended()), observed); got[api.AnnotationResumeReplicas] != "1" {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := resumeAnnotation(admitted(suspended(autoscaled)), Observed{}); got[api.AnnotationResumeReplicas] != "3" {
		t.Errorf("a new one with an autoscaler: %v", got)
	}
}

// TestSuspendedChildren: neither autoscaler nor budget is desired, and what serves stays.
func TestSuspendedChildren(t *testing.T) {
	app := admitted(suspended(autoscaled, func(s *msappsv1.WebAppSpec) {
		s.Ingress = &msappsv1.Ingress{Host: "shop.example.com"}
		s.NetworkPolicy = &msappsv1.NetworkPolicy{}
		s.Disruption = &msappsv1.Disruption{}
	}))
	kinds := func(app *msappsv1.WebApp) []string {
		var all []string
		for _, child := range Desired(app, running()).Children {
			all = append(all, reflect.TypeOf(child.Object).Elem().Name())
		}
		return all
	}
	want := []string{"ServiceAccount", "NetworkPolicy", "Deployment", "Service", "Ingress"}
	if diff := cmp.Diff(want, kinds(app)); diff != "" {
		t.Error(diff)
	}
	app.Spec.Suspend = false
	want = slices.Insert(want, 4, "HorizontalPodAutoscaler", "PodDisruptionBudget")
	if diff := cmp.Diff(want, kinds(app)); diff != "" {
		t.Errorf("resumed: %s", diff)
	}
}

// TestBudgetNeedsPods: an app without pods, of which none is started now, has no budget.
func TestBudgetNeedsPods(t *testing.T) {
	disruption := spec(func(s *msappsv1.WebAppSpec) { s.Disruption = &msappsv1.Disruption{} })
	byHand := spec(func(s *msappsv1.WebAppSpec) { s.Replicas = nil })
	for name, test := range map[string]struct {
		app      *msappsv1.WebApp
		observed Observed
		want     bool
	}{
		"it runs":                          {admitted(disruption), running(), true},
		"resumed":                          {admitted(disruption), running(stopped("2")), true},
		"resumed, and waits for a binding": {admitted(disruption, bindings(oneBinding)), binding(running(stopped("2")), nil), false},
		"runs, and waits for a binding":    {admitted(disruption, bindings(oneBinding)), binding(running(), nil), true},
		"scaled to zero by hand":           {admitted(disruption, byHand), running(stopped("")), false},
	} {
		if got := wantsBudget(test.app, test.observed); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// TestPolicyOfSuspended: a suspended app has no number of replicas that could violate a rule; the
// number that it gets back is checked when it is resumed.
func TestPolicyOfSuspended(t *testing.T) {
	rules := ruled(mspolicyv1.Rule{MaxReplicas: new(int32(1))})
	for name, test := range map[string]struct {
		app      func(*msappsv1.WebApp)
		observed Observed
		want     int
	}{
		"it has too many":             {spec(func(s *msappsv1.WebAppSpec) { s.Replicas = new(int32(2)) }), Observed{}, 1},
		"suspended":                   {suspended(func(s *msappsv1.WebAppSpec) { s.Replicas = new(int32(2)) }), Observed{}, 0},
		"suspended with autoscaling":  {suspended(autoscaled), Observed{}, 0},
		"suspended, and stopped":      {suspended(), running(stopped("2")), 0},
		"it would get back too many":  {func(*msappsv1.WebApp) {}, running(stopped("2")), 1},
		"a user has scaled it to one": {func(*msappsv1.WebApp) {}, running(func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(1)) }), 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := rules.CheckReplicas(Wanted(admitted(test.app), test.observed).Replicas); len(got) != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
