package cache

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
)

// A volume must have leastRoom times the memory: for the file that is there, and for the one that a
// rewrite makes beside it. It should have roomy times as much: the file grows to twice its size
// before it is rewritten, and there is a snapshot.
const leastRoom, roomy = 2, 3

// times returns so many times a quantity, as text.
func times(count int64, quantity resource.Quantity) string {
	return resource.NewQuantity(count*quantity.Value(), resource.BinarySI).String()
}

// Warn returns what is legal but unwise about a defaulted Cache.
func Warn(c *databasev1.Cache) []string {
	spec := &c.Spec
	var warnings []string
	if spec.Hibernated && spec.Persistence == nil {
		warnings = append(warnings, "spec.hibernated: without spec.persistence, stopping the instances loses all data")
	}
	if spec.PlainPort != 0 {
		warnings = append(warnings, fmt.Sprintf("spec.plainPort: passwords and data cross the network unencrypted on port %d", spec.PlainPort))
	}
	if spec.Replicas == 1 && spec.SwitchoverAt != nil {
		warnings = append(warnings, "spec.switchoverAt: there is only one instance, so there is none to hand over to")
	}
	if least := spec.MinReplicasToWrite; least > 0 && least == spec.Replicas-1 {
		warnings = append(warnings, fmt.Sprintf(
			"spec.minReplicasToWrite: with %d of %d replicas, no write is accepted while one of them is away, such as during each rollout",
			least, spec.Replicas-1))
	}
	if stored := spec.Persistence; stored != nil && stored.Storage.Value()/roomy < spec.Memory.Value() {
		warnings = append(warnings, fmt.Sprintf("spec.persistence.storage: %s is less than %s, three times spec.memory: a full cache may fill "+
			"the volume while the server rewrites its file", stored.Storage.String(), times(roomy, spec.Memory)))
	}
	return warnings
}
