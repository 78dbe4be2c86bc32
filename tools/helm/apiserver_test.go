package helm_test

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const (
	llamas     = "apiserver: {llamas: {enabled: true}}"
	nothing    = "apiserver: {farmpods: {enabled: false}}"
	onlyLlamas = "apiserver: {farmpods: {enabled: false}, llamas: {enabled: true}}"
)

// TestServed: with a served resource the chart has all objects of the server, and the manager
// publishes it. Without one it has none of them, in particular none that need rights that an
// installation must not have.
func TestServed(t *testing.T) {
	for values, want := range map[string]string{
		"":                             "farmpods",
		llamas:                         "farmpods,llamas",
		onlyLlamas:                     "llamas",
		nothing:                        "",
		"watchNamespaces: [shop, web]": "",
		"ambassador: {enabled: true}":  "",
		"webhook: {enabled: false}":    "farmpods",
		"certManager: {enabled: true}": "farmpods",
		"fullnameOverride: mainstay":   "farmpods",
		"leaderElection: {enabled: false}\nreplicaCount: 1": "farmpods",
	} {
		manifest := mustRender(t, values, target{}).Manifest
		args := slices.DeleteFunc(deployment(t, manifest).Spec.Template.Spec.Containers[0].Args, func(argument string) bool {
			return !strings.HasPrefix(argument, "--apiservice-")
		})
		if want == "" {
			if strings.Contains(manifest, "apiserver") || strings.Contains(manifest, "- farm.mainstay.dev\n") || len(args) > 0 {
				t.Errorf("%s: there is a part of a server, or the manager has arguments %v", values, args)
			}
			continue
		}
		isExternal := "false"
		if strings.Contains(values, "certManager") {
			isExternal = "true"
		}
		flags := []string{"--apiservice-service=mainstay-apiserver", "--apiservice-secret=mainstay-apiserver",
			"--apiservice-certificate-external=" + isExternal}
		if diff := cmp.Diff(flags, args); diff != "" {
			t.Errorf("%s: the manager has the arguments: %s", values, diff)
		}
		var kinds []string
		for _, object := range apiserver.objects(t, manifest) {
			if !strings.Contains(object.GetAPIVersion(), "cert-manager") {
				kinds = append(kinds, object.GetKind())
			}
		}
		slices.Sort(kinds)
		whole := []string{"ClusterRole", "ClusterRoleBinding", "ClusterRoleBinding", "Deployment", "NetworkPolicy", "PodDisruptionBudget",
			"RoleBinding", "Service", "ServiceAccount"}
		if diff := cmp.Diff(whole, kinds); diff != "" {
			t.Errorf("%s: the server is made of: %s", values, diff)
		}
		if container := apiserver.deployment(t, manifest).Spec.Template.Spec.Containers[0]; !slices.Contains(container.Args,
			"--resources="+want) {
			t.Errorf("%s: the server has %v", values, container.Args)
		}
	}
}

