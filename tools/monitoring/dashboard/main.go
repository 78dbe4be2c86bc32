// Command dashboard writes the Grafana dashboard of Mainstay.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

func main() {
	output := flag.String("output", "dashboard.json", "file to write")
	flag.Parse()
	if err := write(*output); err != nil {
		fmt.Fprintln(os.Stderr, "dashboard:", err)
		os.Exit(1)
	}
}

func write(output string) error {
	made, err := build()
	if err != nil {
		return fmt.Errorf("making the dashboard: %w", err)
	}
	content, err := json.MarshalIndent(made, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the dashboard: %w", err)
	}
	return os.WriteFile(output, append(content, '\n'), 0o600)
}

// panel is a graph or number, with the names of its lines.
type panel struct {
	title, description, unit string
	// isNumber shows the latest value instead of a graph.
	isNumber bool
	queries  []query
}

type query struct{ expr, legend string }

// row is a line of panels under a title.
type row struct {
	title  string
	panels []panel
}

// quantiles returns queries for a histogram's median and 99th percentile. by is an additional
// label, or empty.
func quantiles(histogram, selector, by string) []query {
	group, legend := "le", ""
	if by != "" {
		group, legend = "le, "+by, "{{"+by+"}} "
	}
	var queries []query
	for _, quantile := range []struct{ value, name string }{{"0.5", "p50"}, {"0.99", "p99"}} {
		queries = append(queries, query{
			fmt.Sprintf("histogram_quantile(%s, sum by (%s) (rate(%s_bucket%s[$__rate_interval])))", quantile.value, group, histogram, selector),
			legend + quantile.name,
		})
	}
	return queries
}

// ofOurs selects the metrics of our own API server. The Kubernetes API server has metrics of the
// same names, but for this group only about requests that it rejected itself (429).
const ofOurs = `{group="farm.mainstay.dev"}`

// ofProcesses returns a query for each of our processes, joined with a metric that only one kind of
// process has.
func ofProcesses(expr string) []query {
	return []query{
		{expr + " and on (instance) mainstay_info", "{{instance}}"},
		{expr + " and on (instance) apiserver_watch_cache_initializations_total" + ofOurs, "{{instance}} (API server)"},
	}
}

