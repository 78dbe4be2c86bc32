package workload

import (
	"fmt"
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
	names := make([]string, len(missing))
	for i, ref := range missing {
		names[i] = conditions.Short(ref.String())
	}
	verb := "does"
	if len(names) > 1 {
		verb = "do"
	}
	return fmt.Sprintf("metadata.annotations[%s]: %s %s not exist: use auto, false, or names of ConfigMaps and Secrets",
		configv1.AnnotationReload, conditions.First(2, names, ", "), verb)
}
