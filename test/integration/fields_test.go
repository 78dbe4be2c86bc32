package integration

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/postgresql"
	"github.com/mainstay-platform/mainstay/internal/kinds/webapp"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// absent is the expected value if a change removes a field.
const absent = "(absent)"

// effect is a merge patch of a WebApp's spec and where it must show: a path in the child of that
// kind (list elements by index) and the value there, as JSON.
type effect struct {
	patch string
	kind  string
	path  string
	want  string
}

const (
	podPath = "spec.template.spec."
	appPath = podPath + "containers.0."
)

const (
	// request is what an autoscaler requires.
	request  = "replicas: null\nresources: {requests: {cpu: 10m, memory: 10Mi}}\n"
	routes   = "HTTPRoute"
	monitors = "ServiceMonitor"
	scaler   = "HorizontalPodAutoscaler"
	budget   = "PodDisruptionBudget"
	// withheld and invalid are for changes without an effect on a child: nothing is applied, or the
	// spec is refused.
	withheld = "withheld"
	invalid  = "invalid"
)

var specEffects = map[string]effect{
	"replicas":                      {"replicas: 5", "Deployment", "spec.replicas", "5"},
	"image":                         {"image: other:2", "Deployment", appPath + "image", `"other:2"`},
	"imagePullPolicy":               {"imagePullPolicy: Always", "Deployment", appPath + "imagePullPolicy", `"Always"`},
	"imagePullSecrets":              {"imagePullSecrets: [{name: x}]", "Deployment", podPath + "imagePullSecrets.0.name", `"x"`},
	"port":                          {"port: 3000", "Deployment", appPath + "ports.0.containerPort", "3000"},
	"servicePort":                   {"servicePort: 81", "Service", "spec.ports.0.port", "81"},
	"resources":                     {"resources: {limits: {cpu: 2}}", "Deployment", appPath + "resources.limits.cpu", `"2"`},
	"env":                           {"env: [{name: A, value: b}]", "Deployment", appPath + "env.0.value", `"b"`},
	"bindings[].kind":               {"bindings: [{kind: PostgreSQL, name: db}]", "Deployment", "spec.template.metadata.annotations.mainstay~dev/bindings", `"PostgreSQL/db=1"`},
	"bindings[].name":               {"bindings: [{kind: PostgreSQL, name: db}]", "Deployment", appPath + "env.0.valueFrom.secretKeyRef.name", `"db-app"`},
	"bindings[].user":               {"bindings: [{kind: PostgreSQL, name: db, user: orders}]", "Deployment", appPath + "env.0.valueFrom.secretKeyRef.name", `"db-orders"`},
	"bindings[].prefix":             {"bindings: [{kind: PostgreSQL, name: db, prefix: A_}]", "Deployment", appPath + "env.0.name", `"A_DATABASE_URL"`},
	"envFrom":                       {"envFrom: [{secretRef: {name: x}}]", "Deployment", appPath + "envFrom.0.secretRef.name", `"x"`},
	"command":                       {"command: [/x]", "Deployment", appPath + "command.0", `"/x"`},
	"args":                          {"args: [x]", "Deployment", appPath + "args.0", `"x"`},
	"terminationGracePeriodSeconds": {"terminationGracePeriodSeconds: 7", "Deployment", podPath + "terminationGracePeriodSeconds", "7"},
	"restartedAt":                   {"restartedAt: '2026-01-31T12:00:00Z'", "Deployment", "spec.template.metadata.annotations.mainstay~dev/restarted-at", `"2026-01-31T12:00:00Z"`},
	"probes.readiness":              {"probes: {readiness: {httpGet: {path: /r, port: http}}}", "Deployment", appPath + "readinessProbe.httpGet.path", `"/r"`},
	"probes.liveness":               {"probes: {liveness: {httpGet: {path: /l, port: http}}}", "Deployment", appPath + "livenessProbe.httpGet.path", `"/l"`},
	"probes.startup":                {"probes: {startup: {httpGet: {path: /s, port: http}}}", "Deployment", appPath + "startupProbe.httpGet.path", `"/s"`},
	"serviceAccountName":            {"serviceAccountName: robot", "Deployment", podPath + "serviceAccountName", `"robot"`},
	"securityProfile":               {"securityProfile: Restricted", "Deployment", appPath + "securityContext.readOnlyRootFilesystem", "true"},
	"securityContext":               {"securityContext: {runAsUser: 7}", "Deployment", appPath + "securityContext.runAsUser", "7"},
	"podSecurityContext":            {"podSecurityContext: {fsGroup: 7}", "Deployment", podPath + "securityContext.fsGroup", "7"},

	"ingress.host":          {"ingress: {host: a.example.com}", "Ingress", "spec.rules.0.host", `"a.example.com"`},
	"ingress.path":          {"ingress: {host: a.b, path: /x}", "Ingress", "spec.rules.0.http.paths.0.path", `"/x"`},
	"ingress.className":     {"ingress: {host: a.b, className: x}", "Ingress", "spec.ingressClassName", `"x"`},
	"ingress.tlsSecretName": {"ingress: {host: a.b, tlsSecretName: x}", "Ingress", "spec.tls.0.secretName", `"x"`},
	"ingress.annotations":   {"ingress: {host: a.b, annotations: {k: v}}", "Ingress", "metadata.annotations.k", `"v"`},

	"route.parentRefs[].name":        {"route: {parentRefs: [{name: x}]}", routes, "spec.parentRefs.0.name", `"x"`},
	"route.parentRefs[].namespace":   {"route: {parentRefs: [{name: x, namespace: z}]}", routes, "spec.parentRefs.0.namespace", `"z"`},
	"route.parentRefs[].sectionName": {"route: {parentRefs: [{name: x, sectionName: z}]}", routes, "spec.parentRefs.0.sectionName", `"z"`},
	"route.hostnames":                {"route: {parentRefs: [{name: x}], hostnames: [a.example.com]}", routes, "spec.hostnames.0", `"a.example.com"`},

	"autoscaling.min":    {request + "autoscaling: {min: 2, max: 3}", scaler, "spec.minReplicas", "2"},
	"autoscaling.max":    {request + "autoscaling: {max: 3}", scaler, "spec.maxReplicas", "3"},
	"autoscaling.cpu":    {request + "autoscaling: {max: 3, cpu: 33}", scaler, "spec.metrics.0.containerResource.target.averageUtilization", "33"},
	"autoscaling.memory": {request + "autoscaling: {max: 3, memory: 44}", scaler, "spec.metrics.0.containerResource.target.averageUtilization", "44"},

	"disruption.disabled":       {"disruption: {disabled: true}", budget, "spec", absent},
	"disruption.minAvailable":   {"disruption: {minAvailable: 50%}", budget, "spec.minAvailable", `"50%"`},
	"disruption.maxUnavailable": {"disruption: {maxUnavailable: 2}", budget, "spec.maxUnavailable", "2"},

	"metrics.port":      {"metrics: {port: 9090}", monitors, "spec.endpoints.0.relabelings.0.replacement", `"$1:9090"`},
	"metrics.path":      {"metrics: {path: /m}", monitors, "spec.endpoints.0.path", `"/m"`},
	"metrics.interval":  {"metrics: {interval: 30s}", monitors, "spec.endpoints.0.interval", `"30s"`},
	"metrics.from":      {"networkPolicy: {}\nmetrics: {from: [{ipBlock: {cidr: 10.0.0.0/8}}]}", "NetworkPolicy", "spec.ingress.0.from.0.ipBlock.cidr", `"10.0.0.0/8"`},
	"metrics.dashboard": {"metrics: {dashboard: true}", "ConfigMap", "metadata.labels.grafana_dashboard", `"1"`},

	"networkPolicy.from":               {"networkPolicy: {from: [{ipBlock: {cidr: 10.0.0.0/8}}]}", "NetworkPolicy", "spec.ingress.0.from.0.ipBlock.cidr", `"10.0.0.0/8"`},
	"strategy.type":                    {"strategy: {type: Recreate}", "Deployment", "spec.strategy.type", `"Recreate"`},
	"strategy.maxSurge":                {"strategy: {maxSurge: 2}", "Deployment", "spec.strategy.rollingUpdate.maxSurge", "2"},
	"strategy.maxUnavailable":          {"strategy: {maxUnavailable: 10%}", "Deployment", "spec.strategy.rollingUpdate.maxUnavailable", `"10%"`},
	"strategy.minReadySeconds":         {"strategy: {minReadySeconds: 7}", "Deployment", "spec.minReadySeconds", "7"},
	"strategy.progressDeadlineSeconds": {"strategy: {progressDeadlineSeconds: 77}", "Deployment", "spec.progressDeadlineSeconds", "77"},
	"topologySpread":                   {"topologySpread: Required", "Deployment", podPath + "topologySpreadConstraints.1.whenUnsatisfiable", `"DoNotSchedule"`},
	"nodeSelector":                     {"nodeSelector: {disk: ssd}", "Deployment", podPath + "nodeSelector.disk", `"ssd"`},
	"tolerations":                      {"tolerations: [{key: spot, operator: Exists}]", "Deployment", podPath + "tolerations.0.key", `"spot"`},
	"affinity":                         {"affinity: {nodeAffinity: {}}", "Deployment", podPath + "affinity", `{"nodeAffinity":{}}`},
	"volumeMounts":                     {"volumes: [{name: v, emptyDir: {}}]\nvolumeMounts: [{name: v, mountPath: /v}]", "Deployment", appPath + "volumeMounts.0.mountPath", `"/v"`},

	"labels":                             {"labels: {team: x}", "Service", "metadata.labels.team", `"x"`},
	"annotations":                        {"annotations: {k: v}", "ServiceAccount", "metadata.annotations.k", `"v"`},
	"podMetadata.labels":                 {"podMetadata: {labels: {team: x}}", "Deployment", "spec.template.metadata.labels.team", `"x"`},
	"podMetadata.annotations":            {"podMetadata: {annotations: {k: v}}", "Deployment", "spec.template.metadata.annotations.k", `"v"`},
	"serviceMetadata.labels":             {"serviceMetadata: {labels: {team: x}}", "Service", "metadata.labels.team", `"x"`},
	"serviceMetadata.annotations":        {"serviceMetadata: {annotations: {k: v}}", "Service", "metadata.annotations.k", `"v"`},
	"serviceAccountMetadata.labels":      {"serviceAccountMetadata: {labels: {team: x}}", "ServiceAccount", "metadata.labels.team", `"x"`},
	"serviceAccountMetadata.annotations": {"serviceAccountMetadata: {annotations: {k: v}}", "ServiceAccount", "metadata.annotations.k", `"v"`},
	"suspend":                            {"suspend: true", "Deployment", "spec.replicas", "0"},
	"paused":                             {"paused: true", withheld, "", "true"},
}

