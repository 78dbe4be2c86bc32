package injection

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// agentField has the fields of an Instrumentation that policies check.
var agentField = field.NewPath("spec", "agent")

// ownResources is why limits of an agent have no effect, and the remedy.
const ownResources = "; in pods with resources of their own (spec.resources), the agent's init container has no limits: " +
	"set spec.agent.volumeMode to ImageVolume, which needs no such container"

// exempting returns the context for one workload: without the rules from which it is exempt.
func (s *NamespaceContext) exempting(w *Workload) *NamespaceContext {
	exempt := *s
	exempt.Rules = s.Rules.For(w.Kind, w.Name)
	return &exempt
}

// refuseByPolicy returns why policies keep an Injection out of a template, or nil. had is what is
// injected now. As for applications, a violation that exists already is no reason: the same image
// stays, and may be injected in another way.
//
// Limits are checked here because nobody else can comply: the owner of a workload can't change the
// init container, and would be refused every write that adds one without limits.
func (s *NamespaceContext) refuseByPolicy(wanted *Injection, template *corev1.PodTemplateSpec, had current) *Refusal {
	if had.present != nil && had.present.Image == wanted.Image && !isLooser(wanted, template, had.present, had.before) {
		return nil
	}
	if s.RulesUnknown != nil {
		return refuse(instrv1.WorkloadPolicyViolation, "the PlatformPolicies that govern it can't be read: %v", s.RulesUnknown)
	}
	worse := s.worse(wanted, template, had)
	if len(worse) == 0 {
		return nil
	}
	message := policy.Sentence(worse)
	if isLooser(wanted, template, wanted, &corev1.PodTemplateSpec{}) {
		message += ownResources
	}
	return refuse(instrv1.WorkloadPolicyViolation, "%s", message)
}

// mayKeep reports whether policies let an earlier Injection, of the record, stay in a template or
// return to it. What is present stays unless the pods got resources of their own, so that the init
// container loses its limits. Everything else is checked like a new agent.
func (s *NamespaceContext) mayKeep(earlier *Injection, template *corev1.PodTemplateSpec, had current) bool {
	if earlier.isSame(had.present) {
		return !isLooser(earlier, template, earlier, had.before) || len(s.worse(earlier, template, had)) == 0
	}
	return s.RulesUnknown == nil && len(s.worse(earlier, template, had)) == 0
}

// worse returns the violations by an Injection into a template that what is present does not have.
func (s *NamespaceContext) worse(i *Injection, template *corev1.PodTemplateSpec, had current) []policy.Violation {
	found := s.violations(i, template)
	if had.present == nil {
		return found
	}
	return policy.Worse(found, s.violations(had.present, had.before))
}

// isIn reports whether a template really contains an Injection, as far as policies check it: with
// its image and its limits. A record proves nothing, because users can write it.
func (i *Injection) isIn(template *corev1.PodTemplateSpec) bool {
	name := partName(i.ID)
	at := slices.IndexFunc(template.Spec.Volumes, func(one corev1.Volume) bool { return one.Name == name })
	if at < 0 {
		return false
	}
	if i.Mode == instrv1.VolumeImage {
		source := template.Spec.Volumes[at].Image
		return source != nil && source.Reference == i.Image
	}
	return slices.ContainsFunc(template.Spec.InitContainers, func(one corev1.Container) bool {
		return one.Name == name && one.Image == i.Image && equality.Semantic.DeepEqual(one.Resources.Limits, i.limitsIn(template))
	})
}

// hasPlaceIn reports whether a template has the volume of an Injection and its init container.
// Another webhook may have changed that container's image or limits.
func (i *Injection) hasPlaceIn(template *corev1.PodTemplateSpec) bool {
	name := partName(i.ID)
	return hasVolume(template, name) && (i.Mode == instrv1.VolumeImage ||
		slices.ContainsFunc(template.Spec.InitContainers, func(one corev1.Container) bool { return one.Name == name }))
}

// violations returns the violations by an Injection into a template, of rules that refuse them.
func (s *NamespaceContext) violations(i *Injection, template *corev1.PodTemplateSpec) []policy.Violation {
	found := s.Rules.CheckImage(agentField.Child("image"), i.Image)
	if i.Mode != instrv1.VolumeImage { // with one there is no container
		found = append(found, s.Rules.CheckLimits(agentField, i.limitsIn(template))...)
	}
	return policy.Enforced(found, mspolicyv1.EnforcementDeny)
}

// isLooser reports whether the init container of a, in its template, lacks a limit that the one of
// b has in its template.
func isLooser(a *Injection, in *corev1.PodTemplateSpec, b *Injection, other *corev1.PodTemplateSpec) bool {
	limited := func(i *Injection, template *corev1.PodTemplateSpec, name corev1.ResourceName) bool {
		limit := i.limitsIn(template)[name]
		return i.Mode == instrv1.VolumeImage || !limit.IsZero()
	}
	return slices.ContainsFunc([]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}, func(name corev1.ResourceName) bool {
		return !limited(a, in, name) && limited(b, other, name)
	})
}

// limitsIn returns the limits of the init container in a template.
func (i *Injection) limitsIn(template *corev1.PodTemplateSpec) corev1.ResourceList {
	return i.resourcesIn(template).Limits
}

// resourcesIn returns the resources of the init container in a template: none if the pods have
// resources of their own, which those of a container may not exceed.
func (i *Injection) resourcesIn(template *corev1.PodTemplateSpec) corev1.ResourceRequirements {
	if i.Resources == nil || template.Spec.Resources != nil {
		return corev1.ResourceRequirements{}
	}
	return *i.Resources.DeepCopy()
}
