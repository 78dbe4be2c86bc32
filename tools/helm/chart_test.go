package helm_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/loader"
	chartloader "helm.sh/helm/v4/pkg/chart/v2/loader"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	psaapi "k8s.io/pod-security-admission/api"
	psapolicy "k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

const (
	chartDirectory = "../../charts/mainstay"
	// oldest is the oldest Kubernetes that the chart accepts.
	oldest = "v1.33.0"
)

// target is the cluster to render for; zero values are the defaults.
type target struct {
	release, namespace, kubernetes string
	// apis are the optional APIs that the cluster has.
	apis []string
}

// render returns what `helm template` would print, with the notes, or its error.
func render(t *testing.T, values string, to target) (*releasev1.Release, error) {
	t.Helper()
	chart, err := loader.Load(chartDirectory)
	if err != nil {
		t.Fatalf("loading the chart: %v", err)
	}
	given := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &given); err != nil {
		t.Fatalf("reading the values: %v", err)
	}
	install := action.NewInstall(action.NewConfiguration())
	install.DryRunStrategy = action.DryRunClient
	install.ReleaseName = either(to.release, "mainstay")
	install.Namespace = either(to.namespace, "mainstay-system")
	if install.KubeVersion, err = common.ParseKubeVersion(either(to.kubernetes, oldest)); err != nil {
		t.Fatalf("reading the version: %v", err)
	}
	install.APIVersions = to.apis
	release, err := install.Run(chart, given)
	if err != nil {
		return nil, err
	}
	return release.(*releasev1.Release), nil
}

func mustRender(t *testing.T, values string, to target) *releasev1.Release {
	t.Helper()
	release, err := render(t, values, to)
	if err != nil {
		t.Fatalf("rendering: %v", err)
	}
	return release
}

func either(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}

// objects decodes a manifest.
func objects(t *testing.T, manifest string) []*unstructured.Unstructured {
	t.Helper()
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096)
	var found []*unstructured.Unstructured
	for {
		var content map[string]any
		err := decoder.Decode(&content)
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("decoding the manifest: %v", err)
		}
		if len(content) > 0 {
			found = append(found, &unstructured.Unstructured{Object: content})
		}
	}
}

// component is what an object belongs to: the manager, or our API server.
type component string

const (
	manager   component = "manager"
	apiserver component = "apiserver"
)

// objects returns the objects of a manifest that belong to the component.
func (c component) objects(t *testing.T, manifest string) []*unstructured.Unstructured {
	t.Helper()
	return slices.DeleteFunc(objects(t, manifest), func(object *unstructured.Unstructured) bool {
		return object.GetLabels()["app.kubernetes.io/component"] != string(c)
	})
}

// only returns the component's only object of a kind.
func (c component) only(t *testing.T, manifest, kind string) *unstructured.Unstructured {
	t.Helper()
	return single(t, c.objects(t, manifest), kind)
}

// deployment returns the component's Deployment.
func (c component) deployment(t *testing.T, manifest string) *appsv1.Deployment {
	t.Helper()
	var typed appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(c.only(t, manifest, "Deployment").Object, &typed,
		true); err != nil {
		t.Fatalf("reading the Deployment: %v", err)
	}
	return &typed
}

// only returns the only object of a kind.
func only(t *testing.T, manifest, kind string) *unstructured.Unstructured {
	t.Helper()
	return single(t, objects(t, manifest), kind)
}

func single(t *testing.T, among []*unstructured.Unstructured, kind string) *unstructured.Unstructured {
	t.Helper()
	var found *unstructured.Unstructured
	for _, object := range among {
		if object.GetKind() != kind {
			continue
		}
		if found != nil {
			t.Fatalf("there is more than one %s", kind)
		}
		found = object
	}
	if found == nil {
		t.Fatalf("there is no %s", kind)
	}
	return found
}

// deployment returns the manager's Deployment.
func deployment(t *testing.T, manifest string) *appsv1.Deployment {
	t.Helper()
	return manager.deployment(t, manifest)
}

func TestLintIsStrict(t *testing.T) {
	lint := action.NewLint()
	lint.Strict = true
	kubernetes, err := common.ParseKubeVersion(oldest)
	if err != nil {
		t.Fatal(err)
	}
	lint.KubeVersion = kubernetes
	result := lint.Run([]string{chartDirectory}, nil)
	for _, err := range result.Errors {
		t.Error(err)
	}
	for _, message := range result.Messages {
		if !strings.Contains(message.Error(), "icon is recommended") {
			t.Error(message)
		}
	}
}

