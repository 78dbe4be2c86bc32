package configmonitor

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// SourceOf returns the source that a ConfigMonitor watches.
func SourceOf(spec *configv1.ConfigMonitorSpec) workload.SourceRef {
	if spec.Secret != "" {
		return workload.SourceRef{Kind: workload.Secret, Name: spec.Secret}
	}
	return workload.SourceRef{Kind: workload.ConfigMap, Name: cmp.Or(spec.ConfigMap, spec.LowerConfigMap)}
}

// DemandOf returns the demand of a ConfigMonitor with the strategy Rollout.
func DemandOf(monitor *configv1.ConfigMonitor) workload.Demand {
	spec := &monitor.Spec
	demand := workload.Demand{
		Origin:   workload.OriginOf(Kind, monitor.Name),
		Source:   SourceOf(spec),
		Keys:     slices.Clone(spec.Keys),
		Scope:    workload.Scope{Selector: labels.SelectorFromSet(spec.PodSelector)},
		Cooldown: workload.DefaultCooldown,
		Rollout:  rolloutv1.Policy{MaxParallel: spec.MaxParallel, Window: spec.Window},
	}
	if spec.Cooldown != nil {
		demand.Cooldown = spec.Cooldown.Duration
	}
	if spec.Debounce != nil {
		demand.Debounce = spec.Debounce.Duration
	}
	return demand
}
