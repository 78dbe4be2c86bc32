package instrumentationcontroller

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// hookName is the webhook's name. One webhook serves both kinds.
const hookName = "workloads.instrumentation.mainstay.dev"

// workloadHook returns the webhook that composes agents with what owners write.
func workloadHook(scheme *runtime.Scheme, reader *Reader) admission.Hook {
	composed := func(resource string, empty func() client.Object) admission.Composed {
		return admission.Composed{Resource: appsv1.SchemeGroupVersion.WithResource(resource), Scope: admissionregistrationv1.NamespacedScope,
			New: empty}
	}
	return admission.Composer{
		Name: hookName,
		Objects: []admission.Composed{
			composed("deployments", func() client.Object { return &appsv1.Deployment{} }),
			composed("statefulsets", func() client.Object { return &appsv1.StatefulSet{} }),
			composed("daemonsets", func() client.Object { return &appsv1.DaemonSet{} }),
		},
		Conditions: conditions(),
		Compose:    reader.compose,
	}.Hook(scheme)
}

// conditions keep the API server from calling the webhook for writes that do not concern injection:
// scaling, status and pausing of workloads without an agent.
func conditions() []admissionregistrationv1.MatchCondition {
	const injected = "'" + instrv1.AnnotationInjected + "' in object.spec.template.?metadata.?annotations.orValue({})"
	const changed = "oldObject == null || object.spec.template != oldObject.spec.template || " +
		"object.metadata.?labels != oldObject.metadata.?labels || object.metadata.?annotations != oldObject.metadata.?annotations"
	return []admissionregistrationv1.MatchCondition{
		{Name: "not-being-deleted", Expression: "oldObject == null || !has(oldObject.metadata.deletionTimestamp)"},
		{Name: "changed", Expression: changed + " || " + injected},
	}
}

// compose composes a workload.
func (r *Reader) compose(ctx context.Context, request ctrladmission.Request, object, old client.Object) ([]string, error) {
	template := observe.PodTemplate(object)
	w := workloadOf(object, request.Kind.Kind, template)
	w.Namespace = request.Namespace
	if w.Name == "" && object.GetGenerateName() != "" {
		w.Name = object.GetGenerateName() + "xxxxx" // the API server appends 5 random letters
	}
	var before *corev1.PodTemplateSpec
	if old != nil {
		before = observe.PodTemplate(old)
	}
	setting, err := r.current(ctx, w, before, written(request, old))
	if err != nil {
		return nil, err
	}
	statuses := setting.Compose(w, before)
	var warnings []string
	for i, status := range statuses {
		if status.State == injection.Refused || status.State == injection.Violating {
			warnings = append(warnings, fmt.Sprintf("%s is not injected: %s", setting.Agents[i], status.Refusal.Message))
		}
	}
	return warnings, nil
}

const (
	// cachePatience is how long the webhook waits for its cache to catch up with a controller's write,
	// which may come from another replica.
	cachePatience = time.Second
	cachePoll     = 20 * time.Millisecond
)

// written returns the annotations before the write if a controller of Mainstay is writing; nil for
// any other client.
func written(request ctrladmission.Request, old client.Object) map[string]string {
	var options metav1.PatchOptions
	if old == nil || json.Unmarshal(request.Options.Raw, &options) != nil || !naming.IsOurManager(options.FieldManager) {
		return nil
	}
	if annotations := old.GetAnnotations(); annotations != nil {
		return annotations
	}
	return map[string]string{}
}

// current returns the context of a workload's namespace. If a controller has acted on something
// that this replica's cache does not have yet, current waits for it for up to cachePatience.
// replaced are the annotations that the controller has overwritten; nil for any other client.
func (r *Reader) current(ctx context.Context, w *injection.Workload, before *corev1.PodTemplateSpec,
	replaced map[string]string) (*injection.NamespaceContext, error) {
	var setting *injection.NamespaceContext
	read := func(ctx context.Context) (bool, error) {
		agents, err := r.agents(ctx, w.Namespace)
		if err != nil {
			return false, err
		}
		if setting, err = r.setting(ctx, r.Reviewing, w.Namespace, agents); err != nil || replaced == nil {
			return true, err
		}
		return !isBehind(setting, w, before, replaced), nil
	}
	err := wait.PollUntilContextTimeout(ctx, cachePoll, cachePatience, true, read)
	if setting != nil && wait.Interrupted(err) {
		return setting, nil // the controller checks the result
	}
	return setting, err
}

// isBehind reports whether a controller has written or deleted a grant for a reason that the known
// Instrumentations do not explain.
func isBehind(setting *injection.NamespaceContext, w *injection.Workload, before *corev1.PodTemplateSpec, replaced map[string]string) bool {
	composed := *w
	var statuses []injection.AgentStatus
	byKey := make(map[string]int, len(setting.Agents))
	for i, agent := range setting.Agents {
		byKey[injection.GrantKey(agent.ID)] = i
	}
	for _, key := range injection.GrantKeys(w.Annotations, replaced) {
		if w.Annotations[key] == replaced[key] {
			continue
		}
		if statuses == nil {
			composed.Template = w.Template.DeepCopy()
			statuses = setting.Compose(&composed, before)
		}
		i, isKnown := byKey[key]
		isIn := isKnown && statuses[i].State == injection.In
		isThere := isIn || isKnown && statuses[i].State == injection.Retained
		grant := injection.ParseGrant(w.Annotations[key])
		if grant.Revision == "" && isThere || grant.Revision != "" && !grant.IsKept() && (!isIn || setting.Agents[i].Revision != grant.Revision) {
			return true
		}
	}
	return false
}
