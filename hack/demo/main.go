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
	show := &show{log: step.NewLog(os.Stdout)}
	if err := show.run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "\nmake demo: %v\n%s", err, show.remaining())
		stop()
		os.Exit(1)
	}
}

func (s *show) run(ctx context.Context) error {
	start := s.startTestbed
	if registry := os.Getenv("REGISTRY"); registry != "" && os.Getenv("KUBECONFIG") != "" {
		s.registry, start = registry, s.useCluster
	}
	for _, part := range []func(context.Context) error{start, s.install, s.play, s.farm, s.database, s.shop, s.complete} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	s.farewell()
	return nil
}

// show is a run of the demo.
type show struct {
	log     *step.Log
	cluster step.Cluster
	// registry has the image; empty means the testbed, whose nodes have the image already.
	registry string
	// mayUse is true if a cluster of the user's own has nothing that the demo would take over.
	mayUse bool
	// image is what was pushed there: the reference with its digest.
	image string
	// digest distinguishes images of the same name: a new one restarts the operator.
	digest string
	// compiled is how long after the start Kubernetes was compiled.
	compiled time.Duration
}

// useCluster checks a cluster other than the testbed, and pushes the image for it.
func (s *show) useCluster(ctx context.Context) error {
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		return fmt.Errorf("a cluster of your own needs kubectl on the PATH: %w", err)
	}
	s.cluster = step.Cluster{Kubeconfig: os.Getenv("KUBECONFIG"), Kubectl: kubectl}
	context, err := s.kubectl(ctx, "config", "current-context")
	if err != nil {
		return err
	}
	if err := s.refuseForeign(ctx); err != nil {
		return fmt.Errorf("looking at the cluster of context %q: %w", context, err)
	}
	s.mayUse = true
	s.log.Say("installing into the namespace %s of the cluster of context %q, with the image in %s", system, context, s.registry)
	if err := s.log.Do(ctx, "building the image and pushing it to "+s.registry, exec.CommandContext(ctx, "make", "push")); err != nil {
		return err
	}
	pushed, err := os.ReadFile("bin/pushed")
	if err != nil {
		return fmt.Errorf("reading what was pushed: %w", err)
	}
	s.image = strings.TrimSpace(string(pushed))
	_, digest, found := strings.Cut(s.image, "@")
	if !found {
		return fmt.Errorf("bin/pushed has %q: want an image with its digest", s.image)
	}
	s.digest = digest
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
