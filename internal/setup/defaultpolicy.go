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

// defaultPolicy makes the policy that every installation starts with, once: its definition is marked,
// so that a user's change or deletion is for good, also across restarts and upgrades. It goes
// with the definition, and with a new one comes again.
type defaultPolicy struct {
	config *rest.Config
	cached client.Reader
	// known is closed when it has been made.
	known chan struct{}
}

const (
	// policyCRD is the definition that is marked.
	policyCRD = "platformpolicies.policy." + api.Domain
	// defaultPolicyPause is how long to wait after a failure.
	defaultPolicyPause = 2 * time.Second
	// knownTimeout is less than an admission may take.
	knownTimeout = 3 * time.Second
	// cacheLag is how soon to look again for what the cache should have any moment.
	cacheLag = 50 * time.Millisecond
)

// Known waits, not for long, until the policy has been made, here or by another replica: until then nobody
// knows what is allowed, and nothing must be admitted or made as if all were.
func (d *defaultPolicy) Known(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, knownTimeout)
	defer cancel()
	select {
	case <-d.known:
		return nil
	case <-ctx.Done():
		return errors.New("waiting until the default PlatformPolicy has been made")
	}
}

// NeedLeaderElection is false: every replica admits, and must know.
func (d *defaultPolicy) NeedLeaderElection() bool { return false }

// Start makes the policy and waits until the cache has it. It tries until that has succeeded: webhooks may
// be configured that nobody answers yet.
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
	if err := retry(ctx, defaultPolicyPause, "Making the default policy", ensure); err != nil {
		return err
	}
	err = wait.PollUntilContextCancel(ctx, cacheLag, true, func(ctx context.Context) (bool, error) {
		name := client.ObjectKeyFromObject(&policy)
		if d.cached.Get(ctx, name, &mspolicyv1.PlatformPolicy{}) == nil {
			return true, nil
		}
		// Somebody may have deleted it.
		return apierrors.IsNotFound(live.Get(ctx, name, &mspolicyv1.PlatformPolicy{})), nil
	})
	if err == nil {
		close(d.known)
	}
	return nil
}

// ensureDefaultPolicy is safe between its two writes: a policy that is there already is left alone. The
// right to patch the definition stands in the chart's templates/rbac.yaml, for it goes by name.
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
		return fmt.Errorf("making PlatformPolicy %s: %w", policy.Name, err)
	}
	ctrl.Log.WithName("setup").Info("Made the default policy", "PlatformPolicy", policy.Name)
	marked := definition.DeepCopy()
	marked.SetAnnotations(naming.Merged(definition.Annotations, map[string]string{api.AnnotationDefaultPolicy: policy.Name}))
	if err := live.Patch(ctx, marked, client.MergeFrom(definition)); err != nil {
		return fmt.Errorf("marking CustomResourceDefinition %s: %w", policyCRD, err)
	}
	return nil
}
