package platformpolicy

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

func meta(namespace, name string, owners ...metav1.OwnerReference) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, OwnerReferences: owners}
}

// owner returns the reference of a controller.
func owner(apiVersion, kind string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: "x", Controller: new(true)}
}

// running returns pods of one image.
func running(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: image}}}}
}

// ofOthers are workloads, each with the reason why it is or is not a violator.
func ofOthers() []metav1.Object {
	bad := running("evil.io/a")
	return []metav1.Object{
		&appsv1.Deployment{ObjectMeta: meta("shop-prod", "many"),
			Spec: appsv1.DeploymentSpec{Replicas: new(int32(3)), Template: running("reg.io/a")}},
		&appsv1.StatefulSet{ObjectMeta: meta("shop-prod", "good"), Spec: appsv1.StatefulSetSpec{Template: running("reg.io/a")}},
		&appsv1.DaemonSet{ObjectMeta: meta("shop-prod", "daemon"), Spec: appsv1.DaemonSetSpec{Template: bad}},
		&batchv1.CronJob{ObjectMeta: meta("shop-prod", "nightly"), Spec: batchv1.CronJobSpec{
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: bad}}}},
		&batchv1.Job{ObjectMeta: meta("shop-prod", "of-nightly", owner("batch/v1", "CronJob")), Spec: batchv1.JobSpec{Template: bad}},
		&batchv1.Job{ObjectMeta: meta("shop-prod", "once"), Spec: batchv1.JobSpec{Template: bad}},
		&corev1.Pod{ObjectMeta: meta("shop-prod", "of-many", owner("apps/v1", "ReplicaSet")), Spec: bad.Spec},
		&corev1.Pod{ObjectMeta: meta("shop-prod", "mirror", owner("v1", "Node")), Spec: bad.Spec},
		&corev1.Pod{ObjectMeta: meta("shop-prod", "of-a-tool", owner("argoproj.io/v1alpha1", "Workflow")), Spec: bad.Spec},
		&appsv1.ReplicaSet{ObjectMeta: meta("shop-prod", "of-many", owner("apps/v1", "Deployment")), Spec: appsv1.ReplicaSetSpec{Template: bad}},
		// No controller makes these: a user or an operator wrote the reference.
		&corev1.Pod{ObjectMeta: meta("shop-prod", "of-a-file", owner("v1", "ConfigMap")), Spec: bad.Spec},
		&corev1.Pod{ObjectMeta: meta("shop-prod", "of-an-app", owner("apps.mainstay.dev/v1", "WebApp")), Spec: bad.Spec},
		&appsv1.Deployment{ObjectMeta: meta("shop-prod", "of-a-job", owner("batch/v1", "Job")), Spec: appsv1.DeploymentSpec{Template: bad}},
		&appsv1.Deployment{ObjectMeta: meta("shop-prod", "ours", owner("apps.mainstay.dev/v1", "WebApp")),
			Spec: appsv1.DeploymentSpec{Template: bad}},
		&appsv1.ReplicaSet{ObjectMeta: meta("shop-dev", "elsewhere"), Spec: appsv1.ReplicaSetSpec{Template: bad}},
		&corev1.ReplicationController{ObjectMeta: meta("default", "ungoverned"), Spec: corev1.ReplicationControllerSpec{Template: &bad}},
	}
}

