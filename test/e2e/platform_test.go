//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// shopImage is the testbed's small shop.
	shopImage = "docker.io/mainstay/demo-shop:1.0"
	// fewest are resources that let a whole platform run on a node with two processors.
	fewest = "resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {cpu: \"1\", memory: 256Mi}}"
	// fewestOfCache are those of a cache, whose memory has a field of its own.
	fewestOfCache = "memory: 64Mi, resources: {requests: {cpu: 10m}, limits: {cpu: \"1\"}}"
	// platformParts are the resources of a platform's parts, in the order in which they are deleted.
	platformParts = "webapps,caches,postgresqls"
	// platformPartsFromTheEnd are the same the other way round. They are listed one kind after the
	// other: what is gone in the answer for one kind, while its user is there in a later one, went
	// too early.
	platformPartsFromTheEnd = "postgresqls,caches,webapps"
)

// testPlatforms has a shop in each environment: as it follows from two images, with overrides and
// through changes, and as a sample has it. None of the testbed's clusters has the APIs of
// Prometheus or of Gateways. A node has not the processors for three shops at once.
func testPlatforms(t *testing.T) {
	together(t, []test{{"in development", testPlatformInDevelopment}, {"from staging to production", testPlatformChanges}})
	t.Run("in production", testPlatformInProduction)
}

// testPlatformInDevelopment: two images are enough. Its only primary is killed, and the order that
// was stored before is there afterwards.
func testPlatformInDevelopment(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "shop-development", "mainstay.dev/environment=development")
	record := recordPlatform(t, ns, "shop")
	apply(t, ns, fmt.Sprintf(`
apiVersion: platform.mainstay.dev/v1
kind: EcommercePlatform
metadata: {name: shop}
spec:
  frontend: {image: %q}
  backend: {image: %q}
`, shopImage, shopImage))
	await(t, ns, "ecommerceplatform/shop", "Ready")
	record.print()
	g.Expect(kubectl(t, "-n", ns, "get", "shop", "shop")).To(gomega.MatchRegexp(`shop +True +development +Running +4/4 +http://shop-frontend\.%s\.svc:8080`, ns))
	page := serviceURL(t, ns, "shop-frontend")
	awaitAnswer(t, page, "<li>mug: 8.50</li>")
	awaitAnswer(t, page, "views: ")
	before := ordered(t, page)
	kubectl(t, "-n", ns, "delete", "pod", "shop-db-0", "--force", "--wait=false")
	g.Expect(ordered(t, page)).To(gomega.BeNumerically(">", before), "the first order is still there")
	await(t, ns, "ecommerceplatform/shop", "Ready")
	endsInOrder(t, ns, "shop")
}

// testPlatformChanges: what a platform overrides; a backend whose image can't be pulled, while the
// shop goes on; the cache off and on; from staging to production with its data; what is refused.
func testPlatformChanges(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "shop-changes")
	record := recordPlatform(t, ns, "shop")
	apply(t, ns, fmt.Sprintf(`
apiVersion: platform.mainstay.dev/v1
kind: EcommercePlatform
metadata: {name: shop}
spec:
  environment: staging
  frontend: {image: %[1]q, replicas: 1, port: 3000, env: [{name: PORT, value: "3000"}], %[2]s}
  backend: {image: %[1]q, autoscaling: {min: 2, max: 3}, %[2]s}
  database: {version: "17", storage: 1Gi, %[2]s}
  cache: {version: "8", %[3]s}
  monitoring: {enabled: false}
  ingress: {host: shop-staging.example.com}
  labels: {team: commerce}
`, shopImage, fewest, fewestOfCache))
	await(t, ns, "ecommerceplatform/shop", "Ready")
	record.print()
	g.Expect(read(t, ns, "ecommerceplatform/shop", `{.status.endpoints[?(@.name=="frontend")].url}`)).To(
		gomega.Equal("http://shop-staging.example.com/"))
	g.Expect(names(t, ns, "ingresses,horizontalpodautoscalers", "platform=shop,team=commerce")).To(
		gomega.ConsistOf("shop-frontend", "shop-backend"))
	page := serviceURL(t, ns, "shop-frontend")
	awaitAnswer(t, page, "views: ")
	taken := ordered(t, page)

	const component = `{.status.components[?(@.name=="backend")].message}`
	before := uids(t, ns, "shop-backend")
	stop := steadily(t, page)
	patch(t, ns, "ecommerceplatform/shop", fmt.Sprintf(`{"spec":{"backend":{"image":%q}}}`, nowhere))
	g.Eventually(reading(t, ns, "ecommerceplatform/shop", component)).Should(
		gomega.MatchRegexp("Backend deployment failed: .*can't be pulled"))
	g.Expect(read(t, ns, "ecommerceplatform/shop", "{.status.phase}")).To(gomega.Equal("Degraded"))
	patch(t, ns, "ecommerceplatform/shop", fmt.Sprintf(`{"spec":{"backend":{"image":%q}}}`, shopImage))
	await(t, ns, "ecommerceplatform/shop", "Ready")
	sent, failed := stop()
	g.Expect(failed).To(gomega.BeEmpty(), "the shop went on, for %d requests", sent)
	g.Expect(uids(t, ns, "shop-backend")).To(gomega.ContainElements(before), "and the pods that served were not replaced")

	patch(t, ns, "ecommerceplatform/shop", `{"spec":{"cache":{"enabled":false}}}`)
	awaitGone(t, ns, "cache/shop-cache", within)
	await(t, ns, "ecommerceplatform/shop", "Ready")
	g.Eventually(func() (string, error) { return fetch(t.Context(), page) }).ShouldNot(gomega.ContainSubstring("views: "))
	patch(t, ns, "ecommerceplatform/shop", `{"spec":{"cache":{"enabled":true}}}`)
	await(t, ns, "ecommerceplatform/shop", "Ready")
	awaitAnswer(t, page, "views: ")
	becomesProduction(t, ns, page, taken)
	endsInOrder(t, ns, "shop")
}

