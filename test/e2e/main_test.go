//go:build e2e

// Package e2e uses Mainstay as its users do: with helm and kubectl, on a real cluster with real
// pods. `make test-e2e` starts the testbed and sets the environment that these tests need.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mainstay-platform/mainstay/test/programs"
)

const (
	// system is the namespace of the Mainstay installation.
	system = "mainstay-system"
	// managers selects the managers' pods, without those of our API server.
	managers = "app.kubernetes.io/component=manager"
	// within bounds most waits. What is waited for takes seconds, but may take more than ten times
	// that on a machine with two cores and other work.
	within = 8 * time.Minute
	poll   = 250 * time.Millisecond
	// patience is how long a request may take. An application whose processes stand still for seconds
	// has not lost it.
	patience = 30 * time.Second
)

// repository is the root of the checkout, relative to this folder.
const repository = "../.."

func TestMain(m *testing.M) {
	gomega.SetDefaultEventuallyTimeout(within)
	gomega.SetDefaultEventuallyPollingInterval(poll)
	for _, needed := range []string{"KUBECONFIG", "KUBECTL", "HELM"} {
		if os.Getenv(needed) == "" {
			fmt.Fprintf(os.Stderr, "%s is not set: run `make test-e2e`\n", needed)
			os.Exit(1)
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err == nil {
		config.QPS = -1
		api, err = dynamic.NewForConfig(config)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// command runs a program and returns its output. An error contains the standard error.
var command = programs.Run

// tryKubectl runs kubectl and returns its output.
func tryKubectl(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	output, err := command(t.Context(), "", os.Getenv("KUBECTL"), arguments...)
	return strings.TrimSpace(output), err
}

// kubectl runs kubectl, which must succeed.
func kubectl(t *testing.T, arguments ...string) string {
	t.Helper()
	output, err := tryKubectl(t, arguments...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// apply runs kubectl apply with manifests.
func apply(t *testing.T, namespace, manifests string) {
	t.Helper()
	if _, err := command(t.Context(), manifests, os.Getenv("KUBECTL"), "apply", "-n", namespace, "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

func helm(t *testing.T, arguments ...string) string {
	t.Helper()
	output, err := command(t.Context(), "", os.Getenv("HELM"), arguments...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// restrictedLabel is the label for the enforced Pod Security Standard of a namespace.
const restrictedLabel = "pod-security.kubernetes.io/enforce"

// makeNamespace creates a namespace with labels, "key=value".
func makeNamespace(t *testing.T, name string, labels ...string) {
	t.Helper()
	made := &unstructured.Unstructured{}
	made.SetAPIVersion("v1")
	made.SetKind("Namespace")
	made.SetName(name)
	set := map[string]string{}
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		set[key] = value
	}
	made.SetLabels(set)
	if _, err := objectsOf(t, "", "namespaces").Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	apply(t, name, programs.Share)
}

// namespace creates a namespace that is deleted with the test. If the test fails, it logs the
// namespace's objects.
func namespace(t *testing.T, name string, labels ...string) string {
	t.Helper()
	name = "e2e-" + name
	makeNamespace(t, name, labels...)
	t.Cleanup(func() {
		if t.Failed() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
			defer cancel()
			state, _ := command(ctx, "", os.Getenv("KUBECTL"), "-n", name, "get", "all,webapps,appconfigs,configmonitors,instrumentations,events",
				"-o", "wide")
			t.Logf("objects in %s:\n%s", name, state)
		}
		discard(t, name, "namespace/"+name)
	})
	return name
}

// restricted creates a namespace that enforces the strictest Pod Security Standard.
func restricted(t *testing.T, name string) string {
	t.Helper()
	return namespace(t, name, restrictedLabel+"=restricted")
}

// emptied deletes a namespace, which nothing may block, and creates it again, until the end of the
// test.
func emptied(t *testing.T, ns string) {
	t.Helper()
	deleteNamespace(t, ns)
	makeNamespace(t, ns)
}

// deleteNamespace deletes a namespace and waits until it is gone.
func deleteNamespace(t *testing.T, ns string) {
	t.Helper()
	remove(t, "", "namespace/"+ns)
	awaitGone(t, "", "namespace/"+ns, within)
}

// serviceURL returns the URL at which this machine reaches a Service of the testbed.
func serviceURL(t *testing.T, namespace, name string) string {
	t.Helper()
	return "http://" + read(t, namespace, "service/"+name, "{.spec.clusterIP}:{.spec.ports[0].port}")
}

// fetch gets one page.
func fetch(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	// With a new connection each request goes through the Service again.
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return string(body), err
}

// awaitAnswer waits until the page at url contains text. kube-proxy programs a Service a moment
// after its pods are ready. Until then the node refuses the connection or sends it to an old pod.
func awaitAnswer(t *testing.T, url, text string) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() (string, error) { return fetch(t.Context(), url) }).Should(gomega.ContainSubstring(text))
}

// run runs a program, which must succeed.
func run(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	output, err := command(t.Context(), "", name, arguments...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// kubectlAnyway runs kubectl in a cleanup.
func kubectlAnyway(t *testing.T, arguments ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	if _, err := command(ctx, "", os.Getenv("KUBECTL"), arguments...); err != nil {
		t.Error(err)
	}
}
