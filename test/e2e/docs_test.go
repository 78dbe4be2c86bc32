//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"
)

const quickstart, install, uninstall = "docs/quickstart.md", "docs/install.md", "docs/uninstall.md"

// notRun are the documented commands that no test runs, and why.
var notRun = map[string]string{
	"make image": "the archive that it makes is installed by every test; the page loads it into kind, which cannot run here",
	"make run":   "it runs until it is stopped, outside the cluster and with the user's rights, which would void every test of the rights",

	"kind create cluster": noEngine,

	"kind load image-archive bin/mainstay-image.tar": noEngine,

	`kind load image-archive "$(bin/testbed image build demo-web)"`: noEngine,

	"(cd testbed && go build -o ../bin/testbed ./cmd/testbed)": "it would replace the program that runs the cluster of these tests, " +
		"which was built in the same way",
}

const noEngine = "kind needs a container engine, which these tests do without, as the page says"

// documentation records which documented commands have run.
var documentation = struct {
	sync.Mutex
	ran map[string]bool
}{ran: map[string]bool{}}

// isCommand matches a command in a code block, which may have output too.
var isCommand = regexp.MustCompile(`^    (?:\$ )?((?:kubectl|helm|make|mainstay|kind|bin/testbed) .*|\(cd .*)$`)

// commandsOf returns the commands in the code blocks of a page, in order. A backslash at the end
// continues a line.
func commandsOf(t *testing.T, page string) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(repository, page))
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`\\\n\s+`).ReplaceAllString(string(content), "")
	var found []string
	for line := range strings.SplitSeq(text, "\n") {
		if match := isCommand.FindStringSubmatch(line); match != nil {
			found = append(found, match[1])
		}
	}
	return found
}