// becomesProduction changes the environment of a platform of staging, which has taken some orders.
// Admission says before what that does, and refuses what no platform can do.
func becomesProduction(t *testing.T, ns, page string, taken int) {
	t.Helper()
	g := gomega.NewWithT(t)
	const change = `{"spec":{"environment":"production"}}`
	said, err := shell(t, fmt.Sprintf("%s -n %s patch shop shop --type merge --dry-run=server -p '%s'", os.Getenv("KUBECTL"), ns, change))
	g.Expect(err).NotTo(gomega.HaveOccurred())
	for _, sentence := range []string{"durability Required instead of Preferred", "replicas 3 instead of 2", "securityProfile Restricted instead of Default"} {
		g.Expect(said).To(gomega.ContainSubstring(sentence))
	}
	begun := time.Now()
	patch(t, ns, "ecommerceplatform/shop", change)
	await(t, ns, "ecommerceplatform/shop", "Ready")
	t.Logf("staging to production: Ready after %s", time.Since(begun).Round(100*time.Millisecond))
	g.Expect(read(t, ns, "postgresql/shop-db", "{.spec.durability} {.spec.replicas} {.status.readyInstances}")).To(gomega.HavePrefix("Required 3"))
	g.Expect(ordered(t, page)).To(gomega.BeNumerically(">", taken), "the first order is still there")
	for refused, why := range map[string]string{
		`{"spec":{"database":{"type":"mysql"}}}`:                      "spec.database.type",
		`{"spec":{"environment":"live"}}`:                             `spec.environment: Unsupported value: "live"`,
		`{"spec":{"frontend":{"replicas":11}}}`:                       `spec.frontend.replicas: Invalid value: 11: must be at most 10 (policy "default"`,
		`{"spec":{"database":{"resources":{"limits":{"cpu":"-1"}}}}}`: "spec.database.resources",
	} {
		_, err := tryKubectl(t, "-n", ns, "patch", "shop", "shop", "--type", "merge", "-p", refused)
		g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring(why)), refused)
	}
}

// testPlatformInProduction applies the sample with images of the testbed, in fewer resources, in a
// namespace that is as strict as one can be. Its primary is killed while orders come in: none that
// was acknowledged is lost.
func testPlatformInProduction(t *testing.T) {
	const store = "production-store"
	g := gomega.NewWithT(t)
	ns := namespace(t, "ecommerce-prod", "mainstay.dev/environment=production", restrictedLabel+"=restricted")
	content, err := os.ReadFile(filepath.Join(repository, "config/samples/platform/production-store.yaml"))
	g.Expect(err).NotTo(gomega.HaveOccurred())
	record := recordPlatform(t, ns, store)
	apply(t, ns, withFewest(string(content)))
	await(t, ns, "ecommerceplatform/"+store, "Ready")
	record.print()

	listed := kubectl(t, "-n", ns, "get", "all", "-l", "platform="+store, "-o", "name")
	wanted := map[string]int{"pod/production-store-db-": 3, "pod/production-store-cache-": 3, "pod/production-store-backend-": 3,
		"pod/production-store-frontend-": 5}
	for _, one := range []string{"appstack.platform.mainstay.dev/production-store", "postgresql.database.mainstay.dev/production-store-db",
		"cache.database.mainstay.dev/production-store-cache", "webapp.apps.mainstay.dev/production-store-backend",
		"webapp.apps.mainstay.dev/production-store-frontend", "deployment.apps/production-store-backend",
		"deployment.apps/production-store-frontend", "statefulset.apps/production-store-db", "statefulset.apps/production-store-cache",
		"service/production-store-backend", "service/production-store-frontend", "service/production-store-db-rw",
		"service/production-store-cache-rw"} {
		wanted[one+"\n"] = 1
	}
	for part, count := range wanted {
		g.Expect(strings.Count(listed+"\n", part)).To(gomega.Equal(count), "%s in\n%s", part, listed)
	}
	g.Expect(names(t, ns, "persistentvolumeclaims,secrets", "platform="+store)).To(gomega.ContainElements("data-production-store-db-0",
		"production-store-db-app"))

	page := serviceURL(t, ns, store+"-frontend")
	before := ordered(t, page)
	stop := orders(t, page)
	g.Eventually(func() int { return stop(false) }).Should(gomega.BeNumerically(">", 3))
	const leads = "{.status.primary} {.status.timeline}"
	led := read(t, ns, "postgresql/"+store+"-db", leads)
	primary, _, _ := strings.Cut(led, " ")
	begun := time.Now()
	kubectl(t, "-n", ns, "delete", "pod", primary, "--force", "--wait=false")
	// On a busy machine the new pod of the same name may be the first that is able to lead.
	g.Eventually(reading(t, ns, "postgresql/"+store+"-db", leads)).Should(gomega.And(
		gomega.Not(gomega.Equal(led)), gomega.Not(gomega.HavePrefix(" "))))
	since := stop(false)
	g.Eventually(func() int { return stop(false) }).Should(gomega.BeNumerically(">", since+3), "the shop goes on")
	t.Logf("production: orders are taken again %s after the primary was killed", time.Since(begun).Round(100*time.Millisecond))
	await(t, ns, "ecommerceplatform/"+store, "Ready")
	taken := stop(true)
	g.Expect(ordered(t, page)).To(gomega.BeNumerically(">", before+taken), "no order is lost")
	endsInOrder(t, ns, store)
	g.Expect(names(t, ns, "persistentvolumeclaims")).To(gomega.ContainElement("data-production-store-db-0"), "the data stay")
}

