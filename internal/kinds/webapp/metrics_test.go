package webapp

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/test/cases"
)

// childrenOf returns the children of a plan by kind.
func childrenOf(wanted plan.Plan) map[string]plan.Object {
	found := map[string]plan.Object{}
	for _, child := range wanted.Children {
		found[reflect.TypeOf(child.Object).Elem().Name()] = child.Object
	}
	return found
}

// TestMetricsReplaceNoPod: whatever spec.metrics says, and whether the operator's API is there, the
// Deployment and the ports of the Service stay as they are. Scraping has exactly one way in: a
// ServiceMonitor, or annotations. Where there is a NetworkPolicy, the peers that scrape may connect
// to the port of the metrics, and no others.
func TestMetricsReplaceNoPod(t *testing.T) {
	for seed := range cases.Seeds(t, 300, 30_000) {
		var given msappsv1.Metrics
		filler := randfill.NewWithSeed(int64(seed)).NilChance(0.5).NumElements(1, 3)
		filler.Fill(&given)
		given.Port = []int32{0, 8080, 9090}[seed%3]
		plain := spec(func(s *msappsv1.WebAppSpec) {
			if seed%2 == 0 {
				s.NetworkPolicy = &msappsv1.NetworkPolicy{}
			}
		})
		measured := admitted(plain, spec(func(s *msappsv1.WebAppSpec) { s.Metrics = &given }))
		observed := Observed{HasMonitorAPI: seed%5 < 3}
		before, after := childrenOf(Desired(admitted(plain), observed)), childrenOf(Desired(measured, observed))
		if diff := cmp.Diff(before["Deployment"].(*appsv1.Deployment), after["Deployment"].(*appsv1.Deployment)); diff != "" {
			t.Fatalf("the Deployment changes: %s", diff)
		}
		service := after["Service"].(*corev1.Service)
		if diff := cmp.Diff(before["Service"].(*corev1.Service).Spec, service.Spec); diff != "" {
			t.Fatalf("the Service changes: %s", diff)
		}
		_, monitored := after["ServiceMonitor"]
		if _, annotated := service.Annotations["prometheus.io/scrape"]; monitored != observed.HasMonitorAPI || annotated == monitored {
			t.Fatalf("with the API %t: a ServiceMonitor %t, annotations %t", observed.HasMonitorAPI, monitored, annotated)
		}
		if policy, there := after["NetworkPolicy"].(*networkingv1.NetworkPolicy); there && len(given.From) > 0 {
			rules, want := policy.Spec.Ingress, intstr.FromInt32(measured.Spec.Metrics.Port)
			if measured.Spec.Metrics.Port == measured.Spec.Port {
				want = intstr.FromString("http")
			}
			if len(rules) != 1 || *rules[0].Ports[0].Port != want || !cmp.Equal(rules[0].From, given.From) {
				t.Fatalf("the NetworkPolicy admits %v", rules)
			}
		}
	}
}

// TestAnAdoptedServiceIsScraped: the port of an adopted Service may have another name, or none.
func TestAnAdoptedServiceIsScraped(t *testing.T) {
	app := admitted(spec(func(s *msappsv1.WebAppSpec) { s.Metrics = &msappsv1.Metrics{} }))
	for name, want := range map[string]monitoring.Endpoint{
		"web": {Port: "web", Path: "/metrics"}, "": {TargetPort: new(intstr.FromString("http")), Path: "/metrics"},
	} {
		service := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: name, Port: 8080, Protocol: "TCP"}}}}
		observed := Observed{HasMonitorAPI: true, Children: plan.Children{Ref(app, "Service"): {Object: service, Ownership: plan.Ours}}}
		if diff := cmp.Diff([]monitoring.Endpoint{want}, desiredServiceMonitor(app, observed).Spec.Endpoints); diff != "" {
			t.Error(diff)
		}
	}
}

// TestTheAddressOfAnotherPort applies the relabeling as Prometheus does: the expression matches the
// whole address.
func TestTheAddressOfAnotherPort(t *testing.T) {
	app := admitted(spec(func(s *msappsv1.WebAppSpec) { s.Metrics = &msappsv1.Metrics{Port: 9090} }))
	relabeling := desiredServiceMonitor(app, Observed{}).Spec.Endpoints[0].Relabelings[0]
	whole := regexp.MustCompile("^(?s:" + relabeling.Regex + ")$")
	for address, want := range map[string]string{"10.0.0.7:8080": "10.0.0.7:9090", "[fd00::7]:8080": "[fd00::7]:9090"} {
		if got := whole.ReplaceAllString(address, relabeling.Replacement); got != want {
			t.Errorf("%s: got %s", address, got)
		}
	}
}

// TestServiceMonitorSelectsTheService: and the Service of no other kind or name.
func TestServiceMonitorSelectsTheService(t *testing.T) {
	app := admitted(spec(func(s *msappsv1.WebAppSpec) { s.Metrics = &msappsv1.Metrics{} }))
	service := desiredService(app, Observed{})
	selector := desiredServiceMonitor(app, Observed{}).Spec.Selector.MatchLabels
	if len(selector) < 2 {
		t.Errorf("it selects by %v only", selector)
	}
	for key, value := range selector {
		if service.Labels[key] != value {
			t.Errorf("the Service has %s=%s, want %s", key, service.Labels[key], value)
		}
	}
}

// TestDashboard: what Grafana and its sidecar require.
func TestDashboard(t *testing.T) {
	uids, files := map[string]bool{}, map[string]bool{}
	for _, name := range [][2]string{{"web", "shop"}, {"web-a", "b"}, {"web", "a-b"}} {
		app := admitted(func(app *msappsv1.WebApp) { app.Namespace, app.Name = name[0], name[1] })
		made := desiredDashboard(app)
		if made.Labels["grafana_dashboard"] != "1" || made.Name != name[1]+"-dashboard" {
			t.Errorf("%s with the labels %v", made.Name, made.Labels)
		}
		for file, content := range made.Data {
			var dashboard struct {
				UID    string
				Panels []struct{ Targets []struct{ Expr string } }
			}
			if err := json.Unmarshal([]byte(content), &dashboard); err != nil {
				t.Fatal(err)
			}
			if uids[dashboard.UID] || files[file] || len(dashboard.UID) > 40 || !strings.HasSuffix(file, ".json") {
				t.Errorf("file %s and UID %s: one of them is used twice, or invalid", file, dashboard.UID)
			}
			uids[dashboard.UID], files[file] = true, true
			for _, panel := range dashboard.Panels {
				for _, target := range panel.Targets {
					if !strings.Contains(target.Expr, `namespace="`+name[0]+`"`) || !strings.Contains(target.Expr, `="`+name[1]+`"`) {
						t.Errorf("%s shows other applications too", target.Expr)
					}
				}
			}
		}
	}
}

// TestMonitorLabels: those of the installation give way to the application's, and to ours.
func TestMonitorLabels(t *testing.T) {
	app := admitted(spec(func(s *msappsv1.WebAppSpec) {
		s.Metrics, s.Labels = &msappsv1.Metrics{}, msappsv1.Labels{"release": "mine"}
	}))
	got := desiredServiceMonitor(app, Observed{MonitorLabels: map[string]string{"release": "all", "app": "all", "team": "all"}}).Labels
	if !slices.Equal([]string{got["release"], got["app"], got["team"]}, []string{"mine", "shop", "all"}) {
		t.Errorf("got %v", got)
	}
}
