package step

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Programs and archives that the build writes to bin/, relative to the repository's root.
const (
	Testbed = "bin/testbed"
	Helm    = "bin/helm"
	Image   = "bin/mainstay-image.tar"
)

// BuildTestbed builds the tool that creates clusters, and returns how many packages were compiled.
func (l *Log) BuildTestbed(ctx context.Context) (packages int, err error) {
	// The same settings as for all static programs, so that Go's build cache has the same packages.
	build := exec.CommandContext(ctx, "go", "build", "-v", "-trimpath", "-buildvcs=false", "-o", "../"+Testbed, "./cmd/testbed")
	build.Dir = "testbed"
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	return l.Count(ctx, "building the testbed tool", build)
}

// BuildImage builds the operator's image.
func (l *Log) BuildImage(ctx context.Context) error {
	return l.Do(ctx, "building the operator and its image", exec.CommandContext(ctx, "make", "image"))
}

// BuildProduct builds Helm and the operator's image.
func (l *Log) BuildProduct(ctx context.Context) error {
	if err := l.Do(ctx, "building Helm", exec.CommandContext(ctx, "make", Helm)); err != nil {
		return err
	}
	return l.BuildImage(ctx)
}

// Ask returns one line of the testbed tool's output.
func Ask(ctx context.Context, question ...string) (string, error) {
	answer, err := Answer(exec.CommandContext(ctx, Testbed, question...))
	if err != nil {
		return "", fmt.Errorf("asking the testbed for its %s: %w", strings.Join(question, " "), err)
	}
	return answer, nil
}

// Answer returns a command's standard output without surrounding white space. Its standard error is
// shown.
func Answer(command *exec.Cmd) (string, error) {
	command.Stderr = os.Stderr
	interruptible(command)
	answer, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("running %s: %w", strings.Join(command.Args, " "), err)
	}
	return strings.TrimSpace(string(answer)), nil
}

// Cluster has what a client of the testbed's cluster needs.
type Cluster struct {
	// Kubeconfig and Kubectl are paths.
	Kubeconfig, Kubectl string
}

// FindCluster returns the running cluster.
func FindCluster(ctx context.Context) (Cluster, error) {
	kubeconfig, err := Ask(ctx, "kubeconfig")
	if err != nil {
		return Cluster{}, err
	}
	assets, err := Ask(ctx, "assets")
	return Cluster{Kubeconfig: kubeconfig, Kubectl: filepath.Join(assets, "kubectl")}, err
}

// Environment returns the environment of a command that uses the cluster.
func (c Cluster) Environment() []string {
	return append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)
}
