package workload

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
)

// DefaultCooldown is the shortest time between two restarts of one workload where nothing else is asked for.
const DefaultCooldown = 30 * time.Second

// Demand is what somebody asks: that workloads are restarted when a source changes.
type Demand struct {
	// Origin is who asks: "ConfigMonitor/flags", "AppConfig/shop", or the annotated object: "Deployment/web".
	Origin string
	Source SourceRef
	// Keys are those that matter; nil means all.
	Keys  []string
	Scope Scope
	// Cooldown is the shortest time between two restarts of one workload.
	Cooldown time.Duration
	// Debounce is how long further changes are collected after a restart for this source.
	Debounce time.Duration
	Rollout  rolloutv1.Policy
}

// OriginOf is a demand's origin.
func OriginOf(kind, name string) string { return kind + "/" + name }

// SourceOfMonitor is what a ConfigMonitor watches.
func SourceOfMonitor(spec *configv1.ConfigMonitorSpec) SourceRef {
	if spec.Secret != "" {
		return SourceRef{Secret, spec.Secret}
	}
	if spec.ConfigMap != "" {
		return SourceRef{ConfigMap, spec.ConfigMap}
	}
	return SourceRef{ConfigMap, spec.LowerConfigMap}
}

// OfMonitor is what a ConfigMonitor of the strategy Rollout asks.
func OfMonitor(monitor *configv1.ConfigMonitor) Demand {
	spec := &monitor.Spec
	demand := Demand{
		Origin:   OriginOf("ConfigMonitor", monitor.Name),
		Source:   SourceOfMonitor(spec),
		Keys:     slices.Clone(spec.Keys),
		Scope:    Scope{Selector: labels.SelectorFromSet(spec.PodSelector)},
		Cooldown: DefaultCooldown,
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

// ConfigMapName is the name of the ConfigMap that an application's AppConfig renders.
func ConfigMapName(application string) string { return application + "-config" }

// OfAppConfig is what an AppConfig asks: for its ConfigMap, and for the keys that it names of Secrets. There is no
// cooldown: each content is somebody's deed. The order in which workloads go is for both. A content that spec.revision goes back to
// waits for nothing: somebody wants it now.
func OfAppConfig(config *configv1.AppConfig) []Demand {
	origin, policy := OriginOf("AppConfig", config.Name), config.Spec.Rollout.Policy
	if config.Spec.Revision != nil {
		policy = rolloutv1.Policy{Timeout: policy.Timeout}
	}
	demands := []Demand{{
		Origin:  origin,
		Source:  SourceRef{ConfigMap, ConfigMapName(config.Spec.Application)},
		Scope:   Scope{Users: true},
		Rollout: policy,
	}}
	keys := map[string][]string{}
	var secrets []string
	for _, ref := range config.Spec.SecretRefs {
		if _, known := keys[ref.Secret]; !known {
			secrets = append(secrets, ref.Secret)
		}
		if !slices.Contains(keys[ref.Secret], ref.Key) {
			keys[ref.Secret] = append(keys[ref.Secret], ref.Key)
		}
	}
	for _, secret := range secrets {
		slices.Sort(keys[secret])
		demands = append(demands, Demand{
			Origin: origin, Source: SourceRef{Secret, secret}, Keys: keys[secret], Scope: Scope{Users: true}, Cooldown: DefaultCooldown,
			Rollout: config.Spec.Rollout.Policy,
		})
	}
	return demands
}

// OfSource is what a source's own annotation asks; false if it has none. The error says what is wrong with it.
func OfSource(source SourceRef, annotations map[string]string) (Demand, bool, error) {
	text, annotated := annotations[configv1.AnnotationPodSelector]
	if !annotated {
		return Demand{}, false, nil
	}
	selector, err := labels.Parse(text)
	if err != nil {
		return Demand{}, false, fmt.Errorf("annotation %s: %q is given: %w; accepted are label selectors, as app=frontend",
			configv1.AnnotationPodSelector, text, err)
	}
	if selector.Empty() {
		return Demand{}, false, fmt.Errorf("annotation %s: nothing is given, which would select every pod; accepted are label selectors, as app=frontend", configv1.AnnotationPodSelector)
	}
	return Demand{Origin: source.String(), Source: source, Scope: Scope{Selector: selector, Declinable: true}, Cooldown: DefaultCooldown},
		true, nil
}

const (
	reloadAuto = "auto"
	reloadOff  = "false"
)

// OfWorkload is what a workload's own annotation asks. The error says what is wrong with it; the rest counts.
func OfWorkload(target *Target) ([]Demand, error) {
	text := strings.TrimSpace(target.Annotations[configv1.AnnotationReload])
	switch text {
	case "", reloadOff:
		return nil, nil
	case reloadAuto, "true":
		return ofUses(target, func(SourceRef) bool { return true }), nil
	}
	var demands []Demand
	var wrong []string
	for entry := range strings.SplitSeq(text, ",") {
		ref, ok := parseRef(entry)
		if !ok {
			wrong = append(wrong, strings.TrimSpace(entry))
			continue
		}
		demands = append(demands, ownDemand(target, ref, nil))
	}
	if len(wrong) > 0 {
		return demands, fmt.Errorf("annotation %s: %q is given; accepted are auto, false, or a list of names, as flags, secret/database",
			configv1.AnnotationReload, strings.Join(wrong, ", "))
	}
	return demands, nil
}

// parseRef reads "flags", "configmap/flags" or "secret/database".
func parseRef(entry string) (SourceRef, bool) {
	kind, name, qualified := strings.Cut(strings.TrimSpace(entry), "/")
	if !qualified {
		kind, name = "configmap", kind
	}
	switch {
	case name == "" || strings.ContainsAny(name, "/ "):
		return SourceRef{}, false
	case strings.EqualFold(kind, string(ConfigMap)):
		return SourceRef{ConfigMap, name}, true
	case strings.EqualFold(kind, string(Secret)):
		return SourceRef{Secret, name}, true
	default:
		return SourceRef{}, false
	}
}

// ofUses are demands for those of a workload's sources that are wanted, in a fixed order, with the keys that it uses.
func ofUses(target *Target, wanted func(SourceRef) bool) []Demand {
	var demands []Demand
	for _, ref := range target.sources() {
		if wanted(ref) {
			demands = append(demands, ownDemand(target, ref, target.Uses[ref].Keys))
		}
	}
	return demands
}

// own is a demand of a workload for itself.
func ownDemand(target *Target, source SourceRef, keys []string) Demand {
	return Demand{Origin: target.Ref.String(), Source: source, Keys: keys, Scope: Scope{Target: &target.Ref}, Cooldown: DefaultCooldown}
}
