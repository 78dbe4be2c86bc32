// Command demo shows Mainstay on a real cluster, from nothing: it builds what is missing, starts
// the testbed, installs Mainstay, applies samples and shows what happens. You can interrupt it and
// run it again at any time; `make demo-down` deletes the cluster. With KUBECONFIG and REGISTRY set
// it uses your own cluster instead.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/mainstay-platform/mainstay/hack/internal/step"
)

func main() {
	ctx, stop := step.UntilInterrupted()
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "\nmake demo: %v\n\nThe cluster stays: run `make demo` again to continue, or `make demo-down` to delete it.\n",
			err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	show := &show{log: step.NewLog(os.Stdout)}
	start := show.startTestbed
	if registry := os.Getenv("REGISTRY"); registry != "" && os.Getenv("KUBECONFIG") != "" {
		start = func(ctx context.Context) error { return show.useCluster(ctx, registry) }
	}
	for _, part := range []func(context.Context) error{start, show.install, show.play, show.farm, show.database, show.shop, show.complete} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	show.farewell()
	return nil
}

// show is a run of the demo.
type show struct {
	log     *step.Log
	cluster step.Cluster
	// registry has the image; empty means the testbed, whose nodes have the image already.
	registry string
	// digest distinguishes images of the same name: a new one restarts the operator.
	digest string
	// compiled is how long after the start Kubernetes was compiled.
	compiled time.Duration
}

// useCluster pushes the image for a cluster other than the testbed.
func (s *show) useCluster(ctx context.Context, registry string) error {
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		return fmt.Errorf("a cluster of your own needs kubectl on the PATH: %w", err)
	}
	s.registry = registry
	s.cluster = step.Cluster{Kubeconfig: os.Getenv("KUBECONFIG"), Kubectl: kubectl}
	context, err := s.kubectl(ctx, "config", "current-context")
	if err != nil {
		return err
	}
	s.log.Say("installing into the namespace %s of the cluster of context %q, with the image in %s", system, context, registry)
	if err := s.log.Do(ctx, "building the image and pushing it to "+registry, exec.CommandContext(ctx, "make", "push")); err != nil {
		return err
	}
	pushed, err := os.ReadFile("bin/pushed")
	if err != nil {
		return fmt.Errorf("reading what was pushed: %w", err)
	}
	_, s.digest, _ = strings.Cut(strings.TrimSpace(string(pushed)), "@")
	return nil
}

// kubectl runs kubectl and returns its output.
func (s *show) kubectl(ctx context.Context, arguments ...string) (string, error) {
	return s.kubectlWith(ctx, "", arguments...)
}

// kubectlWith runs kubectl with an input.
func (s *show) kubectlWith(ctx context.Context, input string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, s.cluster.Kubectl, arguments...)
	command.Env = s.cluster.Environment()
	command.Stdin = strings.NewReader(input)
	var trouble strings.Builder
	command.Stderr = &trouble
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(arguments, " "), err, trouble.String())
	}
	return strings.TrimSpace(string(output)), nil
}