// tryDocumented runs a command exactly as a page has it, in the root of the repository, with a
// kubeconfig whose context has the namespace. Each pair of words replaces what the page has by what
// the test needs.
func tryDocumented(t *testing.T, page, ns, command string, replaced ...string) (string, error) {
	t.Helper()
	if !slices.Contains(commandsOf(t, page), command) {
		t.Fatalf("%s has no command %q", page, command)
	}
	documentation.Lock()
	documentation.ran[command] = true
	documentation.Unlock()
	folder := t.TempDir()
	mainstay, err := filepath.Abs(filepath.Join(repository, "bin/mainstay"))
	if err != nil {
		t.Fatal(err)
	}
	for name, program := range map[string]string{"kubectl": os.Getenv("KUBECTL"), "helm": os.Getenv("HELM"), "mainstay": mainstay} {
		if err := os.Symlink(program, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	config, err := clientcmd.LoadFromFile(os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	config.Contexts[config.CurrentContext].Namespace = ns
	kubeconfig := filepath.Join(folder, "config")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("cd %q; export KUBECONFIG=%q PATH=%q:$PATH; %s", repository, kubeconfig, folder,
		strings.NewReplacer(replaced...).Replace(command))
	return shell(t, script)
}

// documented runs a command of the pages about installation and removal, which must succeed.
func documented(t *testing.T, command string, replaced ...string) string {
	t.Helper()
	page := install
	if slices.Contains(commandsOf(t, uninstall), command) {
		page = uninstall
	}
	output, err := tryDocumented(t, page, "default", command, replaced...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// shell runs a script, and returns its output including standard error.
func shell(t *testing.T, script string) (string, error) {
	t.Helper()
	output, err := command(t.Context(), "", "bash", "-euc", "exec 2>&1; "+script)
	if err != nil {
		err = fmt.Errorf("%w: %s", err, output)
	}
	return output, err
}

// testEveryCommand checks that the earlier tests have run every command of these pages except those
// in notRun.
func testEveryCommand(t *testing.T, pages ...string) {
	var tested, all []string
	for _, page := range []string{quickstart, install, uninstall} {
		all = append(all, commandsOf(t, page)...)
	}
	for _, page := range pages {
		tested = append(tested, commandsOf(t, page)...)
	}
	for _, command := range tested {
		switch why, isSkipped := notRun[command]; {
		case isSkipped:
			t.Logf("not run: %s: %s", command, why)
		case !documentation.ran[command]:
			t.Errorf("no test runs %q", command)
		}
	}
	for command := range notRun {
		if !slices.Contains(all, command) {
			t.Errorf("no page has %q", command)
		}
	}
	t.Logf("%d commands", len(tested))
}

// testQuickstart runs the page from its first command to its last.
func testQuickstart(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "quickstart")
	const ready = "kubectl wait --for=condition=Ready webapp/shop"
	const platformReady = "kubectl wait --for=condition=Ready ecommerceplatform/staging-shop --timeout=600s"
	const killed = "kubectl delete pod -l app=staging-shop-db,database.mainstay.dev/role=primary --force"
	const changed = "kubectl wait --for=jsonpath='{.status.primaryChange.to}' postgresql/staging-shop-db --timeout=600s"
	type expectation struct {
		before func()
		says   string
		fails  bool
	}
	// kubectl wait gives up after 30 s, which is too short on a busy machine. So the test waits for
	// the condition before.
	expected := map[string]expectation{
		ready:                     {before: func() { waitReady(t, ns, "shop") }, says: "condition met"},
		"kubectl get webapp shop": {says: "http://shop." + ns + ".svc:8080"},
		"kubectl get webapp shop -o wide": {says: "ImagePullFailed", before: func() {
			g.Eventually(readyReason(t, ns, "shop")).Should(gomega.Equal("ImagePullFailed"))
		}},
		"kubectl describe webapp shop":                      {says: "ImagePullFailed"},
		"kubectl wait --for=condition=Ready appconfig/shop": {before: func() { await(t, ns, "appconfig/shop", "Ready") }, says: "condition met"},
		"kubectl get appconfig shop -o wide": {says: "RolledBack", before: func() {
			g.Eventually(reading(t, ns, "appconfig/shop", `{.status.conditions[?(@.type=="Ready")].reason}`)).Should(gomega.Equal("RolledBack"))
		}},
		"kubectl get configmonitor feature-flags": {says: "UpToDate", before: func() {
			g.Eventually(reading(t, ns, "configmonitor/feature-flags", "{.status.lastRestart}")).ShouldNot(gomega.BeEmpty())
			await(t, ns, "configmonitor/feature-flags", "Ready")
		}},
		"kubectl wait --for=condition=Ready instrumentation/demo": {before: func() { instrumented(t, ns, "instrumentation/demo", 1) }},
		"kubectl get instrumentation demo":                        {says: "Injected"},
		"kubectl delete webapp nginx legacy": {before: func() {
			g.Eventually(func() []string { return names(t, ns, "services") }).Should(gomega.ConsistOf("legacy", "nginx"),
				"shop is gone, and legacy adopted")
		}},
		"kubectl scale webapp shop --replicas=11": {says: `spec.replicas: Invalid value: 11: must be at most 10 (policy "default", rule "*.maxReplicas")`, fails: true},
		"kubectl get platformpolicies":            {says: "default"},
		"kubectl get webapp legacy -o wide": {says: "Conflict", before: func() {
			g.Eventually(readyReason(t, ns, "legacy")).Should(gomega.Equal("Conflict"))
		}},
		platformReady:                                                    {before: func() { await(t, ns, "ecommerceplatform/staging-shop", "Ready") }, says: "condition met"},
		"kubectl get ecommerceplatforms":                                 {says: "http://staging-shop-frontend." + ns + ".svc:8080"},
		"kubectl get all -l platform=staging-shop":                       {says: "pod/staging-shop-db-1"},
		"kubectl port-forward service/staging-shop-frontend 8081:8080 &": {says: "Forwarding from"},
		"kubectl get ecommerceplatform staging-shop -o wide": {says: "ComponentFailed", before: func() {
			g.Eventually(reading(t, ns, "ecommerceplatform/staging-shop", `{.status.components[?(@.name=="backend")].message}`)).Should(
				gomega.HavePrefix("Backend deployment failed: "))
		}},
		`kubectl get ecommerceplatform staging-shop -o jsonpath='{.status.components[?(@.name=="backend")].message}'`: {
			says: "Backend deployment failed: "},
		`kubectl patch ecommerceplatform staging-shop --type merge -p '{"spec":{"environment":"production"}}' --dry-run=server`: {
			says: "component db: durability Required instead of Preferred, replicas 3 instead of 2"},
		"kubectl wait --for=condition=Ready webapp/legacy": {before: func() { waitReady(t, ns, "legacy") }, says: "condition met"},
		"kubectl port-forward service/shop 8080 &":         {says: "Forwarding from"},
		"kubectl get farmpods":                             {says: "shop"},
		"kubectl set image deployment/shop webapp=nginx": {says: "image updated", before: func() {
			g.Eventually(exists(t, ns, "service/shop")).Should(gomega.Succeed(), "the deleted Service is back")
		}},
	}
	// The condition Ready is still True a moment after the primary was killed: that another one leads
	// is what shows that it was replaced.
	database, primary := "postgresql/staging-shop-db", ""
	expected[killed] = expectation{before: func() { primary = read(t, ns, database, "{.status.primary}") }, says: "force deleted"}
	expected[changed] = expectation{says: "condition met"}
	expected["kubectl get postgresql staging-shop-db -o jsonpath='{.status.primaryChange}'"] = expectation{before: func() {
		g.Eventually(reading(t, ns, database, "{.status.primary}")).ShouldNot(gomega.BeElementOf(primary, ""), "another one leads")
	}, says: `"to":"staging-shop-db-`}
	commands := commandsOf(t, quickstart)
	g.Expect(len(commands)).To(gomega.BeNumerically(">=", 15))
	for _, command := range commands {
		want := expected[command]
		if want.before != nil {
			want.before()
		}
		// This machine has no registry that could answer that the image does not exist.
		said, err := tryDocumented(t, quickstart, ns, command, "docker.io/mainstay/demo-web:none", nowhere,
			"docker.io/mainstay/demo-shop:none", nowhere, "kubectl port-forward service/shop 8080 &", forwarding("shop"),
			"kubectl port-forward service/staging-shop-frontend 8081:8080 &", forwarding("staging-shop-frontend"))
		g.Expect(err != nil).To(gomega.Equal(want.fails), "%s: %s", command, said)
		g.Expect(said).To(gomega.ContainSubstring(want.says), command)
	}
	g.Eventually(func() []string { return names(t, ns, "deployments,services") }).Should(gomega.BeEmpty(), "nothing of the page is left")
}

// forwarding is a command that connects to a Service, at any port, and ends.
func forwarding(service string) string {
	return fmt.Sprintf("grep -m1 Forwarding < <(timeout 60 kubectl port-forward service/%s :8080)", service)
}

// testInstallation runs the commands of the pages from installation to removal, twice: for all
// namespaces with a removal by hand, and for two namespaces with a removal that deletes the
// CRDs itself.
func testInstallation(t *testing.T) {
	g := gomega.NewWithT(t)
	run := func(commands ...string) {
		t.Helper()
		for _, command := range commands {
			documented(t, command)
		}
	}
	for _, ns := range []string{"shop", "web"} {
		makeNamespace(t, ns)
		t.Cleanup(func() { discard(t, "", "namespace/"+ns) })
	}
	run("helm install mainstay charts/mainstay --namespace mainstay-system --create-namespace --wait")
	applyAtOnce(t, "shop", webapp("shop", demo, "replicas: 1"))
	awaitWebhooks(t)
	waitReady(t, "shop", "shop")
	run("helm upgrade mainstay charts/mainstay --namespace mainstay-system --reset-then-reuse-values --set 'secrets.namespaces={shop,web}'",
		"helm upgrade mainstay charts/mainstay --namespace mainstay-system --wait",
		`kubectl -n mainstay-system annotate --overwrite secret mainstay-webhook mainstay.dev/rotate="$(date +%s)"`)
	awaitServed(t)
	run("kubectl -n mainstay-system rollout restart deployment mainstay-manager",
		"kubectl -n mainstay-system rollout status deployment mainstay-manager",
		"kubectl delete apiservice v1alpha1.farm.mainstay.dev")
	awaitServed(t)
	run("kubectl delete instrumentations --all --all-namespaces",
		"kubectl delete ecommerceplatforms,appstacks --all --all-namespaces",
		"kubectl delete webapps --all --all-namespaces --cascade=foreground",
		"kubectl delete postgresqls,caches,appconfigs,configmonitors,instrumentations --all --all-namespaces",
		"kubectl delete clusterinstrumentations --all",
		"helm uninstall mainstay --namespace mainstay-system")
	g.Expect(names(t, "shop", "deployments")).To(gomega.BeEmpty())
	notServed(t)
	for _, command := range commandsOf(t, uninstall) {
		if strings.HasPrefix(command, "kubectl delete crd ") {
			run(command)
		}
	}
	g.Expect(definitions(t)).To(gomega.BeEmpty())

	run("helm install mainstay charts/mainstay --namespace mainstay-system --create-namespace --set 'watchNamespaces={shop,web}'")
	rollout(t, system, "deployment/mainstay-manager")
	awaitWebhooksIn(t, "shop")
	apply(t, "shop", webapp("shop", demo, "replicas: 1"))
	waitReady(t, "shop", "shop")
	run("helm upgrade mainstay charts/mainstay --namespace mainstay-system --reset-then-reuse-values --set crds.keep=false --wait",
		"helm uninstall mainstay --namespace mainstay-system")
	g.Expect(definitions(t)).To(gomega.BeEmpty(), "crds.keep=false deletes the CRDs")
	g.Eventually(func() []string { return names(t, "shop", "deployments") }).Should(gomega.BeEmpty(), "and all objects with their children")
	deleteNamespace(t, system)
}

// applyAtOnce applies manifests right after an installation, without awaitWebhooks. docs/install.md
// says how that can be refused, and what to do: repeat it. It may be refused in no other way.
func applyAtOnce(t *testing.T, ns, manifests string) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() error {
		_, err := tryApply(t, ns, manifests)
		if err == nil {
			return nil
		}
		if !strings.Contains(err.Error(), "failed calling webhook") {
			return gomega.StopTrying("right after the installation").Wrap(err)
		}
		t.Logf("refused for a moment: %v", err)
		return err
	}).Should(gomega.Succeed())
}

// definitions returns the names of our CRDs.
func definitions(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(names(t, "", "crd"), func(name string) bool { return !strings.HasSuffix(name, ".mainstay.dev") })
}
