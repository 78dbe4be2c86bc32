package workloadcontroller

import (
	"context"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/registration"
	"github.com/mainstay-platform/mainstay/internal/workload"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// hookName is the webhook's name.
const hookName = "workloads.config.mainstay.dev"

// cachePatience is how long a write waits for the cache of ConfigMaps and Secrets, which is filled
// at the start.
const cachePatience = time.Second

// Hook returns the webhook that warns about the annotation reload of a workload. It changes nothing
// and refuses nothing.
func Hook(in registration.Input) admission.Hook {
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
		Conditions: annotated(),
		Compose: func(ctx context.Context, request ctrladmission.Request, object, _ client.Object) ([]string, error) {
			return warn(ctx, in.Workloads, request.Namespace, object), nil
		},
	}.Hook(in.Manager.GetScheme())
}

// annotated keeps the API server from calling the webhook for workloads without the annotation, and
// for writes that do not change it.
func annotated() []admissionregistrationv1.MatchCondition {
	const key = "[?'" + configv1.AnnotationReload + "'].orValue('')"
	const own, template = ".metadata.?annotations" + key, ".spec.template.?metadata.?annotations" + key
	const given = "(object" + own + " != '' || object" + template + " != '')"
	const changed = "(oldObject == null || object" + own + " != oldObject" + own + " || object" + template + " != oldObject" + template + ")"
	return []admissionregistrationv1.MatchCondition{{Name: "annotation-changed", Expression: given + " && " + changed}}
}

// warn returns a warning about what is wrong with a workload's annotation, or none. What can't be
// read is not warned about.
func warn(ctx context.Context, reader observe.Reader, namespace string, object client.Object) []string {
	target := &workload.Target{Annotations: naming.Merged(observe.PodTemplate(object).Annotations, object.GetAnnotations())}
	if _, err := workload.OfWorkload(target); err != nil {
		return []string{err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, cachePatience)
	defer cancel()
	var gone []workload.SourceRef
	for _, ref := range workload.Listed(target) {
		source, err := reader.Source(ctx, namespace, ref)
		if err != nil {
			return nil
		}
		if source.State == workload.Absent {
			gone = append(gone, ref)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return []string{workload.MissingMessage(gone)}
}
