package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mainstay-platform/mainstay/hack/internal/step"
)

// fewPackages is how many packages a build may compile that Go's build cache serves: an estimate
// needs more.
const fewPackages = 100

// startTestbed builds what a first application needs, and starts a cluster. The rest is loaded
// later.
func (s *show) startTestbed(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("the demo's cluster needs root: run it with sudo, or set KUBECONFIG and REGISTRY to use a cluster of your own")
	}
	s.log.Say("first the testbed tool, then Kubernetes and Mainstay are compiled, unless they were before; then a cluster starts")
	begin := time.Now()
	packages, err := s.log.BuildTestbed(ctx)
	if err != nil {
		return err
	}
	if err := s.announce(ctx, packages, time.Since(begin)); err != nil {
		return err
	}
	if err := s.log.Show("Kubernetes", exec.CommandContext(ctx, step.Testbed, "assets")); err != nil {
		return err
	}
	s.compiled = s.log.Elapsed()
	if err := s.log.Show("what else the cluster needs", exec.CommandContext(ctx, step.Testbed, "build", "--core")); err != nil {
		return err
	}
	// A starting cluster waits more than it computes.
	var group errgroup.Group
	group.Go(func() error {
		return s.log.Show("starting a cluster", exec.CommandContext(ctx, step.Testbed, "up", "--core"))
	})
	group.Go(func() error { return s.log.BuildImage(ctx) })
	if err := group.Wait(); err != nil {
		return err
	}
	if err := s.log.Do(ctx, "loading the image into the cluster", exec.CommandContext(ctx, step.Testbed, "image", "load",
		step.Image)); err != nil {
		return err
	}
	image, err := os.ReadFile(step.Image)
	if err != nil {
		return fmt.Errorf("reading the image: %w", err)
	}
	s.digest = fmt.Sprintf("sha-%.12x", sha256.Sum256(image))
	s.cluster, err = step.FindCluster(ctx)
	return err
}

// announce shows how long the rest takes, estimated from the first build on this machine.
func (s *show) announce(ctx context.Context, compiled int, took time.Duration) error {
	if compiled < fewPackages {
		return nil
	}
	answer, err := step.Ask(ctx, "packages")
	if err != nil {
		return err
	}
	all, err := strconv.Atoi(answer)
	if err != nil {
		return fmt.Errorf("reading the number of Kubernetes' packages: %w", err)
	}
	rest := max(0, all-compiled)
	left := took / time.Duration(compiled) * time.Duration(rest)
	s.log.Say("this machine (%d processors) compiled %d packages in %s; Kubernetes has %d more: some %s; then Mainstay and the cluster, a few minutes",
		runtime.NumCPU(), compiled, took.Round(time.Second), rest, left.Round(time.Minute))
	return nil
}

// complete adds what no first application needs: metrics, for autoscaling and kubectl top, and the
// images of other samples.
func (s *show) complete(ctx context.Context) error {
	if s.registry != "" {
		return nil
	}
	return s.log.Show("the application runs; adding metrics-server and nginx to the cluster (Ctrl-C does no harm)",
		exec.CommandContext(ctx, step.Testbed, "up"))
}

// firstAnswer shows the time until an application's first answer, relative to the time of compiling
// Kubernetes. The testbed tool is compiled before, from packages that Kubernetes needs as well, so
// its time counts as Kubernetes'.
func (s *show) firstAnswer() {
	took := s.log.Elapsed()
	if s.compiled < time.Minute {
		s.log.Say("  %s after the start", took)
		return
	}
	s.log.Say("  %s after the start, %.2f times the %s until Kubernetes was compiled", took, took.Seconds()/s.compiled.Seconds(), s.compiled)
}
