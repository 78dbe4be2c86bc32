package monitoring

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

const (
	alertsFile = "../../charts/mainstay/files/alerts.yaml"
	testsFile  = "testdata/alerts.yaml"
	// platformRuleFile is the PrometheusRule of an EcommercePlatform, platformTestsFile its tests.
	platformRuleFile  = "../../internal/kinds/ecommerceplatform/testdata/rule.yaml"
	platformTestsFile = "testdata/platform.yaml"
	dashboardFile     = "../../charts/mainstay/files/dashboard.json"
	runbooks          = "../../docs/runbooks"
	metricPage        = "../../docs/metrics.md"
)

// metric is a metric in docs/metrics.md, which is generated from the declarations.
type metric struct {
	kind   string
	labels []string
}

// known returns the existing metrics by name.
func known(t *testing.T) map[string]metric {
	t.Helper()
	page, err := os.ReadFile(metricPage)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]metric{}
	for _, section := range strings.Split(string(page), "\n## `")[1:] {
		name, rest, _ := strings.Cut(section, "`\n\n")
		kind, _, _ := strings.Cut(rest, ".")
		var labels []string
		for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(rest, -1) {
			labels = append(labels, row[1])
		}
		found[name] = metric{kind, labels}
	}
	if len(found) < 15 {
		t.Fatalf("only %d metrics are documented", len(found))
	}
	return found
}

// ofTargets are the labels that scraping adds.
var ofTargets = []string{"job", "instance", "pod", "namespace"}

// check returns the errors of a query.
func check(query string, metrics map[string]metric) []string {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		return []string{err.Error()}
	}
	var problems []string
	var labels []string // of all selected metrics
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		name := selector.Name
		if base, suffix, isPart := cutPart(name); isPart && metrics[base].kind == "Histogram" {
			name = base
			if suffix == "_bucket" {
				labels = append(labels, "le")
			}
		} else if metrics[name].kind == "Histogram" {
			problems = append(problems, name+" is a histogram, and has no values of that name")
		}
		metric, exists := metrics[name]
		if !exists {
			problems = append(problems, "there is no metric "+selector.Name)
		}
		labels = append(append(labels, metric.labels...), ofTargets...)
		for _, matcher := range selector.LabelMatchers {
			if matcher.Name != "__name__" && !slices.Contains(metric.labels, matcher.Name) && !slices.Contains(ofTargets, matcher.Name) {
				problems = append(problems, fmt.Sprintf("%s has no label %s", name, matcher.Name))
			}
		}
		return nil
	})
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if aggregate, ok := node.(*parser.AggregateExpr); ok {
			for _, label := range aggregate.Grouping {
				if !slices.Contains(labels, label) {
					problems = append(problems, "nothing has a label "+label)
				}
			}
		}
		return nil
	})
	return problems
}

// cutPart cuts the suffix of a histogram's series from a name.
func cutPart(name string) (base, suffix string, found bool) {
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if base, found := strings.CutSuffix(name, suffix); found {
			return base, suffix, true
		}
	}
	return name, "", false
}

// TestCheck: each rule refuses something.
func TestCheck(t *testing.T) {
	metrics := known(t)
	for query, want := range map[string]string{
		`max(mainstay_leader) < 1`: "",
		`sum by (kind, le) (rate(mainstay_reconcile_duration_seconds_bucket{kind="WebApp"}[5m]))`: "",
		`sum(rate(mainstay_reconciles_total[5m]))`:                                                "there is no metric mainstay_reconciles_total",
		`rate(mainstay_errors_total{reason="x"}[5m])`:                                             "mainstay_errors_total has no label reason",
		`sum by (name) (mainstay_objects)`:                                                        "nothing has a label name",
		`mainstay_leader_count`:                                                                   "there is no metric mainstay_leader_count",
		`mainstay_ready_duration_seconds`:                                                         "mainstay_ready_duration_seconds is a histogram, and has no values of that name",
		`sum by (le) (mainstay_ready_duration_seconds_count)`:                                     "nothing has a label le",
		`max(mainstay_leader`:                                                                     `1:20: parse error: unclosed left parenthesis`,
	} {
		if got := strings.Join(check(query, metrics), "; "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

// alert is an alert in the rules file.
type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alert } }
	read(t, alertsFile, &file)
	var found []alert
	for _, group := range file.Groups {
		found = append(found, group.Rules...)
	}
	if len(found) < 6 {
		t.Fatalf("only %d alerts were found", len(found))
	}
	return found
}