// effects returns an effect for each field of the spec, by its path. It does not descend into
// Kubernetes' own types.
func effects() map[string]effect {
	all := maps.Clone(specEffects)
	volume := func(source, inside, want string) effect {
		kind, _, _ := strings.Cut(source, ":")
		return effect{"volumes: [{name: v, " + source + "}]", "Deployment", podPath + "volumes.0." + kind + inside, want}
	}
	all["volumes[].name"] = effect{"volumes: [{name: v, emptyDir: {}}]", "Deployment", podPath + "volumes.0.name", `"v"`}
	all["volumes[].configMap"] = volume("configMap: {name: x}", ".name", `"x"`)
	all["volumes[].secret"] = volume("secret: {secretName: x}", ".secretName", `"x"`)
	all["volumes[].projected"] = volume("projected: {sources: [{configMap: {name: x}}]}", ".sources.0.configMap.name", `"x"`)
	all["volumes[].downwardAPI"] = volume("downwardAPI: {items: [{path: f, fieldRef: {fieldPath: metadata.name}}]}", ".items.0.path", `"f"`)
	all["volumes[].emptyDir"] = volume("emptyDir: {medium: Memory}", ".medium", `"Memory"`)
	all["volumes[].persistentVolumeClaim"] = volume("persistentVolumeClaim: {claimName: x}", ".claimName", `"x"`)
	all["volumes[].ephemeral"] = volume("ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], storageClassName: x, resources: {requests: {storage: 1Gi}}}}}", ".volumeClaimTemplate.spec.storageClassName", `"x"`)
	all["volumes[].csi"] = volume("csi: {driver: x.example.com}", ".driver", `"x.example.com"`)
	all["volumes[].image"] = volume("image: {reference: 'a:1'}", ".reference", `"a:1"`)
	addHelpers(all)
	return all
}

