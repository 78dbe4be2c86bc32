package served

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	"github.com/spf13/pflag"

	"github.com/mainstay-platform/mainstay/internal/aggregated"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// auditedAs is the policy that the chart renders for apiserver.audit.rules=[{level: Metadata}].
const auditedAs = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
`

// audited has the fields of a request from a line of the log.
type audited struct {
	User, Verb, Resource, Namespace, Name string
	Code                                  int32
}

// TestAudit checks that with a policy the server logs each request and its user, but nothing of the
// request's body.
func TestAudit(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	namespace, folder := newNamespace(t), t.TempDir()
	policy, log := filepath.Join(folder, "policy.yaml"), filepath.Join(folder, "audit.log")
	g.Expect(os.WriteFile(policy, []byte(auditedAs), 0o600)).To(gomega.Succeed())
	server := newServer(t, grantAll, func(options *aggregated.Options) {
		options.LlamaStorage = "memory"
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		options.Audit.AddFlags(flags)
		g.Expect(flags.Parse([]string{"--audit-policy-file=" + policy, "--audit-log-path=" + log})).To(gomega.Succeed())
	})
	server.awaitReady(t)
	const hidden = "swordfish"
	own := "/apis/farm.mainstay.dev/v1alpha1/namespaces/" + namespace
	herder, stranger := unique("herder"), unique("stranger")
	created := asProxied(own+"/llamas", herder, "system:masters")
	created.method, created.header["Content-Type"] = http.MethodPost, "application/json"
	created.body = `{"apiVersion": "farm.mainstay.dev/v1alpha1", "kind": "Llama", "metadata": {"name": "perla", "annotations": {"password": "` + hidden + `"}},
		"spec": {"weight": 120, "height": 1.7}}`
	for _, one := range []struct {
		question
		status int
	}{
		{created, http.StatusCreated},
		{asProxied(own+"/farmpods", herder, "system:masters"), http.StatusOK},
		{asProxied(own+"/llamas/perla", herder, "system:masters"), http.StatusOK},
		{asProxied(own+"/llamas/perla", stranger, "system:authenticated"), http.StatusForbidden},
		{question{path: own + "/llamas/perla", header: map[string]string{"Authorization": "Bearer " + hidden}}, http.StatusUnauthorized},
	} {
		if got := ask(t, server.Server, one.question); got.Status != one.status {
			t.Errorf("%s %s: answered %d, expected %d: %s", one.method, one.path, got.Status, one.status, got.Body)
		}
	}
	g.Eventually(func() ([]audited, error) { return requestsOf(log, namespace) }).Should(gomega.ConsistOf(
		audited{herder, "create", "llamas", namespace, "perla", http.StatusCreated},
		audited{herder, "list", "farmpods", namespace, "", http.StatusOK},
		audited{herder, "get", "llamas", namespace, "perla", http.StatusOK},
		audited{stranger, "get", "llamas", namespace, "perla", http.StatusForbidden},
		audited{"", "get", "llamas", namespace, "perla", http.StatusUnauthorized},
	))
	written, err := os.ReadFile(log)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	if strings.Contains(string(written), hidden) {
		t.Errorf("the log has the body of a request: %s", written)
	}
}

// requestsOf returns the requests to a namespace in a log.
func requestsOf(log, namespace string) ([]audited, error) {
	events, err := testenv.NewAuditLog(log).Events(`"namespace":"` + namespace + `"`)
	var found []audited
	for _, event := range events {
		one := audited{User: event.User.Username, Verb: event.Verb}
		if target := event.ObjectRef; target != nil {
			one.Resource, one.Namespace, one.Name = target.Resource, target.Namespace, target.Name
		}
		if event.ResponseStatus != nil {
			one.Code = event.ResponseStatus.Code
		}
		found = append(found, one)
	}
	return found, err
}
