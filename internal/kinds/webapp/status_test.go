package webapp

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// Conditions as "Type=Status Reason", in the order of Status.
const (
	active  = "Paused=False Active"
	healthy = "Degraded=False Healthy"
)

// statusCase is a row of the tables of summarize, phase and conditions.
type statusCase struct {
	app        func(*msappsv1.WebApp)
	observed   Observed
	result     plan.Result
	phase      string
	conditions []string
	// message is a part of Ready's message.
	message string
}

// running returns what is observed of a Deployment of ours.
func running(changes ...func(*appsv1.Deployment)) Observed {
	return Observed{Children: found(plan.Ours, rolledOut(changes...))}
}

// rolling returns a Deployment in the middle of a rollout.
func rolling(d *appsv1.Deployment) {
	d.Status.UpdatedReplicas, d.Status.Conditions[0].Reason = 1, "ReplicaSetUpdated"
}

func stuck(d *appsv1.Deployment) {
	d.Status.UpdatedReplicas = 1
	d.Status.Conditions[0].Status, d.Status.Conditions[0].Reason = "False", "ProgressDeadlineExceeded"
}

func podsRefused(d *appsv1.Deployment) {
	d.Status.Replicas, d.Status.AvailableReplicas = 1, 1
	d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: "ReplicaFailure", Status: "True",
		Message: "exceeded quota: compute"})
}

// oneAway returns a Deployment with one of two pods unavailable, and none ready.
func oneAway(d *appsv1.Deployment) { d.Status.AvailableReplicas = 1 }

func noneReady(d *appsv1.Deployment) { d.Status.AvailableReplicas, d.Status.ReadyReplicas = 0, 0 }

// with adds one pod.
func with(observed Observed, pod corev1.Pod) Observed {
	observed.Pods = []corev1.Pod{pod}
	return observed
}

// unreadyFor adds a pod whose container has run for a time without being ready, and what the
// kubelet says about it.
func unreadyFor(observed Observed, age time.Duration) Observed {
	observed.Now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	observed.Events = []corev1.Event{{Reason: "Unhealthy", Message: "Readiness probe failed: dial tcp 10.0.0.7:8080: connect: connection refused",
		InvolvedObject: corev1.ObjectReference{FieldPath: "spec.containers{webapp}"}}}
	return with(observed, corev1.Pod{Status: corev1.PodStatus{PodIP: "10.0.0.7", ContainerStatuses: []corev1.ContainerStatus{{
		Name: "webapp", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(observed.Now.Add(-age))}},
	}}}})
}

func unpullable() corev1.Pod {
	return corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		Name: "webapp", Image: "shop:9", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull",
			Message: "not found"}},
	}}}}
}

func unschedulable() corev1.Pod {
	return corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: "PodScheduled", Status: "False",
		Message: "0/3 nodes are available"}}}}
}

