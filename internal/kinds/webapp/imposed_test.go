package webapp

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestWarnOfImposed: one warning for all containers, of what the user did not write.
func TestWarnOfImposed(t *testing.T) {
	own := func(s *msappsv1.WebAppSpec) {
		s.PodSecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(7))}
	}
	for name, test := range map[string]struct {
		rule  mspolicyv1.Rule
		given func(*msappsv1.WebApp)
		want  []string
	}{
		"the profile": {profile, helpers,
			[]string{"spec.securityContext: the containers run as uid 1000 with a read-only root: policy base, rule *"}},
		"a value":              {governing, helpers, []string{"spec.securityContext: the containers run as uid 1000: policy base, rule *"}},
		"the user's own uid":   {profile, spec(own), []string{"spec.securityContext: the containers run with a read-only root: policy base, rule *"}},
		"the profile already":  {profile, spec(func(s *msappsv1.WebAppSpec) { s.SecurityProfile = "Restricted" }), nil},
		"resources and labels": {mspolicyv1.Rule{Defaults: governing.Defaults}, helpers, nil},
	} {
		t.Run(name, func(t *testing.T) {
			given := newApp(test.given)
			app := given.DeepCopy()
			Govern(app, nil, ruled(test.rule))
			if diff := cmp.Diff(test.want, WarnOfImposed(given, app, ruled(test.rule))); diff != "" {
				t.Error(diff)
			}
			if again := WarnOfImposed(app, app, ruled(test.rule)); again != nil {
				t.Errorf("warns of what is stored: %q", again)
			}
		})
	}
}

// TestImposed: the note belongs to the container that keeps exiting, and to no other problem.
func TestImposed(t *testing.T) {
	both := mspolicyv1.Rule{Enforced: mspolicyv1.Enforced{SecurityProfile: "Restricted", SecurityContext: governing.Enforced.SecurityContext}}
	app := newApp(helpers)
	Govern(app, nil, ruled(both))
	Default(app)
	const note = " (runs as uid 1000 with a read-only root: policy base, rule *)"
	notes := Imposed(app, ruled(both))
	if diff := cmp.Diff(map[string]string{"migrate": note, "proxy": note, "webapp": note}, notes); diff != "" {
		t.Error(diff)
	}
	if got := Imposed(app, ruled(mspolicyv1.Rule{})); len(got) > 0 {
		t.Errorf("without a rule: %q", got)
	}
	crashing := corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		Name: "webapp", RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1}},
	}}}}
	for want, pod := range map[string]corev1.Pod{
		"1 of 1 pods: container webapp keeps exiting: Error, exit code 1 (see kubectl logs --previous)" + note: crashing,
		"1 of 1 pods: image shop:9 of container webapp can't be pulled: not found":                             unpullable(),
	} {
		observed := with(running(rolling, func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 0 }), pod)
		observed.Imposed = notes
		got, _ := Status(app, observed, plan.Result{})
		if message := got.Conditions[0].Message; !strings.HasSuffix(message, want) {
			t.Errorf("got %q, want %q", message, want)
		}
	}
}
