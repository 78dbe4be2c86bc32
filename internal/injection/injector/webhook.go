package injector

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/injection"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// hookName is the webhook's. There is one for both kinds.
const hookName = "workloads.instrumentation.mainstay.dev"

// Hook is the webhook that composes what is injected with what owners write.
func Hook(scheme *runtime.Scheme, reader *Reader) admission.Hook {
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

// conditions keep the API server from asking about what injection has no part in: scaling, status, pausing, of what is not injected.
func conditions() []admissionregistrationv1.MatchCondition {
	const injected = "'" + instrv1.AnnotationInjected + "' in object.spec.template.?metadata.?annotations.orValue({})"
	const changed = "oldObject == null || object.spec.template != oldObject.spec.template || " +
		"object.metadata.?labels != oldObject.metadata.?labels || object.metadata.?annotations != oldObject.metadata.?annotations"
	return []admissionregistrationv1.MatchCondition{
		{Name: "not-being-deleted", Expression: "oldObject == null || !has(oldObject.metadata.deletionTimestamp)"},
		{Name: "changed", Expression: changed + " || " + injected},
	}
}

// compose writes into a workload what is injected.
func (r *Reader) compose(ctx context.Context, request webhook.Request, object, old client.Object) ([]string, error) {
	template := observe.PodTemplate(object)
	w := workloadOf(object, request.Kind.Kind, template)
	w.Namespace = request.Namespace
	if w.Name == "" && object.GetGenerateName() != "" {
		w.Name = object.GetGenerateName() + "xxxxx" // the name that it will get has as many more letters
	}
	var before *corev1.PodTemplateSpec
	if old != nil {
		before = observe.PodTemplate(old)
	}
	setting, err := r.current(ctx, w, before, written(request, old))
	if err != nil {
		return nil, err
	}
	verdicts := setting.Compose(w, before)
	var warnings []string
	for i, verdict := range verdicts {
		if verdict.State == injection.Refused {
			warnings = append(warnings, fmt.Sprintf("%s injects nothing: %s", setting.Agents[i], verdict.Refusal.Message))
		}
	}
	return warnings, nil
}

const (
	// cachePatience is how long the webhook waits for its cache to have what a controller, of another replica perhaps, has asked for.
	cachePatience = time.Second
	cachePoll     = 20 * time.Millisecond
)

// written are the annotations that a controller of ours has just replaced; nil where the write is anybody else's.
func written(request webhook.Request, old client.Object) map[string]string {
	var options metav1.PatchOptions
	if old == nil || json.Unmarshal(request.Options.Raw, &options) != nil || !naming.IsOurManager(options.FieldManager) {
		return nil
	}
	if annotations := old.GetAnnotations(); annotations != nil {
		return annotations
	}
	return map[string]string{}
}

// current is the setting of a workload's namespace. Where a controller of another replica, perhaps, has seen what the cache does not have yet, it
// waits for it a moment: replaced are the annotations that it has written over, nil for none.
func (r *Reader) current(ctx context.Context, w *injection.Workload, before *corev1.PodTemplateSpec,
	replaced map[string]string) (*injection.NamespaceContext, error) {
	var setting *injection.NamespaceContext
	read := func(ctx context.Context) (bool, error) {
		agents, err := r.agents(ctx, w.Namespace)
		if err != nil {
			return false, err
		}
		if setting, err = r.setting(ctx, w.Namespace, agents); err != nil || replaced == nil {
			return true, err
		}
		return !isBehind(setting, w, before, replaced), nil
	}
	err := wait.PollUntilContextTimeout(ctx, cachePoll, cachePatience, true, read)
	if setting != nil && wait.Interrupted(err) {
		return setting, nil // the controller looks at what became of it
	}
	return setting, err
}

// isBehind tells that a controller has written a grant, or taken one off, which what is known of the Instrumentations does not explain.
func isBehind(setting *injection.NamespaceContext, w *injection.Workload, before *corev1.PodTemplateSpec, replaced map[string]string) bool {
	composed := *w
	var verdicts []injection.AgentStatus
	for _, key := range injection.GrantKeys(w.Annotations, replaced) {
		if w.Annotations[key] == replaced[key] {
			continue
		}
		if verdicts == nil {
			composed.Template = w.Template.DeepCopy()
			verdicts = setting.Compose(&composed, before)
		}
		i := slices.IndexFunc(setting.Agents, func(agent *injection.Agent) bool { return injection.GrantKey(agent.ID) == key })
		isIn := i >= 0 && verdicts[i].State == injection.In
		isThere := isIn || i >= 0 && verdicts[i].State == injection.Retained
		grant := injection.ParseGrant(w.Annotations[key])
		if grant.Revision == "" && isThere || grant.Revision != "" && !grant.IsKept() && (!isIn || setting.Agents[i].Revision != grant.Revision) {
			return true
		}
	}
	return false
}