// addHelpers adds the fields of init containers and side-cars, which are the same.
func addHelpers(all map[string]effect) {
	for _, list := range []string{"initContainers", "sidecars"} {
		add := func(field, given, path, want string) {
			patch := list + ": [{name: c, image: 'c:1', " + given + "}]\nvolumes: [{name: v, emptyDir: {}}]"
			all[list+"[]."+field] = effect{patch, "Deployment", podPath + "initContainers.0." + path, want}
		}
		add("name", "", "name", `"c"`)
		add("image", "", "image", `"c:1"`)
		add("imagePullPolicy", "imagePullPolicy: Always", "imagePullPolicy", `"Always"`)
		add("command", "command: [/x]", "command.0", `"/x"`)
		add("args", "args: [x]", "args.0", `"x"`)
		add("env", "env: [{name: A, value: b}]", "env.0.value", `"b"`)
		add("envFrom", "envFrom: [{configMapRef: {name: x}}]", "envFrom.0.configMapRef.name", `"x"`)
		add("resources", "resources: {limits: {cpu: 2}}", "resources.limits.cpu", `"2"`)
		add("volumeMounts", "volumeMounts: [{name: v, mountPath: /v}]", "volumeMounts.0.mountPath", `"/v"`)
		add("securityContext", "securityContext: {runAsUser: 7}", "securityContext.runAsUser", "7")
		add("startupProbe", "startupProbe: {httpGet: {path: /s, port: 80}}", "startupProbe.httpGet.path", `"/s"`)
	}
	// Containers that run to completion have no probes, in Kubernetes either. Here the effect is the
	// refusal.
	refused := all["initContainers[].startupProbe"]
	refused.kind, refused.path, refused.want = invalid, "", "true"
	all["initContainers[].startupProbe"] = refused
}

