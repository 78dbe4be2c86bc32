// Package integration tests the controllers against a real etcd and kube-apiserver. There is no
// kubelet and no controller-manager: the tests do their work.
//
// Most tests share one API server and run in parallel. Each has its own namespace, and its manager
// reads only that one. A test that affects the whole cluster either runs alone, without t.Parallel,
// or has its own API server.
package integration

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/mainstay-platform/mainstay/internal/install/crds"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/test/testenv"
	"github.com/mainstay-platform/mainstay/test/testlog"
)

const (
	within = testenv.Within
	poll   = testenv.Poll
	// parallel is the default of -parallel. Most of the time, tests wait for the API server.
	parallel = "12"
	// cacheLag is how long a manager waits for its cache to show what it has written. If it went on
	// earlier it would write the same again, where tests count writes.
	cacheLag = 20 * time.Second
)

// cluster is the API server that tests share.
var cluster *testenv.Server

func TestMain(m *testing.M) {
	flag.Parse()
	testlog.Set()
	if flag.Lookup("test.list").Value.String() != "" {
		os.Exit(m.Run()) // no API server is needed
	}
	isSet := false
	flag.Visit(func(given *flag.Flag) { isSet = isSet || given.Name == "test.parallel" })
	if !isSet {
		_ = flag.Set("test.parallel", parallel)
	}
	gomega.SetDefaultEventuallyTimeout(within)
	gomega.SetDefaultEventuallyPollingInterval(poll)
	gomega.EnforceDefaultTimeoutsWhenUsingContexts()
	children.AwaitLimit = cacheLag
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	cluster, err = testenv.Start(testenv.Options{Definitions: true, Configure: func(environment *envtest.Environment) error {
		environment.ControlPlane.GetAPIServer().Configure().Append("enable-admission-plugins", "OwnerReferencesPermissionEnforcement")
		return nil
	}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the API server:", err)
		}
	}()
	return m.Run()
}

// ownServer returns an API server for one test, without CRDs. Tests that change webhook
// configurations or CRDs need it, because those affect the whole cluster.
func ownServer(t *testing.T) *testenv.Server {
	t.Helper()
	return testenv.New(t, testenv.Options{})
}

// clientOf returns a client that knows all our kinds.
func clientOf(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	made, err := testenv.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// definitionsOf returns a client for CRDs.
func definitionsOf(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	made, err := crds.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// everywhere makes startManager start a manager that reads all namespaces. Its test must run alone.
const everywhere = ""

// startManager runs the complete manager as in production, but without leader election, until the
// test ends or Stop is called. It reads one namespace, or everywhere.
func startManager(t *testing.T, namespace string) *testenv.Manager {
	t.Helper()
	return startManagerWith(t, namespace, nil, nil)
}

// startManagerWith is like startManager, with a recorder and a change of the settings. Both may be
// nil.
func startManagerWith(t *testing.T, namespace string, recorded *testenv.Requests, change func(*setup.Settings)) *testenv.Manager {
	t.Helper()
	return testenv.StartManager(t, cluster.Config, testenv.ManagerOptions{Namespace: namespace, Requests: recorded, Settings: change})
}

// managed starts a manager of a new namespace, for a test that runs in parallel with others.
func managed(t *testing.T) (g *gomega.WithT, namespace string, manager *testenv.Manager) {
	t.Helper()
	t.Parallel()
	namespace = cluster.Namespace(t)
	return gomega.NewWithT(t), namespace, startManager(t, namespace)
}

// namespace creates a namespace for one test. There is no garbage collector, so its objects remain;
// names are unique.
func namespace(t *testing.T) string {
	t.Helper()
	return cluster.Namespace(t)
}