// TestServerIsReachable: the port is the same in the argument, the container, the probes, the
// Service and the NetworkPolicy, and the certificate is where the server looks for it.
func TestServerIsReachable(t *testing.T) {
	manifest := mustRender(t, "apiserver: {port: 8843}", target{}).Manifest
	pod := apiserver.deployment(t, manifest).Spec.Template.Spec
	container := pod.Containers[0]
	if diff := cmp.Diff([]corev1.ContainerPort{{Name: "https", ContainerPort: 8843}}, container.Ports); diff != "" {
		t.Error(diff)
	}
	for path, probe := range map[string]*corev1.Probe{"/livez": container.LivenessProbe, "/readyz": container.ReadinessProbe} {
		want := corev1.HTTPGetAction{Path: path, Port: intstr.FromString("https"), Scheme: corev1.URISchemeHTTPS}
		if diff := cmp.Diff(want, *probe.HTTPGet); diff != "" {
			t.Error(diff)
		}
	}
	ports, _, _ := unstructured.NestedSlice(apiserver.only(t, manifest, "Service").Object, "spec", "ports")
	if diff := cmp.Diff([]any{map[string]any{"name": "https", "port": float64(443), "targetPort": "https", "protocol": "TCP"}},
		ports); diff != "" {
		t.Error(diff)
	}
	allowed, _, _ := unstructured.NestedSlice(apiserver.only(t, manifest, "NetworkPolicy").Object, "spec", "ingress")
	if diff := cmp.Diff([]any{map[string]any{"ports": []any{map[string]any{"port": "https", "protocol": "TCP"}}}}, allowed); diff != "" {
		t.Error(diff)
	}
	arguments := []string{
		"--resources=farmpods", "--secure-port=8843", "--tls-cert-file=/etc/mainstay/tls/tls.crt",
		"--tls-private-key-file=/etc/mainstay/tls/tls.key",
		"--shutdown-delay-duration=5s", "--log-format=json", "--log-level=0",
	}
	if diff := cmp.Diff(arguments, container.Args); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"/mainstay-apiserver"}, container.Command); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]corev1.VolumeMount{{Name: "tls", MountPath: "/etc/mainstay/tls", ReadOnly: true}},
		container.VolumeMounts); diff != "" {
		t.Error(diff)
	}
	// The CA that clients must trust is not mounted into the server.
	secret := &corev1.SecretVolumeSource{SecretName: "mainstay-apiserver", Items: []corev1.KeyToPath{{Key: "tls.crt", Path: "tls.crt"},
		{Key: "tls.key", Path: "tls.key"}}}
	if diff := cmp.Diff([]corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: secret}}}, pod.Volumes); diff != "" {
		t.Error(diff)
	}
}

// TestServerIsAlwaysThere: an upgrade removes no replica before another one is ready, a drain does
// not remove both at once, and a terminating replica has time to answer.
func TestServerIsAlwaysThere(t *testing.T) {
	manifest := mustRender(t, "", target{}).Manifest
	server := apiserver.deployment(t, manifest).Spec
	none, one := intstr.FromInt32(0), intstr.FromInt32(1)
	want := appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &none, MaxSurge: &one}}
	if diff := cmp.Diff(want, server.Strategy); diff != "" {
		t.Error(diff)
	}
	if *server.Replicas != 2 || *server.Template.Spec.TerminationGracePeriodSeconds != 35 {
		t.Errorf("there are %d replicas, with %d s to end", *server.Replicas, *server.Template.Spec.TerminationGracePeriodSeconds)
	}
	apart := server.Template.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	if len(apart) != 1 {
		t.Fatalf("replicas are kept apart by %v", apart)
	}
	if diff := cmp.Diff(server.Selector, apart[0].PodAffinityTerm.LabelSelector); diff != "" {
		t.Errorf("replicas are kept apart from others: %s", diff)
	}
	if missing, _, _ := unstructured.NestedFieldNoCopy(apiserver.only(t, manifest, "PodDisruptionBudget").Object, "spec",
		"maxUnavailable"); missing != float64(1) {
		t.Errorf("%v may be missing", missing)
	}
	// The manager's Service and PodDisruptionBudget do not select the server's pods.
	if diff := cmp.Diff(map[string]string{
		"app.kubernetes.io/name": "mainstay", "app.kubernetes.io/instance": "mainstay", "app.kubernetes.io/component": "apiserver",
	}, server.Selector.MatchLabels); diff != "" {
		t.Error(diff)
	}
}

// boundTo returns the roles that an account is bound to, as kind, namespace of the binding and
// name.
func boundTo(t *testing.T, manifest, account string) []string {
	t.Helper()
	var found []string
	for _, object := range objects(t, manifest) {
		subjects, _, _ := unstructured.NestedSlice(object.Object, "subjects")
		for _, subject := range subjects {
			if subject.(map[string]any)["name"] == account {
				kind, _, _ := unstructured.NestedString(object.Object, "roleRef", "kind")
				role, _, _ := unstructured.NestedString(object.Object, "roleRef", "name")
				found = append(found, strings.TrimSpace(kind+" "+object.GetNamespace())+" "+role)
			}
		}
	}
	slices.Sort(found)
	return found
}