// fieldsOf returns the paths of all fields of one of our types.
func fieldsOf(of reflect.Type, prefix string) []string {
	var paths []string
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		path, inner := prefix+name, field.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			if inner.Kind() == reflect.Slice && inner.Elem().PkgPath() == of.PkgPath() && inner.Elem().Kind() == reflect.Struct {
				path += "[]"
			}
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && inner.PkgPath() == of.PkgPath() {
			paths = append(paths, fieldsOf(inner, path+".")...)
		} else {
			paths = append(paths, path)
		}
	}
	return paths
}

func TestEveryFieldHasACase(t *testing.T) {
	all, fields := effects(), fieldsOf(reflect.TypeFor[msappsv1.WebAppSpec](), "")
	if len(fields) < 80 {
		t.Errorf("only %d fields were found", len(fields))
	}
	for _, field := range fields {
		if _, has := all[field]; !has {
			t.Errorf("spec.%s: no case shows that it has an effect", field)
		}
	}
	for field := range all {
		if !slices.Contains(fields, field) {
			t.Errorf("spec.%s: there is a case but no such field", field)
		}
	}
}

// at returns the value at a path as JSON, absent if there is none.
func at(object *unstructured.Unstructured, path string) string {
	var value any = object.Object
	for step := range strings.SplitSeq(path, ".") {
		switch inside := value.(type) {
		case map[string]any:
			value = inside[strings.ReplaceAll(step, "~", ".")]
		case []any:
			if index, err := strconv.Atoi(step); err == nil && index < len(inside) {
				value = inside[index]
			} else {
				value = nil
			}
		default:
			value = nil
		}
	}
	if value == nil {
		return absent
	}
	text, _ := json.Marshal(value)
	return string(text)
}

