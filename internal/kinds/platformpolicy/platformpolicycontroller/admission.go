package platformpolicycontroller

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/platformpolicy"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

// admitted returns how PlatformPolicies are admitted.
func admitted(in registration.Input) admission.Kind[*mspolicyv1.PlatformPolicy] {
	return admission.Kind[*mspolicyv1.PlatformPolicy]{
		Kind:     mspolicyv1.GroupVersion.WithKind("PlatformPolicy"),
		Resource: "platformpolicies",
		Scope:    admissionregistrationv1.ClusterScope,
		New:      func() *mspolicyv1.PlatformPolicy { return &mspolicyv1.PlatformPolicy{} },
		Default:  func(*mspolicyv1.PlatformPolicy) {},
		Validate: func(written *mspolicyv1.PlatformPolicy) field.ErrorList {
			return platformpolicy.Validate(written, in.Environments)
		},
		IsSameSpec: func(a, b *mspolicyv1.PlatformPolicy) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) },
	}
}
