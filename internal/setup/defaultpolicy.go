package setup

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/optionalapi"
)

// defaultPolicy creates the policy that every installation starts with. It does so once, and marks
// the definition, so that a user's change or deletion is permanent across restarts and upgrades.
// The mark is deleted with the definition: a new definition gets a new policy.
type defaultPolicy struct {
	config *rest.Config
	cached client.Reader
	// known is closed when the policy has been created.
	known chan struct{}
}

const (
	// policyCRD is the definition that is marked.
	policyCRD = "platformpolicies.policy." + api.Domain
	// defaultPolicyPause is the time between a failure and the next attempt.
	defaultPolicyPause = 2 * time.Second
	// knownTimeout is less than an admission may take.
	knownTimeout = 3 * time.Second
	// cacheLag is the poll interval for an object that the cache should have any moment.
	cacheLag = 50 * time.Millisecond
)

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
	var policy mspolicyv1.PlatformPolicy
	if err := yaml.UnmarshalStrict(charts.DefaultPolicy, &policy); err != nil {
		return fmt.Errorf("reading the embedded default policy: %w", err)
	}
	ensure := func() error { return ensureDefaultPolicy(ctx, live, policy.DeepCopy()) }
	if err := retry(ctx, defaultPolicyPause, "Creating the default policy", ensure); err != nil {
		return err
	}
	err = wait.PollUntilContextCancel(ctx, cacheLag, true, func(ctx context.Context) (bool, error) {
		name := client.ObjectKeyFromObject(&policy)
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