// TestEveryFieldHasAnEffect checks that the API server accepts each field under strict validation,
// that the resulting child has the value, and that the API server accepts that child too. Nothing
// is stored.
func TestEveryFieldHasAnEffect(t *testing.T) {
	t.Parallel()
	space := namespace(t)
	for field, test := range effects() {
		t.Run(field, func(t *testing.T) { checkEffect(t, space, test) })
	}
}

func checkEffect(t *testing.T, space string, test effect) {
	t.Helper()
	g := gomega.NewWithT(t)
	before, _ := effectOn(newApp(space), test)
	g.Expect(before).NotTo(gomega.Equal(test.want), "the child has the value before the change: the case proves nothing")
	patch, err := yaml.YAMLToJSON([]byte("spec:\n  " + strings.ReplaceAll(test.patch, "\n", "\n  ")))
	g.Expect(err).NotTo(gomega.HaveOccurred())
	given, err := jsonpatch.MergePatch([]byte(testenv.JSON(t, newApp(space))), patch)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	strict := []client.CreateOption{client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)}
	accepted := &unstructured.Unstructured{}
	g.Expect(json.Unmarshal(given, &accepted.Object)).To(gomega.Succeed())
	accepted.SetGroupVersionKind(msappsv1.GroupVersion.WithKind("WebApp"))
	g.Expect(cluster.Client.Create(t.Context(), accepted, strict...)).To(gomega.Succeed())
	var app msappsv1.WebApp
	g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(accepted.Object, &app)).To(gomega.Succeed())
	after, child := effectOn(&app, test)
	g.Expect(after).To(gomega.Equal(test.want))
	if child != nil && test.kind != routes && test.kind != monitors { // whose definitions the API server lacks
		child.SetNamespace(space) // as package apply does
		g.Expect(cluster.Client.Create(t.Context(), child, strict...)).To(gomega.Succeed())
	}
}

// effectOn returns the value at the path of an effect, and the child that has it, nil if there is
// none.
func effectOn(app *msappsv1.WebApp, test effect) (string, client.Object) {
	webapp.Default(app)
	bindings := webapp.Bind(app, component.Bindables{{Kind: databasev1.GroupVersion.WithKind("PostgreSQL"), Binding: *postgresql.Binding()}})
	for i := range bindings {
		db := &databasev1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Name: "db"}}
		db.Spec.Users = []databasev1.User{{Name: "orders"}}
		db.Status.CredentialsRevision = "1"
		db.Status.Users = []databasev1.UserStatus{{Name: "orders", SecretName: "db-orders", Revision: "1"}}
		db.Status.Conditions = []metav1.Condition{{Type: databasev1.ConditionWritable, Status: metav1.ConditionTrue}}
		bindings[i].Object = db
	}
	desired := webapp.Desired(app, webapp.Observed{HasRouteAPI: true, HasMonitorAPI: true, Bindings: bindings})
	switch test.kind {
	case withheld:
		return strconv.FormatBool(desired.Withhold), nil
	case invalid:
		return strconv.FormatBool(len(webapp.Validate(app)) > 0), nil
	}
	for _, child := range desired.Children {
		if child.Object.GetObjectKind().GroupVersionKind().Kind != test.kind && reflect.TypeOf(child.Object).Elem().Name() != test.kind {
			continue
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(child.Object)
		if err != nil {
			return err.Error(), nil
		}
		return at(&unstructured.Unstructured{Object: content}, test.path), child.Object
	}
	return absent, nil
}
