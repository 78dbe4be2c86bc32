package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/mainstay-platform/mainstay/hack/internal/step"
)

// claim makes sure that only one run at a time uses the machine's test clusters, which are separate
// from that of `make demo`. The claim ends with the returned function, or with the process.
func claim() (release func(), err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("finding the cache folder: %w", err)
	}
	name := filepath.Join(cache, "mainstay", "test-cluster.lock")
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		return nil, fmt.Errorf("claiming the test clusters: %w", err)
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // our own file
	if err != nil {
		return nil, fmt.Errorf("claiming the test clusters: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, errors.New("another run of the tests uses this machine's test clusters: wait for its end, or name layers without a cluster (`make help`)")
	}
	return func() { _ = file.Close() }, nil
}

// verify checks that generated files are up to date, modules tidy and linters content.
func verify(ctx context.Context, log *step.Log) ([]string, error) {
	return nil, log.Do(ctx, "checking generated files, modules and lint", exec.CommandContext(ctx, "nice", "-n", "10", "make", "verify"))
}

// buildShared builds what several lanes need.
func buildShared(ctx context.Context, log *step.Log) error {
	if _, err := log.BuildTestbed(ctx); err != nil {
		return err
	}
	build := exec.CommandContext(ctx, step.Testbed, "build")
	return log.Show("building what the cluster is made of (the first time on a machine it compiles Kubernetes)", build)
}

// assets builds etcd and kube-apiserver. Options select them; the default are those of the testbed.
func assets(options ...string) func(context.Context, *step.Log) ([]string, error) {
	question := append([]string{"assets"}, options...)
	return func(ctx context.Context, log *step.Log) ([]string, error) {
		if _, err := log.BuildTestbed(ctx); err != nil {
			return nil, err
		}
		build := exec.CommandContext(ctx, step.Testbed, question...)
		if err := log.Show("building etcd and kube-apiserver, unless they are there", build); err != nil {
			return nil, err
		}
		directory, err := step.Ask(ctx, question...)
		return []string{"KUBEBUILDER_ASSETS=" + directory}, err
	}
}

// The variables that say where the files of an engine's image are.
const (
	postgresqlRoot = "MAINSTAY_POSTGRESQL_ROOT"
	valkeyRoot     = "MAINSTAY_VALKEY_ROOT"
	pgbouncerRoot  = "MAINSTAY_PGBOUNCER_ROOT"
)

// instances builds what real databases on this machine need: the API server, the program, and the
// files of an image of each engine.
func instances(ctx context.Context, log *step.Log) ([]string, error) {
	environment, err := assets()(ctx, log)
	if err != nil {
		return nil, err
	}
	// Stripped, as in the image, because its memory is measured; and not where `make build` writes it,
	// which another lane may do meanwhile.
	program := absolute("bin/tested/mainstay-instance")
	build := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", program, "./cmd/mainstay-instance")
	if err := log.Show("building the program of an instance", build); err != nil {
		return nil, err
	}
	environment = append(environment, "MAINSTAY_INSTANCE="+program)
	for _, image := range []struct{ name, variable string }{
		{"postgresql-17", postgresqlRoot}, {"valkey-8", valkeyRoot}, {"pgbouncer", pgbouncerRoot},
	} {
		unpack := exec.CommandContext(ctx, step.Testbed, "image", "root", image.name)
		if err := log.Show("unpacking the image "+image.name+", unless that is done", unpack); err != nil {
			return nil, err
		}
		root, err := step.Ask(ctx, "image", "root", image.name)
		if err != nil {
			return nil, err
		}
		environment = append(environment, image.variable+"="+root)
	}
	return environment, nil
}

// testbedUp builds the parts of the cluster. TestUp starts it.
func testbedUp(ctx context.Context, log *step.Log) ([]string, error) {
	if err := buildShared(ctx, log); err != nil {
		return nil, err
	}
	users := clusters[clusterLane]
	users.started()
	return users.testEnvironment(), nil
}

// testbedDown does nothing: TestDown deletes the cluster.
func testbedDown(context.Context, *step.Log) ([]string, error) {
	return clusters[clusterLane].testEnvironment(), nil
}

// builtProduct is the operator, which both test clusters need and which is built once.
var builtProduct struct {
	sync.Once
	err error
}

func buildProduct(ctx context.Context, log *step.Log) error {
	builtProduct.Do(func() { builtProduct.err = log.BuildProduct(ctx) })
	return builtProduct.err
}

// cluster makes sure that the first cluster runs, with two nodes, and has the operator's image of
// the previous state too.
func cluster(ctx context.Context, log *step.Log) ([]string, error) {
	if err := buildProduct(ctx, log); err != nil {
		return nil, err
	}
	previous, err := buildPrevious(ctx, log)
	if err != nil {
		return nil, err
	}
	environment, err := clusters[clusterLane].with(ctx, log, "2", []string{previous.archive},
		"kubectl", "demo-java", "demo-agent", "demo-shop", "postgresql-14", "postgresql-17", "valkey-8")
	return append(environment, "PREVIOUS_CHART="+absolute(previous.chart), "PREVIOUS_TAG="+previousVersion), err
}

// databases returns what makes sure that the second cluster runs, with three nodes, and has these
// images of the testbed.
func databases(images ...string) func(context.Context, *step.Log) ([]string, error) {
	return func(ctx context.Context, log *step.Log) ([]string, error) {
		if err := buildProduct(ctx, log); err != nil {
			return nil, err
		}
		return clusters[secondLane].with(ctx, log, "3", nil, images...)
	}
}

// with makes sure that the cluster runs, with so many nodes, and has the operator's image, these
// archives, and these images of the testbed. It returns the variables that the tests need.
func (c testCluster) with(ctx context.Context, log *step.Log, nodes string, archives []string, images ...string) ([]string, error) {
	if err := buildShared(ctx, log); err != nil {
		return nil, err
	}
	built, err := step.Ask(ctx, append([]string{"image", "build"}, images...)...)
	if err != nil {
		return nil, err
	}
	if err := c.start(ctx, log, nodes); err != nil {
		return nil, err
	}
	load := c.command(ctx, slices.Concat([]string{"image", "load", step.Image}, archives, strings.Fields(built))...)
	if err := log.Do(ctx, "loading the images into the cluster "+string(c), load); err != nil {
		return nil, err
	}
	kubeconfig, err := c.ask(ctx, "kubeconfig")
	if err != nil {
		return nil, err
	}
	assets, err := step.Ask(ctx, "assets")
	if err != nil {
		return nil, err
	}
	return append([]string{
		"KUBECONFIG=" + kubeconfig, "KUBECTL=" + filepath.Join(assets, "kubectl"), "HELM=" + absolute(step.Helm),
	}, c.testEnvironment()...), nil
}

// longOutage starts a cluster whose API server will be down for as long as an upgrade of it may
// take.
func longOutage(ctx context.Context, log *step.Log) ([]string, error) {
	environment, err := cluster(ctx, log)
	return append(environment, "MAINSTAY_OUTAGE=5m"), err
}
