package helm_test

import (
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// right is one verb on one resource; name is empty where the right is on all of them.
type right struct{ group, resource, name, verb string }

// rightsOf are what a role gives, as seen from one object of the manifest.
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

// resourcesOf are the resources, as resource.group, that the roles of a kind and name give anything on.
func resourcesOf(t *testing.T, manifest, kind, name string) []string {
	t.Helper()
	var found []string
	for _, object := range objects(t, manifest) {
		if object.GetKind() != kind || object.GetName() != name {
			continue
		}
		for _, r := range rightsOf(t, object) {
			found = append(found, strings.TrimSuffix(r.resource+"."+r.group, "."))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// TestKindsOff: what is off brings no rights on itself and its children, and takes none away that what is on needs.
func TestKindsOff(t *testing.T) {
	children := []string{
		"deployments.apps", "services", "serviceaccounts", "pods", "ingresses.networking.k8s.io", "networkpolicies.networking.k8s.io",
		"horizontalpodautoscalers.autoscaling", "poddisruptionbudgets.policy", "httproutes.gateway.networking.k8s.io",
	}
	webapp := append([]string{"webapps.apps.mainstay.dev", "webapps/status.apps.mainstay.dev", "webapps/finalizers.apps.mainstay.dev"}, children...)
	policies := []string{"platformpolicies.policy.mainstay.dev", "platformpolicies/status.policy.mainstay.dev", "namespaces"}
	for off, wanted := range map[string]struct{ none, all []string }{
		"webapp":         {webapp, policies},
		"platformpolicy": {policies, webapp},
	} {
		manifest := mustRender(t, "kinds: {"+off+": {enabled: false}}", target{}).Manifest
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
		// People must be able to see and delete what is there.
		if people := resourcesOf(t, manifest, "ClusterRole", "mainstay-edit"); !slices.Contains(people, "webapps.apps.mainstay.dev") {
			t.Errorf("without %s people may not change WebApps", off)
		}
	}
}

// TestRightsOfParts: the rights of a part are there when it is on, and only then; and no file of rights is forgotten.
func TestRightsOfParts(t *testing.T) {
	const small = "replicaCount: 1, leaderElection: {enabled: false}"
	for part, wanted := range map[string]struct {
		on, off, kind, resource, verb string
	}{
		"election":       {"{}", "{" + small + "}", "Role", "leases", "update"},
		"defaultpolicy":  {"{}", "defaultPolicy: {create: false}", "ClusterRole", "platformpolicies", "create"},
		"webhooks":       {"{}", "webhook: {enabled: false}", "ClusterRole", "mutatingwebhookconfigurations", "patch"},
		"certificates":   {"{}", "certManager: {enabled: true}", "Role", "secrets", "create"},
		"withdrawal":     {"webhook: {enabled: false}", "{}", "ClusterRole", "mutatingwebhookconfigurations", "delete"},
		"webapp":         {"{}", "kinds: {webapp: {enabled: false}}", "ClusterRole", "webapps", "watch"},
		"platformpolicy": {"{}", "kinds: {platformpolicy: {enabled: false}}", "ClusterRole", "platformpolicies", "watch"},
		"shared":         {"{}", "", "ClusterRole", "customresourcedefinitions", "get"},
	} {
		granted := func(values string) bool {
			return slices.ContainsFunc(objects(t, mustRender(t, values, target{}).Manifest), func(object *unstructured.Unstructured) bool {
				return object.GetKind() == wanted.kind && object.GetName() == "mainstay-manager" && slices.ContainsFunc(rightsOf(t, object), func(r right) bool {
					return r.resource == wanted.resource && r.verb == wanted.verb
				})
			})
		}
		if !granted(wanted.on) {
			t.Errorf("%s: with %s nobody may %s %s", part, wanted.on, wanted.verb, wanted.resource)
		}
		if wanted.off != "" && granted(wanted.off) {
			t.Errorf("%s: with %s somebody may %s %s", part, wanted.off, wanted.verb, wanted.resource)
		}
		if _, err := os.Stat(path.Join(chartDirectory, "files/rbac", part+".yaml")); err != nil {
			t.Error(err)
		}
	}
	files, err := os.ReadDir(path.Join(chartDirectory, "files/rbac"))
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, file := range files {
		parts = append(parts, strings.TrimSuffix(file.Name(), ".yaml"))
	}
	if diff := cmp.Diff([]string{"certificates", "defaultpolicy", "election", "platformpolicy", "shared", "webapp", "webhooks", "withdrawal"}, parts); diff != "" {
		t.Errorf("a part that the table above does not know, or none: %s", diff)
	}
}
