package ecommerceplatform

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// DashboardName is the name of the ConfigMap with the dashboard of a platform. That of a WebApp is
// NAME-dashboard.
func DashboardName(platform string) string { return platform + "-platform-dashboard" }

// ruleKind is the kind of the alerts.
const ruleKind = "PrometheusRule"

// ruleRef and dashboardRef name the children that monitor a platform.
func ruleRef(platform *platformv1.EcommercePlatform) plan.Ref {
	return plan.Ref{Group: monitoring.GroupVersion.Group, Kind: ruleKind, Namespace: platform.Namespace, Name: platform.Name}
}

func dashboardRef(platform *platformv1.EcommercePlatform) plan.Ref {
	return plan.Ref{Kind: "ConfigMap", Namespace: platform.Namespace, Name: DashboardName(platform.Name)}
}

// monitored returns the children that monitor a platform: its alerts, where the cluster has
// PrometheusRules, and its dashboard. They come last: once all parts have been ready. From then on
// they stay, for their use is to show what is not ready.
func monitored(platform *platformv1.EcommercePlatform, observed Observed) []plan.Object {
	if !*platform.Spec.Monitoring.Enabled {
		return nil
	}
	var wanted []plan.Object
	isComplete := isWorking(observed.stack(platform))
	if observed.HasRuleAPI && (isComplete || observed.has(ruleRef(platform))) {
		wanted = append(wanted, desiredRule(platform, observed))
	}
	if isComplete || observed.has(dashboardRef(platform)) {
		wanted = append(wanted, desiredDashboard(platform))
	}
	return wanted
}

// isWorking reports whether all parts of an AppStack are as its present spec says, and ready. What
// leads to the frontend from outside may be missing: alerts don't wait for a Gateway.
func isWorking(stack *platformv1.AppStack) bool {
	if stack == nil || stack.Status.ObservedGeneration != stack.Generation {
		return false
	}
	if meta.IsStatusConditionTrue(stack.Status.Conditions, conditions.Ready) {
		return true
	}
	all := stack.Status.Components
	return slices.ContainsFunc(all, isOfIngress) && !slices.ContainsFunc(all, func(one platformv1.ComponentStatus) bool {
		return one.Phase != platformv1.ComponentReady && !isOfIngress(one)
	})
}

// isOfIngress reports whether nothing is wrong with a part but its route.
func isOfIngress(one platformv1.ComponentStatus) bool {
	return one.Reason == msappsv1.ReasonRouteAPIMissing || one.Reason == msappsv1.ReasonRouteNotAccepted
}

// metaOf returns the metadata of a child that monitors a platform.
func metaOf(platform *platformv1.EcommercePlatform, name string, more map[string]string) metav1.ObjectMeta {
	given := map[string]string{}
	for key, value := range platform.Spec.Labels {
		given[key] = string(value)
	}
	return metav1.ObjectMeta{Namespace: platform.Namespace, Name: name, Labels: naming.Merged(given, more, ownLabels(platform))}
}

// The alerts of platforms, and their severities.
const (
	alertPartDown     = "EcommercePlatformPartDown"
	alertPartDegraded = "EcommercePlatformPartDegraded"
	alertNotDurable   = "EcommercePlatformNotDurable"
	alertFilling      = "EcommercePlatformVolumeFilling"

	critical = "critical"
	warning  = "warning"
)

const runbooks = "https://github.com/mainstay-platform/mainstay/blob/main/docs/runbooks/"

// alerts makes the rules of one platform.
type alerts struct {
	platform *platformv1.EcommercePlatform
	// severity is that of a part that is down.
	severity string
}

// desiredRule returns the alerts of a platform. Each has the labels platform, namespace and
// component. Those about backups are missing as long as there are none. A part that is down is
// critical in production only: it may be a rollout that fails, beside pods that work. A database or
// cache that takes writes is not down.
func desiredRule(platform *platformv1.EcommercePlatform, observed Observed) *monitoring.PrometheusRule {
	a := alerts{platform, warning}
	if environment, _ := observed.Environments.Parse(platform.Spec.Environment); environment == policy.Production {
		a.severity = critical
	}
	rules := []monitoring.Rule{
		a.withoutWrites(databaseName, postgresqlKind, "postgresql"), a.degraded(databaseName, postgresqlKind, "postgresql"),
	}
	if *platform.Spec.Cache.Enabled {
		rules = append(rules, a.withoutWrites(cacheName, cacheKind, "cache"), a.degraded(cacheName, cacheKind, "cache"))
	}
	rules = append(rules, a.down(backendName), a.down(frontendName), a.notDurable(), a.filling())
	return &monitoring.PrometheusRule{
		ObjectMeta: metaOf(platform, platform.Name, observed.RuleLabels),
		Spec:       monitoring.PrometheusRuleSpec{Groups: []monitoring.RuleGroup{{Name: Controller, Rules: rules}}},
	}
}

