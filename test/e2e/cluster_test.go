//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/jsonpath"
)

// The tests read the API server with client-go, because a start of kubectl costs a fifth of a
// second of a core. They run kubectl where users would type the command.

// resources are the resources that tests read, by their plural names. A static table needs no
// discovery, which fails while an aggregated API is not available.
var resources = map[string]schema.GroupVersionResource{}

// shortNames are further names of resources. Most singulars need no entry.
var shortNames = map[string]string{"crd": "customresourcedefinitions", "platformpolicy": "platformpolicies",
	"networkpolicy": "networkpolicies"}

// clusterScoped are the cluster-scoped resources.
var clusterScoped = map[string]bool{}

func init() {
	add := func(group, version string, isClusterScoped bool, plurals ...string) {
		for _, plural := range plurals {
			resources[plural] = schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
			clusterScoped[plural] = isClusterScoped
		}
	}
	add("", "v1", false, "pods", "services", "configmaps", "secrets", "serviceaccounts", "events", "persistentvolumeclaims")
	add("", "v1", true, "namespaces", "nodes")
	add("apps", "v1", false, "deployments", "replicasets", "statefulsets", "daemonsets", "controllerrevisions")
	add("autoscaling", "v2", false, "horizontalpodautoscalers")
	add("batch", "v1", false, "jobs", "cronjobs")
	add("coordination.k8s.io", "v1", false, "leases")
	add("networking.k8s.io", "v1", false, "ingresses", "networkpolicies")
	add("policy", "v1", false, "poddisruptionbudgets")
	add("rbac.authorization.k8s.io", "v1", false, "roles", "rolebindings")
	add("rbac.authorization.k8s.io", "v1", true, "clusterroles", "clusterrolebindings")
	add("admissionregistration.k8s.io", "v1", true, "validatingwebhookconfigurations", "mutatingwebhookconfigurations")
	add("apiextensions.k8s.io", "v1", true, "customresourcedefinitions")
	add("apiregistration.k8s.io", "v1", true, "apiservices")
	add("apps.mainstay.dev", "v1", false, "webapps")
	add("config.mainstay.dev", "v1", false, "appconfigs", "configmonitors")
	add("database.mainstay.dev", "v1", false, "postgresqls", "caches")
	add("platform.mainstay.dev", "v1", false, "appstacks")
	add("platform.mainstay.dev", "v1", false, "ecommerceplatforms")
	add("instrumentation.mainstay.dev", "v1alpha1", false, "instrumentations")
	add("instrumentation.mainstay.dev", "v1alpha1", true, "clusterinstrumentations")
	add("policy.mainstay.dev", "v1", true, "platformpolicies")
	add("farm.mainstay.dev", "v1alpha1", false, "farmpods", "llamas")
}

// administrator returns a client config with all rights and no rate limit.
func administrator(t *testing.T) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return config
}

// objectsOf returns the client of a resource, "pods" or "pod".
func objectsOf(t *testing.T, ns, resource string) dynamic.ResourceInterface {
	t.Helper()
	for _, name := range []string{resource, shortNames[resource], resource + "s", resource + "es"} {
		found, isKnown := resources[name]
		if !isKnown {
			continue
		}
		if clusterScoped[name] {
			return api.Resource(found)
		}
		return api.Resource(found).Namespace(ns)
	}
	t.Fatalf("resources has no %q", resource)
	return nil
}

// api is the client that all tests share. TestMain creates it.
var api dynamic.Interface

// tryGet reads "kind/name".
func tryGet(t *testing.T, ns, object string) (*unstructured.Unstructured, error) {
	t.Helper()
	resource, name, _ := strings.Cut(object, "/")
	return objectsOf(t, ns, resource).Get(t.Context(), name, metav1.GetOptions{})
}

// exists returns a function for Eventually: the error of reading "kind/name".
func exists(t *testing.T, ns, object string) func() error {
	return func() error { _, err := tryGet(t, ns, object); return err }
}