// TestRightsOfTheServer: it has the rights that its code needs for the served resources, and
// Kubernetes' own roles for such servers. It has no right on Secrets and none of the manager's
// roles, and the manager has none of its.
func TestRightsOfTheServer(t *testing.T) {
	for values, parts := range map[string][]string{"": {"farmpods"}, llamas: {"farmpods", "llamas", "admission"},
		onlyLlamas: {"llamas", "admission"}} {
		manifest := mustRender(t, values, target{}).Manifest
		want := []string{"ClusterRole mainstay-apiserver", "ClusterRole system:auth-delegator",
			"Role kube-system extension-apiserver-authentication-reader"}
		if diff := cmp.Diff(want, boundTo(t, manifest, "mainstay-apiserver")); diff != "" {
			t.Errorf("%s: the server's roles: %s", values, diff)
		}
		if others := boundTo(t, manifest, "mainstay-manager"); len(others) == 0 ||
			slices.ContainsFunc(others, func(role string) bool { return slices.Contains(want, role) }) {
			t.Errorf("%s: the manager's roles are %v", values, others)
		}
		asked := map[right]bool{}
		for _, part := range parts {
			scopes := map[string]any{}
			readFile(t, path.Join("files/rbac", part+".yaml"), &scopes)
			for _, rules := range scopes {
				for _, r := range rightsOf(t, &unstructured.Unstructured{Object: map[string]any{"rules": rules}}) {
					asked[r] = true
				}
			}
		}
		granted := map[right]bool{}
		for _, r := range roleRights(t, manifest, "ClusterRole", "", "mainstay-apiserver") {
			granted[r] = true
			if r.Resource == "secrets" || r.Group == "rbac.authorization.k8s.io" {
				t.Errorf("%s: the server may %s %s", values, r.Verb, r.Resource)
			}
		}
		if diff := cmp.Diff(asked, granted); diff != "" || len(asked) == 0 {
			t.Errorf("%s: what the code asks for (-) and what is granted (+): %s", values, diff)
		}
	}
}

// TestUsersMayWhatIsServed: users who may view a namespace see its farmpods and llamas, users who
// may edit it write llamas, and no user has rights on the records.
func TestUsersMayWhatIsServed(t *testing.T) {
	const group = "farm.mainstay.dev"
	manifest := mustRender(t, llamas, target{}).Manifest
	for role, writes := range map[string]bool{"view": false, "edit": true, "admin": true, "platform": true} {
		given := roleRights(t, manifest, "ClusterRole", "", "mainstay-"+role)
		for _, verb := range []string{"get", "list", "watch"} {
			if !slices.Contains(given, right{group, "farmpods", "", verb}) || !slices.Contains(given, right{group, "llamas", "", verb}) {
				t.Errorf("%s may not %s what is served", role, verb)
			}
		}
		for _, verb := range []string{"create", "delete", "deletecollection", "patch", "update"} {
			if slices.Contains(given, right{group, "llamas", "", verb}) != writes {
				t.Errorf("%s may %s llamas: %t", role, verb, !writes)
			}
			if slices.Contains(given, right{group, "farmpods", "", verb}) || slices.Contains(given, right{group, "llamas/status", "", verb}) {
				t.Errorf("%s may %s what can only be read", role, verb)
			}
		}
		if slices.ContainsFunc(given, func(r right) bool { return r.Group == "records.mainstay.dev" }) {
			t.Errorf("%s gets at what the server keeps", role)
		}
	}
	if slices.Contains(resourcesOf(t, mustRender(t, "", target{}).Manifest, "ClusterRole", "mainstay-edit"), "llamas."+group) {
		t.Error("there is a right on what is not served")
	}
}

