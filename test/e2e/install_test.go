//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/onsi/gomega"
)

const (
	// current is the tag of the image under test.
	current = "0.0.0-dev"
	// storyValues are the values of the installation that most tests share. Its pods may run on both
	// nodes. The annotations of Stakater Reloader count: only testHostileInput has any.
	storyValues = "{apiserver: {llamas: {enabled: true}}, stakaterAnnotations: {enabled: true}, " +
		"tolerations: [{key: " + secondNode + ", operator: Exists}], " + serverImages + "}"
	// serverImages are those of the testbed. A platform takes the newest version that there is.
	serverImages = `databaseImages: {
  postgresql: {"12": null, "13": null, "14": docker.io/mainstay/postgresql:14, "15": null, "16": null, "17": docker.io/mainstay/postgresql:17, "18": null},
  valkey: {"8": docker.io/mainstay/valkey:8, "9": null}}`
	// withRights is the part of storyValues that changes rights.
	withRights = "apiserver.llamas.enabled=true"
)

// test is a named part of TestMainstay.
type test struct {
	name string
	run  func(*testing.T)
}

// beside runs tests in parallel, as many as `go test -parallel` allows. The longest come first.
func beside(t *testing.T, tests []test) {
	t.Helper()
	for _, one := range tests {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			one.run(t)
		})
	}
}

// together runs tests in parallel within a test that beside runs. They do not count for -parallel.
func together(t *testing.T, tests []test) {
	t.Helper()
	var running sync.WaitGroup
	for _, one := range tests {
		running.Go(func() { t.Run(one.name, one.run) })
	}
	running.Wait()
}

// users are the tests that do not disturb others. They mostly wait.
var users = []test{
	{"our API server and a second node", testServersAndNodes},
	{"autoscaling on and off", testAutoscalingOnAndOff},
	{"smoke", testSmoke}, // before the tests in which our API server is down, during which no namespace can be deleted
	{"missing references heal", testMissingReferencesHeal},
	{"a broken agent", testBrokenAgent},
	{"an agent comes, changes and goes", testInstrumentation},
	{"an AppStack", testAppStack},
	{"an AppConfig", testAppConfig},
	{"config, agent and image changed at once", testChangedAtOnce},
	{"a foreign Deployment is adopted by consent", testForeignDeploymentIsAdoptedByConsent},
	{"a changed configuration", testChangedConfiguration},
	{"workloads of other kinds", testOtherWorkloads},
	{"no admission is refused", testNoAdmissionIsRefused},
	{"life of a WebApp", testLifeOfAWebApp},
	{"bad image and recovery", testBadImageAndRecovery},
	{"rolling update loses no request", testRollingUpdateLosesNoRequest},
	{"crash loop", testCrashLoop},
	{"a policy for plain workloads", testPolicyOfPlainWorkloads},
	{"a policy made stricter", testPolicyMadeStricter},
	{"the default policy in production", testPolicyInProduction},
	{"nginx as root on port 80", testNginxAsRootOnPort80},
	{"restricted profile", testRestrictedProfile},
	{"pods that are never started", testNeverStarted},
}

// shops are whole platforms, of which each database and cache has instances. With the tests of
// users beside them, a node has too few processors.
var shops = []test{
	{"EcommercePlatforms", testPlatforms},
}

// TestMainstay runs the tests that share an installed operator, in order: those that disturb others
// come last.
func TestMainstay(t *testing.T) {
	reserveSecondNode(t)
	makeSystemNamespace(t)
	var upgraded []string
	if t.Run("an upgrade from the previous state", testUpgrade) {
		upgraded = names(t, system, "pods", managers)
	}
	deploy(t)
	if len(upgraded) > 0 {
		gomega.NewWithT(t).Expect(names(t, system, "pods", managers)).To(gomega.Equal(upgraded),
			"the release that is installed already is deployed again")
	}
	t.Run("users", func(t *testing.T) { beside(t, users) })
	t.Run("shops", func(t *testing.T) { beside(t, shops) })
	t.Run("hostile input", testHostileInput) // it measures what is at rest
	t.Run("the quickstart", testQuickstart)  // it asks our API server, which tests of users stop, and ends with a shop
	t.Run("webhooks down", testWebhooksDown)
	t.Run("managers away", testManagersAway)
	t.Run("a leader that was stopped sends nothing more", testStoppedLeader)
	t.Run("the API server is away", testAPIServerAway)
	t.Run("rights used and granted", func(t *testing.T) { testAudit(t, "mainstay-manager", "mainstay-apiserver") })
	t.Run("every documented command", func(t *testing.T) { testEveryCommand(t, quickstart) })
}

// TestInstallations runs the tests that install and remove Mainstay, in order, on a cluster that
// nothing else uses meanwhile.
func TestInstallations(t *testing.T) {
	makeSystemNamespace(t)
	deploy(t)
	t.Run("uninstall and install by manifest", testUninstallAndManifest)
	t.Run("a sub-chart over objects of an older version", testSubchart)
	t.Run("options that are off by default", testOptions)
	t.Run("installation as documented", testInstallation)
	t.Run("rights used and granted", func(t *testing.T) { testAudit(t, "mainstay-uninstall") })
	t.Run("every documented command", func(t *testing.T) { testEveryCommand(t, install, uninstall) })
}

// makeSystemNamespace creates the namespace of the installation, which exists if an earlier run was
// aborted.
func makeSystemNamespace(t *testing.T) {
	t.Helper()
	if exists(t, "", "namespace/"+system)() != nil {
		makeNamespace(t, system, restrictedLabel+"=restricted")
	}
}

// testServersAndNodes runs the tests that restart the pods of our API server, one after the other.
func testServersAndNodes(t *testing.T) {
	together(t, []test{{"farmpods", testFarmPods}, {"llamas", testLlamas}, {"rights on the farm", testFarmRights}})
	t.Run("pods replaced", testServersReplaced)
	t.Run("a node is drained", testDrain)
	together(t, []test{{"our API server away", testServerAway}, {"a node cut off", testPartition}})
}

// valuesFile writes Helm values to a file and returns its path.
func valuesFile(t *testing.T, values string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// deploy does what the pipeline does. It changes nothing if the same release is already installed.
func deploy(t *testing.T) {
	t.Helper()
	output, err := command(t.Context(), "", "make", "-C", repository, "deploy", "TAG="+current, "VALUES=--values "+valuesFile(t, storyValues))
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	awaitWebhooks(t)
	awaitServed(t)
}

// undeploy takes that back. CRDs and objects stay, and it says what stays in force.
func undeploy(t *testing.T) {
	t.Helper()
	output, err := shell(t, "make -C "+repository+" undeploy")
	if err != nil {
		t.Fatal(err)
	}
	gomega.NewWithT(t).Expect(output).To(gomega.ContainSubstring("there are instrumentations"))
}

// testSmoke runs what the pipeline runs after a deployment to staging.
func testSmoke(t *testing.T) {
	g := gomega.NewWithT(t)
	output, err := command(t.Context(), "", "make", "-C", repository, "smoke")
	g.Expect(err).NotTo(gomega.HaveOccurred(), output)
	for _, object := range []string{"webapp.apps.mainstay.dev/staging-smoke", "appconfig.config.mainstay.dev/staging-smoke",
		"configmonitor.config.mainstay.dev/staging-smoke", "ecommerceplatform.platform.mainstay.dev/staging-shop"} {
		g.Expect(strings.Count(output, object+" condition met")).To(gomega.BeNumerically(">=", 2), output)
	}
	g.Expect(names(t, "", "namespaces")).NotTo(gomega.ContainElement("mainstay-smoke"))
}
