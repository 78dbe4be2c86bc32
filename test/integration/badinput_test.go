package integration

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

var webapps = schema.GroupVersionResource{Group: "apps.mainstay.dev", Version: "v1", Resource: "webapps"}

// manifest returns a WebApp as a user would write it. It has the name shop and an image, unless
// spec sets its own.
func manifest(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	if !strings.Contains("\n"+spec, "\nimage:") {
		spec += "\nimage: shop:1"
	}
	text := "apiVersion: apps.mainstay.dev/v1\nkind: WebApp\nmetadata:\n  name: " + name +
		"\nspec:\n  " + strings.ReplaceAll(strings.TrimSpace(spec), "\n", "\n  ") + "\n"
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatalf("the case is not valid YAML: %v\n%s", err, text)
	}
	return object
}

// badInput is a manifest that the API server must refuse, and a similar one that it must accept.
type badInput struct {
	// name of the WebApp; empty means shop. goodName is the name of the accepted one.
	name, goodName string
	bad, good      string
	// field and message are parts of the expected answer.
	field, message string
}

const noReplicas = "must be at least 1: to stop the application, set spec.suspend to true"

const metadataName = "must be a DNS label: at most 63 characters"

var badNames = map[string]badInput{
	"name of 64 characters":         {name: strings.Repeat("a", 64), goodName: strings.Repeat("a", 63), message: metadataName},
	"name that begins with a digit": {name: "1shop", goodName: "shop1", message: metadataName},
	"name with a dot":               {name: "my.shop", goodName: "my-shop", message: metadataName},
}