// TestAnyNameAndNamespace renders with the shortest and longest names: names must be valid and
// unique, everything namespaced must be in the release's namespace, and references between the
// objects must match.
func TestAnyNameAndNamespace(t *testing.T) {
	longName, longNamespace := strings.Repeat("n", 53), strings.Repeat("s", 63)
	for _, to := range []target{
		{}, {release: "a", namespace: "b"}, {release: longName, namespace: longNamespace},
		{release: "my-mainstay.prod", namespace: "platform"},
	} {
		t.Run(to.release, func(t *testing.T) {
			release := mustRender(t, "", to)
			checkNames(t, objects(t, release.Manifest), release)
			checkReferences(t, release)
		})
	}
}

// clusterScoped are the cluster-scoped kinds of the chart.
var clusterScoped = []string{"CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"}

func checkNames(t *testing.T, found []*unstructured.Unstructured, release *releasev1.Release) {
	t.Helper()
	seen := map[string]bool{}
	for _, object := range found {
		id := object.GetKind() + " " + object.GetName()
		if seen[id] {
			t.Errorf("%s is there twice", id)
		}
		seen[id] = true
		want := release.Namespace
		if slices.Contains(clusterScoped, object.GetKind()) {
			want = ""
		} else if len(object.GetName()) > 63 {
			t.Errorf("the name of %s is too long", id)
		}
		if role, _, _ := unstructured.NestedString(object.Object, "roleRef", "name"); role == authenticationReader {
			want = "kube-system"
		}
		if object.GetNamespace() != want {
			t.Errorf("%s is in namespace %q, want %q", id, object.GetNamespace(), want)
		}
		if object.GetKind() == "CustomResourceDefinition" {
			continue
		}
		for _, label := range []string{"name", "instance", "component", "version", "part-of", "managed-by"} {
			if value := object.GetLabels()["app.kubernetes.io/"+label]; value == "" || len(value) > 63 {
				t.Errorf("%s has %q as its label %s", id, value, label)
			}
		}
	}
}

// authenticationReader is Kubernetes' own Role in kube-system, and builtIn are all of Kubernetes'
// roles that the chart binds.
const authenticationReader = "extension-apiserver-authentication-reader"

var builtIn = []string{authenticationReader, "system:auth-delegator"}

func checkReferences(t *testing.T, release *releasev1.Release) {
	t.Helper()
	for _, c := range []component{manager, apiserver} {
		checkComponent(t, release, c)
	}
}

// checkComponent checks that objects of a component refer to its own objects.
func checkComponent(t *testing.T, release *releasev1.Release, c component) {
	t.Helper()
	pod := c.deployment(t, release.Manifest).Spec.Template
	account := c.only(t, release.Manifest, "ServiceAccount")
	if pod.Spec.ServiceAccountName != account.GetName() {
		t.Errorf("the pod runs as %q, the ServiceAccount is %q", pod.Spec.ServiceAccountName, account.GetName())
	}
	for _, object := range c.objects(t, release.Manifest) {
		switch kind := object.GetKind(); kind {
		case "ClusterRoleBinding", "RoleBinding":
			subjects, _, _ := unstructured.NestedSlice(object.Object, "subjects")
			want := []any{map[string]any{"kind": "ServiceAccount", "name": account.GetName(), "namespace": release.Namespace}}
			if strings.HasSuffix(object.GetName(), "-policy-reader") {
				continue // for users: see TestPoliciesAreReadable
			}
			if diff := cmp.Diff(want, subjects); diff != "" {
				t.Errorf("subjects of the %s %s: %s", kind, object.GetName(), diff)
			}
			role, _, _ := unstructured.NestedString(object.Object, "roleRef", "name")
			if !slices.Contains(builtIn, role) && !hasObject(t, release.Manifest, strings.TrimSuffix(kind, "Binding"), role) {
				t.Errorf("the %s %s names the role %q, which is not there", kind, object.GetName(), role)
			}
		case "NetworkPolicy":
			checkSelects(t, object, pod.Labels, "spec", "podSelector", "matchLabels")
		case "PodDisruptionBudget":
			checkSelects(t, object, pod.Labels, "spec", "selector", "matchLabels")
		case "Service":
			checkSelects(t, object, pod.Labels, "spec", "selector")
		}
	}
}

// checkSelects: an object selects something, and that is the pods of one component.
func checkSelects(t *testing.T, object *unstructured.Unstructured, pod map[string]string, path ...string) {
	t.Helper()
	selector, _, _ := unstructured.NestedStringMap(object.Object, path...)
	if selector["app.kubernetes.io/component"] == "" {
		t.Errorf("the %s %s selects pods of every component", object.GetKind(), object.GetName())
	}
	for key, value := range selector {
		if pod[key] != value {
			t.Errorf("the %s %s selects %s=%s, which the pod does not have", object.GetKind(), object.GetName(), key, value)
		}
	}
}