// rows are the dashboard. $kind and $namespace are variables at its top.
var rows = []row{
	{"At a glance", []panel{
		{"Replicas", "Replicas that answer, by release.", "", true, []query{{"count by (version) (mainstay_info)", "{{version}}"}}},
		{"Leaders", "1, but for some seconds between two.", "", true, []query{{"sum(mainstay_leader)", "leaders"}}},
		{"Objects", "By what their conditions say.", "", true, []query{{`max by (phase) (sum by (instance, phase) (mainstay_objects{kind=~"$kind"})) > 0`, "{{phase}}"}}},
		{"Errors per second", "Conflicts are no errors.", "", true, []query{{`sum(rate(mainstay_errors_total{kind=~"$kind", class!="conflict"}[$__rate_interval])) or vector(0)`, "errors"}}},
		{"Certificate expires in", "It is replaced 30 days before.", "s", true,
			[]query{{"min(mainstay_certificate_expiry_timestamp_seconds) - time()", "left"}}},
	}},
	{"Objects", []panel{
		{"Objects by phase", "Degraded, Stalled and Unknown for long ask for a look.", "", false, []query{{`max by (kind, phase) (mainstay_objects{kind=~"$kind"})`, "{{kind}} {{phase}}"}}},
		{"Time to Ready", "From creation to the first Ready; each object counts once.", "s", false, quantiles("mainstay_ready_duration_seconds", `{kind=~"$kind", namespace=~"$namespace"}`, "kind")},
		{"Denied by policy", "Objects that a PlatformPolicy refused, per minute.", "", false, []query{{`60 * sum by (kind, namespace, by) (rate(mainstay_policy_denials_total{kind=~"$kind", namespace=~"$namespace"}[$__rate_interval]))`, "{{kind}} {{namespace}} by {{by}}"}}},
	}},
	{"Configuration", []panel{
		{"Restarts for configuration", "Per minute.", "", false, []query{{`60 * sum by (namespace) (rate(mainstay_config_restarts_total{namespace=~"$namespace"}[$__rate_interval]))`, "{{namespace}}"}}},
		{"From a change to the last pod", "Until all pods of a workload run it.", "s", false, quantiles("mainstay_config_rollout_duration_seconds", `{namespace=~"$namespace"}`, "namespace")},
	}},
	{"Work", []panel{
		{"Reconciles per second", "By result.", "", false, []query{{`sum by (kind, result) (rate(mainstay_reconcile_total{kind=~"$kind", namespace=~"$namespace"}[$__rate_interval]))`, "{{kind}} {{result}}"}}},
		{"Time of a reconcile", "Without the time in the queue.", "s", false, quantiles("mainstay_reconcile_duration_seconds", `{kind=~"$kind"}`, "kind")},
		{"Errors per second", "By class.", "", false, []query{{`sum by (kind, class) (rate(mainstay_errors_total{kind=~"$kind"}[$__rate_interval]))`, "{{kind}} {{class}}"}}},
		{"Queue", "Objects that wait for their turn, and those that have it.", "", false, []query{
			{"sum by (controller) (workqueue_depth)", "{{controller}} waiting"}, {"sum by (controller) (controller_runtime_active_workers)",
				"{{controller}} at work"},
		}},
		{"Time in the queue", "", "s", false, quantiles("workqueue_queue_duration_seconds", "", "controller")},
	}},
	{"API server and webhooks", []panel{
		{"Requests to the API server per second", "At rest those of leases and watches.", "", false,
			[]query{{"sum by (verb, resource) (rate(mainstay_api_requests_total[$__rate_interval]))", "{{verb}} {{resource}}"}}},
		{"Requests that did not succeed", "409 is a conflict, 429 is the API server holding us back.", "", false, []query{{`sum by (resource, code) (rate(mainstay_api_requests_total{code!="2xx"}[$__rate_interval]))`, "{{resource}} {{code}}"}}},
		{"Webhook requests per second", "A refusal is a 200 as well.", "", false,
			[]query{{"sum by (webhook, code) (rate(controller_runtime_webhook_requests_total[$__rate_interval]))", "{{webhook}} {{code}}"}}},
		{"Time of a webhook", "", "s", false, quantiles("controller_runtime_webhook_latency_seconds", "", "webhook")},
	}},
	{"Our own API server", []panel{
		{"farm.mainstay.dev", "Whether the APIService is published, whether the API server reaches our server, and how many endpoints are ready.",
			"", false,
			[]query{
				{"max(mainstay_apiservice_published)", "published"}, {"max(mainstay_apiservice_available)",
					"reached"}, {"max(mainstay_apiservice_endpoints)", "ready"},
			}},
		{"Requests per second", "429 is a replica that has not read yet what it serves, or has too many requests at once. A watch counts when it ends.", "", false, []query{
			{"sum by (resource, verb, code) (rate(apiserver_request_total" + ofOurs + "[$__rate_interval]))", "{{resource}} {{verb}} {{code}}"},
		}},
		{"Time of a request", "Without watches.", "s", false, quantiles("apiserver_request_duration_seconds", `{group="farm.mainstay.dev", verb!="WATCH"}`, "verb")},
		{"Watches", "Under way, of all replicas.", "", false, []query{{`sum by (resource) (apiserver_longrunning_requests{group="farm.mainstay.dev", verb="WATCH"})`, "{{resource}}"}}},
	}},
	{"Databases", []panel{
		{"Elections", "Terms, per hour: each claim of leadership raises the term.", "", false, []query{
			{elections("postgresql"), "{{namespace}}/{{postgresql}}"}}},
		{"Lag", "What each replica has not replayed.", "bytes", false, []query{
			{`max by (namespace, member) (mainstay_postgresql_replication_lag_bytes{namespace=~"$namespace"})`, "{{namespace}}/{{member}}"}}},
		{"Volumes", "Used part.", "percentunit", false, []query{
			{`max by (namespace, pod) (mainstay_instance_volume_used_bytes{namespace=~"$namespace"} / mainstay_instance_volume_size_bytes{namespace=~"$namespace"})`, "{{namespace}}/{{pod}}"}}},
		{"Connections", "Used part of max_connections.", "percentunit", false, []query{
			{`max by (namespace, pod) (mainstay_postgresql_connections{namespace=~"$namespace"} / mainstay_postgresql_max_connections{namespace=~"$namespace"})`, "{{namespace}}/{{pod}}"}}},
		{"Transactions per second", "Of all databases of a server.", "", false, []query{
			{`sum by (namespace, postgresql, result) (rate(mainstay_postgresql_transactions_total{namespace=~"$namespace"}[$__rate_interval]))`, "{{namespace}}/{{postgresql}} {{result}}"}}},
	}},
	{"Caches", []panel{
		{"Elections", "Terms, per hour: each claim of leadership raises the term.", "", false, []query{
			{elections("cache"), "{{namespace}}/{{cache}}"}}},
		{"Memory", "Used part of maxmemory. From 100 % on, keys give way, or writes fail with noeviction.", "percentunit", false, []query{
			{`max by (namespace, pod) (mainstay_cache_memory_used_bytes{namespace=~"$namespace"} / mainstay_cache_memory_max_bytes{namespace=~"$namespace"})`, "{{namespace}}/{{pod}}"}}},
		{"Lookups per second", "Of keys that are there, and of others.", "", false, []query{
			{`sum by (namespace, cache, result) (rate(mainstay_cache_lookups_total{namespace=~"$namespace"}[$__rate_interval]))`, "{{namespace}}/{{cache}} {{result}}"}}},
		{"Evicted keys per second", "Keys that gave way because memory was full.", "", false, []query{
			{`sum by (namespace, cache) (rate(mainstay_cache_evicted_keys_total{namespace=~"$namespace"}[$__rate_interval]))`, "{{namespace}}/{{cache}}"}}},
		{"Connections", "Used part of maxclients.", "percentunit", false, []query{
			{`max by (namespace, pod) (mainstay_cache_connections{namespace=~"$namespace"} / mainstay_cache_max_connections{namespace=~"$namespace"})`, "{{namespace}}/{{pod}}"}}},
	}},
	{"Process", []panel{
		{"Memory", "", "bytes", false, ofProcesses("process_resident_memory_bytes")},
		{"CPU", "Cores.", "", false, ofProcesses("rate(process_cpu_seconds_total[$__rate_interval])")},
		{"Goroutines", "", "", false, ofProcesses("go_goroutines")},
	}},
}

