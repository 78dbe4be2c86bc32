// Package served tests the aggregated API behind a real kube-apiserver with its etcd.
package served

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
	recordsv1alpha1 "github.com/mainstay-platform/mainstay/api/records/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/aggregated/aggregatedtest"
	"github.com/mainstay-platform/mainstay/internal/kit/transport"
	"github.com/mainstay-platform/mainstay/test/testenv"
	"github.com/mainstay-platform/mainstay/test/testlog"
)

// Limits of waits. Successes take at most some tenths of a second. After a failure, the library
// retries after up to 30 seconds.
const (
	within = testenv.Within
	poll   = testenv.Poll
)

// cluster is the shared API server with ours behind it. Each test has its own namespace.
var cluster struct {
	*testenv.Server
	config *rest.Config
	client client.Client
	server *aggregatedtest.Server
	// audited has the requests of our servers to the API server.
	audited *testenv.AuditLog
	// folder has files for the duration of the tests, including those of the front proxy's CA.
	folder string
	// frontCert and frontKey are the files of the certificate with which the API server connects to
	// ours.
	frontCert, frontKey string
}

func TestMain(m *testing.M) {
	flag.Parse()
	testlog.Set()
	gomega.SetDefaultEventuallyTimeout(within)
	gomega.SetDefaultEventuallyPollingInterval(poll)
	gomega.EnforceDefaultTimeoutsWhenUsingContexts()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	folder, err := os.MkdirTemp("", "served-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(folder) }()
	ctx, stop := context.WithCancel(context.Background())
	ended, err := start(ctx, folder)
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, "starting:", err)
	}
	stop()
	if ended != nil {
		if err := <-ended; err != nil {
			fmt.Fprintln(os.Stderr, "the server:", err)
			code = 1
		}
	}
	if cluster.Server == nil {
		return code
	}
	if err := cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the API server:", err)
	}
	return code
}

// start starts both servers. The returned channel receives how ours ended; it is nil if ours was
// not started.
func start(ctx context.Context, folder string) (<-chan error, error) {
	cluster.folder = folder
	var err error
	cluster.Server, err = testenv.Start(testenv.Options{Definitions: true, Configure: func(environment *envtest.Environment) (err error) {
		if cluster.frontCert, cluster.frontKey, err = aggregatedtest.Front(environment, folder); err != nil {
			return err
		}
		return auditServers(environment)
	}})
	if err != nil {
		return nil, err
	}
	cluster.config = rest.CopyConfig(cluster.Config)
	cluster.config.Wrap(untilAvailable)
	if cluster.client, err = client.New(cluster.config, client.Options{Scheme: scheme()}); err != nil {
		return nil, err
	}
	kubeconfig, err := serverUser(ctx, sharedServer, grantAll)
	if err != nil {
		return nil, err
	}
	if cluster.server, err = aggregatedtest.NewServer(folder, kubeconfig, "farmpods", "llamas"); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cluster.server.Run(ctx) }()
	return ended, cluster.server.Register(ctx, cluster.client)
}

// untilAvailable sends a request again that the API server has not passed on to our server. It
// passes none on while ours has not answered its last probe within five seconds, which a process on
// a busy machine may take.
func untilAvailable(next http.RoundTripper) http.RoundTripper {
	return transport.Func(func(request *http.Request) (*http.Response, error) {
		for end := time.Now().Add(within); ; {
			response, err := next.RoundTrip(request)
			isSentOnce := request.Body != nil && request.GetBody == nil
			if err != nil || response.StatusCode != http.StatusServiceUnavailable || isSentOnce || time.Now().After(end) {
				return response, err
			}
			body, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if err != nil || strings.TrimSpace(string(body)) != "service unavailable" {
				response.Body = io.NopCloser(bytes.NewReader(body))
				return response, err
			}
			request = request.Clone(request.Context())
			if request.GetBody != nil {
				if request.Body, err = request.GetBody(); err != nil {
					return nil, err
				}
			}
			select {
			case <-request.Context().Done():
				return nil, request.Context().Err()
			case <-time.After(poll):
			}
		}
	})
}

// scheme returns a scheme of Kubernetes' types, our served resources, and their backing.
func scheme() *runtime.Scheme {
	made := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiregistrationv1.AddToScheme, farmv1alpha1.AddToScheme,
		recordsv1alpha1.AddToScheme} {
		if err := add(made); err != nil {
			panic(err) // two types of the same name, which fails every run
		}
	}
	return made
}
