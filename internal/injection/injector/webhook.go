package injector

import (
	"context"
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/injection"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// hookName is the webhook's. There is one for both kinds.
const hookName = "workloads.instrumentation.mainstay.dev"

// Hook is the webhook that composes what is injected with what owners write.
func Hook(scheme *runtime.Scheme, reader *Reader) admission.Hook {
	composed := func(resource string, empty func() client.Object) admission.Composed {
		return admission.Composed{Resource: appsv1.SchemeGroupVersion.WithResource(resource), Scope: admissionregistrationv1.NamespacedScope, New: empty}
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
	setting, err := r.current(ctx, w, old)
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

// current is the setting of a workload's namespace. Where a controller has just granted a revision that the cache does not have yet, it
// waits for it a moment.
func (r *Reader) current(ctx context.Context, w *injection.Workload, old client.Object) (*injection.Setting, error) {
	var setting *injection.Setting
	read := func(ctx context.Context) (bool, error) {
		agents, err := r.agents(ctx, w.Namespace)
		if err != nil {
			return false, err
		}
		if setting, err = r.setting(ctx, w.Namespace, agents); err != nil || old == nil {
			return true, err
		}
		return !isBehind(setting, w, old.GetAnnotations()), nil
	}
	err := wait.PollUntilContextTimeout(ctx, cachePoll, cachePatience, true, read)
	if setting != nil && wait.Interrupted(err) {
		return setting, nil // the controller looks at what became of it
	}
	return setting, err
}

// isBehind tells that a write has a grant, or has none any more, which what is known of the Instrumentations does not explain.
func isBehind(setting *injection.Setting, w *injection.Workload, before map[string]string) bool {
	for _, key := range injection.GrantKeys(w.Annotations, before) {
		if w.Annotations[key] == before[key] {
			continue
		}
		i := slices.IndexFunc(setting.Agents, func(agent *injection.Agent) bool { return injection.GrantKey(agent.ID) == key })
		grant := injection.ParseGrant(w.Annotations[key])
		isWanted := i >= 0 && setting.Agents[i].IsFor(w)
		switch {
		case grant.Revision == "":
			if isWanted && !setting.Agents[i].HasFailed() {
				return true // it was taken off, by a controller that knows why, or by the owner, who waits a moment for nothing
			}
		case !grant.IsKept() && (!isWanted || setting.Agents[i].Revision != grant.Revision):
			return true
		}
	}
	return false
}
