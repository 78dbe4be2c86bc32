package setup

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-platform/mainstay/api"
	policyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/charts"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/optional"
)

// defaultPolicy makes the policy that every installation starts with, once: its definition is marked,
// so that a user's change or deletion is for good, also across restarts and upgrades. It goes
// with the definition, and with a new one comes again.
type defaultPolicy struct{ config *rest.Config }

const (
	// policyCRD is the definition that is marked.
	policyCRD = "platformpolicies.policy." + api.Domain
	// defaultPolicyPause is how long to wait after a failure.
	defaultPolicyPause = 5 * time.Second
)

// Start makes the policy, on the leader, and tries until that has succeeded: webhooks may be configured
// that nobody answers yet.
func (d defaultPolicy) Start(ctx context.Context) error {
	live, err := newClient(d.config)
	if err != nil {
		return err
	}
	return retry(ctx, defaultPolicyPause, "Making the default policy", func() error { return ensureDefaultPolicy(ctx, live) })
}

// ensureDefaultPolicy is safe between its two writes: a policy that is there already is left alone. The
// right to patch the definition stands in the chart's templates/rbac.yaml, for it goes by name.
//
// +kubebuilder:rbac:groups=policy.mainstay.dev,resources=platformpolicies,verbs=create
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get
func ensureDefaultPolicy(ctx context.Context, live client.Client) error {
	definition := &metav1.PartialObjectMetadata{}
	definition.SetGroupVersionKind(optional.CRDKind)
	if err := live.Get(ctx, client.ObjectKey{Name: policyCRD}, definition); err != nil {
		return fmt.Errorf("reading CustomResourceDefinition %s: %w", policyCRD, err)
	}
	if _, made := definition.Annotations[api.AnnotationDefaultPolicy]; made {
		return nil
	}
	var policy policyv1.PlatformPolicy
	if err := yaml.UnmarshalStrict(charts.DefaultPolicy, &policy); err != nil {
		return fmt.Errorf("reading the embedded default policy: %w", err)
	}
	if err := live.Create(ctx, &policy, client.FieldOwner(naming.Manager("default-policy"))); err != nil && !apierrors.IsAlreadyExists(err) {
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