var badSpecs = map[string]badInput{
	"text for a number":     {bad: "replicas: two", good: "replicas: 2", field: "spec.replicas", message: "must be of type integer"},
	"a number for text":     {bad: "image: 7", good: `image: "7"`, field: "spec.image", message: "must be of type string"},
	"no replicas":           {bad: "replicas: 0", good: "replicas: 1", field: "spec.replicas", message: noReplicas},
	"less than no replicas": {bad: "replicas: -1", good: "replicas: 1", field: "spec.replicas", message: noReplicas},
	"too many replicas": {bad: "replicas: 10001", good: "replicas: 10000", field: "spec.replicas",
		message: "less than or equal to 10000"},
	"an unknown field":       {bad: "replcas: 2", good: "replicas: 2", field: "spec.replcas", message: "unknown field"},
	"an unknown inner field": {bad: "ingress: {hst: a.b}", good: "ingress: {host: a.b}", field: "spec.ingress.hst", message: "unknown field"},

	"an empty image": {bad: `image: ""`, good: "image: a", field: "spec.image", message: "at least 1 chars"},
	"an image with a space": {bad: "image: my shop:1", good: "image: my-shop:1", field: "spec.image",
		message: "must be an image reference"},
	"an image in upper case": {bad: "image: team/Shop:1", good: "image: team/shop:V1", field: "spec.image",
		message: "must be an image reference"},
	"an image with a scheme": {bad: "image: http://r.example.com/shop", good: "image: r.example.com:5000/shop", field: "spec.image",
		message: "must be an image reference"},
	"an image that is too long": {bad: "image: " + strings.Repeat("a", 513), good: "image: " + strings.Repeat("a", 200), field: "spec.image",
		message: "may not be more than 512"},
	"a side-car's image": {bad: "sidecars: [{name: a, image: a/B}]", good: "sidecars: [{name: a, image: a/b}]",
		field: "spec.sidecars[0].image", message: "must be an image reference"},

	"port 0":     {bad: "port: 0", good: "port: 1", field: "spec.port", message: "greater than or equal to 1"},
	"port 65536": {bad: "port: 65536", good: "port: 65535", field: "spec.port", message: "less than or equal to 65535"},
	"service port 65536": {bad: "servicePort: 65536", good: "servicePort: 65535", field: "spec.servicePort",
		message: "less than or equal to 65535"},
	"a bad quantity": {bad: "resources: {limits: {memory: 12 apples}}", good: "resources: {limits: {memory: 12Mi}}",
		field: "spec.resources.limits.memory", message: "should match"},

	"metrics port 65536": {bad: "metrics: {port: 65536}", good: "metrics: {port: 65535}", field: "spec.metrics.port",
		message: "less than or equal to 65535"},
	"a path of metrics without its slash": {bad: "metrics: {path: metrics}", good: "metrics: {path: /metrics}", field: "spec.metrics.path",
		message: "must start with '/', and have no query"},
	"a path of metrics with a query": {bad: "metrics: {path: '/m?a=b'}", good: "metrics: {path: /m/a=b}", field: "spec.metrics.path",
		message: "must start with '/', and have no query"},
	"a path of metrics that is too long": {bad: "metrics: {path: /" + strings.Repeat("a", 1024) + "}",
		good: "metrics: {path: /" + strings.Repeat("a", 1023) + "}", field: "spec.metrics.path", message: "may not be more than 1024"},
	"an interval that is too short": {bad: "metrics: {interval: 4s}", good: "metrics: {interval: 5s}", field: "spec.metrics.interval",
		message: "must be from 5s to 5m"},
	"an interval that is too long": {bad: "metrics: {interval: 301s}", good: "metrics: {interval: 5m0s}", field: "spec.metrics.interval",
		message: "must be from 5s to 5m"},
	"an interval of parts of a second": {bad: "metrics: {interval: 5500ms}", good: "metrics: {interval: 1m30s}",
		field: "spec.metrics.interval", message: "must be from 5s to 5m"},
	"metrics that a NetworkPolicy hides": {bad: "networkPolicy: {}\nmetrics: {}", good: "networkPolicy: {}\nmetrics: {from: [{podSelector: {}}]}",
		field: "spec", message: "spec.metrics.from must name the peers that scrape"},

	"a variable twice": {bad: "env: [{name: A, value: '1'}, {name: A, value: '2'}]",
		good: "env: [{name: A, value: '1'}, {name: a, value: '2'}]", field: "spec.env[1]", message: "Duplicate value"},
	"a variable of no name": {bad: "env: [{name: ''}]", good: "env: [{name: A}]", field: "spec.env",
		message: "each variable must have a name"},
	"a volume twice": {bad: "volumes: [{name: a, emptyDir: {}}, {name: a, emptyDir: {}}]",
		good: "volumes: [{name: a, emptyDir: {}}, {name: b, emptyDir: {}}]", field: "spec.volumes[1]", message: "Duplicate value"},
	"a volume of two sources": {bad: "volumes: [{name: a, emptyDir: {}, secret: {secretName: x}}]",
		good: "volumes: [{name: a, secret: {secretName: x}}]", field: "spec.volumes[0]", message: "exactly one of the fields"},
	"a volume of no source": {bad: "volumes: [{name: a}]", good: "volumes: [{name: a, emptyDir: {}}]", field: "spec.volumes[0]",
		message: "exactly one of the fields"},
	"a volume of the node": {bad: "volumes: [{name: a, hostPath: {path: /}}]", good: "volumes: [{name: a, emptyDir: {}}]",
		field: "spec.volumes[0].hostPath", message: "unknown field"},
	"a mount path twice": {
		bad:   "volumeMounts: [{name: a, mountPath: /x}, {name: b, mountPath: /x}]",
		good:  "volumeMounts: [{name: a, mountPath: /x}, {name: a, mountPath: /y}]",
		field: "spec.volumeMounts[1]", message: "Duplicate value",
	},

	"a side-car twice": {bad: "sidecars: [{name: a, image: a}, {name: a, image: b}]",
		good: "sidecars: [{name: a, image: a}, {name: b, image: b}]", field: "spec.sidecars[1]", message: "Duplicate value"},
	"a side-car called webapp": {bad: "sidecars: [{name: webapp, image: a}]", good: "sidecars: [{name: web, image: a}]", field: "spec",
		message: "spec.sidecars must not use the name webapp: it is the application's own container"},
	"an init container called webapp": {bad: "initContainers: [{name: webapp, image: a}]", good: "initContainers: [{name: web, image: a}]",
		field: "spec", message: "spec.initContainers must not use the name webapp: it is the application's own container"},
	"one name for init container and side-car": {
		bad:   "initContainers: [{name: a, image: a}]\nsidecars: [{name: a, image: a}]",
		good:  "initContainers: [{name: a, image: a}]\nsidecars: [{name: b, image: a}]",
		field: "spec", message: "must not share a container name",
	},
	"a container's name in upper case": {bad: "sidecars: [{name: A, image: a}]", good: "sidecars: [{name: a, image: a}]",
		field: "spec.sidecars[0].name", message: "must be a DNS label"},

	"a host with a scheme": {bad: "ingress: {host: 'https://shop.example.com'}", good: "ingress: {host: shop.example.com}",
		field: "spec.ingress.host", message: "without scheme, port or path"},
	"a host in upper case": {bad: "ingress: {host: Shop.example.com}", good: "ingress: {host: '*.example.com'}",
		field: "spec.ingress.host", message: "in lower case"},
	"a host with a port": {bad: "ingress: {host: 'shop.example.com:80'}", good: "ingress: {host: shop-1.example.com}",
		field: "spec.ingress.host", message: "without scheme, port or path"},
	"a star inside of a host": {bad: "route: {parentRefs: [{name: a}], hostnames: [shop.*.com]}",
		good: "route: {parentRefs: [{name: a}], hostnames: ['*.example.com']}", field: "spec.route.hostnames[0]", message: "must be a DNS name"},
	"a path without its slash": {bad: "ingress: {host: a.b, path: x}", good: "ingress: {host: a.b, path: /x}", field: "spec.ingress.path",
		message: "must start with '/'"},
	"a route without Gateway": {bad: "route: {parentRefs: []}", good: "route: {parentRefs: [{name: a}]}", field: "spec.route.parentRefs",
		message: "at least 1 items"},

	"the label app": {bad: "labels: {app: x}", good: "labels: {application: x}", field: "spec.labels",
		message: "they are set by Mainstay"},
	"a label of Kubernetes": {bad: "labels: {app.kubernetes.io/name: x}", good: "labels: {app.kubernetes.io/version: x}",
		field: "spec.labels", message: "they are set by Mainstay"},
	"a label of Mainstay": {bad: "podMetadata: {labels: {mainstay.dev/x: x}}", good: "podMetadata: {labels: {example.com/x: x}}",
		field: "spec.podMetadata.labels", message: "they are set by Mainstay"},
	"an annotation that Mainstay keeps": {bad: "annotations: {config.mainstay.dev/observed: x}",
		good:  "annotations: {config.mainstay.dev/reload: auto, instrumentation.mainstay.dev/inject: 'false'}",
		field: "spec.annotations", message: "and not mainstay.dev/*"},
	"a label below our domain": {bad: "podMetadata: {labels: {config.mainstay.dev/x: x}}", good: "podMetadata: {labels: {example.com/x: x}}",
		field: "spec.podMetadata.labels", message: "they are set by Mainstay"},
	"an annotation of Mainstay": {bad: "annotations: {mainstay.dev/applied: x}", good: "annotations: {example.com/applied: x y}",
		field: "spec.annotations", message: "and not mainstay.dev/*"},
	"a label's bad value": {bad: "labels: {team: my team}", good: "labels: {team: my-team, other: ''}", field: "spec.labels",
		message: "must be a label value: letters"},
	"a label's long value": {bad: "labels: {team: " + strings.Repeat("a", 64) + "}", good: "labels: {team: " + strings.Repeat("a", 63) +
		"}", field: "spec.labels.team", message: "may not be more than 63"},
	"a label's bad key": {bad: "labels: {my team: x}", good: "labels: {my-team: x}", field: "spec.labels",
		message: "label keys must be"},

	"replicas with autoscaling": {bad: "replicas: 2\nautoscaling: {max: 3}", good: "autoscaling: {max: 3}", field: "spec",
		message: "must not set both spec.replicas and spec.autoscaling"},
	"a minimum above the maximum": {bad: "autoscaling: {min: 4, max: 3}", good: "autoscaling: {min: 3, max: 3}", field: "spec.autoscaling",
		message: "min must be at most spec.autoscaling.max"},
	"both kinds of disruption": {bad: "disruption: {minAvailable: 1, maxUnavailable: 1}", good: "disruption: {minAvailable: 50%}",
		field: "spec.disruption", message: "must not set both minAvailable and maxUnavailable"},
	"Recreate with a surge": {bad: "strategy: {type: Recreate, maxSurge: 1}", good: "strategy: {type: Recreate}", field: "spec.strategy",
		message: "require type RollingUpdate"},

	"a port that is a word": {bad: "port: web", good: "port: 8080", field: "spec.port", message: "must be of type integer"},
	"an unknown strategy": {bad: "strategy: {type: Rolling}", good: "strategy: {type: RollingUpdate}", field: "spec.strategy.type",
		message: "supported values"},
	"an unknown profile": {bad: "securityProfile: restricted", good: "securityProfile: Restricted", field: "spec.securityProfile",
		message: "supported values"},
	"an unknown spread": {bad: "topologySpread: Hard", good: "topologySpread: Required", field: "spec.topologySpread",
		message: "supported values"},
	"an unknown pull policy": {bad: "imagePullPolicy: Sometimes", good: "imagePullPolicy: Never", field: "spec.imagePullPolicy",
		message: "supported values"},
	"a grace period below 0": {bad: "terminationGracePeriodSeconds: -1", good: "terminationGracePeriodSeconds: 0",
		field: "spec.terminationGracePeriodSeconds", message: "greater than or equal to 0"},
	"a time that is none": {bad: "restartedAt: yesterday", good: "restartedAt: '2026-01-31T12:00:00Z'", field: "spec.restartedAt",
		message: "date-time"},
}

