package served

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-platform/mainstay/internal/aggregated"
	"github.com/mainstay-platform/mainstay/internal/aggregated/aggregatedtest"
	"github.com/mainstay-platform/mainstay/internal/kit/transport"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

const (
	// sharedServer is the user of the shared server.
	sharedServer = "mainstay-apiserver"
	// servers is the group of the users of our servers. Their requests are audited.
	servers = "served-test:servers"
)

// auditPolicy logs each request of our servers before it is answered.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [ResponseStarted, ResponseComplete, Panic]
rules:
  - level: Metadata
    userGroups: ["` + servers + `"]
  - level: None
`

// auditServers configures the API server to log the requests of our servers.
func auditServers(environment *envtest.Environment) error {
	policy := filepath.Join(cluster.folder, "audit.yaml")
	cluster.audited = testenv.NewAuditLog(auditLog())
	environment.ControlPlane.GetAPIServer().Configure().
		Set("audit-policy-file", policy).
		Set("audit-log-path", auditLog()).
		Set("audit-log-maxsize", "0").
		Set("audit-log-mode", "blocking")
	return os.WriteFile(policy, []byte(auditPolicy), 0o600)
}

func auditLog() string { return filepath.Join(cluster.folder, "audit.log") }

// calls returns a user's calls so far, oldest first, whose log line contains a text.
func calls(user, text string) ([]auditv1.Event, error) {
	return cluster.audited.Events(`"username":"`+user+`"`, text)
}

// countCalls counts a user's calls that are wanted and whose log line contains a text.
func countCalls(t *testing.T, user, text string, wanted func(auditv1.Event) bool) int {
	t.Helper()
	made, err := calls(user, text)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, call := range made {
		if wanted(call) {
			count++
		}
	}
	return count
}

// serverRights returns the rights that the chart grants the server. So every test here shows that
// they suffice.
func serverRights() ([]rbacv1.PolicyRule, error) {
	var rules []rbacv1.PolicyRule
	for _, part := range []string{"farmpods", "llamas", "admission"} {
		text, err := os.ReadFile(filepath.Join("../../charts/mainstay/files/rbac", part+".yaml"))
		if err != nil {
			return nil, err
		}
		scopes := map[string][]rbacv1.PolicyRule{}
		if err := yaml.Unmarshal(text, &scopes); err != nil {
			return nil, err
		}
		for _, scope := range scopes {
			rules = append(rules, scope...)
		}
	}
	return rules, nil
}

// grant returns the rights of a server, besides those to authenticate and authorize its clients.
type grant func() ([]rbacv1.PolicyRule, error)

// grantAll returns what the chart grants. grantNothing returns nothing, as if an administrator had
// forgotten it.
func grantAll() ([]rbacv1.PolicyRule, error)     { return serverRights() }
func grantNothing() ([]rbacv1.PolicyRule, error) { return nil, nil }

// serverUser creates a user for one of our servers, with rights, and returns its kubeconfig.
func serverUser(ctx context.Context, name string, granted grant) ([]byte, error) {
	user, err := cluster.Environment.AddUser(envtest.User{Name: name, Groups: []string{servers}}, cluster.config)
	if err != nil {
		return nil, err
	}
	rules, err := granted()
	if err != nil {
		return nil, err
	}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}}
	clusterRole := func(name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	}
	err = errors.Join(
		cluster.client.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}),
		cluster.client.Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
			RoleRef: clusterRole(name)}),
		cluster.client.Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name + "-auth"}, Subjects: subjects, RoleRef: clusterRole("system:auth-delegator"),
		}),
		cluster.client.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name + "-auth"}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "extension-apiserver-authentication-reader"},
		}),
		awaitAllowed(ctx, name, authorizationv1.ResourceAttributes{
			Namespace: metav1.NamespaceSystem, Verb: "get", Resource: "configmaps", Name: "extension-apiserver-authentication",
		}),
		awaitAllowed(ctx, name, authorizationv1.ResourceAttributes{Group: authorizationv1.GroupName, Verb: "create",
			Resource: "subjectaccessreviews"}),
	)
	if err == nil && len(rules) > 0 {
		err = awaitAllowed(ctx, name, authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods"})
	}
	if err != nil {
		return nil, err
	}
	return user.KubeConfig()
}

// awaitAllowed waits until the API server has learned of a right, from its watches of roles. A
// request to our server before that would be refused, and the refusal cached.
func awaitAllowed(ctx context.Context, user string, right authorizationv1.ResourceAttributes) error {
	return wait.PollUntilContextTimeout(ctx, poll, within, true, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &right}}
		err := cluster.client.Create(ctx, review)
		return review.Status.Allowed, err
	})
}

var counted atomic.Int64

// unique returns a name that nothing else has.
func unique(kind string) string { return kind + "-" + strconv.FormatInt(counted.Add(1), 10) }

// ownServer is a server of one test, which is called at its port.
type ownServer struct {
	*aggregatedtest.Server
	// user is its user in the API server.
	user  string
	stop  context.CancelFunc
	ended chan error
}

// newServer starts a server that ends with the test.
func newServer(t *testing.T, granted grant, change func(*aggregated.Options)) *ownServer {
	t.Helper()
	user := unique("server")
	kubeconfig, err := serverUser(t.Context(), user, granted)
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := aggregatedtest.NewServer(t.TempDir(), kubeconfig, "farmpods", "llamas")
	if err != nil {
		t.Fatal(err)
	}
	change(prepared.Options)
	server := &ownServer{Server: prepared, user: user}
	server.start()
	t.Cleanup(func() {
		if err := server.end(); err != nil {
			t.Error("the server:", err)
		}
	})
	return server
}

func (s *ownServer) start() {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	s.stop, s.ended = stop, ended
	go func() { ended <- s.Run(ctx) }()
}

// end stops the server, and waits until it has ended.
func (s *ownServer) end() error {
	s.stop()
	err := <-s.ended
	s.ended <- nil
	return err
}

// awaitReady waits until the server is ready.
func (s *ownServer) awaitReady(t *testing.T) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() answer { return ask(t, s.Server, question{path: "/readyz?verbose"}) }).
		Should(gomega.HaveField("Status", http.StatusOK))
}

// question is a request to the port of one of our servers.
type question struct {
	method, path string
	// certFile and keyFile are the client's certificate, empty for none.
	certFile, keyFile string
	header            map[string]string
	body              string
}

// asProxied returns a request as the API server sends it for a user.
func asProxied(path, user string, groups ...string) question {
	asked := question{path: path, certFile: cluster.frontCert, keyFile: cluster.frontKey, header: map[string]string{"X-Remote-User": user}}
	for _, group := range groups {
		asked.header["X-Remote-Group"] = group
	}
	return asked
}

type answer struct {
	Status int
	Header http.Header
	Body   string
}

// ask sends a request to one of our servers, without the API server in between. A failed request
// has status 0 and its error as the Body.
func ask(t *testing.T, server *aggregatedtest.Server, asked question) answer {
	t.Helper()
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(server.Bundle)
	config := &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
	if asked.certFile != "" {
		certificate, err := tls.LoadX509KeyPair(asked.certFile, asked.keyFile)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true, DisableCompression: true}
	request, err := http.NewRequestWithContext(t.Context(), asked.method, fmt.Sprintf("https://127.0.0.1:%d%s", server.Port, asked.path),
		bytes.NewReader([]byte(asked.body)))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range asked.header {
		request.Header.Set(name, value)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return answer{Body: err.Error()}
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{Body: err.Error()}
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

// directly returns the configuration of a client that calls our server without the API server in
// between, with all rights.
func (s *ownServer) directly() *rest.Config {
	config := &rest.Config{
		Host: fmt.Sprintf("https://127.0.0.1:%d", s.Port), QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: s.Bundle, CertFile: cluster.frontCert, KeyFile: cluster.frontKey},
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transport.Func(func(request *http.Request) (*http.Response, error) {
			request = request.Clone(request.Context())
			request.Header.Set("X-Remote-User", "admin")
			request.Header.Set("X-Remote-Group", "system:masters")
			return next.RoundTrip(request)
		})
	})
	return config
}

// newClient returns a client with a configuration.
func newClient(t *testing.T, config *rest.Config) client.WithWatch {
	t.Helper()
	made, err := client.NewWithWatch(config, client.Options{Scheme: scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return made
}
