package ecommerceplatform

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// limits are those of a container; half of them are its requests.
type limits struct{ cpu, memory string }

// defaults are what follows from an environment.
type defaults struct {
	// instances is the number of pods of each part.
	instances     int32
	storage       string
	backup        bool
	durability    databasev1.Durability
	web, database limits
	// cache has the memory that a Cache makes limits of, and the limit of its CPU.
	cache   limits
	profile msappsv1.SecurityProfile
	spread  msappsv1.TopologySpread
}

// table has the environments that a platform can be for. What a row of docs/spec says of disruption
// follows from the number of instances: one may be away where there are two or more.
//
// In production pods of the web parts are spread strictly: never is one node more than one ahead of
// another. The database asks for as much as the scheduler can do: its own strict rule would leave
// instances pending in a cluster with fewer nodes than instances.
var table = map[policy.Environment]defaults{
	policy.Development: {
		instances: 1, storage: "10Gi", durability: databasev1.DurabilityAsynchronous,
		web: limits{"250m", "256Mi"}, database: limits{"500m", "512Mi"}, cache: limits{"250m", "128Mi"},
		profile: msappsv1.SecurityDefault, spread: msappsv1.SpreadPreferred,
	},
	policy.Staging: {
		instances: 2, storage: "50Gi", backup: true, durability: databasev1.DurabilityPreferred,
		web: limits{"500m", "512Mi"}, database: limits{"1", "1Gi"}, cache: limits{"500m", "256Mi"},
		profile: msappsv1.SecurityDefault, spread: msappsv1.SpreadPreferred,
	},
	policy.Production: {
		instances: 3, storage: "100Gi", backup: true, durability: databasev1.DurabilityRequired,
		web: limits{"1", "1Gi"}, database: limits{"2", "4Gi"}, cache: limits{"1", "1Gi"},
		profile: msappsv1.SecurityRestricted, spread: msappsv1.SpreadRequired,
	},
}

// The backups of environments that have some.
const (
	backupSchedule  = "0 2 * * *"
	backupRetention = "30d"
)

// resources returns limits, and half of them as requests.
func (l limits) resources() corev1.ResourceRequirements {
	cpu, memory := resource.MustParse(l.cpu), resource.MustParse(l.memory)
	return corev1.ResourceRequirements{
		Limits: corev1.ResourceList{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory},
		Requests: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(cpu.MilliValue()/2, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(memory.Value()/2, resource.BinarySI),
		},
	}
}
