package ecommerceplatformcontroller

import (
	"context"
	"maps"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/ecommerceplatform"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

// stackKind is the kind of what a platform is made of.
var stackKind = schema.GroupKind{Group: platformv1.GroupVersion.Group, Kind: "AppStack"}

// installationOf returns what platforms have to know of the installation.
func installationOf(in registration.Input) ecommerceplatform.Installation {
	installation := ecommerceplatform.Installation{
		Environments: in.Environments, HasStacks: in.Review(stackKind) != nil,
		Databases: slices.Collect(maps.Keys(in.PostgreSQLImages)), Caches: slices.Collect(maps.Keys(in.ValkeyImages)),
	}
	for _, c := range in.Components() {
		installation.Types = append(installation.Types, c.Type)
	}
	return installation
}

// admitted returns how platforms are admitted.
func admitted(in registration.Input) admission.Kind[*platformv1.EcommercePlatform] {
	r := reviewer{in: in, installation: installationOf(in)}
	return admission.Kind[*platformv1.EcommercePlatform]{
		Kind:     platformv1.GroupVersion.WithKind(ecommerceplatform.Kind),
		Resource: resource,
		Scope:    admissionregistrationv1.NamespacedScope,
		New:      func() *platformv1.EcommercePlatform { return &platformv1.EcommercePlatform{} },
		Default:  ecommerceplatform.Default,
		Validate: func(platform *platformv1.EcommercePlatform) field.ErrorList {
			return ecommerceplatform.Validate(platform, r.installation)
		},
		Review:     r.review,
		IsSameSpec: func(a, b *platformv1.EcommercePlatform) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) },
	}
}

const resource = "ecommerceplatforms"

// reviewer checks a platform for what it is made of, as if its AppStack were written by hand.
type reviewer struct {
	in           registration.Input
	installation ecommerceplatform.Installation
}

// review returns what is wrong with a valid platform in its surroundings, and otherwise what the
// admission of its AppStack says, in the words of the platform. before is the platform as it is
// stored; nil for a new one.
func (r reviewer) review(ctx context.Context, platform *platformv1.EcommercePlatform,
	before **platformv1.EcommercePlatform) (admission.Review, error) {
	labels, err := namespacesOf(r.in, r.in.Reviewing).labels(ctx, platform.Namespace)
	if err != nil {
		return admission.Review{}, err
	}
	existing, err := r.existing(ctx, platform)
	if err != nil {
		return admission.Review{}, err
	}
	if problems := ecommerceplatform.ValidateWithin(platform, labels, existing, r.installation); len(problems) > 0 {
		return admission.Review{Problems: problems}, nil
	}
	stack := r.compile(platform, existing)
	var former component.Object
	var warnings []string
	// What is stored may name an environment that the installation no longer has: then it is no
	// platform that can be compiled, and the change is that of a new one.
	if before != nil && len(ecommerceplatform.Validate(*before, r.installation)) == 0 {
		former = r.compile(*before, existing)
		warnings = ecommerceplatform.WarnOfChange(platform, *before, existing, r.installation)
	}
	found, err := r.in.Review(stackKind)(ctx, stack, former)
	if err != nil {
		return found, err
	}
	for i, problem := range found.Problems {
		said := *problem
		said.Field = ecommerceplatform.InPlatform(said.Field, stack)
		found.Problems[i] = &said
	}
	for i := range found.Violations {
		found.Violations[i].Field = ecommerceplatform.InPlatform(found.Violations[i].Field, stack)
	}
	for i, warning := range found.Warnings {
		found.Warnings[i] = ecommerceplatform.InPlatform(warning, stack)
	}
	found.Warnings = append(warnings, found.Warnings...)
	return found, nil
}

// compile returns the AppStack of a platform, as the existing one if there is one: its admission
// says what would become of that.
func (r reviewer) compile(platform *platformv1.EcommercePlatform, existing *platformv1.AppStack) *platformv1.AppStack {
	stack := ecommerceplatform.Compile(platform, existing, r.installation)
	if existing != nil {
		stack.UID, stack.Generation = existing.UID, existing.Generation
	}
	return stack
}

// existing returns the AppStack of a platform from the cache, as the controller will find it: its
// own, or one that consents to be adopted; nil if there is none.
func (r reviewer) existing(ctx context.Context, platform *platformv1.EcommercePlatform) (*platformv1.AppStack, error) {
	reader := children.Reader{Cached: r.in.Manager.GetClient(), Scheme: r.in.Manager.GetScheme()}
	found, err := reader.Find(ctx, platform, &platformv1.AppStack{ObjectMeta: metav1.ObjectMeta{Name: platform.Name}})
	if err != nil {
		return nil, err
	}
	return ecommerceplatform.Existing(found, platform), nil
}
