package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/mainstay-platform/mainstay/testbed/internal/build"
)

// imageNamespace is the containerd namespace that the kubelet sees.
const imageNamespace = "k8s.io"

func (c *Cluster) ctr(ctx context.Context, node string, arguments ...string) (string, error) {
	program, found := c.programs["ctr"]
	if !found {
		program = "ctr"
	}
	all := append([]string{"--address", c.dir.ContainerdSocket(node), "--namespace", imageNamespace}, arguments...)
	return command(ctx, program, all...)
}

// ensureImage imports a tarball of the cache unless the node already has it. The name of the
// tarball's folder contains the key of its content, so the name identifies it.
func (c *Cluster) ensureImage(ctx context.Context, node, tarball string) error {
	marker := c.dir.Node(node, "imported", build.Key(tarball))
	if _, err := os.Stat(marker); err == nil {
		return nil
	}
	if err := c.importImage(ctx, node, tarball); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(marker), 0o755); err != nil {
		return fmt.Errorf("noting an import: %w", err)
	}
	if err := os.WriteFile(marker, []byte(tarball), 0o644); err != nil {
		return fmt.Errorf("noting an import: %w", err)
	}
	return nil
}

func (c *Cluster) importImage(ctx context.Context, node, tarball string) error {
	if _, err := c.ctr(ctx, node, "images", "import", tarball); err != nil {
		return fmt.Errorf("importing %s to %s: %w", tarball, node, err)
	}
	return nil
}

// LoadImages imports tarballs, in the format of `docker save` or OCI, to every node. Importing an
// image again does no harm.
func (c *Cluster) LoadImages(ctx context.Context, tarballs []string) error {
	nodes, err := c.runningNodes()
	if err != nil {
		return err
	}
	for _, tarball := range tarballs {
		if _, err := os.Stat(tarball); err != nil {
			return fmt.Errorf("reading the image: %w", err)
		}
		for _, node := range nodes {
			err := c.progress.Step("importing "+filepath.Base(tarball)+" to "+node, nil, func() error {
				return c.importImage(ctx, node, tarball)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// ListImages returns the references of the images on each node.
func (c *Cluster) ListImages(ctx context.Context) (map[string][]string, error) {
	nodes, err := c.runningNodes()
	if err != nil {
		return nil, err
	}
	images := map[string][]string{}
	for _, node := range nodes {
		output, err := c.ctr(ctx, node, "images", "list", "--quiet")
		if err != nil {
			return nil, fmt.Errorf("listing the images of %s: %w", node, err)
		}
		for line := range strings.Lines(output) {
			// containerd lists an image by its digest too, for the kubelet.
			if reference := strings.TrimSpace(line); reference != "" && !strings.HasPrefix(reference, "sha256:") {
				images[node] = append(images[node], reference)
			}
		}
	}
	return images, nil
}

// ErrNotRunning means that there is no cluster.
var ErrNotRunning = errors.New("the cluster is not running: start it with `testbed up`")

func (c *Cluster) runningNodes() ([]string, error) {
	state, found, err := readState(c.dir)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, ErrNotRunning
	}
	var nodes []string
	for number := 1; number <= state.Nodes; number++ {
		node := NodeName(number)
		if _, err := os.Stat(c.dir.ContainerdSocket(node)); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("containerd of %s is not running: %w", node, ErrNotRunning)
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}