func changed(kind string) plan.Result {
	return plan.Result{Changes: []plan.Change{{Ref: Ref(&msappsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop"}}, kind),
		Operation: "Updated"}}}
}

func routed(s *msappsv1.WebAppSpec) {
	s.Route = &msappsv1.Route{ParentRefs: []msappsv1.ParentReference{{Name: "public"}}}
}

// withRoute adds an HTTPRoute to which its Gateway has added these conditions.
func withRoute(observed Observed, conditions ...metav1.Condition) Observed {
	route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop", Generation: 4}}
	route.Status.Parents = []gatewayv1.RouteParentStatus{{ParentRef: gatewayv1.ParentReference{Name: "public"}, Conditions: conditions}}
	observed.HasRouteAPI = true
	observed.Children[plan.Ref{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute", Namespace: "web",
		Name: "shop"}] = plan.Found{Object: route, Ownership: plan.Ours}
	return observed
}

var (
	aService = []plan.Ref{{Kind: "Service", Namespace: "web", Name: "shop"}}
	paused   = spec(func(s *msappsv1.WebAppSpec) { s.Paused = true })
)

var statusCases = map[string]statusCase{
	"an invalid spec has stalled": {
		observed: running(), result: plan.Result{Failure: &plan.Failure{Reason: "InvalidSpec", Message: "spec.image: no", Stalled: true}},
		phase: "Degraded", message: "spec.image: no",
		conditions: []string{"Ready=False InvalidSpec", "Progressing=False InvalidSpec", "Degraded=True InvalidSpec", "Stalled=True InvalidSpec",
			active},
	},
	"a refused child has failed and may be let in later": {
		observed: running(), result: plan.Result{Failure: &plan.Failure{Reason: "Refused", Message: "exceeded quota"}},
		phase: "Degraded", message: "exceeded quota",
		conditions: []string{"Ready=False Refused", "Progressing=False Refused", "Degraded=True Refused", active},
	},
	"a write that failed leaves readiness unknown": {
		observed: running(), result: plan.Result{Failure: &plan.Failure{Reason: "ReconcileFailed", Message: "it is tried again",
			Transient: true}},
		phase: "Deploying", message: "it is tried again",
		conditions: []string{"Ready=Unknown ReconcileFailed", "Progressing=False ReconcileFailed", healthy, active},
	},
	"a Deployment that somebody scaled to zero does not work": {
		observed: running(func(d *appsv1.Deployment) {
			d.Spec.Replicas = new(int32)
			d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation}
		}),
		phase: "Deploying", message: "scaled to 0 replicas",
		conditions: []string{"Ready=False ScaledToZero", "Progressing=False ScaledToZero", healthy, active},
	},
	"a Deployment that somebody paused waits for them": {
		observed: running(rolling, func(d *appsv1.Deployment) { d.Spec.Paused = true }),
		phase:    "Deploying", message: "kubectl rollout resume deployment shop",
		conditions: []string{"Ready=False DeploymentPaused", "Progressing=False DeploymentPaused", healthy, active},
	},
	"a foreign object has stalled it, and the message says the way out": {
		observed: running(), result: plan.Result{Conflicts: aService},
		phase: "Degraded", message: "Service web/shop exists and was not created by this WebApp: delete it, choose another name, or allow taking it over with: " +
			"kubectl annotate -n web service/shop mainstay.dev/adopt=WebApp/shop",
		conditions: []string{"Ready=False Conflict", "Progressing=False Conflict", "Degraded=True Conflict", "Stalled=True Conflict", active},
	},
	"several foreign objects need one command": {
		observed: running(), result: plan.Result{Conflicts: []plan.Ref{aService[0],
			{Group: "apps", Kind: "Deployment", Namespace: "web", Name: "shop"}}},
		phase: "Degraded", message: "exist and were not created by this WebApp: delete them, choose another name, or allow taking them over " +
			"with: kubectl annotate -n web service/shop deployment/shop mainstay.dev/adopt=WebApp/shop",
		conditions: []string{"Ready=False Conflict", "Progressing=False Conflict", "Degraded=True Conflict", "Stalled=True Conflict", active},
	},
	"paused with a change that waits is not ready": {
		app: paused, observed: running(), result: plan.Result{Withheld: aService},
		phase: "Paused", message: "withholds a change of Service web/shop",
		conditions: []string{"Ready=False PausedByUser", "Progressing=False PausedByUser", healthy, "Paused=True PausedByUser"},
	},
	"paused with nothing that waits is ready": {
		app: paused, observed: running(), phase: "Paused", message: "2 of 2 replicas",
		conditions: []string{"Ready=True Available", "Progressing=False RolledOut", healthy, "Paused=True PausedByUser"},
	},
	"a child that is still being deleted is waited for": {
		observed: running(), result: plan.Result{Terminating: aService}, phase: "Deploying", message: "Service web/shop is still being deleted",
		conditions: []string{"Ready=False Terminating", "Progressing=True Terminating", healthy, active},
	},
	"a missing ServiceAccount fails a new app": {
		app:      spec(func(s *msappsv1.WebAppSpec) { s.ServiceAccountName = "robot" }),
		observed: Observed{ServiceAccountMissing: true}, phase: "Failed", message: "there is no ServiceAccount robot",
		conditions: []string{"Ready=False ServiceAccountNotFound", "Progressing=False ServiceAccountNotFound",
			"Degraded=True ServiceAccountNotFound", active},
	},
	"without a Deployment nothing runs yet": {
		phase: "Pending", message: "the Deployment is being created",
		conditions: []string{"Ready=False Deploying", "Progressing=True Deploying", healthy, active},
	},
	"a Deployment that was just adopted was not made": {
		result: plan.Result{Changes: []plan.Change{{Ref: plan.Ref{Group: "apps", Kind: "Deployment", Namespace: "web", Name: "shop"},
			Operation: plan.Adopted}}},
		phase: "Pending", message: "the Deployment is being adopted: its pods are replaced where the pod template differs",
		conditions: []string{"Ready=False Deploying", "Progressing=True Deploying", healthy, active},
	},
	"a Deployment that was just made is as nobody has acted upon it": {
		observed: Observed{}, result: plan.Result{Changes: []plan.Change{{
			Ref: plan.Ref{Group: "apps", Kind: "Deployment", Namespace: "web", Name: "shop"}, Operation: plan.Created,
		}}},
		phase: "Deploying", message: "0 of 1 replicas run the current template, 0 are available",
		conditions: []string{"Ready=False Deploying", "Progressing=True Deploying", healthy, active},
	},
	"a Deployment to adopt is not ours yet": {
		observed: Observed{Children: found(plan.Consenting, rolledOut())}, phase: "Pending",
		conditions: []string{"Ready=False Deploying", "Progressing=True Deploying", healthy, active},
	},
	"a Deployment that was just written is not believed": {
		observed: running(), result: changed("Deployment"), phase: "Deploying", message: "the Deployment is being updated",
		conditions: []string{"Ready=False Deploying", "Progressing=True Deploying", healthy, active},
	},
	"a rollout past its deadline has stalled": {
		observed: running(stuck), phase: "Degraded", message: "did not become available within 600 s",
		conditions: []string{"Ready=False RolloutFailed", "Progressing=False RolloutFailed", "Degraded=True RolloutFailed",
			"Stalled=True RolloutFailed", active},
	},
	"a rollout past its deadline says what the pods suffer from": {
		observed: with(running(stuck), unpullable()), phase: "Degraded", message: "image shop:9 of container webapp can't be pulled",
		conditions: []string{"Ready=False ImagePullFailed", "Progressing=False ImagePullFailed", "Degraded=True ImagePullFailed",
			"Stalled=True ImagePullFailed", active},
	},
	"a rollout past its deadline says why there are no pods": {
		observed: running(stuck, podsRefused), phase: "Degraded",
		message: "within 600 s (spec.strategy.progressDeadlineSeconds): exceeded quota: compute",
		conditions: []string{"Ready=False PodsRefused", "Progressing=False PodsRefused", "Degraded=True PodsRefused",
			"Stalled=True PodsRefused", active},
	},
	"a rollout past its deadline says so also while an earlier pod has just been restarted": {
		observed: restarted(running(stuck, podsRefused), time.Second), phase: "Degraded",
		message: "within 600 s (spec.strategy.progressDeadlineSeconds): exceeded quota: compute",
		conditions: []string{"Ready=False PodsRefused", "Progressing=False PodsRefused", "Degraded=True PodsRefused",
			"Stalled=True PodsRefused", active},
	},
	"a rollout past its deadline says what the pods have suffered from until just now": {
		observed: restarted(running(stuck), time.Second), phase: "Degraded", message: "container webapp keeps exiting",
		conditions: []string{"Ready=False CrashLoop", "Progressing=False CrashLoop", "Degraded=True CrashLoop", "Stalled=True CrashLoop",
			active},
	},
	"a pod that does not become ready says why": {
		observed: unreadyFor(running(noneReady), 30*time.Second), phase: "Pending",
		message:    "container webapp does not pass its readiness probe: dial tcp (pod):8080: connect: connection refused",
		conditions: []string{"Ready=False PodsNotReady", "Progressing=False PodsNotReady", "Degraded=True PodsNotReady", active},
	},
	"a pod that does not become ready in time says why": {
		observed: unreadyFor(running(stuck, noneReady), time.Hour), phase: "Failed", message: "does not pass its readiness probe",
		conditions: []string{"Ready=False PodsNotReady", "Progressing=False PodsNotReady", "Degraded=True PodsNotReady",
			"Stalled=True PodsNotReady", active},
	},
	"a pod that has just started is a deployment": {
		observed: unreadyFor(running(rolling), 29*time.Second), phase: "Deploying",
		conditions: []string{"Ready=False Deploying", "Progressing=True Deploying", healthy, active},
	},
	"pods that are refused are reported in the API's words": {
		observed: running(podsRefused, noneReady), phase: "Failed", message: "exceeded quota: compute",
		conditions: []string{"Ready=False PodsRefused", "Progressing=False PodsRefused", "Degraded=True PodsRefused", active},
	},
	"pods that fail during a rollout are reported, and it continues": {
		observed: with(running(rolling), unpullable()), phase: "Degraded", message: "1 of 1 pods: image shop:9",
		conditions: []string{"Ready=False ImagePullFailed", "Progressing=True ImagePullFailed", "Degraded=True ImagePullFailed", active},
	},
	"pods that may recover degrade it while others serve": {
		observed: with(running(oneAway), unschedulable()), phase: "Degraded", message: "0/3 nodes",
		conditions: []string{"Ready=False Unschedulable", "Progressing=False Unschedulable", "Degraded=True Unschedulable", active},
	},
	"pods that may recover leave it pending while none is ready": {
		observed: with(running(noneReady), unschedulable()), phase: "Pending", message: "0/3 nodes",
		conditions: []string{"Ready=False Unschedulable", "Progressing=False Unschedulable", "Degraded=True Unschedulable", active},
	},
	"trouble of one pod too many is none": {
		observed: with(running(), unpullable()), phase: "Running", message: "2 of 2 replicas are available",
		conditions: []string{"Ready=True Available", "Progressing=False RolledOut", healthy, active},
	},
	"pods that fail while none is ready have failed": {
		observed: with(running(rolling, noneReady), unpullable()), phase: "Failed", message: "1 of 1 pods: image shop:9",
		conditions: []string{"Ready=False ImagePullFailed", "Progressing=True ImagePullFailed", "Degraded=True ImagePullFailed", active},
	},
	"paused with a problem is paused, and not ready": {
		app: paused, observed: with(running(rolling, noneReady), unpullable()), phase: "Paused", message: "1 of 1 pods: image shop:9",
		conditions: []string{"Ready=False ImagePullFailed", "Progressing=True ImagePullFailed", "Degraded=True ImagePullFailed",
			"Paused=True PausedByUser"},
	},
	"pods that are replaced are a deployment": {
		observed: running(rolling), phase: "Deploying", message: "1 of 2 replicas run the current template, 2 are available",
		conditions: []string{"Ready=False Deploying", "Progressing=True Deploying", healthy, active},
	},
	"a Deployment that was not looked at yet is a deployment": {
		observed: running(func(d *appsv1.Deployment) { d.Generation = 3 }), phase: "Deploying",
		conditions: []string{"Ready=False Deploying", "Progressing=True Deploying", healthy, active},
	},
	"pods that are added are a scaling": {
		observed: running(oneAway), phase: "Deploying", message: "1 of 2 replicas are available",
		conditions: []string{"Ready=False Scaling", "Progressing=True Scaling", healthy, active},
	},
	"pods above the wanted number are a scaling": {
		observed: running(func(d *appsv1.Deployment) { d.Status.Replicas = 3 }), phase: "Deploying",
		message:    "scaling down: 2 wanted, 3 running",
		conditions: []string{"Ready=False Scaling", "Progressing=True Scaling", healthy, active},
	},
	"another child that was just written is a deployment": {
		observed: running(), result: changed("Service"), phase: "Deploying", message: "Service shop is being updated",
		conditions: []string{"Ready=False Deploying", "Progressing=True Deploying", healthy, active},
	},
	"without the Gateway API the route is waited for": {
		app: spec(routed), observed: running(), phase: "Deploying", message: "install the Gateway API",
		conditions: []string{"Ready=False RouteAPIMissing", "Progressing=False RouteAPIMissing", healthy, active},
	},
	"a route that is not there yet is being made": {
		app: spec(routed), observed: func() Observed { o := running(); o.HasRouteAPI = true; return o }(), phase: "Deploying",
		message:    "the HTTPRoute is being created",
		conditions: []string{"Ready=False Deploying", "Progressing=True Deploying", healthy, active},
	},
	"a route that was refused is reported in the Gateway's words": {
		app: spec(routed), phase: "Deploying", message: "Gateway public: Accepted is False (NotAllowed): no",
		observed: withRoute(running(), metav1.Condition{Type: "Accepted", Status: "False", Reason: "NotAllowed", Message: "no",
			ObservedGeneration: 4}),
		conditions: []string{"Ready=False RouteNotAccepted", "Progressing=False RouteNotAccepted", healthy, active},
	},
	"a route that was accepted is ready": {
		app: spec(routed), phase: "Running",
		observed:   withRoute(running(), metav1.Condition{Type: "Accepted", Status: "True", ObservedGeneration: 4}),
		conditions: []string{"Ready=True Available", "Progressing=False RolledOut", healthy, active},
	},
	"all as the spec says is ready": {
		observed: running(), phase: "Running", message: "2 of 2 replicas are available and run the current template",
		conditions: []string{"Ready=True Available", "Progressing=False RolledOut", healthy, active},
	},
}