// items reads the objects of some resources, "pods,services", that match a label selector if one is
// given.
func items(t *testing.T, ns, of string, selector ...string) []unstructured.Unstructured {
	t.Helper()
	var found []unstructured.Unstructured
	for resource := range strings.SplitSeq(of, ",") {
		all, err := objectsOf(t, ns, resource).List(t.Context(), metav1.ListOptions{LabelSelector: strings.Join(selector, ",")})
		if err != nil {
			t.Fatalf("listing %s: %v", resource, err)
		}
		found = append(found, all.Items...)
	}
	return found
}

// names returns the names of the objects that items reads.
func names(t *testing.T, ns, of string, selector ...string) []string {
	t.Helper()
	var found []string
	for _, one := range items(t, ns, of, selector...) {
		found = append(found, one.GetName())
	}
	return found
}

// list is like items, with the Go type of the objects.
func list[T any](t *testing.T, ns, of string, selector ...string) []T {
	t.Helper()
	var found []T
	for _, one := range items(t, ns, of, selector...) {
		var typed T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(one.Object, &typed); err != nil {
			t.Fatal(err)
		}
		found = append(found, typed)
	}
	return found
}

// value returns what kubectl get -o jsonpath prints for an object, or for a list if no name is
// given.
func value(t *testing.T, ns, object, path string) (string, error) {
	t.Helper()
	template := jsonpath.New(path).AllowMissingKeys(true)
	if err := template.Parse(path); err != nil {
		t.Fatal(err)
	}
	resource, name, isOne := strings.Cut(object, "/")
	var content map[string]any
	if isOne {
		one, err := objectsOf(t, ns, resource).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		content = one.Object
	} else {
		all, err := objectsOf(t, ns, resource).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		content = all.UnstructuredContent()
	}
	var text strings.Builder
	err := template.Execute(&text, content)
	return text.String(), err
}

// read is like value, and fails the test on an error.
func read(t *testing.T, ns, object, path string) string {
	t.Helper()
	text, err := value(t, ns, object, path)
	if err != nil {
		t.Fatalf("reading %s of %s: %v", path, object, err)
	}
	return text
}

// reading returns value as a function for Eventually.
func reading(t *testing.T, ns, object, path string) func() (string, error) {
	return func() (string, error) { return value(t, ns, object, path) }
}

// patch changes "kind/name" with a JSON merge patch.
func patch(t *testing.T, ns, object, merge string) {
	t.Helper()
	resource, name, _ := strings.Cut(object, "/")
	if _, err := objectsOf(t, ns, resource).Patch(t.Context(), name, types.MergePatchType, []byte(merge), metav1.PatchOptions{}); err != nil {
		t.Fatalf("patching %s: %v", object, err)
	}
}

// annotate sets an annotation, "key=value", of "kind/name".
func annotate(t *testing.T, ns, object, annotation string) {
	t.Helper()
	key, value, _ := strings.Cut(annotation, "=")
	patch(t, ns, object, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value))
}

// remove deletes "kind/name", and does not wait until it is gone.
func remove(t *testing.T, ns, object string) {
	t.Helper()
	resource, name, _ := strings.Cut(object, "/")
	if err := objectsOf(t, ns, resource).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatalf("deleting %s: %v", object, err)
	}
}

// discard deletes "kind/name" in a cleanup, if it still exists.
func discard(t *testing.T, ns, object string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	resource, name, _ := strings.Cut(object, "/")
	if err := objectsOf(t, ns, resource).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("deleting %s: %v", object, err)
	}
}

// awaitGone waits until "kind/name" is gone.
func awaitGone(t *testing.T, ns, object string, timeout time.Duration) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() bool {
		_, err := tryGet(t, ns, object)
		return apierrors.IsNotFound(err)
	}, timeout).Should(gomega.BeTrue(), object+" is deleted")
}

