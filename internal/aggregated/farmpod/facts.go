package farmpod

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/aggregated/table"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
)

// fact is what a kind of Mainstay's writes on pods, and how it is shown.
type fact struct {
	// fill reads the fact from a Pod's annotations.
	fill func(*farmv1alpha1.FarmPodSpec, map[string]string)
	// column shows the fact in wide tables.
	column table.Column[farmv1alpha1.FarmPod]
}

// facts are those of all kinds. A new kind adds its own here, and a field to FarmPodSpec.
var facts = []fact{
	{
		fill: func(spec *farmv1alpha1.FarmPodSpec, annotations map[string]string) {
			spec.ConfigurationRevision = text(revisionOf(annotations[configv1.AnnotationRestartedFor]))
		},
		column: table.Column[farmv1alpha1.FarmPod]{
			TableColumnDefinition: metav1.TableColumnDefinition{
				Name: "Configuration", Type: "string", Priority: wide,
				Description: "A hash of the configuration that the Pod was started with.",
			},
			Cell: func(pod *farmv1alpha1.FarmPod) any { return orNone(pod.Spec.ConfigurationRevision) },
		},
	},
	{
		fill: func(spec *farmv1alpha1.FarmPodSpec, annotations map[string]string) {
			spec.Agents = agentsOf(annotations)
		},
		column: table.Column[farmv1alpha1.FarmPod]{
			TableColumnDefinition: metav1.TableColumnDefinition{
				Name: "Agents", Type: "string", Priority: wide,
				Description: "The Instrumentations whose agents are in the Pod, each with its revision.",
			},
			Cell: func(pod *farmv1alpha1.FarmPod) any { return orNone(strings.Join(pod.Spec.Agents, ",")) },
		},
	},
}

// shortHash is the number of hexadecimal digits of a revision: two different revisions of a
// workload have the same by chance once in 4 billion.
const shortHash = 8

// revisionOf returns a hash of the contents that a Pod was started for, or "" if Mainstay has not
// recorded any.
func revisionOf(restartedFor string) string {
	if restartedFor == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(restartedFor))
	return hex.EncodeToString(sum[:])[:shortHash]
}

// maxAgent is the longest name of an agent with its revision: users can write the annotation as
// well.
const maxAgent = 253 + 1 + shortHash

// agentsOf returns the agents that Mainstay has recorded, as "java@1a2b3c4d".
func agentsOf(annotations map[string]string) []string {
	record := annotations[instrv1.AnnotationInjected]
	if record == "" {
		return nil
	}
	// A record is long, and the same on all Pods of a workload: its hash is enough.
	sum := sha256.Sum256([]byte(record))
	return agentSets.get(sum[:], func() []string {
		found := injection.Injected(annotations)
		if len(found) == 0 {
			return nil
		}
		agents := make([]string, 0, len(found))
		for _, one := range found {
			_, name, _ := strings.Cut(one.By, "/")
			agents = append(agents, cut(name+"@"+one.Revision[:min(shortHash, len(one.Revision))], maxAgent))
		}
		return agents
	})
}
