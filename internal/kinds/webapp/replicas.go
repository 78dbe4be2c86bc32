package webapp

import (
	"strconv"

	"k8s.io/utils/ptr"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
)

// effectiveReplicas returns the number of replicas to apply; nil leaves it to others. The first
// matching row counts:
//
//	suspend  spec.replicas  autoscaling  Deployment               result
//	true     -              -            any                      0
//	-        n              -            any                      n
//	-        -              min..max     does not exist           min: no detour over 1
//	-        -              min..max     has 0 pods               min: an autoscaler never leaves 0
//	-        -              min..max     exists                   nil: the autoscaler's
//	-        -              -            has 0 pods, since it     what it had before
//	                                       was suspended
//	-        -              -            any                      nil: the API starts with 1
func effectiveReplicas(app *msappsv1.WebApp, observed Observed) *int32 {
	deployment := observed.deployment(app)
	isStopped := deployment != nil && ptr.Deref(deployment.Spec.Replicas, 1) == 0
	switch {
	case app.Spec.Suspend:
		return new(int32(0))
	case app.Spec.Replicas != nil:
		return app.Spec.Replicas
	case app.Spec.Autoscaling != nil && (deployment == nil || isStopped):
		return new(app.Spec.Autoscaling.Min)
	case app.Spec.Autoscaling == nil && isStopped:
		return resumeReplicas(deployment.Annotations)
	default:
		return nil
	}
}

// resumeAnnotation returns the annotation of the Deployment with the number of replicas that a
// suspended app gets back if its spec has none by then; nil for an app that is not suspended.
// Without it the number would be lost: an app may lose it and be resumed in one change.
func resumeAnnotation(app *msappsv1.WebApp, observed Observed) map[string]string {
	if !app.Spec.Suspend {
		return nil
	}
	return map[string]string{api.AnnotationResumeReplicas: strconv.Itoa(int(replicasBefore(app, observed)))}
}

// replicasBefore returns the number of replicas that a suspended app had: that of the spec,
// otherwise that of the Deployment, which has it until it is stopped, and from then on in its
// annotation. The annotation comes first: while there is one, the app is suspended, and a number of
// replicas is that of a client which does not know that. Resuming means that pods run, so it is at
// least 1.
func replicasBefore(app *msappsv1.WebApp, observed Observed) int32 {
	if app.Spec.Replicas != nil {
		return max(*app.Spec.Replicas, 1)
	}
	if deployment := observed.deployment(app); deployment != nil {
		if had := resumeReplicas(deployment.Annotations); had != nil {
			return *had
		}
		if running := ptr.Deref(deployment.Spec.Replicas, 1); running > 0 {
			return running
		}
	}
	if app.Spec.Autoscaling != nil {
		return app.Spec.Autoscaling.Min
	}
	return 1
}

// resumeReplicas returns the number of replicas in the annotation; nil if there is none. One that a
// user wrote is limited as spec.replicas is.
func resumeReplicas(annotations map[string]string) *int32 {
	text := annotations[api.AnnotationResumeReplicas]
	if len(text) > len("10000") {
		return nil
	}
	count, err := strconv.ParseInt(text, 10, 32)
	if err != nil || count < 1 || count > maxReplicas {
		return nil
	}
	return new(int32(count))
}

// maxReplicas is the limit of spec.replicas in the schema.
const maxReplicas = 10000
