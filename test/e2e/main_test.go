//go:build e2e

// Package e2e uses Mainstay as its users do: with helm and kubectl, on a real cluster with real
// pods. `make test-e2e` starts the testbed and sets what these tests need.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
)

const (
	// system is the namespace that Mainstay is installed in.
	system = "mainstay-system"
	// managers selects the managers' pods, and not those of our API server.
	managers = "app.kubernetes.io/component=manager"
	// within bounds most waits. What is waited for takes seconds; a busy machine with two
	// cores may take several times that.
	within = 90 * time.Second
	poll   = 250 * time.Millisecond
)

// repository is the root of the checkout, as seen from this folder.
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
	os.Exit(m.Run())
}

// command runs a program and returns what it printed; an error has its standard error.
func command(ctx context.Context, stdin, name string, arguments ...string) (string, error) {
	run := exec.CommandContext(ctx, name, arguments...)
	run.Stdin = strings.NewReader(stdin)
	var output, trouble bytes.Buffer
	run.Stdout, run.Stderr = &output, &trouble
	if err := run.Run(); err != nil {
		return output.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(arguments, " "), err, trouble.String())
	}
	return output.String(), nil
}

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

// apply sends manifests with kubectl apply.
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

// namespace makes a namespace that goes with the test; if the test fails, it says what was in it.
func namespace(t *testing.T, name string) string {
	t.Helper()
	name = "e2e-" + name
	kubectl(t, "create", "namespace", name)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if t.Failed() {
			state, _ := command(ctx, "", os.Getenv("KUBECTL"), "-n", name, "get", "all,webapps,appconfigs,configmonitors,instrumentations,events", "-o", "wide")
			t.Logf("what was in %s:\n%s", name, state)
		}
		if _, err := command(ctx, "", os.Getenv("KUBECTL"), "delete", "namespace", name, "--wait=false"); err != nil {
			t.Error(err)
		}
	})
	return name
}

// waitReady waits with kubectl wait, as a user would.
func waitReady(t *testing.T, namespace, name string) {
	t.Helper()
	kubectl(t, "-n", namespace, "wait", "--for=condition=Ready", "webapp/"+name, "--timeout="+within.String())
}

// jsonpath reads one value of an object.
func jsonpath(t *testing.T, namespace, object, path string) string {
	t.Helper()
	return kubectl(t, "-n", namespace, "get", object, "-o", "jsonpath="+path)
}

// readyReason is the reason of the WebApp's condition Ready.
func readyReason(t *testing.T, namespace, name string) func() (string, error) {
	return func() (string, error) {
		return tryKubectl(t, "-n", namespace, "get", "webapp", name, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].reason}`)
	}
}

// serviceURL is where this machine reaches a Service of the testbed.
func serviceURL(t *testing.T, namespace, name string) string {
	t.Helper()
	return "http://" + jsonpath(t, namespace, "service/"+name, "{.spec.clusterIP}:{.spec.ports[0].port}")
}

// fetch gets one page.
func fetch(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	// A connection of its own for each request: so each goes through the Service anew.
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

// list decodes kubectl get -o json.
func list[T any](t *testing.T, arguments ...string) []T {
	t.Helper()
	var decoded struct{ Items []T }
	if err := json.Unmarshal([]byte(kubectl(t, append([]string{"get", "-o", "json"}, arguments...)...)), &decoded); err != nil {
		t.Fatal(err)
	}
	return decoded.Items
}