// rule returns an alert about a part.
func (a alerts) rule(alert, component, severity, runbook string, rest monitoring.Rule) monitoring.Rule {
	rest.Alert = alert
	rest.Labels = map[string]string{
		"severity": severity, Label: a.platform.Name, "namespace": a.platform.Namespace, "component": component,
	}
	rest.Annotations["runbook_url"] = runbooks + runbook + ".md"
	return rest
}

// unready returns the expression that the object of a part is not ready and not on its way, or has
// been on its way for more than an hour, as the manager says. It may be narrowed by matchers of
// further labels.
func (a alerts) unready(kind, component, matchers string) string {
	return fmt.Sprintf(`max(mainstay_unready_object{namespace="%s", kind="%s", object="%s"%s}) > 0`,
		a.platform.Namespace, kind, objectName(a.platform, component), matchers)
}

// isPrimary returns the expression for whether an instance of a part takes writes: 1 if one does, 0
// if none of those that are scraped does. It has no value if none is scraped.
func (a alerts) isPrimary(label, component string) string {
	return "max(mainstay_instance_primary{" + a.instances(label, component) + "})"
}

// onlyBroken leaves out what has been in progress, or being deleted, for more than an hour.
const onlyBroken = `, phase!~"Progressing|Deleting"`

// down returns the alert that a web part is down. What Prometheus scrapes of it says nothing about
// that: an application may have no metrics. A rollout that takes more than an hour does not count:
// the former pods serve meanwhile.
func (a alerts) down(component string) monitoring.Rule {
	return a.rule(alertPartDown, component, a.severity, "MainstayWebAppNotReady", monitoring.Rule{
		Expr: a.unready("WebApp", component, onlyBroken), For: "2m",
		Annotations: map[string]string{
			"summary": a.notReady(component),
			"description": fmt.Sprintf("For 2 minutes the WebApp %s/%s has not been ready. Its conditions say what is wrong.",
				a.platform.Namespace, objectName(a.platform, component)),
		},
	})
}

// withoutWrites returns the alert that no instance of a part takes writes. They say so themselves,
// also while no manager is there. If none is scraped, the part counts as down when it is not ready.
// label is that of their metrics with the name of their object. Two minutes are longer than a
// failover.
func (a alerts) withoutWrites(component, kind, label string) monitoring.Rule {
	primary := a.isPrimary(label, component)
	return a.rule(alertPartDown, component, a.severity, "Mainstay"+kind+"NoPrimary", monitoring.Rule{
		Expr: fmt.Sprintf("(%s unless %s == 1) or %s < 1", a.unready(kind, component, onlyBroken), primary, primary), For: "2m",
		Annotations: map[string]string{
			"summary": fmt.Sprintf("The %s of the platform %s in %s takes no writes.", titles[component], a.platform.Name, a.platform.Namespace),
			"description": fmt.Sprintf("For 2 minutes no instance of the %s %s/%s has taken writes, or none could be scraped while the %s "+
				"was not ready. Its conditions say what is wrong.", kind, a.platform.Namespace, objectName(a.platform, component), kind),
		},
	})
}

// degraded returns the alert that a part takes writes and is not ready: one replica of three is
// missing, for example. That is no reason to wake anybody.
func (a alerts) degraded(component, kind, label string) monitoring.Rule {
	return a.rule(alertPartDegraded, component, warning, "MainstayObjectsNotReady", monitoring.Rule{
		Expr: fmt.Sprintf("%s and %s == 1", a.unready(kind, component, ""), a.isPrimary(label, component)), For: "5m",
		Annotations: map[string]string{
			"summary": a.notReady(component),
			"description": fmt.Sprintf("For 5 minutes the %s %s/%s has not been ready, and takes writes. Its conditions say what is wrong.",
				kind, a.platform.Namespace, objectName(a.platform, component)),
		},
	})
}

func (a alerts) notReady(component string) string {
	return fmt.Sprintf("The %s of the platform %s in %s is not ready.", titles[component], a.platform.Name, a.platform.Namespace)
}

// instances returns the labels that select the metrics of the instances of a part.
func (a alerts) instances(label, component string) string {
	return fmt.Sprintf(`namespace="%s", %s="%s"`, a.platform.Namespace, label, objectName(a.platform, component))
}

// notDurable returns the alert that fewer replicas receive than a failure without loss needs. It is
// silent without a primary that takes writes, which withoutWrites says.
func (a alerts) notDurable() monitoring.Rule {
	of := "{" + a.instances("postgresql", databaseName) + "}"
	return a.rule(alertNotDurable, databaseName, warning, "MainstayPostgreSQLNotDurable", monitoring.Rule{
		Expr: "max(mainstay_instance_receivers" + of + ") < max(mainstay_instance_needed_receivers" + of +
			") and max(mainstay_instance_primary" + of + ") == 1",
		For: "5m",
		Annotations: map[string]string{
			"summary": fmt.Sprintf("Too few replicas of the Database of the platform %s in %s receive what its primary writes.",
				a.platform.Name, a.platform.Namespace),
			"description": fmt.Sprintf("For 5 minutes {{ $value }} replicas of the PostgreSQL %s/%s have received what its primary writes, "+
				"fewer than are needed for a failover without loss.", a.platform.Namespace, objectName(a.platform, databaseName)),
		},
	})
}

