//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// stackPart returns a WebApp of one pod as a component.
func stackPart(name, image, more string, on ...string) string {
	return fmt.Sprintf("{name: %s, type: webApp, dependsOn: [%s], spec: {image: %q, replicas: 1%s}}",
		name, strings.Join(on, ", "), image, more)
}

// stackOf returns an AppStack named shop.
func stackOf(components ...string) string {
	return "apiVersion: platform.mainstay.dev/v1\nkind: AppStack\nmetadata: {name: shop}\nspec:\n  components:\n    - " +
		strings.Join(components, "\n    - ") + "\n"
}

const (
	// stackSettings and stackMonitor are components of two other kinds.
	stackSettings = "{name: settings, type: appConfig, spec: {application: shop, config: {MESSAGE: welcome}}}"
	stackMonitor  = "{name: watch, type: configMonitor, dependsOn: [back], spec: {configMap: flags, podSelector: {app: shop-back}}}"
)

// testAppStack has six components on three levels: they start in order; one that fails stops
// nothing; edits by hand are undone; quick edits there and back, a removal and a new name do what
// the plan of a dry run has said; and all end in reverse order.
func testAppStack(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "stack")
	apply(t, ns, configMap("flags", "none"))
	db, cache := stackPart("db", demo, ""), stackPart("cache", demo, "")
	back, front := stackPart("back", demo, "", "db", "cache", "settings"), stackPart("front", demo, ", ingress: {host: stack.example.com}", "back")
	whole := stackOf(stackSettings, stackMonitor, front, back, db, cache)
	apply(t, ns, whole)
	await(t, ns, "appstack/shop", "Ready")
	startedInOrder(t, ns, [2]string{"webapp/shop-db", "webapp/shop-back"}, [2]string{"webapp/shop-cache", "webapp/shop-back"},
		[2]string{"webapp/shop-back", "webapp/shop-front"}, [2]string{"webapp/shop-back", "configmonitor/shop-watch"})
	g.Expect(kubectl(t, "-n", ns, "get", "appstack")).To(gomega.MatchRegexp(`shop +True +6/6 +Running `))
	before := map[string][]string{}
	for _, name := range []string{"db", "back", "front"} {
		before[name] = uids(t, ns, "shop-"+name)
	}

	apply(t, ns, strings.Replace(whole, back, stackPart("back", nowhere, "", "db", "cache", "settings"), 1))
	g.Eventually(reading(t, ns, "appstack/shop", `{.status.conditions[?(@.type=="Degraded")].message}`)).Should(
		gomega.ContainSubstring("component back (WebApp shop-back)"))
	apply(t, ns, whole)
	patch(t, ns, "webapp/shop-db", `{"spec":{"replicas":2}}`)
	g.Eventually(reading(t, ns, "webapp/shop-db", "{.spec.replicas}")).Should(gomega.Equal("1"))
	await(t, ns, "appstack/shop", "Ready")
	for name, former := range before {
		// A pod that the edit by hand has started may still be ending.
		g.Eventually(func() []string { return uids(t, ns, "shop-"+name) }).Should(gomega.Equal(former), name+" was not replaced")
	}

	renamed := stackOf(stackSettings, stackMonitor, front, stackPart("back", demo, "", "db", "store", "settings"), db, stackPart("store", demo, ""))
	output, err := command(t.Context(), renamed, "sh", "-c", `"$KUBECTL" apply --dry-run=server -n "$0" -f - 2>&1`, ns)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	for _, sentence := range []string{"component store: WebApp shop-store is created", "component cache: WebApp shop-cache is deleted"} {
		g.Expect(output).To(gomega.ContainSubstring(sentence))
	}
	apply(t, ns, renamed)
	awaitGone(t, ns, "webapp/shop-cache", within)
	await(t, ns, "appstack/shop", "Ready")
	g.Expect(uids(t, ns, "shop-db")).To(gomega.Equal(before["db"]))
	endsInReverse(t, ns)
}

// startedInOrder checks, for pairs of objects, that the second one was created after the first one
// was ready.
func startedInOrder(t *testing.T, ns string, pairs ...[2]string) {
	t.Helper()
	for _, pair := range pairs {
		first, err := time.Parse(time.RFC3339, read(t, ns, pair[0], "{.status.firstReadyTime}"))
		if err != nil {
			t.Fatal(err)
		}
		second, err := time.Parse(time.RFC3339, read(t, ns, pair[1], "{.metadata.creationTimestamp}"))
		if err != nil || second.Before(first) {
			t.Errorf("%s was created at %s, before %s was ready at %s: %v", pair[1], second, pair[0], first, err)
		}
	}
}

// endsInReverse deletes the stack, and checks that nothing goes before what depends on it.
func endsInReverse(t *testing.T, ns string) {
	t.Helper()
	g := gomega.NewWithT(t)
	remove(t, ns, "appstack/shop")
	g.Eventually(func() error {
		left := names(t, ns, "webapps,configmonitors,appconfigs")
		for _, pair := range [][2]string{{"shop-front", "shop-back"}, {"shop-watch", "shop-back"}, {"shop-back", "shop-db"}, {"shop-back", "shop-store"}} {
			if slices.Contains(left, pair[0]) && !slices.Contains(left, pair[1]) {
				return gomega.StopTrying(pair[1] + " went before " + pair[0])
			}
		}
		if _, err := tryGet(t, ns, "appstack/shop"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the stack still exists, with %v: %w", left, err)
		}
		return nil
	}).Should(gomega.Succeed())
	g.Expect(names(t, ns, "webapps,configmonitors,appconfigs")).To(gomega.BeEmpty(), "and all components with it")
}

// stackWhileAway checks that what happens to stacks while no manager runs is made good afterwards:
// components that are deleted by hand come back in order, and a stack that is deleted goes, with
// all its components. Nothing else can be written meanwhile, because no webhook answers.
func stackWhileAway(t *testing.T, ns string) absence {
	shop := stackOf(stackPart("db", demo, ""), stackPart("back", demo, "", "db"))
	apply(t, ns, shop)
	apply(t, ns, strings.Replace(shop, "name: shop}", "name: gone}", 1))
	for _, name := range []string{"shop", "gone"} {
		await(t, ns, "appstack/"+name, "Ready")
	}
	return absence{
		meanwhile: func(t *testing.T) {
			remove(t, ns, "appstack/gone")
			for _, name := range []string{"db", "back"} {
				remove(t, ns, "webapp/shop-"+name)
				awaitGone(t, ns, "webapp/shop-"+name, within)
			}
		},
		afterwards: func(t *testing.T) {
			awaitGone(t, ns, "appstack/gone", within)
			await(t, ns, "appstack/shop", "Ready")
			gomega.NewWithT(t).Expect(names(t, ns, "webapps")).To(gomega.ConsistOf("shop-db", "shop-back"))
			startedInOrder(t, ns, [2]string{"webapp/shop-db", "webapp/shop-back"})
		},
	}
}
