// Package platformpolicy decides which admission policies of Kubernetes a PlatformPolicy needs, and
// what its status says: whether it is in force, what it governs, and what violates it. Package
// policy interprets its rules. It does no I/O.
package platformpolicy

import (
	"crypto/sha256"
	"encoding/hex"
)

// Controller is the name of the kind's controller; its field manager is mainstay/platformpolicy.
const Controller = "platformpolicy"

// maxName is the length of the longest name of an object.
const maxName = 253

// ChildName returns the name of both children of a policy. A name that would be too long ends in
// its hash.
func ChildName(policy string) string {
	name := "mainstay-" + policy
	if len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(policy))
	return name[:maxName-33] + "-" + hex.EncodeToString(sum[:16])
}