// TestAudit: workloads of other owners are counted and named, each once: not what a controller of
// Kubernetes made of them, and not what is Mainstay's.
func TestAudit(t *testing.T) {
	rule := atMost(2, "production")
	rule.AllowedRegistries = []string{"reg.io"}
	governs, off := newPolicy(rule), newPolicy(rule)
	governs.Spec.Workloads, off.Name = mspolicyv1.WorkloadsWarn, "other"
	observed := cluster()
	observed.Objects, observed.Policies = nil, policy.Set{Policies: []mspolicyv1.PlatformPolicy{*governs, *off}}
	audit := NewAudit(observed.Policies, observed.Namespaces, time.Time{})
	for _, object := range ofOthers() {
		if kind, _ := workloadOf(object); audit.Concerns(kind, object) {
			audit.Add(object)
		}
	}
	observed.Audit = audit
	status := Status(governs, observed, plan.Result{})
	image := func(at string) string {
		return at + `.containers[app].image: Invalid value: "evil.io/a": must be an image of reg.io (policy "base", rule "production.allowedRegistries")`
	}
	want := []mspolicyv1.Violator{
		violator("CronJob", "shop-prod", "nightly", image("spec.jobTemplate.spec.template.spec")),
		violator("DaemonSet", "shop-prod", "daemon", image("spec.template.spec")),
		violator("Deployment", "shop-prod", "many", given(3, "production")),
		violator("Deployment", "shop-prod", "of-a-job", image("spec.template.spec")),
		violator("Job", "shop-prod", "once", image("spec.template.spec")),
		violator("Pod", "shop-prod", "of-a-file", image("spec")),
		violator("Pod", "shop-prod", "of-a-tool", image("spec")),
		violator("Pod", "shop-prod", "of-an-app", image("spec")),
	}
	if diff := cmp.Diff(want, status.Violating); diff != "" || status.Violations != 8 || status.Objects != 9 {
		t.Errorf("%d of %d violate: %s", status.Violations, status.Objects, diff)
	}
	observed.Audit = nil
	if status := Status(off, observed, plan.Result{}); status.Objects != 0 {
		t.Errorf("a policy that does not govern workloads counts %d", status.Objects)
	}
}

// TestAuditIsBounded: a pod of another owner may break rules in hundreds of containers, and its
// violations still fit into the status.
func TestAuditIsBounded(t *testing.T) {
	stored := newPolicy(mspolicyv1.Rule{Environment: "production", RequireResourceLimits: true})
	stored.Spec.Workloads = mspolicyv1.WorkloadsWarn
	observed := cluster()
	observed.Objects, observed.Policies = nil, policy.Set{Policies: []mspolicyv1.PlatformPolicy{*stored}}
	pod := &corev1.Pod{ObjectMeta: meta("shop-prod", "large")}
	for range 500 {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "c"})
	}
	observed.Audit = NewAudit(observed.Policies, observed.Namespaces, time.Time{})
	observed.Audit.Add(pod)
	status := Status(stored, observed, plan.Result{})
	if status.Violations != 1 || len(status.Violating[0].Message) > 1024 || !strings.HasSuffix(status.Violating[0].Message, "...") {
		t.Errorf("%d bytes: %q", len(status.Violating[0].Message), status.Violating[0].Message)
	}
}

// TestAuditThatIsIncomplete: the status says from when the numbers are, and what is not in them.
// The policy is in force all the same.
func TestAuditThatIsIncomplete(t *testing.T) {
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	limited := NewAudit(policy.Set{}, nil, at)
	limited.Limited("Pod", 500)
	limited.Limited("Job", 500)
	limited.Limited("Pod", 500)
	for name, test := range map[string]struct {
		audit *Audit
		want  string
	}{
		"none":     {nil, ""},
		"complete": {NewAudit(policy.Set{}, nil, at), ""},
		"the first failed": {(*Audit)(nil).Failed("no right"),
			"AuditFailed: workloads of other owners are not counted yet, because they could not be read: no right"},
		"a later one failed": {NewAudit(policy.Set{}, nil, at).Failed("no right"),
			"AuditFailed: workloads of other owners are counted as of 2026-01-31T12:00:00Z, because they could not be read since: no right"},
		"too many": {limited,
			"TooManyObjects: only the first 500 objects without a controller of each kind are counted, and there are more of Job, Pod"},
	} {
		status := Status(newPolicy(atMost(2, "production")), Observed{Audit: test.audit}, plan.Result{})
		got := ""
		for _, condition := range status.Conditions[1:] {
			got += condition.Reason + ": " + condition.Message
		}
		if got != test.want || status.Conditions[0].Status != "True" || status.Phase != "Active" {
			t.Errorf("%s: %s %s", name, status.Phase, got)
		}
	}
	if long := NewAudit(policy.Set{}, nil, at).Failed(strings.Repeat("x", 300_000)).conditions()[0].Message; len(long) > 1000 {
		t.Errorf("a message of %d bytes", len(long))
	}
}
