package helm_test

import (
	"encoding/json"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// effects has, for every value of the schema, a setting and a text that it must add to the
// manifest.
var effects = map[string]struct{ values, want string }{
	"apiserver.affinity":                   {"apiserver: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}}", "nodeAffinity:"},
	"apiserver.audit.rules":                {"apiserver: {audit: {rules: [{level: Metadata}]}}", "    - level: Metadata\n"},
	"apiserver.extraArgs":                  {"apiserver: {extraArgs: [--tls-min-version=VersionTLS13]}", "- --tls-min-version=VersionTLS13"},
	"apiserver.llamas":                     {"apiserver: {llamas: {enabled: true}}", "- --resources=farmpods,llamas\n"},
	"apiserver.port":                       {"apiserver: {port: 8843}", "- --secure-port=8843"},
	"apiserver.replicaCount":               {"apiserver: {replicaCount: 4}", "replicas: 4"},
	"apiserver.resources.limits":           {"apiserver: {resources: {limits: {memory: 77Mi}}}", "memory: 77Mi"},
	"apiserver.resources.requests":         {"apiserver: {resources: {requests: {cpu: 77m}}}", "cpu: 77m"},
	"apiserver.serviceAccount.annotations": {"apiserver: {serviceAccount: {annotations: {a/b: c}}}", "a/b: c"},
	"apiserver.serviceAccount.name":        {"apiserver: {serviceAccount: {name: mine}}", "serviceAccountName: mine"},
	"apiserver.topologySpreadConstraints": {"apiserver: {topologySpreadConstraints: [{maxSkew: 1}]}",
		"topologySpreadConstraints:\n        - maxSkew: 1"},
	"affinity": {"affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}",
		"nodeAffinity:"},
	"certManager.enabled": {"certManager: {enabled: true}", "kind: Certificate"},
	"certManager.issuerRef": {"certManager: {enabled: true, issuerRef: {name: company, kind: ClusterIssuer}}",
		"kind: ClusterIssuer\n    name: company"},
	"crds.keep":                       {"{crds: {keep: false}, uninstall: {enabled: true}}", "--delete-definitions-and-all-objects"},
	"uninstall.enabled":               {"uninstall: {enabled: true}", "kind: Job"},
	"concurrency":                     {"concurrency: 7", "--concurrency=7"},
	"fullnameOverride":                {"fullnameOverride: other", "name: other-manager"},
	"image.digest":                    {"image: {digest: 'sha256:" + digest + "'}", `image: "docker.io/mainstay/mainstay:0.0.0-dev@sha256:` + digest + `"`},
	"image.pullPolicy":                {"image: {pullPolicy: Always}", "imagePullPolicy: Always"},
	"image.registry":                  {"image: {registry: ''}", `image: "mainstay/mainstay:0.0.0-dev"`},
	"image.repository":                {"image: {repository: a/b}", `image: "docker.io/a/b:0.0.0-dev"`},
	"image.tag":                       {"image: {tag: 1.2.3}", `image: "docker.io/mainstay/mainstay:1.2.3"`},
	"imagePullSecrets":                {"imagePullSecrets: [{name: mine}]", "imagePullSecrets:\n        - name: mine"},
	"leaderElection.enabled":          {"{leaderElection: {enabled: false}, replicaCount: 1}", "type: Recreate"},
	"leaderElection.leaseDuration":    {"leaderElection: {leaseDuration: 1m30s}", "--leader-elect-lease-duration=1m30s"},
	"leaderElection.renewDeadline":    {"leaderElection: {renewDeadline: 9s}", "--leader-elect-renew-deadline=9s"},
	"leaderElection.retryPeriod":      {"leaderElection: {retryPeriod: 1.5s}", "--leader-elect-retry-period=1.5s"},
	"logging.format":                  {"logging: {format: text}", "--log-format=text"},
	"logging.level":                   {"logging: {level: 2}", "--log-level=2"},
	"metrics.dashboard.enabled":       {"metrics: {dashboard: {enabled: true}}", "grafana_dashboard: \"1\""},
	"metrics.dashboard.labels":        {"metrics: {dashboard: {enabled: true, labels: {a/b: c}}}", "a/b: c"},
	"metrics.prometheusRule.enabled":  {"metrics: {prometheusRule: {enabled: true}}", "kind: PrometheusRule"},
	"metrics.prometheusRule.labels":   {"metrics: {prometheusRule: {labels: {a/b: c, d: e}}}", "--prometheusrule-labels=a/b=c,d=e\n"},
	"metrics.port":                    {"metrics: {port: 9999}", "--metrics-address=:9999"},
	"metrics.readers":                 {"metrics: {readers: [{kind: Group, name: ops}]}", `name: "ops"`},
	"metrics.serviceMonitor.enabled":  {"metrics: {serviceMonitor: {enabled: true}}", "kind: ServiceMonitor"},
	"metrics.serviceMonitor.interval": {"metrics: {serviceMonitor: {enabled: true, interval: 7s}}", "interval: 7s"},
	"metrics.serviceMonitor.labels":   {"metrics: {serviceMonitor: {labels: {a/b: c, d: e}}}", "--servicemonitor-labels=a/b=c,d=e\n"},
	"nameOverride":                    {"nameOverride: other", "app.kubernetes.io/name: other"},
	"nodeSelector":                    {"nodeSelector: {disk: ssd}", "nodeSelector:\n        disk: ssd"},
	"podAnnotations":                  {"podAnnotations: {a/b: c}", "a/b: c"},
	"podLabels":                       {"podLabels: {a/b: c}", "a/b: c"},
	"priorityClassName":               {"priorityClassName: high", "priorityClassName: high"},
	"replicaCount":                    {"replicaCount: 3", "replicas: 3"},
	"resources.limits":                {"resources: {limits: {memory: 1Gi}}", "memory: 1Gi"},
	"resources.requests":              {"resources: {requests: {cpu: 2}}", "cpu: 2"},
	"serviceAccount.annotations":      {"serviceAccount: {annotations: {a/b: c}}", "a/b: c"},
	"serviceAccount.name":             {"serviceAccount: {name: mine}", "serviceAccountName: mine"},
	"tracing.endpoint":                {"tracing: {endpoint: 'http://otel:4318'}", "--otlp-endpoint=http://otel:4318"},
	"webhook.port":                    {"webhook: {port: 10250}", "--webhook-port=10250"},
	"tolerations":                     {"tolerations: [{operator: Exists}]", "tolerations:\n        - operator: Exists"},
	"topologySpreadConstraints":       {"topologySpreadConstraints: [{maxSkew: 1}]", "topologySpreadConstraints:\n        - maxSkew: 1"},
	"ambassador.enabled":              {"ambassador: {enabled: true}", "--api-server=http://127.0.0.1:8001"},
	"ambassador.image.digest":         {"ambassador: {enabled: true, image: {digest: 'sha256:" + digest + "'}}", `image: "registry.k8s.io/kubectl:v1.37.1@sha256:` + digest + `"`},
	"ambassador.image.pullPolicy":     {"ambassador: {enabled: true, image: {pullPolicy: Never}}", "imagePullPolicy: Never"},
	"ambassador.image.registry":       {"ambassador: {enabled: true, image: {registry: r.io}}", `image: "r.io/kubectl:v1.37.1"`},
	"ambassador.image.repository":     {"ambassador: {enabled: true, image: {repository: a/b}}", `image: "registry.k8s.io/a/b:v1.37.1"`},
	"ambassador.image.tag":            {"ambassador: {enabled: true, image: {tag: v1.36.0}}", `image: "registry.k8s.io/kubectl:v1.36.0"`},
	"ambassador.resources.limits":     {"ambassador: {enabled: true, resources: {limits: {memory: 77Mi}}}", "memory: 77Mi"},
	"ambassador.resources.requests":   {"ambassador: {enabled: true, resources: {requests: {cpu: 77m}}}", "cpu: 77m"},
	"commonLabels":                    {"commonLabels: {team: a}", "team: a"},
	"extraArgs":                       {"extraArgs: [--api-qps=50]", "- --api-qps=50"},
	"extraEnv":                        {"extraEnv: [{name: TZ, value: UTC}]", "- name: TZ\n              value: UTC"},
	"watchNamespaces":                 {"watchNamespaces: [shop, web]", "--watch-namespaces=shop,web"},
	"stakaterAnnotations.enabled":     {"stakaterAnnotations: {enabled: true}", "--stakater-annotations"},
	"secrets.namespaces":              {"secrets: {namespaces: [shop, web]}", "--secret-namespaces=shop,web"},
	"environments":                    {"environments: [{name: production, aliases: [prod, live]}, {name: qa}]", "--environments=production:prod:live,qa\n"},
	"kinds.appstack.objects":          {"kinds: {appstack: {" + queues + "}}", "--stack-objects=queues.v1.mq.example.com/Queue\n"},
	"databaseImages.postgresql": {"databaseImages: {postgresql: {'17': 'r.io/pg:17.1'}}",
		",17=r.io/pg:17.1,"},
	"databaseImages.pgbouncer": {"databaseImages: {pgbouncer: 'r.io/pgbouncer:1.24'}", "--pgbouncer-image=r.io/pgbouncer:1.24\n"},
	"databaseImages.valkey":    {"databaseImages: {valkey: {'9': 'r.io/valkey:9.1'}}", ",9=r.io/valkey:9.1\n"},
	"policy.allowedRegistries": {"policy: {allowedRegistries: [r.io/team, 'localhost:5000']}",
		"--default-policy-registries=r.io/team,localhost:5000"},
}

// removals has, for every value that removes something, a setting and what it removes.
var removals = map[string]struct{ values, gone string }{
	"apiserver.farmpods": {"apiserver: {farmpods: {enabled: false}}", "mainstay-apiserver"},
	"apiserver.serviceAccount.create": {"apiserver: {serviceAccount: {create: false, name: mine}}",
		"kind: ServiceAccount\nmetadata:\n  name: mainstay-apiserver\n"},
	"crds.manage":                  {"crds: {manage: false}", "--install-crds"},
	"kinds.appconfig":              {"kinds: {appconfig: {enabled: false}}", "--kinds=appconfig,"},
	"kinds.appstack.enabled":       {"kinds: {appstack: {enabled: false}}", ",appstack,"},
	"kinds.cache":                  {"kinds: {cache: {enabled: false}}", "--valkey-images="},
	"kinds.configmonitor":          {"kinds: {configmonitor: {enabled: false}}", ",configmonitor,"},
	"kinds.clusterinstrumentation": {"kinds: {clusterinstrumentation: {enabled: false}}", ",clusterinstrumentation,"},
	"kinds.ecommerceplatform":      {"kinds: {ecommerceplatform: {enabled: false}}", ",ecommerceplatform,"},
	"kinds.instrumentation":        {"kinds: {instrumentation: {enabled: false}}", ",instrumentation,"},
	"kinds.platformpolicy":         {"kinds: {platformpolicy: {enabled: false}}", ",platformpolicy,"},
	"kinds.postgresql":             {"kinds: {postgresql: {enabled: false}}", ",postgresql,"},
	"kinds.webapp":                 {"kinds: {webapp: {enabled: false}}", "horizontalpodautoscalers"},
	"policy.readable":              {"policy: {readable: false}", "name: system:authenticated"},
	"defaultPolicy.create":         {"defaultPolicy: {create: false}", "--default-policy"},
	"webhook.enabled":              {"webhook: {enabled: false}", "name: mainstay-webhook"},
	"metrics.enabled":              {"metrics: {enabled: false}", "mainstay-metrics"},
	"networkPolicy.enabled":        {"networkPolicy: {enabled: false}", "kind: NetworkPolicy"},
	"serviceAccount.create": {"serviceAccount: {create: false, name: mine}",
		"kind: ServiceAccount\nmetadata:\n  name: mainstay-manager\n"},
	"podDisruptionBudget.enabled": {"podDisruptionBudget: {enabled: false}", "kind: PodDisruptionBudget"},
}

const digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

// whole returns all manifests of a release, including its hooks.
func whole(release *releasev1.Release) string {
	all := release.Manifest
	for _, hook := range release.Hooks {
		all += "---\n" + hook.Manifest + "\n"
	}
	return all
}

// TestEveryValueHasAnEffect: no value of the schema is ignored by the templates.
func TestEveryValueHasAnEffect(t *testing.T) {
	plain := whole(mustRender(t, "", target{}))
	for name, effect := range effects {
		manifest := whole(mustRender(t, effect.values, target{}))
		if !strings.Contains(manifest, effect.want) {
			t.Errorf("%s: %q is not in the manifest", name, effect.want)
		}
		if strings.Contains(plain, effect.want) {
			t.Errorf("%s: %q is in the manifest without it", name, effect.want)
		}
	}
	for name, removal := range removals {
		if strings.Contains(whole(mustRender(t, removal.values, target{})), removal.gone) {
			t.Errorf("%s: %q is still in the manifest", name, removal.gone)
		}
		if !strings.Contains(plain, removal.gone) {
			t.Errorf("%s: %q never was in the manifest", name, removal.gone)
		}
	}
	tested := slices.Concat(slices.Collect(maps.Keys(effects)), slices.Collect(maps.Keys(removals)))
	slices.Sort(tested)
	if diff := cmp.Diff(leaves(readSchema(t), ""), tested); diff != "" {
		t.Errorf("values of the schema (-) and tested ones (+): %s", diff)
	}
}

// TestValuesFollowSchema: values.yaml has every value of the schema, and no other.
func TestValuesFollowSchema(t *testing.T) {
	content, err := os.ReadFile(path.Join(chartDirectory, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(content, &values); err != nil {
		t.Fatal(err)
	}
	for _, leaf := range leaves(readSchema(t), "") {
		at := any(values)
		for name := range strings.SplitSeq(leaf, ".") {
			next, ok := at.(map[string]any)[name]
			if !ok {
				t.Errorf("values.yaml has no %s", leaf)
				break
			}
			at = next
		}
	}
}

// TestValuesRefused: values without an effect, or with another than meant, are errors.
func TestValuesRefused(t *testing.T) {
	for values, want := range map[string]string{
		"replicas: 3":                                        "additional properties 'replicas' not allowed",
		"image: {name: x}":                                   "additional properties 'name' not allowed",
		"environments: [{name: '*'}]":                        "does not match pattern",
		"replicaCount: two":                                  "got string, want integer",
		"replicaCount: -1":                                   "minimum",
		"image: {tag: 1.2}":                                  "got number, want string",
		"image: {tag: a:b}":                                  "does not match pattern",
		"image: {digest: sha256:1}":                          "does not match pattern",
		"image: {pullPolicy: Sometimes}":                     "must be one of",
		"image: {repository: ''}":                            "minLength",
		"imagePullSecrets: [mine]":                           "got string, want object",
		"leaderElection: {enabled: 'yes'}":                   "got string, want boolean",
		"leaderElection: {leaseDuration: 15}":                "got number, want string",
		"leaderElection: {leaseDuration: 15 seconds}":        "does not match pattern",
		"leaderElection: {enabled: false}":                   "replicaCount above 1 needs leaderElection.enabled",
		"logging: {format: xml}":                             "must be one of",
		"logging: {level: 1.5}":                              "want integer",
		"concurrency: 0":                                     "minimum",
		"podLabels: {a: 1}":                                  "want string",
		"resources: {limit: {}}":                             "additional properties 'limit' not allowed",
		"serviceAccount: {create: false}":                    "serviceAccount.name is needed",
		"fullnameOverride: Mine":                             "does not match pattern",
		"crds: {manage: null, kept: true}":                   "additional properties 'kept' not allowed",
		"webhook: {port: 80}":                                "minimum",
		"webhook: {port: 8081}":                              "'not' failed",
		"metrics: {port: 8081}":                              "'not' failed",
		"certManager: {issuer: x}":                           "additional properties 'issuer' not allowed",
		"tolerations: {operator: Exists}":                    "got object, want array",
		"{crds: {keep: false}, uninstall: {enabled: false}}": "crds.keep=false needs uninstall.enabled",
		"watchNamespaces: [Shop]":                            "does not match pattern",
		"watchNamespaces: [shop, shop]":                      "items at 0 and 1 are equal",
		"watchNamespaces: shop":                              "got string, want array",
		"secrets: {namespaces: [Shop]}":                      "does not match pattern",
		"secrets: {namespaces: [shop, shop]}":                "items at 0 and 1 are equal",
		"secrets: {namespace: shop}":                         "additional properties 'namespace' not allowed",
		"{watchNamespaces: [web, blog], secrets: {namespaces: [web, shop]}}":      "secrets.namespaces: Invalid value: shop: must be one of watchNamespaces (web, blog)",
		"{watchNamespaces: [web], apiserver: {llamas: {enabled: true}}}":          "apiserver.llamas.enabled: can't be used with watchNamespaces or ambassador.enabled",
		"{ambassador: {enabled: true}, apiserver: {llamas: {enabled: true}}}":     "apiserver.llamas.enabled: can't be used with watchNamespaces or ambassador.enabled",
		"apiserver: {serviceAccount: {create: false}}":                            "apiserver.serviceAccount.name is needed",
		"apiserver: {serviceAccount: {name: mainstay-manager}}":                   "mainstay-manager is the manager's account",
		"{serviceAccount: {name: one}, apiserver: {serviceAccount: {name: one}}}": "one is the manager's account",
		"apiserver: {port: 443}":                      "minimum",
		"apiserver: {alpacas: {enabled: true}}":       "additional properties 'alpacas' not allowed",
		"apiserver: {audit: {rules: [{level: All}]}}": "must be one of",
		"extraArgs: [manager]":                        "does not match pattern",
		"extraEnv: [TZ]":                              "got string, want object",
		"kinds: {shop: {enabled: true}}":              "additional properties 'shop' not allowed",
		"kinds: {appstack: {enabled: false}, ecommerceplatform: {enabled: false}, webapp: {enabled: false}, postgresql: {enabled: false}, cache: {enabled: false}, platformpolicy: {enabled: false}, appconfig: {enabled: false}, configmonitor: {enabled: false}, instrumentation: {enabled: false}, clusterinstrumentation: {enabled: false}}": "at least one must be enabled",
		"policy: {allowedRegistries: [team/shop]}":      "does not match pattern",
		"policy: {allowedRegistries: ['https://r.io']}": "does not match pattern",
		"policy: {allowedRegistries: ['r.io,a.io']}":    "does not match pattern",
		"policy: {allowedRegistries: [r.io, r.io]}":     "items at 0 and 1 are equal",
	} {
		if _, err := render(t, values, target{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", values, err, want)
		}
	}
	mustRender(t, "policy: {allowedRegistries: [Registry.Example.com/a/b-c_d, 'localhost:5000', 'registry:5000/team', '[::1]:5000', localhost]}", target{})
	// A parent chart passes this on.
	mustRender(t, "global: {anything: true}", target{})
}

// TestPortsRefused: the manager could not listen on a port that another part of its pod has. What
// is off has none.
func TestPortsRefused(t *testing.T) {
	for values, want := range map[string]string{
		"metrics: {port: 9443}":                                                "must not be webhook.port",
		"{webhook: {enabled: false}, metrics: {port: 9443}}":                   "",
		"{ambassador: {enabled: true}, metrics: {port: 8001}}":                 "must not be 8001 with ambassador.enabled",
		"{ambassador: {enabled: true}, webhook: {port: 8001}}":                 "must not be 8001 with ambassador.enabled",
		"{ambassador: {enabled: true}, metrics: {enabled: false, port: 8001}}": "",
		"metrics: {port: 8001}":                                                "",
	} {
		if _, err := render(t, values, target{}); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", values, err, want)
		}
	}
}

func TestSmallInstallation(t *testing.T) {
	manifest := mustRender(t, "{replicaCount: 1, leaderElection: {enabled: false}, apiserver: {replicaCount: 1}}", target{}).Manifest
	if strings.Contains(manifest, "kind: PodDisruptionBudget") {
		t.Error("a single replica has a budget, which would say nothing but hold up drains")
	}
	if strings.Contains(manifest, "leader-elect-lease") || !strings.Contains(manifest, "--leader-elect=false") {
		t.Error("the arguments do not fit leaderElection.enabled")
	}
}

// TestStrategy: the chart has the fields that Recreate does not allow. Server-side apply removes
// only what the release applied before, and not what the API server set by default.
func TestStrategy(t *testing.T) {
	elected := deployment(t, mustRender(t, "", target{}).Manifest).Spec.Strategy
	if rolling := elected.RollingUpdate; rolling == nil || rolling.MaxSurge == nil || rolling.MaxUnavailable == nil {
		t.Errorf("the election can't be disabled in this release: %+v", elected)
	}
	alone := deployment(t, mustRender(t, "{replicaCount: 1, leaderElection: {enabled: false}}", target{}).Manifest).Spec.Strategy
	if alone.Type != "Recreate" || alone.RollingUpdate != nil {
		t.Errorf("without election: %+v", alone)
	}
}

// TestOwnLabelsWin: a user's label can't break the selector.
func TestOwnLabelsWin(t *testing.T) {
	for _, value := range []string{"podLabels", "commonLabels"} {
		for _, c := range []component{manager, apiserver} {
			pod := c.deployment(t, mustRender(t, value+": {app.kubernetes.io/name: mine, team: a}", target{}).Manifest).Spec.Template
			if pod.Labels["app.kubernetes.io/name"] != "mainstay" || pod.Labels["team"] != "a" {
				t.Errorf("%s: got %v", value, pod.Labels)
			}
		}
	}
	for _, object := range objects(t, mustRender(t, "commonLabels: {app.kubernetes.io/component: mine, team: a}", target{}).Manifest) {
		got := object.GetLabels()
		if c := component(got["app.kubernetes.io/component"]); c != manager && c != apiserver || got["team"] != "a" {
			t.Errorf("%s %s has the labels %v", object.GetKind(), object.GetName(), got)
		}
	}
}

// TestAmbassador: the side-car starts first and ends last, and only it has the credentials.
func TestAmbassador(t *testing.T) {
	pod := deployment(t, mustRender(t, "ambassador: {enabled: true}", target{}).Manifest).Spec.Template.Spec
	if *pod.AutomountServiceAccountToken || len(pod.Volumes) != 1 || pod.Volumes[0].Projected == nil || len(pod.InitContainers) != 1 {
		t.Fatalf("got %+v", pod)
	}
	ambassador, manager := pod.InitContainers[0], pod.Containers[0]
	if ambassador.RestartPolicy == nil || *ambassador.RestartPolicy != corev1.ContainerRestartPolicyAlways {
		t.Error("the ambassador is no side-car: the manager would never start")
	}
	if len(manager.VolumeMounts) != 0 || len(ambassador.VolumeMounts) != 1 || ambassador.VolumeMounts[0].Name != pod.Volumes[0].Name {
		t.Errorf("mounted are %v and %v", manager.VolumeMounts, ambassador.VolumeMounts)
	}
	if !slices.Contains(ambassador.Args, "--address=127.0.0.1") {
		t.Errorf("the ambassador serves others than its pod: %v", ambassador.Args)
	}
	without := deployment(t, mustRender(t, "", target{}).Manifest).Spec.Template.Spec
	if !*without.AutomountServiceAccountToken || len(without.InitContainers)+len(without.Volumes) != 0 {
		t.Errorf("without an ambassador: %+v", without)
	}
}

// TestCertManager: with cert-manager the manager writes no Secret, and with a user's issuer the
// chart has none. The webhooks and our API server each have their own certificate and CA.
func TestCertManager(t *testing.T) {
	count := func(values, kind string) int {
		return strings.Count(mustRender(t, values, target{}).Manifest, "kind: "+kind+"\nmetadata")
	}
	for values, want := range map[string]struct{ issuers, certificates int }{
		"certManager: {enabled: true}":                                                                       {4, 4},
		"{certManager: {enabled: true}, apiserver: {farmpods: {enabled: false}}}":                            {2, 2},
		"{certManager: {enabled: true}, webhook: {enabled: false}}":                                          {2, 2},
		"certManager: {enabled: true, issuerRef: {name: company, kind: ClusterIssuer}}":                      {0, 2},
		"{certManager: {enabled: true}, webhook: {enabled: false}, apiserver: {farmpods: {enabled: false}}}": {0, 0},
		"certManager: {enabled: false}":                                                                      {0, 0},
	} {
		if issuers, certificates := count(values, "Issuer"), count(values, "Certificate"); issuers != want.issuers ||
			certificates != want.certificates {
			t.Errorf("%s: there are %d issuers and %d certificates, want %v", values, issuers, certificates, want)
		}
	}
	own := mustRender(t, "certManager: {enabled: true}", target{}).Manifest
	if strings.Contains(own, "verbs: [list, watch, update]") || !strings.Contains(own, "verbs: [list, watch]") {
		t.Error("the manager may write a Secret that is cert-manager's")
	}
	for _, name := range []string{"mainstay-webhook", "mainstay-apiserver"} {
		certificate := named(t, own, "Certificate", name)
		hosts, _, _ := unstructured.NestedStringSlice(certificate.Object, "spec", "dnsNames")
		secret, _, _ := unstructured.NestedString(certificate.Object, "spec", "secretName")
		issuer, _, _ := unstructured.NestedString(certificate.Object, "spec", "issuerRef", "name")
		ca, _, _ := unstructured.NestedString(named(t, own, "Issuer", name).Object, "spec", "ca", "secretName")
		if !slices.Equal(hosts, []string{name + ".mainstay-system.svc"}) || secret != name || issuer != name || ca != name+"-ca" {
			t.Errorf("%s is for %v, in %s, by %s with %s", name, hosts, secret, issuer, ca)
		}
	}
}

type schema struct {
	Properties map[string]schema `json:"properties"`
}

func readSchema(t *testing.T) schema {
	t.Helper()
	content, err := os.ReadFile(path.Join(chartDirectory, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var parsed schema
	if err := json.Unmarshal(content, &parsed); err != nil {
		t.Fatal(err)
	}
	delete(parsed.Properties, "global")
	return parsed
}

// leaves returns the paths of all values without named parts.
func leaves(at schema, prefix string) []string {
	var found []string
	for name, child := range at.Properties {
		full := strings.TrimPrefix(prefix+"."+name, ".")
		if len(child.Properties) == 0 {
			found = append(found, full)
			continue
		}
		found = append(found, leaves(child, full)...)
	}
	slices.Sort(found)
	return found
}