// usedPart returns the expression for the used part of each volume of the database.
func (a alerts) usedPart() string {
	of := "{" + a.instances("postgresql", databaseName) + "}"
	return "mainstay_instance_volume_used_bytes" + of + " / mainstay_instance_volume_size_bytes" + of
}

// filling returns the alert that a volume of the database fills.
func (a alerts) filling() monitoring.Rule {
	return a.rule(alertFilling, databaseName, warning, "MainstayPostgreSQLVolumeFilling", monitoring.Rule{
		Expr: "max by (pod) (" + a.usedPart() + ") > 0.85",
		For:  "5m",
		Annotations: map[string]string{
			"summary": fmt.Sprintf("A volume of the platform %s in %s is nearly full.", a.platform.Name, a.platform.Namespace),
			"description": fmt.Sprintf("For 5 minutes the volume of %s/{{ $labels.pod }} has been more than 85%% full, now "+
				"{{ $value | humanizePercentage }}. A server whose volume is full takes no writes.", a.platform.Namespace),
		},
	})
}

// desiredDashboard returns the ConfigMap with the dashboard of all parts. Its key is unique in the
// cluster, because Grafana's sidecar writes the files of all ConfigMaps into one folder.
func desiredDashboard(platform *platformv1.EcommercePlatform) *corev1.ConfigMap {
	content := monitoring.Dashboard{
		ID: "ecommerceplatform/" + platform.Namespace + "/" + platform.Name, Title: platform.Namespace + " / " + platform.Name + " (platform)",
		Kind: Controller, Panels: panelsOf(platform),
	}
	return &corev1.ConfigMap{
		ObjectMeta: metaOf(platform, DashboardName(platform.Name), map[string]string{monitoring.LabelDashboard: "1"}),
		Data:       map[string]string{platform.Namespace + "." + platform.Name + ".platform.json": content.JSON()},
	}
}

// panelsOf returns the graphs of a platform. Those of the web parts are for what client libraries
// have by default; a graph without data stays empty.
func panelsOf(platform *platformv1.EcommercePlatform) []monitoring.Panel {
	a := alerts{platform: platform}
	web := fmt.Sprintf(`{namespace="%s", service=~"%s|%s"}`, platform.Namespace, objectName(platform, frontendName), objectName(platform, backendName))
	db := "{" + a.instances("postgresql", databaseName) + "}"
	panels := []monitoring.Panel{
		{Title: "Parts that are not ready", Description: "Empty while all parts are.", Unit: "short", Queries: []monitoring.Query{{
			Expr: fmt.Sprintf(`max by (kind, object) (mainstay_unready_object{namespace="%s", object=~"%s-(%s|%s|%s|%s)"})`, platform.Namespace,
				platform.Name, databaseName, cacheName, backendName, frontendName), Legend: "{{kind}} {{object}}"}}},
		{Title: "Requests", Description: "Per second, by part and code.", Unit: "reqps", Queries: []monitoring.Query{{
			Expr:   monitoring.OfHistograms("sum by (service, " + monitoring.Codes + ") (rate(%s_count" + web + "[$__rate_interval]))"),
			Legend: "{{service}} " + monitoring.LegendOfCodes}}},
		{Title: "Duration of requests", Description: "99th percentile, by part.", Unit: "s", Queries: []monitoring.Query{{
			Expr:   monitoring.OfHistograms("histogram_quantile(0.99, sum by (service, le) (rate(%s_bucket" + web + "[$__rate_interval])))"),
			Legend: "{{service}}"}}},
		{Title: "Database: connections", Unit: "short", Queries: []monitoring.Query{
			{Expr: "sum by (pod) (mainstay_postgresql_connections" + db + ")", Legend: "{{pod}}"}}},
		{Title: "Database: replication lag", Description: "What a replica has not replayed.", Unit: "bytes", Queries: []monitoring.Query{
			{Expr: "max by (member) (mainstay_postgresql_replication_lag_bytes" + db + ")", Legend: "{{member}}"}}},
		{Title: "Database: volumes", Description: "Used part.", Unit: "percentunit", Queries: []monitoring.Query{
			{Expr: "max by (pod) (" + a.usedPart() + ")", Legend: "{{pod}}"}}},
	}
	if !*platform.Spec.Cache.Enabled {
		return panels
	}
	cache := "{" + a.instances("cache", cacheName) + "}"
	return append(panels,
		monitoring.Panel{Title: "Cache: memory", Unit: "bytes", Queries: []monitoring.Query{
			{Expr: "max by (pod) (mainstay_cache_memory_used_bytes" + cache + ")", Legend: "{{pod}}"},
			{Expr: "max(mainstay_cache_memory_max_bytes" + cache + ")", Legend: "limit"}}},
		monitoring.Panel{Title: "Cache: lookups", Description: "Per second.", Unit: "ops", Queries: []monitoring.Query{
			{Expr: "sum by (result) (rate(mainstay_cache_lookups_total" + cache + "[$__rate_interval]))", Legend: "{{result}}"}}})
}
