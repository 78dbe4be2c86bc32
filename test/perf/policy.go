package main

import (
	"context"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/internal/policy/admissionpolicy"
)

// The namespaces of the part policy.
const governedNamespace, otherNamespace = "governed-prod", "default"

// policy compares how long users wait for a Deployment that a PlatformPolicy with all kinds of
// rules governs, with the wait in another namespace and with that for a no-op webhook.
func (b *bench) policy(ctx context.Context) error {
	p, err := b.plane(ctx, "policy")
	if err != nil {
		return err
	}
	defer b.end(p)
	if err := governDeployments(ctx, p.client); err != nil {
		return err
	}
	noop, err := b.plane(ctx, "policy-webhook")
	if err != nil {
		return err
	}
	defer b.end(noop)
	serves, stop, err := startNoop(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if err := noop.client.Create(ctx, validating(serves)); err != nil {
		return err
	}
	if err := awaitRefusals(ctx, p.client); err != nil {
		return err
	}
	sides := []struct {
		client    client.Client
		namespace string
	}{{p.client, governedNamespace}, {p.client, otherNamespace}, {noop.client, otherNamespace}}
	took := make([][]time.Duration, len(sides))
	for i := range warmUp + reviews {
		for side, by := range sides {
			start := time.Now()
			if err := by.client.Create(ctx, compliant(by.namespace), client.DryRunAll); err != nil {
				return err
			}
			if i >= warmUp {
				took[side] = append(took[side], time.Since(start))
			}
		}
	}
	for _, share := range []float64{0.5, 0.99} {
		with, without, webhook := percentile(took[0], share), percentile(took[1], share), percentile(took[2], share)
		b.add(Figure{Name: fmt.Sprintf("policy: p%.0f of a creation over that with a no-op webhook", share*100), Kind: Ratio,
			Value: with.Seconds() / webhook.Seconds(),
			Note: fmt.Sprintf("%.2f ms with a policy, %.2f ms with a webhook, %.2f ms with neither; %d dry-run creations of a Deployment each, "+
				"one after the other",
				with.Seconds()*1e3, webhook.Seconds()*1e3, without.Seconds()*1e3, reviews)})
	}
	return nil
}

// governDeployments creates the admission policy of a PlatformPolicy, and its namespace.
func governDeployments(ctx context.Context, to client.Client) error {
	stored := mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "bench"}}
	stored.Spec.Workloads = mspolicyv1.WorkloadsEnforce
	rule := mspolicyv1.Rule{Environment: "production", MaxReplicas: new(int32(10)), RequireResourceLimits: true,
		AllowedRegistries: []string{"docker.io", "registry.example.com/team"}, RequiredLabels: []string{"team"}}
	rule.Enforced.SecurityProfile = mspolicyv1.SecurityRestricted
	stored.Spec.Rules = []mspolicyv1.Rule{rule}
	built, binding := admissionpolicy.Build(admissionpolicy.Input{Name: "mainstay-bench", Policy: &stored,
		Enforcement: mspolicyv1.EnforcementDeny,
		All:         policy.Set{Policies: []mspolicyv1.PlatformPolicy{stored}},
		Ungoverned:  []string{metav1.NamespaceSystem}, Manager: managerUser})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: governedNamespace}}
	for _, object := range []client.Object{built, binding, namespace} {
		if err := to.Create(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// awaitRefusals waits until the policy is in force.
func awaitRefusals(ctx context.Context, to client.Client) error {
	for {
		refused := compliant(governedNamespace)
		refused.Labels = nil
		if err := to.Create(ctx, refused, client.DryRunAll); err != nil {
			return nil //nolint:nilerr // it is the refusal that is awaited
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// compliant returns a Deployment that violates no rule.
func compliant(namespace string) *appsv1.Deployment {
	labels := map[string]string{"app": "reviewed", "team": "shop"}
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	container := corev1.Container{Name: "app", Image: "registry.example.com/team/shop:1",
		Resources: corev1.ResourceRequirements{Limits: limits},
		SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			RunAsNonRoot: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reviewed", Labels: labels}}
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	deployment.Spec.Template.Labels, deployment.Spec.Template.Spec.Containers = labels, []corev1.Container{container}
	return deployment
}

// validating returns the configuration of a webhook that is asked about each Deployment.
func validating(serves noopAnswer) *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "noop"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "noop.example.com", SideEffects: new(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &serves.URL, CABundle: serves.CA},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
			}},
		}}}
}
