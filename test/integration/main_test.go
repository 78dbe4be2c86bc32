// Package integration tests the controllers against a real etcd and kube-apiserver. There is no
// kubelet and no controller-manager: what those would do, the tests do.
//
// Most tests share one API server and run in parallel: each has a namespace of its own, and its manager sees
// that namespace only. What concerns the whole cluster either runs alone, which is what a test without t.Parallel does, or has
// an API server of its own.
package integration

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/mainstay-platform/mainstay/internal/install/crds"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/test/testenv"
	"github.com/mainstay-platform/mainstay/test/testlog"
)

const (
	within = testenv.Within
	poll   = testenv.Poll
	// parallel is how many tests run at once where -parallel does not say: they wait for the API server most of the time.
	parallel = "12"
)

// cluster is the API server that tests share.
var cluster *testenv.Server

func TestMain(m *testing.M) {
	flag.Parse()
	testlog.Set()
	if flag.Lookup("test.list").Value.String() != "" {
		os.Exit(m.Run()) // which takes no API server
	}
	isSet := false
	flag.Visit(func(given *flag.Flag) { isSet = isSet || given.Name == "test.parallel" })
	if !isSet {
		_ = flag.Set("test.parallel", parallel)
	}
	gomega.SetDefaultEventuallyTimeout(within)
	gomega.SetDefaultEventuallyPollingInterval(poll)
	gomega.EnforceDefaultTimeoutsWhenUsingContexts()
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

// ownServer is an API server for one test alone, without definitions: for what concerns the whole
// cluster, as webhooks and definitions do.
func ownServer(t *testing.T) *testenv.Server {
	t.Helper()
	return testenv.New(t, testenv.Options{})
}

// clientOf knows all our kinds.
func clientOf(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	made, err := testenv.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// definitionsOf is a client for definitions.
func definitionsOf(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	made, err := crds.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// everywhere starts a manager that sees all namespaces. Its test runs alone.
const everywhere = ""

// startManager runs the whole manager, as in production but for leader election, until
// the test ends or Stop is called. It sees one namespace, or everywhere.
func startManager(t *testing.T, namespace string) *testenv.Manager {
	t.Helper()
	return startManagerWith(t, namespace, nil, nil)
}

// startManagerWith is startManager with a recorder and other settings; nil for the usual ones.
func startManagerWith(t *testing.T, namespace string, recorded *testenv.Requests, change func(*setup.Settings)) *testenv.Manager {
	t.Helper()
	return testenv.StartManager(t, cluster.Config, testenv.ManagerOptions{Namespace: namespace, Requests: recorded, Settings: change})
}

// namespace makes a namespace for one test. There is no garbage collector, so what is in it
// stays: names never collide.
func namespace(t *testing.T) string {
	t.Helper()
	return cluster.Namespace(t)
}
