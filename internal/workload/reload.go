package workload

import (
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

// Listed returns the sources that a workload's own annotation names, at most maxSources; none if it
// is to follow what the pods use.
func Listed(target *Target) []SourceRef {
	switch strings.TrimSpace(target.Annotations[configv1.AnnotationReload]) {
	case "", reloadOff, reloadAuto, reloadTrue:
		return nil
	}
	demands, _ := OfWorkload(target) // what is invalid in it has an event of its own
	listed := make([]SourceRef, len(demands))
	for i, demand := range demands {
		listed[i] = demand.Source
	}
	return listed
}

// MissingMessage says that sources which a workload's own annotation names do not exist. It is
// short enough for a warning of the API server.
func MissingMessage(missing []SourceRef) string {
	verb := "does"
	if len(missing) > 1 {
		verb = "do"
	}
	return fmt.Sprintf("metadata.annotations[%s]: %s %s not exist: use auto, false, or names of ConfigMaps and Secrets",
		configv1.AnnotationReload, named(missing), verb)
}

// named lists some sources in a short text.
func named(sources []SourceRef) string {
	names := make([]string, len(sources))
	for i, ref := range sources {
		names[i] = conditions.Short(ref.String())
	}
	return conditions.First(2, names, ", ")
}

// NotGranted returns, by workload, the Secrets for which its own annotations ask and that may not
// be read. There is no object whose status could say so.
func (s *Snapshot) NotGranted() map[TargetRef][]SourceRef {
	found := map[TargetRef][]SourceRef{}
	for i := range s.Demands {
		demand := &s.Demands[i]
		if demand.Scope.Target == nil || s.Sources[demand.Source].State != NotGranted {
			continue
		}
		if of := found[*demand.Scope.Target]; !slices.Contains(of, demand.Source) {
			found[*demand.Scope.Target] = append(of, demand.Source)
		}
	}
	return found
}

// NotGrantedMessage says that Secrets for which a workload's annotations ask may not be read. It is
// short enough for a warning of the API server.
func NotGrantedMessage(namespace string, secrets []SourceRef) string {
	return fmt.Sprintf("%s: changes restart nothing, because Mainstay may not read the Secrets of namespace %s: add it to secrets.namespaces",
		named(secrets), namespace)
}
