// Command demo shows Mainstay on a real cluster, from nothing: it builds everything, starts the
// testbed, installs the chart, applies a sample and shows what happens. It may be run
// again at any time; `make demo-down` ends it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/mainstay-platform/mainstay/hack/internal/step"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "\nmake demo: %v\n\nWhat is there stays; run `make demo` again once the cause is mended, or `make demo-down`.\n", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	log := step.NewLog(os.Stdout)
	if err := log.BuildTestbed(ctx); err != nil {
		return err
	}
	up := exec.CommandContext(ctx, step.Testbed, "up")
	if err := log.Show("starting a Kubernetes cluster (the first time it is compiled: some ten minutes)", up); err != nil {
		return err
	}
	if err := log.BuildProduct(ctx); err != nil {
		return err
	}
	load := exec.CommandContext(ctx, step.Testbed, "image", "load", step.Image)
	if err := log.Do(ctx, "loading the image into the cluster", load); err != nil {
		return err
	}
	cluster, err := step.FindCluster(ctx)
	if err != nil {
		return err
	}
	show := &show{log: log, cluster: cluster}
	if err := show.install(ctx); err != nil {
		return err
	}
	if err := show.play(ctx); err != nil {
		return err
	}
	if err := show.farm(ctx); err != nil {
		return err
	}
	show.farewell()
	return nil
}

// show is the part that uses the cluster.
type show struct {
	log     *step.Log
	cluster step.Cluster
}

// kubectl runs kubectl and returns what it printed.
func (s *show) kubectl(ctx context.Context, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, s.cluster.Kubectl, arguments...)
	command.Env = s.cluster.Environment()
	var trouble strings.Builder
	command.Stderr = &trouble
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(arguments, " "), err, trouble.String())
	}
	return strings.TrimSpace(string(output)), nil
}
