package workload

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

// DefaultCooldown is the default minimum time between two restarts of one workload.
const DefaultCooldown = 30 * time.Second

// Demand is a request that workloads restart when a source changes.
type Demand struct {
	// Origin is where the demand comes from: an object of one of our kinds, or the annotated object,
	// such as "Deployment/web".
	Origin string
	Source SourceRef
	// Keys are the relevant keys of the source; nil means all.
	Keys  []string
	Scope Scope
	// Cooldown is the minimum time between two restarts of one workload.
	Cooldown time.Duration
	// Debounce is how long further changes are collected after a restart for this source.
	Debounce time.Duration
	Rollout  rolloutv1.Policy
}

// OriginOf returns the origin for an object.
func OriginOf(kind, name string) string { return kind + "/" + name }

// OfSource returns the demand of a source's own annotation; false if it has none. It returns an
// error if the annotation is invalid.
func OfSource(source SourceRef, annotations map[string]string) (Demand, bool, error) {
	text, annotated := annotations[configv1.AnnotationPodSelector]
	if !annotated {
		return Demand{}, false, nil
	}
	if len(text) > maxSelector {
		return Demand{}, false, fmt.Errorf("metadata.annotations[%s]: Too long: may not be more than %d bytes", configv1.AnnotationPodSelector,
			maxSelector)
	}
	selector, err := labels.Parse(text)
	if err != nil {
		return Demand{}, false, fmt.Errorf("metadata.annotations[%s]: Invalid value: %q: must be a label selector, such as app=frontend: %w",
			configv1.AnnotationPodSelector, text, err)
	}
	if selector.Empty() {
		return Demand{}, false, fmt.Errorf("metadata.annotations[%s]: Invalid value: \"\": must not be empty, which would select every pod: "+
			"set a label selector, such as app=frontend", configv1.AnnotationPodSelector)
	}
	return Demand{Origin: source.String(), Source: source, Scope: Scope{Selector: selector, Declinable: true}, Cooldown: DefaultCooldown},
		true, nil
}

const (
	reloadAuto = "auto"
	// reloadTrue is what users of Stakater Reloader write for reloadAuto.
	reloadTrue = "true"
	reloadOff  = "false"
)

// maxSources is the number of sources for which one workload is restarted at most. Each costs a
// comparison in every pass over the namespace.
const maxSources = 250

// maxQuoted is how much of an invalid entry a message repeats, in bytes.
const maxQuoted = 100

// OfWorkload returns the demands of a workload's own annotation, each source once. It returns an
// error if a part of the annotation is invalid or beyond maxSources, together with the demands of
// the other parts.
func OfWorkload(target *Target) ([]Demand, error) {
	text := strings.TrimSpace(target.Annotations[configv1.AnnotationReload])
	switch text {
	case "", reloadOff:
		return nil, nil
	case reloadAuto, reloadTrue:
		demands := ofUses(target, func(SourceRef) bool { return true })
		if used := len(target.Uses); used > maxSources {
			return demands, fmt.Errorf("metadata.annotations[%s]: Invalid value: %q: the pods use %d ConfigMaps and Secrets: "+
				"only the first %d by name are used", configv1.AnnotationReload, text, used, maxSources)
		}
		return demands, nil
	}
	var demands []Demand
	var wrong []string
	known := map[SourceRef]bool{}
	for entry := range strings.SplitSeq(text, ",") {
		ref, ok := parseRef(entry)
		switch {
		case !ok && len(wrong) <= maxSources:
			wrong = append(wrong, strings.TrimSpace(entry[:min(len(entry), maxQuoted)]))
		case !ok || known[ref]:
		case len(demands) == maxSources:
			return demands, fmt.Errorf("metadata.annotations[%s]: Too many: must have at most %d names: only the first %d are used",
				configv1.AnnotationReload, maxSources, maxSources)
		default:
			known[ref] = true
			demands = append(demands, ownDemand(target, ref, nil))
		}
	}
	if len(wrong) > 0 {
		return demands, fmt.Errorf("metadata.annotations[%s]: Invalid value: %q: must be auto, false, or a list of names such as "+
			"flags, secret/database",
			configv1.AnnotationReload, conditions.FirstFew(wrong, ", "))
	}
	return demands, nil
}

// parseRef parses "flags", "configmap/flags" or "secret/database".
func parseRef(entry string) (SourceRef, bool) {
	kind, name, qualified := strings.Cut(strings.TrimSpace(entry), "/")
	if !qualified {
		kind, name = "configmap", kind
	}
	switch {
	case name == "" || len(name) > maxName || strings.ContainsAny(name, "/ "):
		return SourceRef{}, false
	case strings.EqualFold(kind, string(ConfigMap)):
		return SourceRef{ConfigMap, name}, true
	case strings.EqualFold(kind, string(Secret)):
		return SourceRef{Secret, name}, true
	default:
		return SourceRef{}, false
	}
}

// maxName is the longest name of a ConfigMap or a Secret, in bytes. Longer ones are not kept.
const maxName = 253

// maxSelector limits the text of a selector, in bytes: it is parsed in every pass.
const maxSelector = 4096

// ofUses returns demands for those sources of a workload for which wanted is true, the first
// maxSources in a fixed order, with the keys that it uses.
func ofUses(target *Target, wanted func(SourceRef) bool) []Demand {
	var demands []Demand
	for _, ref := range target.sources() {
		if len(demands) < maxSources && wanted(ref) {
			demands = append(demands, ownDemand(target, ref, target.Uses[ref].Keys))
		}
	}
	return demands
}

// ownDemand returns a demand of a workload for itself.
func ownDemand(target *Target, source SourceRef, keys []string) Demand {
	return Demand{Origin: target.Ref.String(), Source: source, Keys: keys, Scope: Scope{Target: &target.Ref}, Cooldown: DefaultCooldown}
}