// TestAuditPolicy: the rules reach the server unchanged, and another policy replaces its pods,
// because it is read at the start.
func TestAuditPolicy(t *testing.T) {
	pod := func(level string) (corev1.PodTemplateSpec, string) {
		manifest := mustRender(t, "apiserver: {audit: {rules: [{level: "+level+", resources: [{group: farm.mainstay.dev}]}]}}", target{}).Manifest
		policy, _, _ := unstructured.NestedString(apiserver.only(t, manifest, "ConfigMap").Object, "data", "audit-policy.yaml")
		return apiserver.deployment(t, manifest).Spec.Template, policy
	}
	first, policy := pod("Metadata")
	second, _ := pod("Request")
	var got any
	if err := yaml.Unmarshal([]byte(policy), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": []any{"RequestReceived"},
		"rules": []any{map[string]any{"level": "Metadata", "resources": []any{map[string]any{"group": "farm.mainstay.dev"}}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	container := first.Spec.Containers[0]
	for _, argument := range []string{"--audit-policy-file=/etc/mainstay/audit/audit-policy.yaml", "--audit-log-path=-"} {
		if !slices.Contains(container.Args, argument) {
			t.Errorf("the server has %v", container.Args)
		}
	}
	if diff := cmp.Diff(corev1.VolumeMount{Name: "audit", MountPath: "/etc/mainstay/audit", ReadOnly: true},
		container.VolumeMounts[1]); diff != "" {
		t.Error(diff)
	}
	if cmp.Equal(first.Annotations, second.Annotations) {
		t.Error("another policy leaves the pods as they are")
	}
}

// TestNotes: the notes of an installation name the served resources.
func TestNotes(t *testing.T) {
	for values, want := range map[string][]string{"": {"farmpods"}, llamas: {"farmpods", "llamas"}, nothing: nil} {
		notes := mustRender(t, values, target{}).Info.Notes
		for _, resource := range []string{"farmpods", "llamas"} {
			if named := strings.Contains(notes, "\n  kubectl get "+resource+" --all-namespaces\n"); named != slices.Contains(want, resource) {
				t.Errorf("%s: %s is named: %t: %s", values, resource, named, notes)
			}
		}
		if strings.Contains(notes, "mainstay-apiserver") != (want != nil) || strings.Contains(notes, "\n\n\n") {
			t.Errorf("%s: %s", values, notes)
		}
	}
}

// TestNotesOfRemoval: the notes say whether objects stay, and to remove agents first, as long as an
// injecting kind is on. They never say to delete definitions that still have objects: children
// could stay behind.
func TestNotesOfRemoval(t *testing.T) {
	const everywhere, cluster = "\n  kubectl delete instrumentations --all --all-namespaces\n", "\n  kubectl delete clusterinstrumentations --all\n"
	const order = "/blob/main/docs/uninstall.md#delete-everything\n"
	for kinds, want := range map[string][]string{
		"": {everywhere, cluster},
		"kinds: {instrumentation: {enabled: false}}":                                           {cluster},
		"kinds: {clusterinstrumentation: {enabled: false}}":                                    {everywhere},
		"kinds: {instrumentation: {enabled: false}, clusterinstrumentation: {enabled: false}}": nil,
	} {
		for keep, says := range map[string][]string{
			"true":  {"all objects of them stay", "Injected agents stay", order},
			"false": {"DELETES the kinds and all objects of them", "Injected agents that are not removed in time stay", ""},
		} {
			values := "{crds: {keep: " + keep + "}, " + kinds + "}"
			notes := mustRender(t, values, target{}).Info.Notes
			for _, command := range []string{everywhere, cluster} {
				if strings.Contains(notes, command) != slices.Contains(want, command) {
					t.Errorf("%s: it says %q: %t: %s", values, command, !slices.Contains(want, command), notes)
				}
			}
			if !strings.Contains(notes, says[0]) || strings.Contains(notes, says[1]) != (want != nil) || !strings.Contains(notes, says[2]) {
				t.Errorf("%s: it does not say %q: %s", values, says, notes)
			}
			if strings.Contains(notes, order) != (keep == "true") || strings.Contains(notes, "all objects of them stay") != (keep == "true") ||
				strings.Contains(notes, "kubectl delete crd") || strings.Contains(notes, "\n\n\n") {
				t.Errorf("%s: %s", values, notes)
			}
		}
	}
}

// TestObjectsAreOfTheirAPIs: nothing that the chart makes has a field that Kubernetes does not
// know, or one of another type.
func TestObjectsAreOfTheirAPIs(t *testing.T) {
	for _, values := range []string{"", llamas, "apiserver: {audit: {rules: [{level: Metadata}]}}"} {
		for _, object := range objects(t, mustRender(t, values, target{}).Manifest) {
			typed, err := clientgoscheme.Scheme.New(object.GroupVersionKind())
			if err != nil {
				t.Fatal(err)
			}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true); err != nil {
				t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
			}
		}
	}
}
