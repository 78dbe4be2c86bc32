//go:build e2e

package databases

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/test/programs"
)

var (
	rounds = flag.Int("rounds", 1, "how often each fault happens")
	only   = flag.String("only", "", "a regular expression for the names of the faults that happen")
	away   = flag.Duration("away", 20*time.Second, "for how long the control plane is away")
	image  = flag.String("version", "17", "the major version of PostgreSQL")
	rows   = flag.String("rows", "", "a file to which a row is added for each fault: its name, how long no write was acknowledged, and "+
		"after how long the database was whole again, in milliseconds, separated by tabs")
	brief = flag.Bool("brief", false, "let one fault of each sort happen")
	alone = flag.Bool("alone", false, "let the faults happen while no manager runs")
)

const (
	// system is the namespace of the Mainstay installation.
	system = "mainstay-system"
	// within bounds most waits. What is waited for takes seconds, but may take more than ten times
	// that on a machine with two cores and other work.
	within = 4 * time.Minute
	poll   = 100 * time.Millisecond
	// patience is how long one try to connect may take where nothing is measured.
	patience = 30 * time.Second
	// atMost is an option of kubectl and helm, for what takes several steps.
	atMost = "--timeout=8m"
	// repository is the root of the checkout, relative to this folder.
	repository = "../.."
)

// cluster is the client that all tests share. It reads nothing from a cache.
var cluster client.Client

func TestMain(m *testing.M) {
	flag.Parse()
	gomega.SetDefaultEventuallyTimeout(within)
	gomega.SetDefaultEventuallyPollingInterval(poll)
	for _, needed := range []string{"KUBECONFIG", "KUBECTL", "HELM", "MAINSTAY_TESTBED"} {
		if os.Getenv(needed) == "" {
			fmt.Fprintf(os.Stderr, "%s is not set: run `make test-databases`\n", needed)
			os.Exit(1)
		}
	}
	if err := install(); err != nil {
		fmt.Fprintln(os.Stderr, "databases:", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := uninstall(); err != nil {
		fmt.Fprintln(os.Stderr, "databases:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// install installs the operator with the kinds of databases, from this checkout, and makes the
// client.
func install() error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS = -1
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, databasev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	if cluster, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	arguments := []string{"upgrade", "--install", "mainstay", filepath.Join(repository, "charts", "mainstay"), "-n", system, "--create-namespace",
		"--set", "image.tag=0.0.0-dev", "--wait", atMost, "--set", "databaseImages.pgbouncer=docker.io/mainstay/pgbouncer:1"}
	for version := 12; version <= 18; version++ {
		arguments = append(arguments, "--set", fmt.Sprintf("databaseImages.postgresql.%d=docker.io/mainstay/postgresql:%d", version, version))
	}
	for _, version := range cacheVersions {
		arguments = append(arguments, "--set", fmt.Sprintf("databaseImages.valkey.%d=docker.io/mainstay/valkey:%d", version, version))
	}
	_, err = command(context.Background(), "", os.Getenv("HELM"), arguments...)
	return err
}

func uninstall() error {
	_, err := command(context.Background(), "", os.Getenv("HELM"), "uninstall", "mainstay", "-n", system, "--wait", atMost)
	return err
}

// command runs a program and returns its output. An error contains the standard error.
func command(ctx context.Context, stdin, name string, arguments ...string) (string, error) {
	output, err := programs.Run(ctx, stdin, name, arguments...)
	return strings.TrimSpace(output), err
}

// kubectl runs kubectl, which must succeed.
func kubectl(t *testing.T, arguments ...string) string {
	t.Helper()
	output, err := command(t.Context(), "", os.Getenv("KUBECTL"), arguments...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// kubectlAnyway runs kubectl in a cleanup.
func kubectlAnyway(t *testing.T, arguments ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*within) // longer than kubectl waits
	defer cancel()
	if _, err := command(ctx, "", os.Getenv("KUBECTL"), arguments...); err != nil {
		t.Error(err)
	}
}

// apply runs kubectl apply with a manifest. Right after the installation, the nodes may not have
// the addresses of the managers yet.
func apply(t *testing.T, namespace, manifest string) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() error {
		_, err := command(t.Context(), manifest, os.Getenv("KUBECTL"), "apply", "-n", namespace, "-f", "-")
		if err != nil && !strings.Contains(err.Error(), "failed calling webhook") {
			return gomega.StopTrying("applying").Wrap(err)
		}
		return err
	}).Should(gomega.Succeed())
}

// testbed runs the tool that made the cluster, which must succeed.
func testbed(t *testing.T, arguments ...string) {
	t.Helper()
	if _, err := command(t.Context(), "", os.Getenv("MAINSTAY_TESTBED"), arguments...); err != nil {
		t.Fatal(err)
	}
}

// testbedAnyway runs the tool in a cleanup.
func testbedAnyway(t *testing.T, arguments ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), within)
	defer cancel()
	if _, err := command(ctx, "", os.Getenv("MAINSTAY_TESTBED"), arguments...); err != nil {
		t.Error(err)
	}
}

// eventually waits until what is described is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	gomega.NewWithT(t).Eventually(is, within).Should(gomega.BeTrue(), what)
}