func build() (dashboard.Dashboard, error) {
	builder := dashboard.NewDashboardBuilder("Mainstay").
		Uid("mainstay").
		Description("The Mainstay operator: its objects, its work, and how it is. docs/metrics.md explains every metric.").
		Tags([]string{"mainstay", "kubernetes"}).
		Time("now-6h", "now").
		Refresh("1m").
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus")).
		WithVariable(choice("kind", "Kind", "label_values(mainstay_objects, kind)")).
		WithVariable(choice("namespace", "Namespace", "label_values(mainstay_reconcile_total, namespace)"))
	id := uint32(0)
	next := func() uint32 { id++; return id }
	for _, line := range rows {
		builder = builder.WithRow(dashboard.NewRowBuilder(line.title).Id(next()))
		for _, shown := range line.panels {
			builder = builder.WithPanel(shown.build(next(), uint32(24/len(line.panels)))) //nolint:gosec // a handful
		}
	}
	return builder.Build()
}

var source = common.DataSourceRef{Type: new("prometheus"), Uid: new("$datasource")}

// choice returns a variable with several selectable values.
func choice(name, label, values string) *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(name).Label(label).Datasource(source).
		Query(dashboard.StringOrMap{String: &values}).Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Multi(true).IncludeAll(true).AllValue(".*")
}

// build returns the panel, with a width of 24 columns at most.
func (p panel) build(id, width uint32) cog.Builder[dashboard.Panel] {
	var targets []cog.Builder[variants.Dataquery]
	for i, query := range p.queries {
		target := prometheus.NewDataqueryBuilder().RefId(string(rune('A' + i))).Expr(query.expr).LegendFormat(query.legend)
		if p.isNumber {
			target = target.Instant()
		}
		targets = append(targets, target)
	}
	if p.isNumber {
		return stat.NewPanelBuilder().Id(id).Title(p.title).Description(p.description).Unit(p.unit).Datasource(source).
			Height(5).Span(width).Targets(targets)
	}
	return timeseries.NewPanelBuilder().Id(id).Title(p.title).Description(p.description).Unit(p.unit).Min(0).Datasource(source).
		Height(8).Span(width).Targets(targets)
}

// elections returns the query for how often the databases of a kind have elected within an hour, as
// the alerts count it: an instance without a term says 0.
func elections(kind string) string {
	by, term := "max by (namespace, "+kind+")", `mainstay_instance_term{namespace=~"$namespace", `+kind+`!=""}`
	return fmt.Sprintf("%s (%s) - min by (namespace, %s) (min_over_time((%s > 0)[1h:1m]))", by, term, kind, term)
}