// TestBadInputIsRefused checks that the answer names the field, and that nothing is created. No
// manager runs: the API server does all of it.
func TestBadInputIsRefused(t *testing.T) {
	api, err := dynamic.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	in := api.Resource(webapps).Namespace(namespace(t))
	// As kubectl does. With a dry run, no case creates an object that disturbs the next.
	strict := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	dry := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}}
	check := func(t *testing.T, test badInput) {
		t.Helper()
		or := func(name string) string {
			if name == "" {
				return "shop"
			}
			return name
		}
		_, err := in.Create(t.Context(), manifest(t, or(test.name), test.bad), strict)
		switch {
		case err == nil:
			t.Error("it was accepted")
			_ = in.Delete(t.Context(), or(test.name), metav1.DeleteOptions{})
		case !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err):
			t.Errorf("an error of another kind: %v", err)
		case !strings.Contains(err.Error(), test.field) || !strings.Contains(err.Error(), test.message):
			t.Errorf("the answer lacks %q or %q: %v", test.field, test.message, err)
		}
		if _, err := in.Create(t.Context(), manifest(t, or(test.goodName), test.good), dry); err != nil {
			t.Errorf("the accepted manifest is refused: %v", err)
		}
	}
	for name, test := range badNames {
		t.Run(name, func(t *testing.T) { check(t, test) })
	}
	for name, test := range badSpecs {
		t.Run(name, func(t *testing.T) { check(t, test) })
	}
	left, err := in.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(left.Items) > 0 {
		t.Errorf("%d WebApps were created", len(left.Items))
	}
}
