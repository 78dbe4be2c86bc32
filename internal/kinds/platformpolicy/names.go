// Package platformpolicy decides which admission policies of Kubernetes a PlatformPolicy needs, and
// what its status says: whether it is in force, what it governs, and what violates it. Package
// policy interprets its rules. It does no I/O.
package platformpolicy

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// Controller is the name of the kind's controller; its field manager is mainstay/platformpolicy.
const Controller = "platformpolicy"

// maxName is the length of the longest name of an object.
const maxName = 253

// ChildName returns the name of both children of a policy for an enforcement. Those for the
// enforcement of spec.workloads, which all rules have by default, are called mainstay-POLICY; those
// for a weaker one mainstay.warn.POLICY and mainstay.audit.POLICY. No other policy has a child of
// that name. A name that would be too long ends in its hash.
func ChildName(stored *mspolicyv1.PlatformPolicy, enforcement mspolicyv1.Enforcement) string {
	name := "mainstay-" + stored.Name
	if enforcement != policy.EnforcementOf(stored.Spec.Workloads) {
		name = "mainstay." + strings.ToLower(string(enforcement)) + "." + stored.Name
	}
	if len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(stored.Name))
	return name[:maxName-33] + "-" + hex.EncodeToString(sum[:16])
}

// ChildNames returns all names that children of a policy can have.
func ChildNames(stored *mspolicyv1.PlatformPolicy) []string {
	all := &mspolicyv1.PlatformPolicy{ObjectMeta: stored.ObjectMeta}
	all.Spec.Workloads = mspolicyv1.WorkloadsEnforce
	var names []string
	for _, enforcement := range enforcements {
		names = append(names, ChildName(all, enforcement))
	}
	return names
}
