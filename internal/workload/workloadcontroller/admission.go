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

// warn returns warnings about what is wrong with a workload's annotation. About sources whose read
// fails there is none.
func warn(ctx context.Context, reader observe.Reader, namespace string, object client.Object) []string {
	template := observe.PodTemplate(object)
	target := &workload.Target{Annotations: naming.Merged(template.Annotations, object.GetAnnotations()), Uses: workload.Uses(&template.Spec)}
	demands, err := workload.OfWorkload(target)
	if err != nil {
		return []string{err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, cachePatience)
	defer cancel()
	var gone, hidden []workload.SourceRef
	isListed := len(workload.Listed(target)) > 0
	for _, demand := range demands {
		source, err := reader.Source(ctx, namespace, demand.Source)
		switch {
		case err != nil:
			return nil
		case source.State == workload.NotGranted:
			hidden = append(hidden, demand.Source)
		case source.State == workload.Absent && isListed:
			gone = append(gone, demand.Source)
		}
	}
	var warnings []string
	if len(gone) > 0 {
		warnings = append(warnings, workload.MissingMessage(gone))
	}
	if len(hidden) > 0 {
		warnings = append(warnings, workload.NotGrantedMessage(namespace, hidden))
	}
	return warnings
}
