package platformpolicy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mainstay-platform/mainstay/api"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// Audit is what one look at all workloads of other owners has found. It keeps nothing of those that
// violate no policy.
type Audit struct {
	// rules are those of each governed namespace, of the policies with spec.workloads.
	rules map[string]policy.Rules
	// workloads is their number, by namespace.
	workloads map[string]int32
	violators []audited
	// at is when the workloads were read; zero if they never were.
	at time.Time
	// failure is why a later audit, or the first one, failed; empty if none did.
	failure string
	// limited are the kinds of which not all objects were read; limit is how many were.
	limited []string
	limit   int
}

// audited is a workload that violates a policy.
type audited struct {
	kind, namespace, name string
	violations            []policy.Violation
}

// NewAudit returns an audit without workloads, of these policies in these namespaces at that time.
func NewAudit(policies policy.Set, namespaces map[string]map[string]string, at time.Time) *Audit {
	policies.ForWorkloads = true
	audit := &Audit{rules: map[string]policy.Rules{}, workloads: map[string]int32{}, at: at}
	for namespace, labels := range namespaces {
		if rules := policies.Governing(namespace, labels); !rules.IsEmpty() {
			audit.rules[namespace] = rules
		}
	}
	return audit
}

// controllersOf are the kinds whose controllers in Kubernetes create objects of a kind: those that
// are audited themselves, and nodes, for pods from files.
var controllersOf = map[string][]schema.GroupKind{
	"ReplicaSet": {{Group: appsv1.GroupName, Kind: "Deployment"}},
	"Job":        {{Group: batchv1.GroupName, Kind: "CronJob"}},
	"Pod": {
		{Group: appsv1.GroupName, Kind: "ReplicaSet"}, {Group: appsv1.GroupName, Kind: "StatefulSet"},
		{Group: appsv1.GroupName, Kind: "DaemonSet"}, {Group: batchv1.GroupName, Kind: "Job"},
		{Group: corev1.GroupName, Kind: "ReplicationController"}, {Group: corev1.GroupName, Kind: "Node"},
	},
}

// created are the kinds of the workloads that Mainstay creates.
var created = []string{"Deployment", "StatefulSet"}

// Concerns reports whether a policy governs an object of a kind that is audited. What the
// controllers of Kubernetes make of a workload is not: the workload is. What Mainstay makes is
// checked in the object of its kind. Any other controller proves nothing: users can write the
// reference, and some operators make a ConfigMap the owner of their pods.
func (a *Audit) Concerns(kind string, object metav1.Object) bool {
	if _, governed := a.rules[object.GetNamespace()]; !governed || object.GetDeletionTimestamp() != nil {
		return false
	}
	owner := metav1.GetControllerOf(object)
	if owner == nil {
		return true
	}
	of := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()
	isChild := api.IsOurs(of.Group) && slices.Contains(created, kind)
	return !isChild && !slices.Contains(controllersOf[kind], of)
}

// Add checks a workload that the audit concerns. Objects of other types are ignored.
func (a *Audit) Add(object metav1.Object) {
	kind, workload := workloadOf(object)
	if workload.Template == nil {
		return
	}
	a.workloads[object.GetNamespace()]++
	if violations := a.rules[object.GetNamespace()].For(kind, object.GetName()).Check(workload.Subject()); len(violations) > 0 {
		a.violators = append(a.violators, audited{kind, object.GetNamespace(), object.GetName(), violations})
	}
}

// Limited notes that only the first objects of a kind are read, because there are more than limit.
func (a *Audit) Limited(kind string, limit int) {
	if !slices.Contains(a.limited, kind) {
		a.limited = append(a.limited, kind)
		slices.Sort(a.limited)
	}
	a.limit = limit
}

// Failed returns what remains known after a later audit has failed, or the first one if a is nil:
// what a knows. It does not change a.
func (a *Audit) Failed(reason string) *Audit {
	known := Audit{}
	if a != nil {
		known = *a
	}
	known.failure = reason
	return &known
}

// conditions returns why the audit's counts are incomplete; nil if they are complete, or if the
// policy asks for none.
func (a *Audit) conditions() []metav1.Condition {
	incomplete := func(reason, message string) []metav1.Condition {
		return []metav1.Condition{conditions.True(mspolicyv1.ConditionAuditIncomplete, reason, conditions.Truncate(message))}
	}
	switch {
	case a == nil:
		return nil
	case a.failure != "" && a.at.IsZero():
		return incomplete(mspolicyv1.ReasonAuditFailed, "workloads of other owners are not counted yet, because they could not be read: "+
			a.failure)
	case a.failure != "":
		return incomplete(mspolicyv1.ReasonAuditFailed, fmt.Sprintf("workloads of other owners are counted as of %s, because they could "+
			"not be read since: %s", a.at.UTC().Format(time.RFC3339), a.failure))
	case len(a.limited) > 0:
		return incomplete(mspolicyv1.ReasonTooManyObjects, fmt.Sprintf("only the first %d objects without a controller of each kind are "+
			"counted, and there are more of %s", a.limit, strings.Join(a.limited, ", ")))
	default:
		return nil
	}
}

// workloadOf returns the kind of an object, and what policies check in it.
func workloadOf(object metav1.Object) (string, policy.Workload) {
	workload := policy.Workload{Labels: object.GetLabels(), At: field.NewPath("spec", "template", "spec")}
	kind := ""
	switch o := object.(type) {
	case *appsv1.Deployment:
		kind, workload.Template, workload.Replicas = "Deployment", &o.Spec.Template, o.Spec.Replicas
	case *appsv1.StatefulSet:
		kind, workload.Template, workload.Replicas = "StatefulSet", &o.Spec.Template, o.Spec.Replicas
	case *appsv1.ReplicaSet:
		kind, workload.Template, workload.Replicas = "ReplicaSet", &o.Spec.Template, o.Spec.Replicas
	case *corev1.ReplicationController:
		kind, workload.Template, workload.Replicas = "ReplicationController", o.Spec.Template, o.Spec.Replicas
	case *appsv1.DaemonSet:
		kind, workload.Template = "DaemonSet", &o.Spec.Template
	case *batchv1.Job:
		kind, workload.Template = "Job", &o.Spec.Template
	case *batchv1.CronJob:
		kind, workload.Template = "CronJob", &o.Spec.JobTemplate.Spec.Template
		workload.At = field.NewPath("spec", "jobTemplate", "spec", "template", "spec")
	case *corev1.Pod:
		kind, workload.Template = "Pod", &corev1.PodTemplateSpec{ObjectMeta: o.ObjectMeta, Spec: o.Spec}
		workload.At = field.NewPath("spec")
	}
	return kind, workload
}
