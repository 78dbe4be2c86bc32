package ecommerceplatform

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/test/golden"
)

// complete returns what is observed of a platform whose parts are all ready, in a cluster with
// PrometheusRules.
func complete(platform *platformv1.EcommercePlatform) Observed {
	observed := with(platform, reporting(platform, "Running", []metav1.Condition{said("Ready", "True", "Available", "")}), plan.Ours)
	observed.HasRuleAPI = true
	return observed
}

// TestMonitoring pins the alerts and the dashboard. tools/monitoring tries them with Prometheus.
func TestMonitoring(t *testing.T) {
	platform := admitted(in("prod"), withFields(`labels: {team: commerce}`))
	rule := desiredRule(platform, Observed{Installation: installation, RuleLabels: map[string]string{"release": "stack", "platform": "other"}})
	for file, object := range map[string]any{"rule.yaml": rule, "dashboard.yaml": desiredDashboard(platform)} {
		content, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, file, content)
	}
	bare := admitted(withoutCache)
	without, err := yaml.Marshal([]any{desiredRule(bare, Observed{Installation: installation}), desiredDashboard(bare)})
	if err != nil || strings.Contains(string(without), "critical") || strings.Contains(string(without), "mainstay_cache") || strings.Contains(string(without), "component: cache") {
		t.Errorf("without a cache: %v, %s", err, without)
	}
}

// TestMonitored: what monitors a platform is made once all parts have been ready, and stays until
// monitoring is off or the platform goes.
func TestMonitored(t *testing.T) {
	platform, off, going := admitted(), admitted(withoutMonitoring), admitted()
	going.DeletionTimestamp = &metav1.Time{}
	invalid := admitted(in("live"))
	starting := with(platform, reporting(platform, "Deploying", nil), plan.Ours)
	starting.HasRuleAPI = true
	stale := complete(platform)
	stale.Children[Ref(platform)].Object.(*platformv1.AppStack).Generation++
	without := complete(platform)
	without.HasRuleAPI = false
	failing := with(platform, reporting(platform, "Degraded", nil), plan.Ours)
	failing.HasRuleAPI = true
	failing.Children[ruleRef(platform)] = plan.Found{Object: &monitoring.PrometheusRule{}, Ownership: plan.Ours}
	failing.Children[dashboardRef(platform)] = plan.Found{Object: &corev1.ConfigMap{}, Ownership: plan.Ours}
	foreign := with(platform, reporting(platform, "Degraded", nil), plan.Ours)
	foreign.Children[dashboardRef(platform)] = plan.Found{Object: &corev1.ConfigMap{}, Ownership: plan.Foreign}
	noGateway := func(backend platformv1.ComponentPhase) Observed {
		observed := with(platform, reporting(platform, "Deploying", nil, part("backend", backend, "Available", ""),
			part("frontend", "Progressing", "RouteAPIMissing", "")), plan.Ours)
		observed.HasRuleAPI = true
		return observed
	}
	for name, test := range map[string]struct {
		platform *platformv1.EcommercePlatform
		observed Observed
		want     []string
		kept     int
	}{
		"without a Gateway": {platform, noGateway(platformv1.ComponentReady), []string{"AppStack", "PrometheusRule", "ConfigMap"}, 0},
		"and another part":  {platform, noGateway(platformv1.ComponentProgressing), []string{"AppStack"}, 0},
		"complete":          {platform, complete(platform), []string{"AppStack", "PrometheusRule", "ConfigMap"}, 0},
		"starting":          {platform, starting, []string{"AppStack"}, 0},
		"a change":          {platform, stale, []string{"AppStack"}, 0},
		"without the API":   {platform, without, []string{"AppStack", "ConfigMap"}, 0},
		"a part that fails": {platform, failing, []string{"AppStack", "PrometheusRule", "ConfigMap"}, 0},
		"a foreign one":     {platform, foreign, []string{"AppStack"}, 0},
		"off":               {off, complete(off), []string{"AppStack"}, 0},
		"going":             {going, complete(going), nil, 0},
		"invalid":           {invalid, complete(platform), nil, 3},
	} {
		wanted := Desired(test.platform, Decide(test.platform, test.observed))
		var got []string
		for _, child := range wanted.Children {
			switch child.Object.(type) {
			case *platformv1.AppStack:
				got = append(got, "AppStack")
			case *monitoring.PrometheusRule:
				got = append(got, "PrometheusRule")
			case *corev1.ConfigMap:
				got = append(got, "ConfigMap")
			}
		}
		if !slices.Equal(got, test.want) || len(wanted.Keep) != test.kept {
			t.Errorf("%s: children %v, keeps %v", name, got, wanted.Keep)
		}
	}
}

