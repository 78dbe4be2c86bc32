package helm_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	psaapi "k8s.io/pod-security-admission/api"
	psapolicy "k8s.io/pod-security-admission/policy"
)

// hooks returns the manifests that are applied before a release is deleted.
func hooks(t *testing.T, values string) string {
	t.Helper()
	all := ""
	for _, hook := range mustRender(t, always(values), target{}).Hooks {
		all += "---\n" + hook.Manifest + "\n"
	}
	return all
}

// always returns values with which the step is rendered even without a cluster.
func always(values string) string {
	return "{uninstall: {enabled: true}, " + values + "}"
}

// TestUninstallIsHelms: who applies the output of helm template must not run the step at once.
func TestUninstallIsHelms(t *testing.T) {
	if hooks := mustRender(t, "", target{}).Hooks; len(hooks) > 0 {
		t.Errorf("without a cluster there are %d hooks", len(hooks))
	}
}

// TestUninstall: a Job with few rights runs before the release is deleted, leaves nothing, and logs
// what it did.
func TestUninstall(t *testing.T) {
	for _, values := range []string{"", "ambassador: {enabled: true}", "watchNamespaces: [shop, web], crds: {keep: false}",
		"serviceAccount: {create: false, name: mine}"} {
		for _, to := range []target{{}, {release: strings.Repeat("n", 53), namespace: strings.Repeat("s", 63)}} {
			release := mustRender(t, always(values), to)
			if len(release.Hooks) < 5 {
				t.Fatalf("%s: %d hooks", values, len(release.Hooks))
			}
			var job batchv1.Job
			for _, hook := range release.Hooks {
				if len(hook.Events) != 1 || hook.Events[0] != "pre-delete" || len(hook.DeletePolicies) != 3 {
					t.Errorf("%s: hook %s: %v, %v", values, hook.Name, hook.Events, hook.DeletePolicies)
				}
				if (hook.Kind == "Job") != (hook.Weight == 0) || (hook.Kind == "Job") != (len(hook.OutputLogPolicies) == 2) {
					t.Errorf("%s: %s %s has the weight %d and tells %v", values, hook.Kind, hook.Name, hook.Weight, hook.OutputLogPolicies)
				}
				if hook.Kind == "Job" {
					if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(only(t, hook.Manifest, "Job").Object, &job,
						true); err != nil {
						t.Fatal(err)
					}
				}
			}
			checkJob(t, values, &job)
			selector := deployment(t, release.Manifest).Spec.Selector.MatchLabels
			if found := job.Spec.Template.Labels; found["app.kubernetes.io/component"] == selector["app.kubernetes.io/component"] {
				t.Errorf("%s: the Deployment, and the webhooks' Service, select the Job's pod", values)
			}
		}
	}
}

// checkJob checks that the Job runs like the managers do, and ends.
func checkJob(t *testing.T, values string, job *batchv1.Job) {
	t.Helper()
	evaluator, err := psapolicy.NewEvaluator(psapolicy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	pod := job.Spec.Template
	restricted := psaapi.LevelVersion{Level: psaapi.LevelRestricted, Version: psaapi.LatestVersion()}
	if result := psapolicy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec)); !result.Allowed {
		t.Errorf("%s: %s", values, result.ForbiddenDetail())
	}
	if deadline := job.Spec.ActiveDeadlineSeconds; deadline == nil || *deadline >= 300 {
		t.Errorf("%s: it has until %v", values, deadline)
	}
	arguments := pod.Spec.Containers[0].Args
	for argument, wanted := range map[string]bool{
		"--best-effort":                        true,
		"--delete-definitions-and-all-objects": strings.Contains(values, "keep: false"),
		"--watch-namespaces=shop,web":          strings.Contains(values, "watchNamespaces"),
		"--api-server=http://127.0.0.1:8001":   strings.Contains(values, "ambassador"),
	} {
		if slices.Contains(arguments, argument) != wanted {
			t.Errorf("%s: the arguments are %v", values, arguments)
		}
	}
	if account := pod.Spec.ServiceAccountName; strings.Contains(values, "name: mine") && account != "mine" {
		t.Errorf("%s: it runs as %s", values, account)
	}
}

// TestRightsOfUninstall: in namespaces it may change only finalizers of our kinds, and it has no
// Role in a namespace that may be gone. It may delete definitions only if the values say so.
func TestRightsOfUninstall(t *testing.T) {
	kept := roleRights(t, hooks(t, ""), "ClusterRole", "", "mainstay-uninstall")
	var resources []string
	for _, r := range kept {
		if r.Verb == "delete" && r.Resource == "customresourcedefinitions" {
			t.Error("definitions that are to be kept may be deleted")
		}
		resources = append(resources, r.Resource)
	}
	slices.Sort(resources)
	want := []string{"apiservices", "appconfigs", "appstacks", "caches", "clusterinstrumentations", "configmonitors", "customresourcedefinitions",
		"ecommerceplatforms", "instrumentations",
		"llamarecords", "mutatingwebhookconfigurations", "platformpolicies", "postgresqls", "validatingwebhookconfigurations", "webapps"}
	if diff := cmp.Diff(want, slices.Compact(resources)); diff != "" {
		t.Error(diff)
	}
	deleting := roleRights(t, hooks(t, "watchNamespaces: [shop], crds: {keep: false}"), "ClusterRole", "", "mainstay-uninstall")
	for _, needed := range []right{
		{"apiextensions.k8s.io", "customresourcedefinitions", "webapps.apps.mainstay.dev", "delete"}, {"apps.mainstay.dev", "webapps", "",
			"delete"},
		{"apiextensions.k8s.io", "customresourcedefinitions", "llamarecords.records.mainstay.dev", "delete"}, {records, "llamarecords", "",
			"delete"},
	} {
		if !slices.Contains(deleting, needed) {
			t.Errorf("what is to be deleted may not be: %v", needed)
		}
	}
	if strings.Contains(hooks(t, "watchNamespaces: [shop]"), "namespace: shop") {
		t.Error("what is made for the step is in a namespace that may be gone")
	}
	if strings.Contains(hooks(t, "serviceAccount: {create: false, name: mine}"), "kind: ServiceAccount\nmetadata") {
		t.Error("a ServiceAccount is made though none is to be")
	}
}
