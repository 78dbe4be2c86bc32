package served

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/aggregated"
)

// largest is the largest size of a body in bytes.
const largest = 3 * 1024 * 1024

// TestLargeBodies checks that larger bodies are refused for every verb, without an effect.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	namespace := newNamespace(t)
	kept := newLlama(namespace, "perla")
	g.Expect(cluster.client.Create(t.Context(), kept)).To(gomega.Succeed())
	all := "/apis/farm.mainstay.dev/v1alpha1/namespaces/" + namespace + "/llamas"
	perla := all + "/perla"
	const spec = `"apiVersion": "farm.mainstay.dev/v1alpha1", "kind": "Llama", "spec": {"weight": 150, "height": 1.7}`
	named := func(name string) string { return fmt.Sprintf(`{"metadata": {"name": %q}, %s}`, name, spec) }
	const options = `{"apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions"}`
	sent := func(method, path, form, body string, length int) answer {
		asked := asProxied(path, "admin", "system:masters")
		asked.method, asked.header["Content-Type"] = method, form
		asked.body = body + strings.Repeat(" ", length-len(body))
		return ask(t, cluster.server, asked)
	}
	for name, one := range map[string]struct{ method, path, form, body string }{
		"create":           {http.MethodPost, all, "application/json", named("dolly")},
		"create in YAML":   {http.MethodPost, all, "application/yaml", named("dolly")},
		"update":           {http.MethodPut, perla, "application/json", named("perla")},
		"patch":            {http.MethodPatch, perla, "application/merge-patch+json", `{"spec": {"weight": 150}}`},
		"apply":            {http.MethodPatch, perla + "?fieldManager=test&force=true", "application/apply-patch+yaml", named("perla")},
		"status":           {http.MethodPatch, perla + "/status", "application/merge-patch+json", `{"status": {"conditions": []}}`},
		"delete":           {http.MethodDelete, perla, "application/json", options},
		"deletecollection": {http.MethodDelete, all, "application/json", options},
	} {
		got := sent(one.method, one.path, one.form, one.body, largest+1)
		if got.Status != http.StatusRequestEntityTooLarge || !strings.Contains(got.Body, "limit is 3145728") {
			t.Errorf("%s: answered %d, expected 413 with the limit: %s", name, got.Status, got.Body)
		}
	}
	large := newLlama(namespace, "dolly")
	large.Annotations = map[string]string{"wool": strings.Repeat("a", largest)}
	err := cluster.client.Create(t.Context(), large)
	g.Expect(apierrors.IsRequestEntityTooLargeError(err)).To(gomega.BeTrue(), "by the API server: %v", err)

	still := &farmv1alpha1.Llama{}
	g.Expect(cluster.client.Get(t.Context(), client.ObjectKeyFromObject(kept), still)).To(gomega.Succeed())
	g.Expect(still.ResourceVersion).To(gomega.Equal(kept.ResourceVersion))
	g.Expect(writes(t, namespace)).To(gomega.Equal(1), "refused writes store nothing")
	g.Expect(sent(http.MethodPost, all, "application/json", named("dolly"), largest)).To(gomega.HaveField("Status", http.StatusCreated),
		"one byte less")
	g.Expect(cluster.client.Delete(t.Context(), &farmv1alpha1.Llama{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: "dolly"}})).To(gomega.Succeed())
}

// TestProbesHaveRoom checks that the probes of the kubelet are answered while other requests take
// all places.
func TestProbesHaveRoom(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	server := newServer(t, grantAll, func(options *aggregated.Options) { options.Resources = []string{"farmpods"} })
	server.awaitReady(t)
	const farmPods = "/apis/farm.mainstay.dev/v1alpha1/farmpods"
	config := server.directly()
	busy, err := rest.HTTPClientFor(config)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	// One connection for all.
	g.Expect(readOnce(t.Context(), busy, config.Host+farmPods)).To(gomega.Succeed())
	ctx, stop := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	defer reading.Wait()
	defer stop()
	// 400 take all places, and the others theirs when they end. Each takes 3 s: so long the server
	// waits for a version that does not exist yet.
	for range 500 {
		reading.Go(func() {
			for {
				if readOnce(ctx, busy, config.Host+farmPods+"?resourceVersion=1000000000000000000") != nil {
					return
				}
			}
		})
	}
	refused := 0
	var failed []answer
	g.Eventually(func() int {
		if ask(t, server.Server, asProxied(farmPods, "nobody")).Status == http.StatusTooManyRequests {
			refused++
		}
		if got := ask(t, server.Server, question{path: "/readyz"}); got.Status != http.StatusOK {
			failed = append(failed, got)
		}
		return refused
	}).Should(gomega.BeNumerically(">=", 20), "requests while all places are taken")
	g.Expect(failed).To(gomega.BeEmpty(), "probes")
}

// readOnce reads a URL, whatever the status of the response is.
func readOnce(ctx context.Context, reader *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := reader.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}