// TestMonitoringFails: the status says which of a platform's children was refused.
func TestMonitoringFails(t *testing.T) {
	platform := admitted()
	observed := complete(platform)
	for want, ref := range map[string]plan.Ref{
		"Monitoring setup failed: a rule is refused": ruleRef(platform), "a rule is refused": Ref(platform),
	} {
		result := plan.Result{Refusals: map[plan.Ref]string{ref: ""}, Failure: &plan.Failure{Reason: "Refused", Message: "a rule is refused"}}
		if got := Status(platform, observed, Decide(platform, observed), result).Conditions[0].Message; got != want {
			t.Errorf("%s: got %q, want %q", ref.Kind, got, want)
		}
	}
}

// TestMonitoringHealthy: the status says what is missing of what monitors a platform.
func TestMonitoringHealthy(t *testing.T) {
	platform, off := admitted(), admitted(withoutMonitoring)
	going := admitted()
	going.DeletionTimestamp = &metav1.Time{}
	missing, done := complete(platform), complete(platform)
	missing.MissingAPIs = []string{"PrometheusRule", "PodMonitor"}
	unscraped := complete(platform)
	unscraped.MissingAPIs = []string{"PodMonitor"}
	done.Children[ruleRef(platform)] = plan.Found{Object: &monitoring.PrometheusRule{}, Ownership: plan.Ours}
	done.Children[dashboardRef(platform)] = plan.Found{Object: &corev1.ConfigMap{}, Ownership: plan.Ours}
	refused := plan.Result{Refusals: map[plan.Ref]string{ruleRef(platform): ""}, Failure: &plan.Failure{Reason: "Refused", Message: "no"}}
	for name, test := range map[string]struct {
		platform *platformv1.EcommercePlatform
		observed Observed
		result   plan.Result
		want     string
	}{
		"no operator": {platform, missing, plan.Result{}, "False MonitoringAPIMissing the cluster has no PrometheusRule, no PodMonitor (mon"},
		"no scraping": {platform, unscraped, plan.Result{}, "False MonitoringAPIMissing the cluster has no PodMonitor (monitoring.coreos.com/v1): " +
			"install the Prometheus Operator, then they are created. Until then parts that need these kinds"},
		"not yet": {platform, complete(platform), plan.Result{}, "False MonitoringWaits the alerts and the dashboard are created after all parts have become ready"},
		"there":   {platform, done, plan.Result{}, "True Monitored the PrometheusRule shop has the alerts, and the ConfigMap shop-platform-d"},
		"refused": {platform, done, refused, "False Refused Monitoring setup failed: no"},
		"foreign": {platform, complete(platform), plan.Result{Conflicts: []plan.Ref{ruleRef(platform)}}, "False Conflict not created by this " +
			"EcommercePlatform: PrometheusRule web/shop; delete it, or let the platform adopt it: kubectl annotate -n web prometheusrule/shop "},
		"contested": {platform, done, plan.Result{SlowedChildren: []plan.Contest{{Ref: ruleRef(platform)}},
			Failure: &plan.Failure{Reason: "Contested", Message: "by x"}}, "False Contested by x"},
		"switched off": {off, missing, plan.Result{}, ""},
		"going":        {going, missing, plan.Result{}, ""},
	} {
		status := Status(test.platform, test.observed, Decide(test.platform, test.observed), test.result)
		got := ""
		if one := meta.FindStatusCondition(status.Conditions, "MonitoringHealthy"); one != nil {
			got = string(one.Status) + " " + one.Reason + " " + one.Message
		}
		if !strings.HasPrefix(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
