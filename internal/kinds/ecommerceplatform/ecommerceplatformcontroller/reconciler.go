// Package ecommerceplatformcontroller reads and writes for the kind EcommercePlatform; package
// ecommerceplatform decides.
package ecommerceplatformcontroller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/ecommerceplatform"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
	"github.com/mainstay-platform/mainstay/internal/kit/optionalapi"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
)

// kind implements the reconciler's interface for EcommercePlatform.
type kind struct {
	children     children.Reader
	namespaces   namespaces
	installation ecommerceplatform.Installation
	// rules is the optional API of PrometheusRules; ruleLabels are the labels of those that are made.
	rules      *optionalapi.API
	ruleLabels map[string]string
	// monitors are the optional APIs, rules among them, of what monitors platforms and their parts.
	monitors []*optionalapi.API
}

var (
	_ reconciler.Kind[*platformv1.EcommercePlatform, ecommerceplatform.Observed, ecommerceplatform.Decision]       = kind{}
	_ reconciler.Finalizing[*platformv1.EcommercePlatform, ecommerceplatform.Observed, ecommerceplatform.Decision] = kind{}
)

// Admit fills in defaults and validates.
func (k kind) Admit(platform *platformv1.EcommercePlatform) error {
	ecommerceplatform.Default(platform)
	return errclass.InvalidSpec(ecommerceplatform.Validate(platform, k.installation))
}

// Observe reads the AppStack and what monitors the platform from the cache, and the labels of the
// namespace: from the API server if the cache has no namespaces.
//
// +kubebuilder:rbac:groups=platform.mainstay.dev,resources=ecommerceplatforms;appstacks,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=prometheusrules,verbs=get;list;watch
func (k kind) Observe(ctx context.Context, platform *platformv1.EcommercePlatform) (ecommerceplatform.Observed, error) {
	observed := ecommerceplatform.Observed{Installation: k.installation, HasRuleAPI: k.rules.Available(), RuleLabels: k.ruleLabels}
	for _, api := range k.monitors {
		if !api.Available() {
			observed.MissingAPIs = append(observed.MissingAPIs, api.Kind())
		}
	}
	var err error
	if platform.DeletionTimestamp == nil {
		if observed.Namespace, err = k.namespaces.labels(ctx, platform.Namespace); err != nil {
			return observed, err
		}
	}
	possible := []plan.Object{
		&platformv1.AppStack{ObjectMeta: metav1.ObjectMeta{Name: platform.Name}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: ecommerceplatform.DashboardName(platform.Name)}},
	}
	if observed.HasRuleAPI {
		possible = append(possible, &monitoring.PrometheusRule{ObjectMeta: metav1.ObjectMeta{Name: platform.Name}})
	}
	observed.Children, err = k.children.Find(ctx, platform, possible...)
	return observed, err
}

// Decide compiles the platform.
func (kind) Decide(platform *platformv1.EcommercePlatform, observed ecommerceplatform.Observed) ecommerceplatform.Decision {
	return ecommerceplatform.Decide(platform, observed)
}

// Desired is what should exist.
func (kind) Desired(platform *platformv1.EcommercePlatform, _ ecommerceplatform.Observed, decided ecommerceplatform.Decision) plan.Plan {
	return ecommerceplatform.Desired(platform, decided)
}

// Released reports whether the AppStack of a platform that is being deleted is gone.
func (kind) Released(platform *platformv1.EcommercePlatform, observed ecommerceplatform.Observed, _ ecommerceplatform.Decision,
	_ plan.Result) bool {
	return ecommerceplatform.Released(platform, observed)
}

// Report sets the status.
func (kind) Report(into, platform *platformv1.EcommercePlatform, observed ecommerceplatform.Observed,
	decided ecommerceplatform.Decision, result plan.Result) time.Duration {
	status := ecommerceplatform.Status(platform, observed, decided, result)
	status.FirstReadyTime = into.Status.FirstReadyTime
	into.Status = status
	return 0
}

// namespaces reads the labels of namespaces.
type namespaces struct{ cached, live client.Reader }

// labels returns the labels of a namespace.
//
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
func (n namespaces) labels(ctx context.Context, name string) (map[string]string, error) {
	found, err := watch.ReadNamespace(ctx, n.cached, n.live, name)
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s, whose environment an EcommercePlatform must not contradict: %w", name, err)
	}
	return found.Labels, nil
}
