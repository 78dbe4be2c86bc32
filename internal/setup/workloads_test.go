package setup

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-platform/mainstay/internal/kinds/appconfig/appconfigcontroller"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

// restarting returns a kind that restarts workloads.
func restarting(name string) registration.Kind {
	return registration.Kind{Name: name, UsesWorkloads: true, Demands: appconfigcontroller.Registration().Demands}
}

// TestWorkloadsAreShared: what the kinds share is cached once, in addition to the needs of each,
// and not at all while they are off.
func TestWorkloadsAreShared(t *testing.T) {
	others := slices.DeleteFunc(kinds(), func(k registration.Kind) bool { return k.UsesWorkloads })
	held := func(on []registration.Kind) []string {
		t.Helper()
		options, err := cacheOptions(on, nil)
		if err != nil {
			t.Fatal(err)
		}
		var types []string
		for object := range options {
			types = append(types, fmt.Sprintf("%T", object))
		}
		slices.Sort(types)
		return types
	}
	want := append(held(others), "*v1.DaemonSet", "*v1.Deployment", "*v1.StatefulSet")
	slices.Sort(want)
	if diff := cmp.Diff(want, held(append(slices.Clone(others), restarting("a"), restarting("b")))); diff != "" {
		t.Error(diff)
	}
}

// TestDemandReaders: the order of the kinds' demands, which messages show, is that of their names.
func TestDemandReaders(t *testing.T) {
	var names []string
	for _, reader := range demandReaders(kinds()) {
		names = append(names, reader.Name)
	}
	if diff := cmp.Diff([]string{"appconfig", "configmonitor"}, names); diff != "" {
		t.Error(diff)
	}
}

// TestServiceMonitorLabels: what the API server would refuse in each ServiceMonitor or
// PrometheusRule, the manager refuses at its start.
func TestServiceMonitorLabels(t *testing.T) {
	settings := DefaultSettings()
	settings.LeaderElection = false
	settings.ServiceMonitorLabels = map[string]string{"release": "kube-prometheus-stack"}
	if _, err := settings.validate(); err != nil {
		t.Error(err)
	}
	settings.ServiceMonitorLabels = map[string]string{"release": "a b"}
	if _, err := settings.validate(); err == nil || !strings.Contains(err.Error(), `--servicemonitor-labels: Invalid value: "a b"`) {
		t.Errorf("got %v", err)
	}
	settings.ServiceMonitorLabels, settings.PrometheusRuleLabels = nil, map[string]string{"release": "a b"}
	if _, err := settings.validate(); err == nil || !strings.Contains(err.Error(), `--prometheusrule-labels: Invalid value: "a b"`) {
		t.Errorf("got %v", err)
	}
}

func TestSecretNamespaces(t *testing.T) {
	for name, test := range map[string]struct {
		own              string
		watched, secrets []string
		want             string
	}{
		"none":                   {"", nil, nil, ""},
		"without a key's place":  {"", nil, []string{"shop"}, "--secret-namespaces needs --namespace"},
		"all are watched":        {"mainstay-system", nil, []string{"shop"}, ""},
		"some are watched":       {"mainstay-system", []string{"web", "shop"}, []string{"shop"}, ""},
		"not this one":           {"mainstay-system", []string{"web", "blog"}, []string{"web", "shop"}, `--secret-namespaces: invalid value "shop": must be one of --watch-namespaces (web,blog)`},
		"no name of a namespace": {"mainstay-system", nil, []string{"Shop"}, `--secret-namespaces: invalid value "Shop": must be the name of a namespace`},
	} {
		t.Run(name, func(t *testing.T) {
			settings := DefaultSettings()
			settings.LeaderElection = false
			settings.Namespace, settings.WatchNamespaces, settings.SecretNamespaces = test.own, test.watched, test.secrets
			_, err := settings.validate()
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
