// Package faults makes every request of the manager fail in every way, one at a time, and checks
// that the end state is the same. See docs/faults.md.
package faults

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/test/faults/campaign"
	"github.com/mainstay-platform/mainstay/test/testenv"
	"github.com/mainstay-platform/mainstay/test/testlog"
)

// whole selects every fault at every point. Without it, a part runs that fits into `make test`.
var whole = flag.Bool("whole", false, "every fault at every point (make faults)")

// cluster has an API server and the garbage collector, and nothing else.
var cluster campaign.Cluster

func TestMain(m *testing.M) {
	flag.Parse()
	testlog.Set()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	server, err := testenv.Start(testenv.Options{Definitions: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the API server:", err)
		}
	}()
	stop, err := collectGarbage(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-controller-manager"), server.Environment.KubeConfig)
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the garbage collector:", err)
		return 1
	}
	defer stop()
	cluster = campaign.Cluster{Config: server.Config, Client: server.Client, New: newManager, Reconciled: reconciled}
	if err := cluster.Prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// collectGarbage runs Kubernetes' garbage collector and none of its other controllers. The
// scenarios do what those would do to Deployments.
func collectGarbage(program string, kubeconfig []byte) (stop func(), err error) {
	folder, err := os.MkdirTemp("", "mainstay-faults-")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(folder, "kubeconfig")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(folder, "log")) //nolint:gosec // a folder of our own
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, program, //nolint:gosec // the testbed's
		"--kubeconfig="+file, "--controllers=garbage-collector-controller", "--leader-elect=false",
		"--bind-address=127.0.0.1", "--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=500", "--profiling=false")
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		cancel()
		return nil, err
	}
	return func() {
		cancel()
		_ = command.Wait()
		_ = log.Close()
		_ = os.RemoveAll(folder)
	}, nil
}

// newManager returns the manager of production, but without leader election and ports.
func newManager(ctx context.Context, config *rest.Config) (manager.Manager, error) {
	return setup.New(ctx, config, managerSettings())
}

func managerSettings() setup.Settings {
	settings := testenv.Settings()
	settings.ShutdownTimeout = time.Second
	settings.InstanceImage = "registry.example.com/mainstay:1.0"
	settings.PgBouncerImage = "registry.example.com/pgbouncer:1.24.1"
	settings.PostgreSQLImages = map[string]string{"17": "registry.example.com/postgresql:17.11"}
	settings.ValkeyImages = map[string]string{"9": "registry.example.com/valkey:9.1.2"}
	return settings
}

// reconciled returns how many reconciles of our kinds in a namespace have completed without an
// error, by the managers' own metrics. All managers share the metrics, because they share the
// process. Reconciles of workloads are not counted: the steps check their results.
func reconciled(namespace string) (int, error) {
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		return 0, err
	}
	count := 0
	for _, family := range families {
		if family.GetName() != "mainstay_reconcile_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["namespace"] == namespace && labels["kind"] != "Workload" &&
				(labels["result"] == "changed" || labels["result"] == "unchanged") {
				count += int(metric.GetCounter().GetValue())
			}
		}
	}
	return count, nil
}