func TestStatus(t *testing.T) { checkStatus(t, statusCases) }

func checkStatus(t *testing.T, cases map[string]statusCase) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			app := admitted()
			if test.app != nil {
				app = admitted(test.app)
			}
			got, _ := Status(app, test.observed, test.result)
			if string(got.Phase) != test.phase {
				t.Errorf("phase %s, want %s", got.Phase, test.phase)
			}
			var conditions []string
			for _, c := range got.Conditions {
				conditions = append(conditions, c.Type+"="+string(c.Status)+" "+c.Reason)
				if c.Message == "" {
					t.Errorf("%s has no message", c.Type)
				}
			}
			if diff := cmp.Diff(test.conditions, conditions); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if !strings.Contains(got.Conditions[0].Message, test.message) {
				t.Errorf("message %q lacks %q", got.Conditions[0].Message, test.message)
			}
			if got.ObservedGeneration != 3 {
				t.Errorf("observedGeneration %d", got.ObservedGeneration)
			}
		})
	}
}

// TestStatusPrecedence has every problem at once, and removes the reported one, one by one: the
// next row of the table must be reported.
func TestStatusPrecedence(t *testing.T) {
	app := admitted(spec(func(s *msappsv1.WebAppSpec) { routed(s); s.ServiceAccountName = "robot" }))
	observed := with(running(stuck, podsRefused, func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 1 }), unpullable())
	observed.ServiceAccountMissing = true
	result := changed("Deployment")
	result.Failure = &plan.Failure{Reason: "InvalidSpec", Stalled: true}
	result.Conflicts, result.Withheld, result.Terminating = aService, aService, aService
	deployment := observed.deployment(app)
	steps := []struct {
		reason string
		take   func()
	}{
		{"InvalidSpec", func() { result.Failure = &plan.Failure{Reason: "Refused"} }},
		{"Refused", func() { result.Failure = &plan.Failure{Reason: "ReconcileFailed", Transient: true} }},
		{"ReconcileFailed", func() { result.Failure = nil }},
		{"Conflict", func() { result.Conflicts = nil }},
		{"PausedByUser", func() { result.Withheld = nil }},
		{"Terminating", func() { result.Terminating = nil }},
		{"ServiceAccountNotFound", func() { observed.ServiceAccountMissing = false }},
		{"Deploying", func() { result = changed("Service") }},
		{"ImagePullFailed", func() { observed.Pods = nil }},
		{"PodsRefused", func() { deployment.Status.Conditions = deployment.Status.Conditions[:1] }},
		{"RolloutFailed", func() {
			rolling(deployment)
			podsRefused(deployment)
			deployment.Status.Conditions[0].Status, observed.Pods = "True", []corev1.Pod{unpullable()}
		}},
		{"PodsRefused", func() { deployment.Status.Conditions = deployment.Status.Conditions[:1] }},
		{"ImagePullFailed", func() { observed.Pods = nil }},
		{"Deploying", func() { deployment.Status.Conditions[0].Reason = "NewReplicaSetAvailable" }},
		{"Scaling", func() { *deployment = *rolledOut() }},
		{"Deploying", func() { result = plan.Result{} }},
		{"RouteAPIMissing", func() { observed = withRoute(observed) }},
		{"RouteNotAccepted", func() { app.Spec.Route = nil }},
		{"Available", func() {}},
	}
	for i, step := range steps {
		got, _ := Status(app, observed, result)
		if got.Conditions[0].Reason != step.reason {
			t.Fatalf("step %d: got %s, want %s", i, got.Conditions[0].Reason, step.reason)
		}
		step.take()
	}
}

