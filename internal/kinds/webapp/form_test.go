package webapp

import (
	"maps"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/ptr"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
)

func containers(names ...string) []msappsv1.Container {
	var found []msappsv1.Container
	for _, name := range names {
		found = append(found, msappsv1.Container{Name: name, Image: "a"})
	}
	return found
}

// formCase is a rule: a spec that it refuses and one that it accepts.
type formCase struct {
	bad, good func(*msappsv1.WebAppSpec)
	field     string
}

// formCases are the cases of all other rules.
var formCases = map[string]formCase{
	"replicas beside autoscaling": {
		func(s *msappsv1.WebAppSpec) {
			s.Autoscaling, s.Resources.Requests, s.Replicas = &msappsv1.Autoscaling{Max: 2}, cpu, ptr.To[int32](2)
		},
		func(s *msappsv1.WebAppSpec) { s.Autoscaling, s.Resources.Requests = &msappsv1.Autoscaling{Max: 2}, cpu },
		"spec.replicas",
	},
	"an init container called as the application's": {
		func(s *msappsv1.WebAppSpec) { s.InitContainers = containers("webapp") },
		func(s *msappsv1.WebAppSpec) { s.InitContainers = containers("webapp2") }, "spec.initContainers[0].name",
	},
	"a side-car called as the application's": {
		func(s *msappsv1.WebAppSpec) { s.Sidecars = containers("a", "webapp") },
		func(s *msappsv1.WebAppSpec) { s.Sidecars = containers("a", "web-app") }, "spec.sidecars[1].name",
	},
	"two containers of one name": {
		func(s *msappsv1.WebAppSpec) { s.InitContainers, s.Sidecars = containers("a"), containers("b", "a") },
		func(s *msappsv1.WebAppSpec) { s.InitContainers, s.Sidecars = containers("a"), containers("b", "c") }, "spec.sidecars[1].name",
	},
	"a container's name that is no label": {
		func(s *msappsv1.WebAppSpec) { s.Sidecars = containers("a_b") },
		func(s *msappsv1.WebAppSpec) { s.Sidecars = containers("a-b") }, "spec.sidecars[0].name",
	},
	"an unknown profile": {
		func(s *msappsv1.WebAppSpec) { s.SecurityProfile = "restricted" },
		func(s *msappsv1.WebAppSpec) { s.SecurityProfile = "Restricted" }, "spec.securityProfile",
	},
	"an unknown spread": {
		func(s *msappsv1.WebAppSpec) { s.TopologySpread = "None" },
		func(s *msappsv1.WebAppSpec) { s.TopologySpread = "Disabled" }, "spec.topologySpread",
	},
	"an unknown strategy": {
		func(s *msappsv1.WebAppSpec) { s.Strategy.Type = "BlueGreen" },
		func(s *msappsv1.WebAppSpec) { s.Strategy.Type = "Recreate" }, "spec.strategy.type",
	},
	"the label of the selector": {
		func(s *msappsv1.WebAppSpec) { s.Labels = msappsv1.Labels{"app": "other"} },
		func(s *msappsv1.WebAppSpec) { s.Labels = msappsv1.Labels{"apps": "other"} }, "spec.labels[app]",
	},
	"a recommended label": {
		func(s *msappsv1.WebAppSpec) {
			s.PodMetadata.Labels = msappsv1.Labels{"app.kubernetes.io/managed-by": "me"}
		},
		func(s *msappsv1.WebAppSpec) {
			s.PodMetadata.Labels = msappsv1.Labels{"app.kubernetes.io/version": "1"}
		},
		"spec.podMetadata.labels[app.kubernetes.io/managed-by]",
	},
	"the label of a ReplicaSet": {
		func(s *msappsv1.WebAppSpec) { s.ServiceMetadata.Labels = msappsv1.Labels{"pod-template-hash": "1"} },
		func(s *msappsv1.WebAppSpec) { s.ServiceMetadata.Labels = msappsv1.Labels{"template-hash": "1"} },
		"spec.serviceMetadata.labels[pod-template-hash]",
	},
	"an annotation of ours": {
		func(s *msappsv1.WebAppSpec) { s.Annotations = msappsv1.Annotations{"mainstay.dev/adopt": "WebApp/x"} },
		func(s *msappsv1.WebAppSpec) { s.Annotations = msappsv1.Annotations{"mainstay.development/a": "b"} },
		"spec.annotations[mainstay.dev/adopt]",
	},
	"an annotation that we keep": {
		func(s *msappsv1.WebAppSpec) {
			s.Annotations = msappsv1.Annotations{"config.mainstay.dev/observed": "{}"}
		},
		func(s *msappsv1.WebAppSpec) {
			s.Annotations = msappsv1.Annotations{"config.mainstay.dev/reload": "auto", "instrumentation.mainstay.dev/inject": "false"}
		},
		"spec.annotations[config.mainstay.dev/observed]",
	},
	"a label below our domain": {
		func(s *msappsv1.WebAppSpec) { s.Labels = msappsv1.Labels{"config.mainstay.dev/revision": "1"} },
		func(s *msappsv1.WebAppSpec) { s.Labels = msappsv1.Labels{"config.example.com/revision": "1"} },
		"spec.labels[config.mainstay.dev/revision]",
	},
	"an annotation of Deployments": {
		func(s *msappsv1.WebAppSpec) {
			s.ServiceAccountMetadata.Annotations = msappsv1.Annotations{"deployment.kubernetes.io/revision": "7"}
		},
		func(s *msappsv1.WebAppSpec) {
			s.ServiceAccountMetadata.Annotations = msappsv1.Annotations{"kubernetes.io/x": "7"}
		},
		"spec.serviceAccountMetadata.annotations[deployment.kubernetes.io/revision]",
	},
	"an Ingress's annotation of ours": {
		func(s *msappsv1.WebAppSpec) {
			s.Ingress = &msappsv1.Ingress{Host: "a.b", Annotations: msappsv1.Annotations{"mainstay.dev/applied": ""}}
		},
		func(s *msappsv1.WebAppSpec) {
			s.Ingress = &msappsv1.Ingress{Host: "a.b", Annotations: msappsv1.Annotations{"nginx.org/a": ""}}
		},
		"spec.ingress.annotations[mainstay.dev/applied]",
	},
}

