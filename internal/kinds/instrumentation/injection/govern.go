package injection

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// imageField is the field of an Instrumentation that policies check.
var imageField = field.NewPath("spec", "agent", "image")

// refuseImage returns why policies keep an Injection out, or nil. had is what is injected now, or
// nil. As for applications, a violation that exists already is no reason: the same image stays, and
// may be injected in another way.
func (s *NamespaceContext) refuseImage(wanted, had *Injection) *Refusal {
	if had != nil && had.Image == wanted.Image {
		return nil
	}
	if s.RulesUnknown != nil {
		return refuse(instrv1.WorkloadPolicyViolation, "which PlatformPolicies govern it can't be read: %v", s.RulesUnknown)
	}
	if violations := s.violations(wanted.Image); violations != "" {
		return refuse(instrv1.WorkloadPolicyViolation, "%s", violations)
	}
	return nil
}

// violations returns the violations by an image in one sentence; empty if there are none.
func (s *NamespaceContext) violations(image string) string {
	return policy.Sentence(s.Rules.CheckImage(imageField, image))
}
