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
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// right is one verb on one resource; an empty name means all objects.
type right struct{ Group, Resource, Name, Verb string }

// rightsOf returns the rights of a role, as seen from one object of the manifest.
func rightsOf(t *testing.T, role *unstructured.Unstructured) []right {
	t.Helper()
	var found []right
	rules, _, _ := unstructured.NestedSlice(role.Object, "rules")
	for _, rule := range rules {
		list := func(key string) []string {
			values, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), key)
			return values
		}
		names := list("resourceNames")
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range list("apiGroups") {
			for _, resource := range list("resources") {
				for _, name := range names {
					for _, verb := range list("verbs") {
						found = append(found, right{group, resource, name, verb})
					}
				}
			}
		}
	}
	return found
}

// resourcesOf returns the resources, as resource.group, on which roles of a kind and name grant any
// right.
func resourcesOf(t *testing.T, manifest, kind, name string) []string {
	t.Helper()
	var found []string
	for _, object := range objects(t, manifest) {
		if object.GetKind() != kind || object.GetName() != name {
			continue
		}
		for _, r := range rightsOf(t, object) {
			found = append(found, strings.TrimSuffix(r.Resource+"."+r.Group, "."))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// caches are the resources of the kind Cache.
var caches = []string{"caches.database.mainstay.dev", "caches/status.database.mainstay.dev", "caches/finalizers.database.mainstay.dev"}

// TestKindsOff: a kind that is off adds no rights on itself and its children, and removes none that
// an enabled kind needs.
func TestKindsOff(t *testing.T) {
	children := []string{
		"services", "serviceaccounts", "ingresses.networking.k8s.io", "networkpolicies.networking.k8s.io",
		"horizontalpodautoscalers.autoscaling", "poddisruptionbudgets.policy", "httproutes.gateway.networking.k8s.io",
	}
	webapp := append([]string{"webapps.apps.mainstay.dev", "webapps/status.apps.mainstay.dev", "webapps/finalizers.apps.mainstay.dev"},
		children...)
	// Both kinds read these: a PlatformPolicy audits all of them.
	audited := []string{"deployments.apps", "pods"}
	policies := []string{"platformpolicies.policy.mainstay.dev", "platformpolicies/status.policy.mainstay.dev", "namespaces",
		"platformpolicies/finalizers.policy.mainstay.dev", "validatingadmissionpolicies.admissionregistration.k8s.io",
		"validatingadmissionpolicybindings.admissionregistration.k8s.io"}
	appconfig := []string{"appconfigs.config.mainstay.dev", "appconfigs/status.config.mainstay.dev",
		"appconfigs/finalizers.config.mainstay.dev"}
	monitors := []string{"configmonitors.config.mainstay.dev", "configmonitors/status.config.mainstay.dev", "pods/eviction"}
	restarts := []string{"configmaps", "deployments.apps", "statefulsets.apps", "daemonsets.apps"}
	instrumentation := []string{"instrumentations.instrumentation.mainstay.dev", "instrumentations/status.instrumentation.mainstay.dev"}
	databases := []string{"postgresqls.database.mainstay.dev", "postgresqls/status.database.mainstay.dev",
		"postgresqls/finalizers.database.mainstay.dev", "persistentvolumeclaims", "roles.rbac.authorization.k8s.io",
		"rolebindings.rbac.authorization.k8s.io", "leases.coordination.k8s.io", "endpointslices.discovery.k8s.io"}
	clusterwide := []string{"clusterinstrumentations.instrumentation.mainstay.dev",
		"clusterinstrumentations/status.instrumentation.mainstay.dev"}
	// The configuration kinds and the injecting kinds need Deployments and Namespaces, too.
	const noDatabase = ", postgresql: {enabled: false}, cache: {enabled: false}"
	const alone = noDatabase + ", appconfig: {enabled: false}, configmonitor: {enabled: false}, instrumentation: {enabled: false}, clusterinstrumentation: {enabled: false}"
	for off, wanted := range map[string]struct {
		none, all []string
		too       string
	}{
		"webapp":                 {webapp, append(policies, audited...), alone},
		"platformpolicy":         {policies, append(webapp, audited...), alone + ", ecommerceplatform: {enabled: false}"},
		"appconfig":              {appconfig, slices.Concat(webapp, policies, monitors, restarts), ""},
		"configmonitor":          {monitors, slices.Concat(webapp, policies, appconfig, restarts), noDatabase},
		"postgresql":             {append(databases, "secrets"), slices.Concat(webapp, policies, appconfig, monitors, restarts), ", cache: {enabled: false}"},
		"cache":                  {caches, slices.Concat(webapp, policies, appconfig, monitors, restarts, databases), ""},
		"instrumentation":        {instrumentation, slices.Concat(webapp, policies, restarts, clusterwide), ""},
		"clusterinstrumentation": {clusterwide, slices.Concat(webapp, policies, restarts, instrumentation), ""},
	} {
		// Who tells the API server who serves watches a namespace.
		manifest := mustRender(t, "{kinds: {"+off+": {enabled: false}"+wanted.too+"}, "+nothing+"}", target{}).Manifest
		granted := resourcesOf(t, manifest, "ClusterRole", "mainstay-manager")
		for _, resource := range wanted.none {
			if slices.Contains(granted, resource) {
				t.Errorf("without %s there are rights on %s", off, resource)
			}
		}
		for _, resource := range append(wanted.all, "events.events.k8s.io", "customresourcedefinitions.apiextensions.k8s.io") {
			if !slices.Contains(granted, resource) {
				t.Errorf("without %s there are no rights on %s", off, resource)
			}
		}
		if strings.Contains(manifest, "--default-policy") != (off != "platformpolicy") {
			t.Errorf("without %s the default policy is wrong", off)
		}
		// Users must still be able to see and delete existing objects.
		people := resourcesOf(t, manifest, "ClusterRole", "mainstay-edit")
		for _, resource := range []string{
			"webapps.apps.mainstay.dev", "appconfigs.config.mainstay.dev", "configmonitors.config.mainstay.dev",
			"instrumentations.instrumentation.mainstay.dev",
		} {
			if !slices.Contains(people, resource) {
				t.Errorf("without %s people may not change %s", off, resource)
			}
		}
	}
}

// TestSharedRights: rights that a disabled kind shares with an enabled one are still granted, as
// far as the enabled one needs them.
func TestSharedRights(t *testing.T) {
	for off, wanted := range map[string]struct{ kept, gone right }{
		"webapp":         {right{"apps", "deployments", "", "patch"}, right{"apps", "deployments", "", "create"}},
		"platformpolicy": {right{"", "namespaces", "", "watch"}, right{"policy.mainstay.dev", "platformpolicies", "", "watch"}},
		"appconfig":      {right{"", "configmaps", "", "watch"}, right{"config.mainstay.dev", "appconfigs/status", "", "patch"}},
		"configmonitor":  {right{"", "pods", "", "list"}, right{"", "pods/eviction", "", "create"}},
	} {
		// Databases evict pods too.
		values := "kinds: {postgresql: {enabled: false}, cache: {enabled: false}, " + off + ": {enabled: false}}"
		granted := roleRights(t, mustRender(t, values, target{}).Manifest, "ClusterRole", "", "mainstay-manager")
		if !slices.Contains(granted, wanted.kept) || slices.Contains(granted, wanted.gone) {
			t.Errorf("without %s: %v is there: %t, %v is there: %t", off, wanted.kept, slices.Contains(granted, wanted.kept), wanted.gone,
				slices.Contains(granted, wanted.gone))
		}
	}
}

// roleRights returns the rights of the roles of a kind, namespace and name.
func roleRights(t *testing.T, manifest, kind, namespace, name string) []right {
	t.Helper()
	var found []right
	for _, object := range objects(t, manifest) {
		if object.GetKind() == kind && object.GetNamespace() == namespace && object.GetName() == name {
			found = append(found, rightsOf(t, object)...)
		}
	}
	return found
}

// TestWatchNamespaces: for some namespaces there are rights in these, and of what is in namespaces
// none elsewhere.
func TestWatchNamespaces(t *testing.T) {
	everywhere := mustRender(t, nothing, target{}).Manifest // for some namespaces nothing is served
	some := mustRender(t, "watchNamespaces: [shop, web]", target{}).Manifest
	whole, smallest := roleRights(t, everywhere, "ClusterRole", "", "mainstay-manager"),
		roleRights(t, some, "ClusterRole", "", "mainstay-manager")
	within, events := roleRights(t, some, "Role", "shop", "mainstay-manager-kinds"),
		roleRights(t, some, "Role", "default", "mainstay-manager-events")
	cluster := []string{
		"customresourcedefinitions", "customresourcedefinitions/status", "validatingwebhookconfigurations", "mutatingwebhookconfigurations",
		"namespaces", "platformpolicies", "platformpolicies/status", "platformpolicies/finalizers",
		"validatingadmissionpolicies", "validatingadmissionpolicybindings", "selfsubjectreviews", "clusterroles", "clusterinstrumentations", "clusterinstrumentations/status",
		"apiservices", "ingressclasses",
	}
	for _, r := range smallest {
		if !slices.Contains(cluster, r.Resource) {
			t.Errorf("for some namespaces there is a right to %s %s everywhere", r.Verb, r.Resource)
		}
	}
	// Together they equal the rights for all namespaces, so that nothing is missing.
	for _, r := range whole {
		if !slices.Contains(slices.Concat(smallest, within), r) {
			t.Errorf("for some namespaces there is no right to %s %s", r.Verb, r.Resource)
		}
	}
	if diff := cmp.Diff([]right{{"events.k8s.io", "events", "", "create"}, {"events.k8s.io", "events", "", "patch"}}, events); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(within, roleRights(t, some, "Role", "web", "mainstay-manager-kinds")); diff != "" {
		t.Error(diff)
	}
	bound := 0
	for _, object := range objects(t, some) {
		if object.GetKind() != "RoleBinding" {
			continue
		}
		role, _, _ := unstructured.NestedString(object.Object, "roleRef", "name")
		subjects, _, _ := unstructured.NestedSlice(object.Object, "subjects")
		want := []any{map[string]any{"kind": "ServiceAccount", "name": "mainstay-manager", "namespace": "mainstay-system"}}
		if diff := cmp.Diff(want, subjects); diff != "" || len(roleRights(t, some, "Role", object.GetNamespace(), role)) == 0 {
			t.Errorf("the RoleBinding %s/%s binds %s: %s", object.GetNamespace(), object.GetName(), role, diff)
		}
		bound++
	}
	if bound != 4 {
		t.Errorf("%d roles are bound", bound)
	}
	const namespaced = "watchNamespaces: [shop], kinds: {platformpolicy: {enabled: false}, appconfig: {enabled: false}, " +
		"ecommerceplatform: {enabled: false}, " +
		"instrumentation: {enabled: false}, clusterinstrumentation: {enabled: false}}"
	without := mustRender(t, "{webhook: {enabled: false}, "+namespaced+"}", target{}).Manifest
	if strings.Contains(without, "mainstay-manager-events") || strings.Contains(without, "namespaces\n") {
		t.Error("without kinds of the whole cluster and without webhooks there are rights that only they need")
	}
	told := roleRights(t, mustRender(t, "{"+namespaced+"}", target{}).Manifest, "Role", "default", "mainstay-manager-events")
	if diff := cmp.Diff(events, told); diff != "" {
		t.Errorf("events about the webhook configurations: %s", diff)
	}
}

// TestRightsAskedForAtTheStart: with each kind alone, the manager may list in a watched namespace
// what it asks for there at its start (internal/setup/granted_test.go). PlatformPolicies need none.
// It may also read whose the webhook configurations are.
func TestRightsAskedForAtTheStart(t *testing.T) {
	asked := map[string]right{"platformpolicy": {}}
	for _, kind := range []string{"webapp", "appconfig", "configmonitor", "instrumentation", "clusterinstrumentation"} {
		asked[kind] = right{"apps", "deployments", "", "list"}
	}
	areas := map[string]string{"postgresql": "database", "cache": "database", "appstack": "platform", "ecommerceplatform": "platform"}
	for kind, area := range areas {
		asked[kind] = right{area + ".mainstay.dev", kind + "s", "", "list"}
	}
	all := readSchema(t).Properties["kinds"].Properties
	if diff := cmp.Diff(slices.Sorted(maps.Keys(all)), slices.Sorted(maps.Keys(asked))); diff != "" {
		t.Errorf("the chart's kinds (-) and those of this test (+): %s", diff)
	}
	for kind, want := range asked {
		values := "watchNamespaces: [shop]\nkinds:"
		for other := range asked {
			if other != kind {
				values += "\n  " + other + ": {enabled: false}"
			}
		}
		granted := roleRights(t, mustRender(t, values, target{}).Manifest, "Role", "shop", "mainstay-manager-kinds")
		if want != (right{}) && !slices.Contains(granted, want) {
			t.Errorf("with %s alone the manager never starts: it has no right to list %s", kind, want.Resource)
		}
	}
	whose := right{"admissionregistration.k8s.io", "mutatingwebhookconfigurations", "mainstay", "get"}
	for _, values := range []string{"{}", "webhook: {enabled: false}"} {
		if !slices.Contains(roleRights(t, mustRender(t, values, target{}).Manifest, "ClusterRole", "", "mainstay-manager"), whose) {
			t.Errorf("with %s the manager never starts: it may not read whose the webhooks are", values)
		}
	}
}

// TestSecrets: Secrets are read in the namespaces that are named, and in no other, and the key that
// they are hashed with is there then only. TestSecretsOfDatabases has what databases need.
func TestSecrets(t *testing.T) {
	read := []right{{"", "secrets", "", "get"}, {"", "secrets", "", "list"}, {"", "secrets", "", "watch"}}
	key := []right{{"", "secrets", "mainstay-hash-key", "get"}, {"", "secrets", "", "create"}}
	const others = "webhook: {enabled: false}, " + nothing // whose certificates are Secrets too
	const off = ", kinds: {postgresql: {enabled: false}, cache: {enabled: false}"
	onSecrets := func(values, kind, namespace, name string) (found []right) {
		for _, r := range roleRights(t, mustRender(t, values, target{}).Manifest, kind, namespace, name) {
			if r.Resource == "secrets" {
				found = append(found, r)
			}
		}
		return found
	}
	for values, want := range map[string]struct{ shop, blog, own []right }{
		"{" + others + off + "}}": {nil, nil, nil},
		"{" + others + ", secrets: {namespaces: [shop, web]}" + off + "}}": {read, nil,
			key},
		"{" + others + ", secrets: {namespaces: [shop]}, watchNamespaces: [shop, blog]" + off + "}}": {read, nil,
			key},
		"{" + others + ", secrets: {namespaces: [shop]}" + off + ", appconfig: {enabled: false}}}": {read, nil,
			key},
		"{" + others + ", secrets: {namespaces: [shop]}" + off + ", appconfig: {enabled: false}, configmonitor: {enabled: false}}}": {
			nil, nil, nil},
	} {
		for namespace, want := range map[string][]right{"shop": want.shop, "blog": want.blog} {
			if diff := cmp.Diff(want, onSecrets(values, "Role", namespace, "mainstay-manager-secrets")); diff != "" {
				t.Errorf("%s: in %s: %s", values, namespace, diff)
			}
			if kinds := onSecrets(values, "Role", namespace, "mainstay-manager-kinds"); len(kinds) != 0 {
				t.Errorf("%s: in %s as everywhere that is watched: %v", values, namespace, kinds)
			}
		}
		own := onSecrets(values, "Role", "mainstay-system", "mainstay-manager")
		slices.SortFunc(own, func(a, b right) int { return strings.Compare(b.Name, a.Name) })
		if diff := cmp.Diff(want.own, own); diff != "" {
			t.Errorf("%s: in its own namespace: %s", values, diff)
		}
		if everywhere := onSecrets(values, "ClusterRole", "", "mainstay-manager"); len(everywhere) != 0 {
			t.Errorf("%s: everywhere: %v", values, everywhere)
		}
		if granted := strings.Contains(mustRender(t, values, target{}).Manifest, "--secret-namespaces="); granted != (want.shop != nil) {
			t.Errorf("%s: the manager has the flag: %t", values, granted)
		}
	}
}

// TestSecretsOfDatabases: with the kind on, Secrets are read and written by name where databases
// may be, and never listed or watched there.
func TestSecretsOfDatabases(t *testing.T) {
	const others = "webhook: {enabled: false}, " + nothing
	var byName []right
	for _, verb := range []string{"create", "delete", "get", "patch"} {
		byName = append(byName, right{"", "secrets", "", verb})
	}
	for values, want := range map[string]struct{ everywhere, shop []right }{
		"{" + others + "}":                                                                 {everywhere: byName},
		"{" + others + ", watchNamespaces: [shop]}":                                        {shop: byName},
		"{" + others + ", kinds: {postgresql: {enabled: false}}}":                          {everywhere: byName},
		"{" + others + ", kinds: {postgresql: {enabled: false}, cache: {enabled: false}}}": {},
		"{" + others + ", kinds: {configmonitor: {enabled: false}}}":                       {everywhere: byName},
	} {
		manifest := mustRender(t, values, target{}).Manifest
		onSecrets := func(kind, namespace, name string) []right {
			found := slices.DeleteFunc(roleRights(t, manifest, kind, namespace, name), func(r right) bool { return r.Resource != "secrets" })
			return append([]right(nil), found...)
		}
		if diff := cmp.Diff(want.everywhere, onSecrets("ClusterRole", "", "mainstay-manager")); diff != "" {
			t.Errorf("%s: everywhere: %s", values, diff)
		}
		if diff := cmp.Diff(want.shop, onSecrets("Role", "shop", "mainstay-manager-kinds")); diff != "" {
			t.Errorf("%s: in shop: %s", values, diff)
		}
	}
}

// records is the group in which our own API server keeps what it serves: no kinds of people's.
const records = "records.mainstay.dev"

// TestUsersMayEveryKind: the users' roles have each kind, without writing its status, and do not
// change the policies that apply to those users.
func TestUsersMayEveryKind(t *testing.T) {
	manifest := mustRender(t, "", target{}).Manifest
	for _, object := range definitions(t) {
		group, _, _ := unstructured.NestedString(object.Object, "spec", "group")
		plural, _, _ := unstructured.NestedString(object.Object, "spec", "names", "plural")
		if group == records {
			for _, role := range []string{"view", "edit", "admin", "platform"} {
				if given := roleRights(t, manifest, "ClusterRole", "", "mainstay-"+role); slices.ContainsFunc(given,
					func(r right) bool { return r.Group == group }) {
					t.Errorf("%s has rights on %s.%s, which our own API server keeps", role, plural, group)
				}
			}
			continue
		}
		scope, _, _ := unstructured.NestedString(object.Object, "spec", "scope")
		for role, writes := range map[string]bool{"view": false, "edit": scope == "Namespaced", "admin": scope == "Namespaced",
			"platform": true} {
			given := roleRights(t, manifest, "ClusterRole", "", "mainstay-"+role)
			if !slices.Contains(given, right{group, plural, "", "watch"}) {
				t.Errorf("%s may not see %s.%s", role, plural, group)
			}
			if slices.Contains(given, right{group, plural, "", "patch"}) != writes {
				t.Errorf("%s and the %s %s.%s do not fit", role, scope, plural, group)
			}
			for _, r := range given {
				if strings.HasSuffix(r.Resource, "/status") && !slices.Contains([]string{"get", "list", "watch"}, r.Verb) {
					t.Errorf("%s may %s %s", role, r.Verb, r.Resource)
				}
			}
		}
	}
	for role, aggregated := range map[string]string{"view": "view", "edit": "edit", "admin": "admin", "platform": ""} {
		for _, object := range objects(t, manifest) {
			for label := range object.GetLabels() {
				if to, is := strings.CutPrefix(label, "rbac.authorization.k8s.io/aggregate-to-"); is && object.GetName() == "mainstay-"+role &&
					to != aggregated {
					t.Errorf("%s is aggregated to %s", role, to)
				}
			}
		}
		if aggregated != "" && !strings.Contains(manifest, `aggregate-to-`+aggregated+`: "true"`) {
			t.Errorf("nothing is aggregated to %s", aggregated)
		}
	}
}

// TestPoliciesAreReadable: users may read the rules that they have to follow.
func TestPoliciesAreReadable(t *testing.T) {
	const name = "mainstay-policy-reader"
	manifest := mustRender(t, "", target{}).Manifest
	var want []right
	for _, verb := range []string{"get", "list", "watch"} {
		want = append(want, right{"policy.mainstay.dev", "platformpolicies", "", verb})
	}
	if diff := cmp.Diff(want, roleRights(t, manifest, "ClusterRole", "", name)); diff != "" {
		t.Error(diff)
	}
	subjects, _, _ := unstructured.NestedSlice(named(t, manifest, "ClusterRoleBinding", name).Object, "subjects")
	group := map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}
	if diff := cmp.Diff([]any{group}, subjects); diff != "" {
		t.Error(diff)
	}
}

// TestNetworkPolicy: only the webhooks are reachable, from anywhere, because the API server may be
// anywhere.
func TestNetworkPolicy(t *testing.T) {
	for values, want := range map[string]string{
		"webhook: {port: 10250}":    `{"ingress":[{"ports":[{"port":"webhook","protocol":"TCP"}]}],"podSelector":{"matchLabels":{"app.kubernetes.io/component":"manager","app.kubernetes.io/instance":"mainstay","app.kubernetes.io/name":"mainstay"}},"policyTypes":["Ingress"]}`,
		"webhook: {enabled: false}": `{"podSelector":{"matchLabels":{"app.kubernetes.io/component":"manager","app.kubernetes.io/instance":"mainstay","app.kubernetes.io/name":"mainstay"}},"policyTypes":["Ingress"]}`,
	} {
		manifest := mustRender(t, values, target{}).Manifest
		spec, err := json.Marshal(named(t, manifest, "NetworkPolicy", "mainstay-manager").Object["spec"])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(spec)); diff != "" {
			t.Errorf("%s: %s", values, diff)
		}
		named := slices.ContainsFunc(deployment(t, manifest).Spec.Template.Spec.Containers[0].Ports,
			func(port corev1.ContainerPort) bool { return port.Name == "webhook" })
		if named != strings.Contains(want, `"port":"webhook"`) {
			t.Errorf("%s: the port's name is not that of the pod", values)
		}
	}
}

// queues lets stacks have objects of another project.
const queues = "objects: [{group: mq.example.com, version: v1, kind: Queue, resource: queues}]"

// TestRightsOfParts: the rights of a part are there when it is on, and only then; and no file of
// rights is forgotten.
func TestRightsOfParts(t *testing.T) {
	for part, wanted := range map[string]struct {
		on, off, kind, resource, verb string
	}{
		"election":              {"{}", "{replicaCount: 1, leaderElection: {enabled: false}}", "Role", "leases", "update"},
		"defaultpolicy":         {"{}", "defaultPolicy: {create: false}", "ClusterRole", "platformpolicies", "create"},
		"webhooks":              {"{}", "webhook: {enabled: false}", "ClusterRole", "mutatingwebhookconfigurations", "patch"},
		"certificates":          {"{}", "certManager: {enabled: true}", "Role", "secrets", "create"},
		"apiservice":            {"{}", nothing, "ClusterRole", "apiservices", "patch"},
		"withdrawal":            {"webhook: {enabled: false}", "{}", "ClusterRole", "mutatingwebhookconfigurations", "delete"},
		"webapp":                {"{}", "kinds: {webapp: {enabled: false}}", "ClusterRole", "webapps", "watch"},
		"appconfig":             {"{}", "kinds: {appconfig: {enabled: false}}", "ClusterRole", "appconfigs", "watch"},
		"configmonitor":         {"{}", "kinds: {configmonitor: {enabled: false}}", "ClusterRole", "configmonitors", "watch"},
		"appstack":              {"kinds: {ecommerceplatform: {enabled: false}}", "kinds: {appstack: {enabled: false}, ecommerceplatform: {enabled: false}}", "ClusterRole", "appstacks", "watch"},
		"ecommerceplatform":     {"{}", "kinds: {ecommerceplatform: {enabled: false}}", "ClusterRole", "appstacks", "create"},
		"appstackwebapp":        {"{}", "kinds: {appstack: {enabled: false}}", "ClusterRole", "webapps", "delete"},
		"appstackappconfig":     {"{}", "kinds: {appstack: {enabled: false}}", "ClusterRole", "appconfigs", "delete"},
		"appstackconfigmonitor": {"{}", "kinds: {configmonitor: {enabled: false}}", "ClusterRole", "configmonitors", "delete"},
		"appstackpostgresql":    {"{}", "kinds: {postgresql: {enabled: false}}", "ClusterRole", "postgresqls", "delete"},
		"appstackobjects":       {"kinds: {appstack: {" + queues + "}}", "kinds: {appstack: {enabled: false, " + queues + "}}", "ClusterRole", "queues", "delete"},
		"instance":              {"{}", "kinds: {postgresql: {enabled: false}, cache: {enabled: false}}", "ClusterRole", "leases", "watch"},
		"postgresql":            {"{}", "kinds: {postgresql: {enabled: false}}", "ClusterRole", "postgresqls", "watch"},
		"appstackcache":         {"{}", "kinds: {cache: {enabled: false}}", "ClusterRole", "caches", "delete"},
		"cache":                 {"{}", "kinds: {cache: {enabled: false}}", "ClusterRole", "caches", "watch"},
		"platformpolicy":        {"{}", "kinds: {platformpolicy: {enabled: false}}", "ClusterRole", "platformpolicies", "watch"},
		"apiservicewithdrawal":  {nothing, "", "ClusterRole", "apiservices", "get"},
		"workload": {"{}", "kinds: {postgresql: {enabled: false}, cache: {enabled: false}, appconfig: {enabled: false}, configmonitor: {enabled: false}, instrumentation: {enabled: false}, clusterinstrumentation: {enabled: false}}",
			"ClusterRole", "statefulsets", "watch"},
		// Every other kind may list pods too.
		"injection": {"kinds: {webapp: {enabled: false}, appconfig: {enabled: false}, configmonitor: {enabled: false}, platformpolicy: {enabled: false}, postgresql: {enabled: false}, cache: {enabled: false}}",
			"", "ClusterRole", "pods", "list"},
		"injectiondirect":        {"{webhook: {enabled: false}, kinds: {postgresql: {enabled: false}, cache: {enabled: false}}}", "kinds: {postgresql: {enabled: false}, cache: {enabled: false}}", "ClusterRole", "statefulsets", "get"},
		"instrumentation":        {"{}", "kinds: {instrumentation: {enabled: false}}", "ClusterRole", "instrumentations", "watch"},
		"clusterinstrumentation": {"{}", "kinds: {clusterinstrumentation: {enabled: false}}", "ClusterRole", "clusterinstrumentations", "watch"},
		"configuration":          {"{}", "kinds: {appconfig: {enabled: false}, configmonitor: {enabled: false}}", "ClusterRole", "controllerrevisions", "list"},
		"secrets":                {"secrets: {namespaces: [shop]}", "{}", "Role", "secrets", "get"},
		"shared":                 {"{}", "", "ClusterRole", "customresourcedefinitions", "get"},
	} {
		granted := func(values string) bool {
			return slices.ContainsFunc(objects(t, mustRender(t, values, target{}).Manifest), func(object *unstructured.Unstructured) bool {
				return object.GetKind() == wanted.kind && object.GetName() == "mainstay-manager" &&
					slices.ContainsFunc(rightsOf(t, object), func(r right) bool {
						return r.Resource == wanted.resource && r.Verb == wanted.verb
					})
			})
		}
		if !granted(wanted.on) {
			t.Errorf("%s: with %s no user may %s %s", part, wanted.on, wanted.verb, wanted.resource)
		}
		if wanted.off != "" && granted(wanted.off) {
			t.Errorf("%s: with %s a user may %s %s", part, wanted.off, wanted.verb, wanted.resource)
		}
		if _, err := os.Stat(path.Join(chartDirectory, "files/rbac", part+".yaml")); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff([]string{"admission", "apiservice", "apiservicewithdrawal", "appconfig", "appstack", "appstackappconfig", "appstackcache", "appstackconfigmonitor", "appstackobjects", "appstackpostgresql", "appstackwebapp", "cache", "certificates", "clusterinstrumentation",
		"configmonitor", "configuration", "defaultpolicy", "ecommerceplatform", "election", "farmpods", "injection", "injectiondirect", "instance", "instrumentation", "llamas", "platformpolicy", "postgresql", "secrets", "shared", "uninstall", "webapp", "webhooks", "withdrawal", "workload"}, partsOf(t)); diff != "" {
		t.Errorf("a part that the table above does not know, or none: %s", diff)
	}
}

// partsOf returns the parts that the chart has rights for.
func partsOf(t *testing.T) []string {
	t.Helper()
	files, err := os.ReadDir(path.Join(chartDirectory, "files/rbac"))
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, file := range files {
		parts = append(parts, strings.TrimSuffix(file.Name(), ".yaml"))
	}
	return parts
}

// TestRightsToTellWhoServes: what the manager may more than where nothing is served, and all of it
// by name where that can be.
func TestRightsToTellWhoServes(t *testing.T) {
	more := func(base, kind, namespace string) []right {
		without := roleRights(t, mustRender(t, "{"+base+", "+nothing+"}", target{}).Manifest, kind, namespace, "mainstay-manager")
		found := slices.DeleteFunc(roleRights(t, mustRender(t, "{"+base+"}", target{}).Manifest, kind, namespace, "mainstay-manager"),
			func(r right) bool {
				return slices.Contains(without, r)
			})
		slices.SortFunc(found, func(a, b right) int {
			return strings.Compare(strings.Join([]string{a.Resource, a.Name, a.Verb}, " "), strings.Join([]string{b.Resource, b.Name, b.Verb}, " "))
		})
		return slices.Compact(found)
	}
	const registration, farm = "apiregistration.k8s.io", "v1alpha1.farm.mainstay.dev"
	cluster := []right{
		{registration, "apiservices", farm, "create"}, {registration, "apiservices", farm, "list"}, {registration, "apiservices", farm,
			"patch"}, {registration, "apiservices", farm, "watch"},
		{"rbac.authorization.k8s.io", "clusterroles", "mainstay-manager", "get"},
		{"", "namespaces", "mainstay-system", "list"}, {"", "namespaces", "mainstay-system", "watch"},
	}
	own := []right{
		{"discovery.k8s.io", "endpointslices", "", "list"}, {"discovery.k8s.io", "endpointslices", "", "watch"},
		{"events.k8s.io", "events", "", "create"}, {"events.k8s.io", "events", "", "patch"},
		{"", "secrets", "", "create"}, {"", "secrets", "mainstay-apiserver", "list"}, {"", "secrets", "mainstay-apiserver", "update"}, {"",
			"secrets", "mainstay-apiserver", "watch"},
		{"", "services", "mainstay-apiserver", "get"},
	}
	if diff := cmp.Diff(cluster, more("webhook: {enabled: false}", "ClusterRole", "")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(own, more("webhook: {enabled: false}", "Role", "mainstay-system")); diff != "" {
		t.Error(diff)
	}
	unwritten := slices.DeleteFunc(own, func(r right) bool {
		return r.Resource == "secrets" && r.Verb != "list" && r.Verb != "watch"
	})
	if diff := cmp.Diff(unwritten, more("webhook: {enabled: false}, certManager: {enabled: true}", "Role", "mainstay-system")); diff != "" {
		t.Errorf("with another certificate: %s", diff)
	}
}

// TestRightsOfInstances: the manager has what it grants to the instances of a database, or the API
// server would refuse the grant; the part instance has that, and no more.
func TestRightsOfInstances(t *testing.T) {
	content, err := os.ReadFile("../../internal/kinds/postgresql/testdata/minimal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, role, found := strings.Cut(string(content), "\n# *v1.Role,")
	_, role, _ = strings.Cut(role, "\n")
	role, _, _ = strings.Cut(role, "\n---\n")
	part, err := os.ReadFile(path.Join(chartDirectory, "files/rbac/instance.yaml"))
	if err != nil || !found {
		t.Fatalf("the golden file has a Role: %t; %v", found, err)
	}
	granted, has := rightsIn(t, role, "rules"), rightsIn(t, string(part), "watched")
	// Instances of a PostgreSQL read one Secret, which the manager may read for its kind.
	kind, err := os.ReadFile(path.Join(chartDirectory, "files/rbac/postgresql.yaml"))
	reads := right{Resource: "secrets", Verb: "get"}
	if err != nil || !slices.Contains(rightsIn(t, string(kind), "watched"), reads) {
		t.Errorf("the part postgresql lacks %v; %v", reads, err)
	}
	granted = slices.DeleteFunc(granted, func(r right) bool { return r == reads })
	if diff := cmp.Diff(granted, has); diff != "" || len(has) == 0 {
		t.Errorf("granted to instances (-), and in the part (+): %s", diff)
	}
}

// rightsIn returns the rights under a key of a document, each once and without the names.
func rightsIn(t *testing.T, text, key string) []right {
	t.Helper()
	var document map[string]any
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	rights := rightsOf(t, &unstructured.Unstructured{Object: map[string]any{"rules": document[key]}})
	for i := range rights {
		rights[i].Name = ""
	}
	slices.SortFunc(rights, func(a, b right) int { return strings.Compare(a.Resource+" "+a.Verb, b.Resource+" "+b.Verb) })
	return slices.Compact(rights)
}