func hasObject(t *testing.T, manifest, kind, name string) bool {
	t.Helper()
	return slices.ContainsFunc(objects(t, manifest), func(object *unstructured.Unstructured) bool {
		return object.GetKind() == kind && object.GetName() == name
	})
}

// TestDevelopmentVersion: in the tree, the chart, the binary and the image have the same version,
// so that what is built from it works together.
func TestDevelopmentVersion(t *testing.T) {
	const want = "0.0.0-dev"
	metadata := mustRender(t, "", target{}).Chart.Metadata
	if metadata.Version != want || metadata.AppVersion != want {
		t.Errorf("Chart.yaml says %s and %s", metadata.Version, metadata.AppVersion)
	}
	for file, line := range map[string]string{
		"../../internal/version/version.go": `var Version = "` + want + `"`,
		"../../Makefile":                    "VERSION ?= " + want,
		"../../Dockerfile":                  "ARG VERSION=" + want,
		"../image/main.go":                  `"version", "` + want + `"`,
	} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(content), line) {
			t.Errorf("%s does not have %s", file, line)
		}
	}
}

func TestKubernetesTooOld(t *testing.T) {
	_, err := render(t, "", target{kubernetes: "v1.32.9"})
	if err == nil || !strings.Contains(err.Error(), "incompatible with Kubernetes v1.32.9") {
		t.Errorf("got %v", err)
	}
	mustRender(t, "", target{kubernetes: "v1.33.1-gke.1059000"})
}

func TestRenderingIsDeterministic(t *testing.T) {
	const values = "podLabels: {a: b, c: d, e: f}\npodAnnotations: {a: b, c: d, e: f}\nnodeSelector: {a: b, c: d, e: f}"
	first := mustRender(t, values, target{}).Manifest
	for range 5 {
		if diff := cmp.Diff(first, mustRender(t, values, target{}).Manifest); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestPodIsRestricted(t *testing.T) {
	evaluator, err := psapolicy.NewEvaluator(psapolicy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := psaapi.LevelVersion{Level: psaapi.LevelRestricted, Version: psaapi.LatestVersion()}
	var pod corev1.PodTemplateSpec
	for _, installed := range []struct {
		values string
		component
	}{
		{"", manager}, {"ambassador: {enabled: true}", manager},
		{"", apiserver}, {"apiserver: {llamas: {enabled: true}, audit: {rules: [{level: Metadata}]}}", apiserver},
	} {
		pod = installed.deployment(t, mustRender(t, installed.values, target{}).Manifest).Spec.Template
		if result := psapolicy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec)); !result.Allowed {
			t.Errorf("%s: %s", installed.values, result.ForbiddenDetail())
		}
		// "restricted" does not require this, but security.md does.
		for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			if readOnly := container.SecurityContext.ReadOnlyRootFilesystem; readOnly == nil || !*readOnly {
				t.Errorf("the root file system of %s can be written", container.Name)
			}
		}
	}
	// Proof that the test can fail.
	pod.Spec.SecurityContext.SeccompProfile = nil
	if psapolicy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec)).Allowed {
		t.Error("a pod without a seccomp profile passes")
	}
}

// TestUnreadySoon: a manager that has lost its Lease answers webhooks for 20 s more (handoverTime
// of internal/setup). By then its node must have found it not ready, and the Service must know.
func TestUnreadySoon(t *testing.T) {
	const handover, known = 20, 3 // seconds; the latter is for the Service's endpoints
	probe := deployment(t, mustRender(t, "", target{}).Manifest).Spec.Template.Spec.Containers[0].ReadinessProbe
	failures := probe.FailureThreshold
	if failures == 0 {
		failures = 3 // Kubernetes' default
	}
	if longest := probe.PeriodSeconds * failures; longest+known > handover {
		t.Errorf("a manager is found not ready after up to %d s, want at most %d", longest, handover-known)
	}
}

