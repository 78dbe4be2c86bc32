package webapp

import (
	"strings"
	"testing"
)

// formRules are the rules of the schema that Validate repeats.
var formRules = map[string]rule{
	"replicas beside autoscaling": {"autoscaling: {max: 2}\nreplicas: 2\n" + requestedCPU, "autoscaling: {max: 2}\n" + requestedCPU, "spec.replicas"},
	"an init container called as the application's": {`initContainers: [{name: webapp, image: a}]`,
		`initContainers: [{name: webapp2, image: a}]`, "spec.initContainers[0].name"},
	"a side-car called as the application's": {`sidecars: [{name: a, image: a}, {name: webapp, image: a}]`,
		`sidecars: [{name: a, image: a}, {name: web-app, image: a}]`, "spec.sidecars[1].name"},
	"two containers of one name": {`{initContainers: [{name: a, image: a}], sidecars: [{name: b, image: a}, {name: a, image: a}]}`,
		`{initContainers: [{name: a, image: a}], sidecars: [{name: b, image: a}, {name: c, image: a}]}`, "spec.sidecars[1].name"},
	"a container's name that is no label": {`sidecars: [{name: a_b, image: a}]`,
		`sidecars: [{name: a-b, image: a}]`, "spec.sidecars[0].name"},
	"an unknown profile":        {`securityProfile: restricted`, `securityProfile: Restricted`, "spec.securityProfile"},
	"an unknown spread":         {`topologySpread: None`, `topologySpread: Disabled`, "spec.topologySpread"},
	"an unknown strategy":       {`strategy: {type: BlueGreen}`, `strategy: {type: Recreate}`, "spec.strategy.type"},
	"the label of the selector": {`labels: {app: other}`, `labels: {apps: other}`, "spec.labels[app]"},
	"a recommended label": {`podMetadata: {labels: {app.kubernetes.io/managed-by: me}}`,
		`podMetadata: {labels: {app.kubernetes.io/version: '1'}}`, "spec.podMetadata.labels[app.kubernetes.io/managed-by]"},
	"the label of a ReplicaSet": {`serviceMetadata: {labels: {pod-template-hash: '1'}}`,
		`serviceMetadata: {labels: {template-hash: '1'}}`, "spec.serviceMetadata.labels[pod-template-hash]"},
	"an annotation of ours": {`annotations: {mainstay.dev/adopt: WebApp/x}`,
		`annotations: {mainstay.development/a: b}`, "spec.annotations[mainstay.dev/adopt]"},
	"an annotation that we keep": {`annotations: {config.mainstay.dev/observed: '{}'}`,
		`annotations: {config.mainstay.dev/reload: auto, instrumentation.mainstay.dev/inject: 'false'}`,
		"spec.annotations[config.mainstay.dev/observed]"},
	"a label below our domain": {`labels: {config.mainstay.dev/revision: '1'}`,
		`labels: {config.example.com/revision: '1'}`, "spec.labels[config.mainstay.dev/revision]"},
	"an annotation of Deployments": {`serviceAccountMetadata: {annotations: {deployment.kubernetes.io/revision: '7'}}`,
		`serviceAccountMetadata: {annotations: {kubernetes.io/x: '7'}}`,
		"spec.serviceAccountMetadata.annotations[deployment.kubernetes.io/revision]"},
	"an Ingress's annotation of ours": {`ingress: {host: a.b, annotations: {mainstay.dev/applied: ''}}`,
		`ingress: {host: a.b, annotations: {nginx.org/a: ''}}`, "spec.ingress.annotations[mainstay.dev/applied]"},
}

// metricsRules are those of spec.metrics.
var metricsRules = map[string]rule{
	"a port that is none":      {`metrics: {port: 65536}`, `metrics: {port: 65535}`, "spec.metrics.port"},
	"a negative port":          {`metrics: {port: -1}`, `metrics: {port: 1}`, "spec.metrics.port"},
	"a path without its slash": {`metrics: {path: metrics}`, `metrics: {path: /}`, "spec.metrics.path"},
	"a path with a query":      {`metrics: {path: '/m?a=b'}`, `metrics: {path: /m/a=b}`, "spec.metrics.path"},
	"a path with a line break": {`metrics: {path: "/m\n"}`, `metrics: {path: /m%0a}`, "spec.metrics.path"},
	"a long path": {`metrics: {path: /` + strings.Repeat("a", 1024) + `}`,
		`metrics: {path: /` + strings.Repeat("a", 1023) + `}`, "spec.metrics.path"},
	"a short interval":      {`metrics: {interval: 4s}`, `metrics: {interval: 5s}`, "spec.metrics.interval"},
	"a long interval":       {`metrics: {interval: 5m1s}`, `metrics: {interval: 5m}`, "spec.metrics.interval"},
	"parts of seconds":      {`metrics: {interval: 5.5s}`, `metrics: {interval: 1m30s}`, "spec.metrics.interval"},
	"a number is no time":   {`metrics: {interval: '30'}`, `metrics: {interval: 30s}`, "spec.metrics.interval"},
	"a time of large parts": {`metrics: {interval: 99999999999999999s}`, `metrics: {interval: 300s}`, "spec.metrics.interval"},
	"a NetworkPolicy that keeps Prometheus out": {`{networkPolicy: {}, metrics: {}}`,
		`{networkPolicy: {}, metrics: {from: [{}]}}`, "spec.metrics.from"},
}

func TestValidateForm(t *testing.T) {
	for _, rules := range []map[string]rule{formRules, metricsRules, bindingRules} {
		for name, rule := range rules {
			t.Run(name, rule.check)
		}
	}
}
