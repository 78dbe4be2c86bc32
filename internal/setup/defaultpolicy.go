package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-platform/mainstay/api"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/charts"
	"github.com/mainstay-platform/mainstay/internal/kinds/platformpolicy"
	"github.com/mainstay-platform/mainstay/internal/kit/image"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/optionalapi"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// defaultPolicy creates the policy that every installation starts with. It does so once, and marks
// the definition, so that a user's change or deletion is permanent across restarts and upgrades.
// The mark is deleted with the definition: a new definition gets a new policy.
type defaultPolicy struct {
	config *rest.Config
	policy *mspolicyv1.PlatformPolicy
	cached client.Reader
	// known is closed when the policy has been created.
	known chan struct{}
}

const (
	// policyCRD is the definition that is marked.
	policyCRD = "platformpolicies.policy." + api.Domain
	// maxRegistries is the limit of the schema for the allowed registries of a rule.
	maxRegistries = 64
	// defaultPolicyPause is the time between a failure and the next attempt.
	defaultPolicyPause = 2 * time.Second
	// knownTimeout is less than an admission may take.
	knownTimeout = 3 * time.Second
	// cacheLag is the poll interval for an object that the cache should have any moment.
	cacheLag = 50 * time.Millisecond
)

// newDefaultPolicy returns the embedded policy. Its rule for production allows the registries; none
// means any.
func newDefaultPolicy(registries []string) (*mspolicyv1.PlatformPolicy, error) {
	var made mspolicyv1.PlatformPolicy
	if err := yaml.UnmarshalStrict(charts.DefaultPolicy, &made); err != nil {
		return nil, fmt.Errorf("reading the embedded default policy: %w", err)
	}
	for i := range made.Spec.Rules {
		if rule := &made.Spec.Rules[i]; rule.Environment == string(policy.Production) {
			rule.AllowedRegistries = registries
			return &made, nil
		}
	}
	return nil, errors.New("the embedded default policy has no rule for production")
}

// validateEnvironments checks --environments. The default policy has a rule for production.
func (s Settings) validateEnvironments() error {
	environments, err := policy.NewEnvironments(s.Environments)
	if err != nil {
		return fmt.Errorf("--environments: %w", err)
	}
	if _, known := environments.Parse(string(policy.Production)); s.DefaultPolicy && !known {
		return fmt.Errorf("--environments: must have %s, for which --default-policy creates a rule", policy.Production)
	}
	return nil
}

// validateDefaultPolicy checks --default-policy and --default-policy-registries. The API server
// would refuse a policy with invalid registries for ever.
func (s Settings) validateDefaultPolicy() error {
	registries := s.DefaultPolicyRegistries
	switch {
	case s.DefaultPolicy && !s.hasPolicies():
		return fmt.Errorf("--default-policy needs %s among --kinds", platformpolicy.Controller)
	case len(registries) > 0 && !s.DefaultPolicy:
		return errors.New("--default-policy-registries needs --default-policy")
	case len(registries) > maxRegistries:
		return fmt.Errorf("--default-policy-registries: must have at most %d entries", maxRegistries)
	}
	for i, entry := range registries {
		if _, err := image.ParsePrefix(entry); err != nil {
			return fmt.Errorf("--default-policy-registries: invalid value %q: %w", entry, err)
		}
		if slices.Contains(registries[:i], entry) {
			return fmt.Errorf("--default-policy-registries: duplicate value %q", entry)
		}
	}
	return nil
}

// Known waits for at most knownTimeout until this or another replica has created the policy. Until
// then the rules are unknown, and nothing may be admitted or created as if there were none.
func (d *defaultPolicy) Known(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, knownTimeout)
	defer cancel()
	select {
	case <-d.known:
		return nil
	case <-ctx.Done():
		return errors.New("waiting for the default PlatformPolicy to be created")
	}
}

// NeedLeaderElection returns false: every replica admits objects, and must know the rules.
func (d *defaultPolicy) NeedLeaderElection() bool { return false }

// Start creates the policy and waits until the cache has it. It retries until it succeeds, because
// webhooks may be configured that do not answer yet.
func (d *defaultPolicy) Start(ctx context.Context) error {
	live, err := newClient(d.config)
	if err != nil {
		return err
	}
	ensure := func() error { return ensureDefaultPolicy(ctx, live, d.policy.DeepCopy()) }
	if err := retry(ctx, defaultPolicyPause, "Creating the default policy", ensure); err != nil {
		return err
	}
	err = wait.PollUntilContextCancel(ctx, cacheLag, true, func(ctx context.Context) (bool, error) {
		name := client.ObjectKeyFromObject(d.policy)
		if d.cached.Get(ctx, name, &mspolicyv1.PlatformPolicy{}) == nil {
			return true, nil
		}
		// A user may have deleted it.
		return apierrors.IsNotFound(live.Get(ctx, name, &mspolicyv1.PlatformPolicy{})), nil
	})
	if err == nil {
		close(d.known)
	}
	return nil
}

// ensureDefaultPolicy may be interrupted between its two writes: a policy that exists is not
// changed. The right to patch the definition is in the chart's templates/rbac.yaml, because it uses
// resourceNames.
//
// +kubebuilder:rbac:part=defaultpolicy,groups=policy.mainstay.dev,resources=platformpolicies,verbs=get;create
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get
func ensureDefaultPolicy(ctx context.Context, live client.Client, policy *mspolicyv1.PlatformPolicy) error {
	definition := optionalapi.Definition()
	if err := live.Get(ctx, client.ObjectKey{Name: policyCRD}, definition); err != nil {
		return fmt.Errorf("reading CustomResourceDefinition %s: %w", policyCRD, err)
	}
	if _, made := definition.Annotations[api.AnnotationDefaultPolicy]; made {
		return nil
	}
	if err := live.Create(ctx, policy, client.FieldOwner(naming.Manager("default-policy"))); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating PlatformPolicy %s: %w", policy.Name, err)
	}
	ctrl.Log.WithName("setup").Info("Created the default policy", "PlatformPolicy", policy.Name)
	marked := definition.DeepCopy()
	marked.SetAnnotations(naming.Merged(definition.Annotations, map[string]string{api.AnnotationDefaultPolicy: policy.Name}))
	if err := live.Patch(ctx, marked, client.MergeFrom(definition)); err != nil {
		return fmt.Errorf("marking CustomResourceDefinition %s: %w", policyCRD, err)
	}
	return nil
}