// metrics returns a spec with metrics.
func metrics(given msappsv1.Metrics) func(*msappsv1.WebAppSpec) {
	return func(s *msappsv1.WebAppSpec) { s.Metrics = &given }
}

// metricsCases are the cases of spec.metrics.
var metricsCases = map[string]formCase{
	"a port that is none": {metrics(msappsv1.Metrics{Port: 65536}), metrics(msappsv1.Metrics{Port: 65535}), "spec.metrics.port"},
	"a negative port":     {metrics(msappsv1.Metrics{Port: -1}), metrics(msappsv1.Metrics{Port: 1}), "spec.metrics.port"},
	"a path without its slash": {metrics(msappsv1.Metrics{Path: "metrics"}), metrics(msappsv1.Metrics{Path: "/"}),
		"spec.metrics.path"},
	"a path with a query": {metrics(msappsv1.Metrics{Path: "/m?a=b"}), metrics(msappsv1.Metrics{Path: "/m/a=b"}), "spec.metrics.path"},
	"a path with a line break": {metrics(msappsv1.Metrics{Path: "/m\n"}), metrics(msappsv1.Metrics{Path: "/m%0a"}),
		"spec.metrics.path"},
	"a long path": {metrics(msappsv1.Metrics{Path: "/" + strings.Repeat("a", 1024)}),
		metrics(msappsv1.Metrics{Path: "/" + strings.Repeat("a", 1023)}), "spec.metrics.path"},
	"a short interval":      {metrics(msappsv1.Metrics{Interval: "4s"}), metrics(msappsv1.Metrics{Interval: "5s"}), "spec.metrics.interval"},
	"a long interval":       {metrics(msappsv1.Metrics{Interval: "5m1s"}), metrics(msappsv1.Metrics{Interval: "5m"}), "spec.metrics.interval"},
	"parts of seconds":      {metrics(msappsv1.Metrics{Interval: "5.5s"}), metrics(msappsv1.Metrics{Interval: "1m30s"}), "spec.metrics.interval"},
	"a number is no time":   {metrics(msappsv1.Metrics{Interval: "30"}), metrics(msappsv1.Metrics{Interval: "30s"}), "spec.metrics.interval"},
	"a time of large parts": {metrics(msappsv1.Metrics{Interval: "99999999999999999s"}), metrics(msappsv1.Metrics{Interval: "300s"}), "spec.metrics.interval"},
	"a NetworkPolicy that keeps Prometheus out": {
		func(s *msappsv1.WebAppSpec) {
			s.NetworkPolicy, s.Metrics = &msappsv1.NetworkPolicy{}, &msappsv1.Metrics{}
		},
		func(s *msappsv1.WebAppSpec) {
			s.NetworkPolicy, s.Metrics = &msappsv1.NetworkPolicy{}, &msappsv1.Metrics{From: []networkingv1.NetworkPolicyPeer{{}}}
		},
		"spec.metrics.from",
	},
}

func TestValidateForm(t *testing.T) {
	all := maps.Clone(formCases)
	maps.Copy(all, metricsCases)
	maps.Copy(all, bindingCases)
	for name, test := range all {
		t.Run(name, func(t *testing.T) {
			problems := Validate(admitted(spec(test.bad)))
			if len(problems) != 1 || problems[0].Field != test.field || strings.Contains(problems[0].Error(), "\n") {
				t.Errorf("want one problem of %s, got %v", test.field, problems)
			}
			if problems := Validate(admitted(spec(test.good))); len(problems) > 0 {
				t.Errorf("its neighbour is refused: %v", problems)
			}
		})
	}
}