func read(t *testing.T, name string, into any) {
	t.Helper()
	content, err := os.ReadFile(name)
	if err == nil {
		err = yaml.Unmarshal(content, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// TestAlerts: each asks for what exists, and says what is the matter and what to do.
func TestAlerts(t *testing.T) {
	metrics := known(t)
	for _, alert := range alerts(t) {
		for _, problem := range check(alert.Expr, metrics) {
			t.Errorf("%s: %s", alert.Alert, problem)
		}
		isCritical := slices.Contains([]string{"MainstayDown", "MainstayPostgreSQLNoPrimary", "MainstayCacheNoPrimary"}, alert.Alert)
		if want := map[bool]string{true: "critical", false: "warning"}[isCritical]; alert.Labels["severity"] != want {
			t.Errorf("%s is %s, want %s", alert.Alert, alert.Labels["severity"], want)
		}
		for _, annotation := range []string{"summary", "description"} {
			if !strings.HasSuffix(alert.Annotations[annotation], ".") {
				t.Errorf("%s: its %s is no sentence", alert.Alert, annotation)
			}
		}
		page := "/docs/runbooks/" + alert.Alert + ".md"
		if !strings.HasSuffix(alert.Annotations["runbook_url"], page) {
			t.Errorf("%s: its runbook_url does not lead to %s", alert.Alert, page)
		}
		if alert.For == "" {
			t.Errorf("%s fires on a single sample", alert.Alert)
		}
	}
}

// TestRunbooks: each alert has its page, and each page its alert and all that it has to say.
func TestRunbooks(t *testing.T) {
	var names []string
	for _, alert := range alerts(t) {
		names = append(names, alert.Alert)
	}
	pages, err := filepath.Glob(filepath.Join(runbooks, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, page := range pages {
		name := strings.TrimSuffix(filepath.Base(page), ".md")
		found = append(found, name)
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		last := 0
		for _, part := range []string{"# " + name + "\n", "\n## What it means\n", "\n## What users feel\n", "\n## What to look at\n",
			"\n    kubectl ", "\n## What to do\n"} {
			at := strings.Index(string(content), part)
			if at < last {
				t.Errorf("%s: %q is missing, or not in its place", page, part)
			}
			last = at
		}
	}
	slices.Sort(names)
	slices.Sort(found)
	if !slices.Equal(names, found) {
		t.Errorf("there are alerts %q and pages %q", names, found)
	}
}

// TestAlertsFire runs testdata/alerts.yaml with promtool: each alert must fire once and be silent
// once, on real samples.
func TestAlertsFire(t *testing.T) {
	checkFiring(t, alerts(t), alertsFile, testsFile)
}

// platformAlerts returns the PrometheusRule of an EcommercePlatform as a rules file.
func platformAlerts(t *testing.T) (rules []alert, file string) {
	t.Helper()
	var made struct {
		Spec struct{ Groups []struct{ Rules []alert } }
	}
	var document struct{ Spec map[string]any }
	read(t, platformRuleFile, &made)
	read(t, platformRuleFile, &document)
	content, err := yaml.Marshal(document.Spec)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, group := range made.Spec.Groups {
		rules = append(rules, group.Rules...)
	}
	return rules, file
}

// TestAlertsOfPlatforms: those of an EcommercePlatform ask for what exists, say whose they are,
// have a page, and fire.
func TestAlertsOfPlatforms(t *testing.T) {
	metrics := known(t)
	all, file := platformAlerts(t)
	page, err := os.ReadFile("../../docs/monitoring.md")
	if err != nil || len(all) < 6 {
		t.Fatalf("only %d alerts were found; %v", len(all), err)
	}
	for _, one := range all {
		if !strings.Contains(string(page), "| `"+one.Alert+"` |") {
			t.Errorf("docs/monitoring.md does not have %s", one.Alert)
		}
		for _, problem := range check(one.Expr, metrics) {
			t.Errorf("%s: %s", one.Alert, problem)
		}
		for _, label := range []string{"severity", "platform", "namespace", "component"} {
			if one.Labels[label] == "" {
				t.Errorf("%s: it has no label %s", one.Alert, label)
			}
		}
		runbook := filepath.Base(one.Annotations["runbook_url"])
		if _, err := os.Stat(filepath.Join(runbooks, runbook)); err != nil || one.For == "" {
			t.Errorf("%s: %v; it waits for %q", one.Alert, err, one.For)
		}
	}
	tests, err := os.ReadFile(platformTestsFile)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(filepath.Dir(file), "tests.yaml")
	if err := os.WriteFile(copied, tests, 0o600); err != nil {
		t.Fatal(err)
	}
	checkFiring(t, all, file, copied)
}

// checkFiring has promtool check a rules file and run tests of it: each alert must fire once and be
// silent once.
func checkFiring(t *testing.T, all []alert, rules, tests string) {
	t.Helper()
	promtool := os.Getenv("PROMTOOL")
	if promtool == "" {
		var err error
		if promtool, err = exec.LookPath("promtool"); err != nil {
			t.Fatal("there is no promtool: `make test-tools` fetches it (Debian's package prometheus), or set PROMTOOL")
		}
	}
	for _, arguments := range [][]string{{"check", "rules", rules}, {"test", "rules", tests}} {
		if output, err := exec.CommandContext(t.Context(), promtool, arguments...).CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %v\n%s", arguments, err, output)
		}
	}
	var file struct {
		Tests []struct {
			AlertRuleTest []struct {
				Alertname string
				ExpAlerts []any `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}
	read(t, tests, &file)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, expected := range test.AlertRuleTest {
			if len(expected.ExpAlerts) > 0 {
				fires[expected.Alertname] = true
			} else {
				silent[expected.Alertname] = true
			}
		}
	}
	for _, alert := range all {
		if !fires[alert.Alert] || !silent[alert.Alert] {
			t.Errorf("%s: is shown to fire: %t, to be silent: %t", alert.Alert, fires[alert.Alert], silent[alert.Alert])
		}
	}
}

// TestDashboardOfWebApps: every query of the dashboard that each WebApp may have is valid, and its
// legend has only labels that it keeps.
func TestDashboardOfWebApps(t *testing.T) {
	content, err := os.ReadFile("../../internal/kinds/webapp/testdata/metrics.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, document, found := strings.Cut(string(content), "\n# ConfigMap,")
	_, document, _ = strings.Cut(document, "\n")
	if !found {
		t.Fatal("there is no ConfigMap")
	}
	if queries := checkDashboards(t, document, map[string]metric{}); queries < 8 {
		t.Errorf("only %d queries were found", queries)
	}
}

// TestDashboardOfPlatforms: the same of an EcommercePlatform's, whose queries of Mainstay's own
// metrics ask for what exists.
func TestDashboardOfPlatforms(t *testing.T) {
	content, err := os.ReadFile("../../internal/kinds/ecommerceplatform/testdata/dashboard.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if queries := checkDashboards(t, string(content), known(t)); queries < 8 {
		t.Errorf("only %d queries were found", queries)
	}
}

// checkDashboards checks the dashboards in a ConfigMap, and returns how many queries they have.
func checkDashboards(t *testing.T, document string, metrics map[string]metric) int {
	t.Helper()
	var made struct{ Data map[string]string }
	if err := yaml.Unmarshal([]byte(document), &made); err != nil {
		t.Fatal(err)
	}
	queries := 0
	for _, text := range made.Data {
		var dashboard struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr, LegendFormat string }
			}
		}
		if err := yaml.Unmarshal([]byte(text), &dashboard); err != nil {
			t.Fatal(err)
		}
		for _, panel := range dashboard.Panels {
			for _, target := range panel.Targets {
				queries++
				expr := strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")
				if _, err := parser.NewParser(parser.Options{}).ParseExpr(expr); err != nil {
					t.Errorf("%s: %v", panel.Title, err)
				}
				if len(metrics) > 0 && strings.Contains(expr, "mainstay_") {
					for _, problem := range check(expr, metrics) {
						t.Errorf("%s: %s", panel.Title, problem)
					}
				}
				for _, label := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(target.LegendFormat, -1) {
					if !regexp.MustCompile(`by \([^)]*\b` + label[1] + `\b`).MatchString(expr) {
						t.Errorf("%s: its legend has %s, which %s does not keep", panel.Title, label[1], expr)
					}
				}
			}
		}
	}
	return queries
}

// scraping is the part of Prometheus' configuration that discovery and relabeling are in.
type scraping struct {
	Jobs []struct {
		Name      string `json:"job_name"`
		Discovers []any  `json:"kubernetes_sd_configs"`
		Relabels  []struct {
			From   []string `json:"source_labels"`
			Regex  string
			Action string
		} `json:"relabel_configs"`
	} `json:"scrape_configs"`
}

// TestScrapedPorts: discovery makes a target of each port of a pod's containers. A job of the page
// keeps the one with the metrics, unless the pods have no other.
func TestScrapedPorts(t *testing.T) {
	page, err := os.ReadFile("../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	apiserver, err := os.ReadFile("../../charts/mainstay/templates/apiserver.yaml")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, block := range regexp.MustCompile(`(?m)(^    .*\n)+`).FindAllString(string(page), -1) {
		var made scraping
		if !strings.Contains(block, "scrape_configs:") {
			continue
		}
		if err := yaml.Unmarshal([]byte(block), &made); err != nil {
			t.Fatalf("%v: %s", err, block)
		}
		for _, job := range made.Jobs {
			if len(job.Discovers) == 0 {
				continue
			}
			seen++
			hasOne := job.Name == "mainstay-apiserver" && strings.Count(string(apiserver), "containerPort: ") == 1
			keeps := false
			for _, rule := range job.Relabels {
				keeps = keeps || rule.Action == "keep" && rule.Regex == "metrics" && strings.HasSuffix(strings.Join(rule.From, ","), "_port_name")
			}
			if !hasOne && !keeps {
				t.Errorf("the job %s has targets that are always down: the other ports of its pods", job.Name)
			}
		}
	}
	if seen < 3 {
		t.Errorf("only %d jobs with discovery were found", seen)
	}
}

// TestDashboard: every query is valid and uses existing metrics.
func TestDashboard(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
		Templating struct{ List []struct{ Name, Query any } }
	}
	read(t, dashboardFile, &dashboard)
	metrics := known(t)
	quantile := regexp.MustCompile(`^histogram_quantile\(0\.(\d+),`)
	seen, queries := map[int]bool{}, 0
	for _, panel := range dashboard.Panels {
		if panel.ID == 0 || seen[panel.ID] {
			t.Errorf("%s has the id %d", panel.Title, panel.ID)
		}
		seen[panel.ID] = true
		for _, target := range panel.Targets {
			queries++
			for _, problem := range check(strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"), metrics) {
				t.Errorf("%s: %s", panel.Title, problem)
			}
			for _, label := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				isKept := regexp.MustCompile(`by \([^)]*\b` + label[1] + `\b`).MatchString(target.Expr)
				if !isKept && label[1] != "instance" { // which each target has
					t.Errorf("%s: its legend has %s, which %s does not keep", panel.Title, label[1], target.Expr)
				}
			}
			if of := quantile.FindStringSubmatch(target.Expr); of != nil {
				percent := of[1] + "0"
				if !strings.HasSuffix(target.LegendFormat, "p"+percent[:2]) {
					t.Errorf("%s: the legend of %s is %s", panel.Title, target.Expr, target.LegendFormat)
				}
			}
		}
	}
	if queries < 20 {
		t.Errorf("only %d queries were found", queries)
	}
	values := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)
	for _, variable := range dashboard.Templating.List {
		match := values.FindStringSubmatch(fmt.Sprint(variable.Query))
		if variable.Name == "datasource" {
			continue
		}
		if match == nil || !slices.Contains(metrics[match[1]].labels, match[2]) {
			t.Errorf("the variable %v asks for %v, which there is not", variable.Name, variable.Query)
		}
	}
}

// TestUsed: the page has exactly the library metrics that an alert or the dashboard uses, and the
// dashboard shows every metric of the APIService.
func TestUsed(t *testing.T) {
	dashboard, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	asked := string(dashboard)
	for _, alert := range alerts(t) {
		asked += alert.Expr
	}
	for name := range known(t) {
		isOurs := strings.HasPrefix(name, "mainstay_") && !strings.HasPrefix(name, "mainstay_apiservice_")
		if !isOurs && !regexp.MustCompile(name+`(_bucket|_count)?\b`).MatchString(asked) {
			t.Errorf("nobody asks for %s", name)
		}
	}
}