// TestRules: least privilege is checked here once more, on what is really installed.
func TestRules(t *testing.T) {
	roles := map[string]int{}
	for _, object := range objects(t, mustRender(t, "", target{}).Manifest) {
		if object.GetKind() != "ClusterRole" && object.GetKind() != "Role" {
			continue
		}
		rules, _, _ := unstructured.NestedSlice(object.Object, "rules")
		roles[object.GetKind()] += len(rules)
		content, err := json.Marshal(rules)
		if err != nil {
			t.Fatal(err)
		}
		for _, forbidden := range []string{"*", `"escalate"`, `"bind"`, `"impersonate"`, `"nodes/proxy"`, `"pods/exec"`} {
			if bytes.Contains(content, []byte(forbidden)) {
				t.Errorf("%s %s has %s", object.GetKind(), object.GetName(), forbidden)
			}
		}
		checkSecrets(t, object, rules)
	}
	if roles["ClusterRole"] < 3 || roles["Role"] < 1 {
		t.Errorf("rules are missing: %v", roles)
	}
}

// checkSecrets: the manager may read and change two Secrets, each by name and in its own namespace.
// A right to create can't go by name. What databases need beside is never to list or watch.
func checkSecrets(t *testing.T, role *unstructured.Unstructured, rules []any) {
	t.Helper()
	for _, rule := range rules {
		resources, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resources")
		names, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resourceNames")
		verbs, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "verbs")
		if !slices.Contains(resources, "secrets") {
			continue
		}
		isNamed := slices.Equal(names, []string{"mainstay-webhook"}) || slices.Equal(names, []string{"mainstay-apiserver"})
		isOfDatabases := role.GetKind() == "ClusterRole" && role.GetName() == "mainstay-manager" &&
			slices.Equal(verbs, []string{"create", "delete", "get", "patch"})
		if isOfDatabases {
			continue
		}
		if role.GetKind() != "Role" || !isNamed && !slices.Equal(verbs, []string{"create"}) {
			t.Errorf("%s %s may %v secrets %v", role.GetKind(), role.GetName(), verbs, names)
		}
	}
}

// definitions returns those that the chart has.
func definitions(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	chart, err := chartloader.Load(chartDirectory)
	if err != nil {
		t.Fatalf("loading the chart: %v", err)
	}
	var found []*unstructured.Unstructured
	for _, file := range chart.CRDObjects() {
		found = append(found, objects(t, string(file.File.Data))...)
	}
	if len(found) == 0 {
		t.Fatal("the chart carries no definitions")
	}
	return found
}

// TestDefinitionsAreNotPartOfTheRelease: Helm deletes what it owns, and does not take it over from
// another release. So the definitions are in the chart's folder crds, of which Helm only creates
// missing ones.
func TestDefinitionsAreNotPartOfTheRelease(t *testing.T) {
	rendered := mustRender(t, "", target{}).Manifest
	for _, object := range objects(t, rendered) {
		if object.GetKind() == "CustomResourceDefinition" {
			t.Errorf("the release owns %s", object.GetName())
		}
	}
	for _, definition := range definitions(t) {
		// One rule is about the definition, the other about the status of those with several versions.
		versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
		if named := strings.Count(rendered, "      - "+definition.GetName()+"\n"); named != min(len(versions), 2) {
			t.Errorf("the manager may patch %s by %d rules", definition.GetName(), named)
		}
	}
}

// TestReleaseFits: Helm stores a release in one Secret, which holds at most 1 MiB.
func TestReleaseFits(t *testing.T) {
	release := mustRender(t, "", target{})
	content, err := json.Marshal(release)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	writer, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if _, err := writer.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	const most = 800_000 // of 1,048,576, so that there is time to react
	size := base64.StdEncoding.EncodedLen(packed.Len())
	t.Logf("a release takes %d bytes", size)
	if size > most {
		t.Errorf("a release takes %d bytes, more than %d", size, most)
	}
}

// TestInstallManifest: dist/install.yaml is what the chart renders now, small enough for kubectl,
// and complete.
func TestInstallManifest(t *testing.T) {
	content, err := os.ReadFile("../../dist/install.yaml")
	if err != nil {
		t.Fatal(err)
	}
	names := func(found []*unstructured.Unstructured) []string {
		set := map[string]bool{}
		for _, object := range found {
			set[object.GetKind()+" "+object.GetName()] = true
		}
		return slices.Sorted(maps.Keys(set))
	}
	installed := objects(t, string(content))
	for _, object := range installed {
		compact, err := json.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		if len(compact) > 250_000 {
			t.Errorf("%s %s has %d bytes", object.GetKind(), object.GetName(), len(compact))
		}
	}
	expected := slices.Concat(objects(t, mustRender(t, "", target{}).Manifest), definitions(t))
	want := append(names(expected), "Namespace mainstay-system")
	slices.Sort(want)
	if diff := cmp.Diff(want, names(installed)); diff != "" {
		t.Errorf("run `make gen`: %s", diff)
	}
}