// TestOnlyEarlierPodsContinueToServe checks what an overdue rollout says of pods of the earlier
// template.
func TestOnlyEarlierPodsContinueToServe(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment)
		want   bool
	}{
		"an earlier pod serves": {func(*appsv1.Deployment) {}, true},
		"none is available":     {noneReady, false},
		"a first rollout":       {func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 2 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := Status(admitted(), running(stuck, test.change), plan.Result{})
			if says := strings.Contains(got.Conditions[0].Message, "earlier pods continue to serve"); says != test.want {
				t.Error(got.Conditions[0].Message)
			}
		})
	}
}

func TestStatusNumbers(t *testing.T) {
	got, _ := Status(admitted(), running(func(d *appsv1.Deployment) {
		d.Status.Replicas, d.Status.ReadyReplicas, d.Status.UpdatedReplicas = 4, 3, 1
		d.Spec.Selector.MatchLabels = map[string]string{"run": "legacy"}
	}), plan.Result{})
	got.Conditions, got.Phase = nil, ""
	want := msappsv1.WebAppStatus{
		ObservedGeneration: 3, Replicas: 4, ReadyReplicas: 3, UpdatedReplicas: 1, ReplicaSummary: "3/2",
		Selector: "run=legacy", URL: "http://shop.web.svc:8080",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestStatusDoesNotReadTheStatusThatIsThere(t *testing.T) {
	app := admitted()
	first, _ := Status(app, running(), plan.Result{})
	app.Status = msappsv1.WebAppStatus{Phase: "Failed", Conditions: []metav1.Condition{{Type: "Ready", Status: "False", Reason: "Old"}}}
	second, _ := Status(app, running(), plan.Result{})
	if diff := cmp.Diff(first, second); diff != "" {
		t.Error(diff)
	}
}

func TestRequeueAfter(t *testing.T) {
	creating := corev1.Pod{Spec: corev1.PodSpec{NodeName: "n1"}}
	for name, test := range map[string]struct {
		pod  corev1.Pod
		want time.Duration
	}{
		"a pod without containers is looked at again": {creating, 10 * time.Second},
		"a pod without a node tells by itself":        {unschedulable(), 0},
	} {
		t.Run(name, func(t *testing.T) {
			if _, got := Status(admitted(), with(running(), test.pod), plan.Result{}); got != test.want {
				t.Errorf("got %s", got)
			}
		})
	}
}

// TestUnreadEventsAreReadAgain sooner than a problem of that age is looked at.
func TestUnreadEventsAreReadAgain(t *testing.T) {
	observed := unreadyFor(running(noneReady), time.Hour)
	for unread, want := range map[bool]time.Duration{false: 10 * time.Minute, true: time.Minute} {
		observed.EventsUnread = unread
		if _, got := Status(admitted(), observed, plan.Result{}); got != want {
			t.Errorf("unread %t: got %s, want %s", unread, got, want)
		}
	}
}

// TestCorrectedImage: while the controllers of Kubernetes delete the pods with the wrong image, the
// app is not reported as failed once more.
func TestCorrectedImage(t *testing.T) {
	corrected := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	written := func(d *appsv1.Deployment) {
		d.ManagedFields = []metav1.ManagedFieldsEntry{
			{Manager: "kube-controller-manager", Subresource: "status", Time: new(metav1.NewTime(corrected.Add(time.Minute)))},
			{Manager: "mainstay/webapp", Time: new(metav1.NewTime(corrected))},
		}
	}
	for name, test := range map[string]struct {
		created, now time.Duration
		want         string
		again        time.Duration
	}{
		"an earlier pod":                   {-time.Minute, time.Second, "Deploying", 9 * time.Second},
		"an earlier pod that stays":        {-time.Minute, 10 * time.Second, "ImagePullFailed", 0},
		"a pod that was created since":     {time.Second, 2 * time.Second, "ImagePullFailed", 0},
		"a pod of the same second":         {0, time.Second, "ImagePullFailed", 0},
		"the clock is behind, by a minute": {-2 * time.Minute, -time.Minute, "ImagePullFailed", 0},
		"the clock is behind, by a second": {-time.Minute, -time.Second, "Deploying", 11 * time.Second},
		"the clock is ahead, and it stays": {-time.Minute, time.Hour, "ImagePullFailed", 0},
	} {
		t.Run(name, func(t *testing.T) {
			pod := unpullable()
			pod.CreationTimestamp = metav1.NewTime(corrected.Add(test.created))
			observed := with(running(rolling, written), pod)
			observed.Now = corrected.Add(test.now)
			status, again := Status(admitted(), observed, plan.Result{})
			if ready := meta.FindStatusCondition(status.Conditions, "Ready"); ready.Reason != test.want || again != test.again {
				t.Errorf("%s, again after %s; want %s, %s", ready.Reason, again, test.want, test.again)
			}
		})
	}
}

func TestNotAccepted(t *testing.T) {
	yes := metav1.Condition{Type: "Accepted", Status: "True", ObservedGeneration: 4}
	no := metav1.Condition{Type: "Accepted", Status: "False", Reason: "No", ObservedGeneration: 4}
	parent := func(name, namespace, section string, conditions ...metav1.Condition) gatewayv1.RouteParentStatus {
		reference := gatewayv1.ParentReference{Name: gatewayv1.ObjectName(name)}
		if namespace != "" {
			reference.Namespace = new(gatewayv1.Namespace(namespace))
		}
		if section != "" {
			reference.SectionName = new(gatewayv1.SectionName(section))
		}
		return gatewayv1.RouteParentStatus{ParentRef: reference, Conditions: conditions}
	}
	const silent = "Gateway public has not accepted the HTTPRoute"
	for name, test := range map[string]struct {
		parent msappsv1.ParentReference
		seen   []gatewayv1.RouteParentStatus
		want   string
	}{
		"accepted is accepted": {msappsv1.ParentReference{Name: "public"},
			[]gatewayv1.RouteParentStatus{parent("public", "", "", yes)}, ""},
		"the route's own namespace may be filled in": {msappsv1.ParentReference{Name: "public"},
			[]gatewayv1.RouteParentStatus{parent("public", "web", "", yes)}, ""},
		"nobody has said a thing": {msappsv1.ParentReference{Name: "public"}, nil, silent},
		"an answer without Accepted is none": {msappsv1.ParentReference{Name: "public"},
			[]gatewayv1.RouteParentStatus{parent("public", "", "")}, silent},
		"another Gateway's yes is not ours": {msappsv1.ParentReference{Name: "public"},
			[]gatewayv1.RouteParentStatus{parent("other", "", "", yes)}, silent},
		"another namespace's Gateway is another": {msappsv1.ParentReference{Name: "public", Namespace: "a"},
			[]gatewayv1.RouteParentStatus{parent("public", "b", "", yes)}, silent},
		"another listener's yes is not ours": {msappsv1.ParentReference{Name: "public", SectionName: "https"},
			[]gatewayv1.RouteParentStatus{parent("public", "", "", yes)}, silent},
		"the listener's own answer counts": {msappsv1.ParentReference{Name: "public", SectionName: "https"},
			[]gatewayv1.RouteParentStatus{parent("public", "", "", yes),
				parent("public", "", "https", no)}, "Gateway public: Accepted is False (No): "},
		"an answer to an earlier route is none": {msappsv1.ParentReference{Name: "public"},
			[]gatewayv1.RouteParentStatus{parent("public", "", "", metav1.Condition{Type: "Accepted", Status: "True",
				ObservedGeneration: 3})}, "Gateway public has not answered to the last change"},
		"a backend that is not found counts as well": {msappsv1.ParentReference{Name: "public"},
			[]gatewayv1.RouteParentStatus{parent("public", "", "", yes, metav1.Condition{Type: "ResolvedRefs", Status: "False",
				Reason: "BackendNotFound", ObservedGeneration: 4})}, "ResolvedRefs is False (BackendNotFound)"},
		"conditions that we do not know count nothing": {msappsv1.ParentReference{Name: "public"},
			[]gatewayv1.RouteParentStatus{parent("public", "", "", yes, metav1.Condition{Type: "Odd", Status: "False"})}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop", Generation: 4}}
			route.Status.Parents = test.seen
			got := notAccepted(route, test.parent)
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q", got)
			}
		})
	}
}
