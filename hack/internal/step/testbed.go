package step

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Programs and archives that the build leaves in bin/, relative to the repository's root.
const (
	Testbed = "bin/testbed"
	Helm    = "bin/helm"
	Image   = "bin/mainstay-image.tar"
	// NextImage is that of a release after this one, made of the same code.
	NextImage = "bin/mainstay-next-image.tar"
)

// BuildTestbed builds the tool that makes clusters.
func (l *Log) BuildTestbed(ctx context.Context) error {
	build := exec.CommandContext(ctx, "go", "build", "-v", "-o", "../"+Testbed, "./cmd/testbed")
	build.Dir = "testbed"
	return l.Do(ctx, "building the testbed tool", build)
}

// BuildProduct builds Helm and the operator's image.
func (l *Log) BuildProduct(ctx context.Context) error {
	if err := l.Do(ctx, "building Helm", exec.CommandContext(ctx, "make", Helm)); err != nil {
		return err
	}
	return l.Do(ctx, "building the operator and its image", exec.CommandContext(ctx, "make", "image"))
}

// BuildNext builds the image of a release after this one, to upgrade to.
func (l *Log) BuildNext(ctx context.Context) error {
	return l.Do(ctx, "building the image of a later release",
		exec.CommandContext(ctx, "make", "image", "VERSION=0.0.1-dev", "BINARY=bin/next/mainstay", "ARCHIVE="+NextImage))
}

// Ask is one line that the testbed tool answers.
func Ask(ctx context.Context, question ...string) (string, error) {
	command := exec.CommandContext(ctx, Testbed, question...)
	command.Stderr = os.Stderr
	answer, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("asking the testbed for its %s: %w", strings.Join(question, " "), err)
	}
	return strings.TrimSpace(string(answer)), nil
}

// Cluster is what one needs to use the testbed's cluster.
type Cluster struct {
	// Kubeconfig and Kubectl are paths.
	Kubeconfig, Kubectl string
}

// FindCluster asks where the running cluster is.
func FindCluster(ctx context.Context) (Cluster, error) {
	kubeconfig, err := Ask(ctx, "kubeconfig")
	if err != nil {
		return Cluster{}, err
	}
	assets, err := Ask(ctx, "assets")
	return Cluster{Kubeconfig: kubeconfig, Kubectl: filepath.Join(assets, "kubectl")}, err
}

// Environment is that of a command that uses the cluster.
func (c Cluster) Environment() []string {
	return append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)
}