// withFewest returns the sample of production with images of the testbed, smaller volumes, and
// fewer resources.
func withFewest(sample string) string {
	text := regexp.MustCompile(`image: registry\.example\.com/\S+`).ReplaceAllString(sample, "image: "+shopImage)
	text = regexp.MustCompile(`(?s)    resources:\n      requests: .*?\n      limits: .*?\n`).ReplaceAllString(text, "    "+fewest+"\n")
	return strings.NewReplacer(
		"    replicas: 5\n", "    replicas: 5\n    "+fewest+"\n", "    storage: 500Gi\n", "    storage: 1Gi\n    "+fewest+"\n",
		"    memory: 2Gi\n  monitoring", "    "+strings.Replace(fewestOfCache, ", ", "\n    ", 1)+"\n    version: \"8\"\n  monitoring",
	).Replace(text)
}

// ordered stores an order in a shop, and returns how many there are: more than one more than before
// if an answer was lost.
func ordered(t *testing.T, page string) int {
	t.Helper()
	var count int
	gomega.NewWithT(t).Eventually(func() (err error) { count, err = order(t.Context(), page); return err }).Should(gomega.Succeed())
	return count
}

// order stores an order in a shop, and returns how many there are.
func order(ctx context.Context, page string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*patience) // It follows the redirection to the page.
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, page+"/buy", nil)
	if err != nil {
		return 0, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	match := regexp.MustCompile(`<p>orders: (\d+)</p>`).FindSubmatch(body)
	if response.StatusCode != http.StatusOK || match == nil {
		return 0, fmt.Errorf("%s: %s", response.Status, body)
	}
	return strconv.Atoi(string(match[1]))
}

// orders sends orders until the returned function is called with true. That function returns how
// many were acknowledged so far.
func orders(t *testing.T, page string) func(ends bool) int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	var mutex sync.Mutex
	var acknowledged int
	var sender sync.WaitGroup
	sender.Go(func() {
		ticker := time.NewTicker(pace)
		defer ticker.Stop()
		for ctx.Err() == nil {
			<-ticker.C
			if _, err := order(context.WithoutCancel(ctx), page); err == nil {
				mutex.Lock()
				acknowledged++
				mutex.Unlock()
			}
		}
	})
	return func(ends bool) int {
		if ends {
			cancel()
			sender.Wait()
		}
		mutex.Lock()
		defer mutex.Unlock()
		return acknowledged
	}
}

// endsInOrder deletes a platform, and checks that no part goes before what depends on it.
func endsInOrder(t *testing.T, ns, name string) {
	t.Helper()
	g := gomega.NewWithT(t)
	begun := time.Now()
	remove(t, ns, "ecommerceplatform/"+name)
	g.Eventually(func() error {
		left := names(t, ns, platformPartsFromTheEnd)
		for _, pair := range [][2]string{{"-frontend", "-backend"}, {"-backend", "-db"}, {"-backend", "-cache"}} {
			if slices.Contains(left, name+pair[0]) && !slices.Contains(left, name+pair[1]) {
				return gomega.StopTrying(name + pair[1] + " went before " + name + pair[0])
			}
		}
		if _, err := tryGet(t, ns, "ecommerceplatform/"+name); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the platform still exists, with %v: %w", left, err)
		}
		return nil
	}).Should(gomega.Succeed())
	t.Logf("deleted in %s", time.Since(begun).Round(100*time.Millisecond))
	g.Expect(names(t, ns, platformParts+",appstacks")).To(gomega.BeEmpty(), "and all parts with it")
}
