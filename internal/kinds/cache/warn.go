package cache

import (
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	imageref "github.com/mainstay-platform/mainstay/internal/kit/image"
)

// A volume must have leastRoom times the memory: for the file that is there, and for the one that a
// rewrite makes beside it. It should have roomy times as much: the file grows to twice its size
// before it is rewritten, and there is a snapshot.
const leastRoom, roomy = 2, 3

// times returns so many times a quantity, as text.
func times(count int64, quantity resource.Quantity) string {
	return resource.NewQuantity(count*quantity.Value(), resource.BinarySI).String()
}

// tagVersion finds the major version that a tag begins with: 9, 9.1.2, 9.1-alpine.
var tagVersion = regexp.MustCompile(`^v?([0-9]{1,3})([.-]|$)`)

// anotherVersion returns the version of which spec.image is by its tag, if it is not spec.version;
// "" otherwise. Other numbers than our versions may be those of a user's own releases.
func anotherVersion(spec *databasev1.CacheSpec) string {
	if spec.Image == "" || database.CheckImage(spec.Image) != nil {
		return ""
	}
	reference, _ := imageref.Parse(spec.Image) // CheckImage has parsed it.
	found := tagVersion.FindStringSubmatch(reference.Tag)
	if found == nil || found[1] == spec.Version || !slices.Contains(Versions, found[1]) {
		return ""
	}
	return found[1]
}

// Warn returns what is legal but unwise about a defaulted Cache.
func Warn(c *databasev1.Cache) []string {
	spec := &c.Spec
	var warnings []string
	if other := anotherVersion(spec); other != "" {
		warnings = append(warnings, fmt.Sprintf("spec.image: by its tag, %s is an image of Valkey %s, and spec.version is %[3]s: an instance "+
			"that starts with another version than spec.version ends: set spec.image to an image of Valkey %[3]s", spec.Image, other, spec.Version))
	}
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