// conditionOf returns status, reason and message of a condition. The status is empty if the
// condition is of an older generation.
func conditionOf(object *unstructured.Unstructured, name string) (status, text string) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	observed, hasObserved, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	for _, one := range conditions {
		condition, _ := one.(map[string]any)
		if condition["type"] != name {
			continue
		}
		if own, has := condition["observedGeneration"].(int64); has {
			observed, hasObserved = own, true
		}
		text = fmt.Sprintf("%v: %v: %v", condition["status"], condition["reason"], condition["message"])
		if hasObserved && observed < object.GetGeneration() {
			return "", text + " (of an older generation)"
		}
		status, _ = condition["status"].(string)
		return status, text
	}
	return "", "no condition " + name
}

// await waits until a condition of "kind/name" is True for the current generation.
func await(t *testing.T, ns, object, condition string) {
	t.Helper()
	awaitFor(t, ns, object, condition, within)
}

func awaitFor(t *testing.T, ns, object, condition string, timeout time.Duration) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() (string, error) {
		found, err := tryGet(t, ns, object)
		if err != nil {
			return "", err
		}
		status, text := conditionOf(found, condition)
		if status == "True" {
			return status, nil
		}
		return text, nil
	}, timeout).Should(gomega.Equal("True"), "%s: %s", object, condition)
}

// awaitAll waits until all objects of a resource in a namespace are Ready.
func awaitAll(t *testing.T, ns, resource string, timeout time.Duration) {
	t.Helper()
	for _, name := range names(t, ns, resource) {
		awaitFor(t, ns, resource+"/"+name, "Ready", timeout)
	}
}

// waitReady waits until a WebApp is Ready.
func waitReady(t *testing.T, ns, name string) {
	t.Helper()
	await(t, ns, "webapp/"+name, "Ready")
}

// readyReason returns a function for Eventually: the reason of the WebApp's condition Ready.
func readyReason(t *testing.T, ns, name string) func() (string, error) {
	return reading(t, ns, "webapp/"+name, `{.status.conditions[?(@.type=="Ready")].reason}`)
}

// unfinished returns what a rollout still waits for, empty when it is done.
func unfinished(object *unstructured.Unstructured) string {
	number := func(path ...string) int64 {
		found, _, _ := unstructured.NestedInt64(object.Object, path...)
		return found
	}
	if seen := number("status", "observedGeneration"); seen < object.GetGeneration() {
		return fmt.Sprintf("generation %d of %d is observed", seen, object.GetGeneration())
	}
	want := number("spec", "replicas")
	now := map[string]int64{"replicas": number("status", "replicas"), "updated": number("status", "updatedReplicas"),
		"available": number("status", "availableReplicas")}
	if object.GetKind() == "DaemonSet" {
		want = number("status", "desiredNumberScheduled")
		now = map[string]int64{"updated": number("status", "updatedNumberScheduled"), "available": number("status", "numberAvailable")}
	}
	for what, count := range now {
		if count != want {
			return fmt.Sprintf("%d replicas are desired, but the status is %v, %s", want, now, what)
		}
	}
	return ""
}

// rollout waits until all pods of a workload, "deployment/shop", have its current template and are
// available.
func rollout(t *testing.T, ns, workload string) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() (string, error) {
		found, err := tryGet(t, ns, workload)
		if err != nil {
			return "", err
		}
		return unfinished(found), nil
	}, within).Should(gomega.BeEmpty(), workload)
}

// scale sets the replicas of one of Mainstay's Deployments, and waits until this many pods are
// ready.
func scale(t *testing.T, deployment string, replicas int) {
	t.Helper()
	patch(t, system, "deployment/"+deployment, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
	rollout(t, system, "deployment/"+deployment)
}

// pods returns the pods of a namespace with some labels.
func pods(t *testing.T, ns string, selector ...string) []corev1.Pod {
	t.Helper()
	return list[corev1.Pod](t, ns, "pods", selector...)
}
