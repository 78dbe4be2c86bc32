package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mainstay-platform/mainstay/testbed/internal/build"
	"github.com/mainstay-platform/mainstay/testbed/internal/cgroup"
	"github.com/mainstay-platform/mainstay/testbed/internal/layout"
	"github.com/mainstay-platform/mainstay/testbed/internal/proc"
	"github.com/mainstay-platform/mainstay/testbed/internal/product"
)

// Size is the extent of a cluster.
type Size struct {
	// Nodes is the number of nodes; 0 means as many as there are, at least one.
	Nodes int
	// Core leaves out what a first application does not need: metrics-server and the nginx images. It
	// removes nothing from a running cluster.
	Core bool
}

// Validate returns an error if the number of nodes is not possible.
func (s Size) Validate() error {
	if s.Nodes < 0 || s.Nodes > MaxNodes {
		return fmt.Errorf("%d nodes: must be from 1 to %d", s.Nodes, MaxNodes)
	}
	return nil
}

// Build builds everything that Up starts, and installs the packages that the machine needs for
// that. It needs the machine's own network, which a named cluster does not use (see
// [Cluster.MakeNetwork]).
func (c *Cluster) Build(ctx context.Context, core bool) error {
	var err error
	if c.programs, err = CheckMachine(ctx, c.progress); err != nil {
		return err
	}
	builder, err := c.Builder()
	if err != nil {
		return err
	}
	names := product.Images()
	if core {
		names = product.CoreImages()
	}
	// Debian's packages wait for the network, compilers for the processors.
	var group errgroup.Group
	if !core {
		group.Go(func() error {
			_, err := builder.Image(ctx, "nginx")
			return err
		})
	}
	group.Go(func() error {
		var err error
		if c.binaries, err = builder.Kubernetes(ctx, product.Current); err != nil {
			return err
		}
		c.images = map[string]string{}
		for _, name := range names {
			if c.images[name], err = builder.Image(ctx, name); err != nil {
				return err
			}
		}
		return nil
	})
	return group.Wait()
}

// Up starts what does not run yet and waits until the cluster works. Idempotent: after an
// interruption it continues, and after a restart of the machine it starts over.
//
// ctx bounds the wait for the cluster, not the builds before it.
func (c *Cluster) Up(ctx context.Context, size Size, timeout time.Duration) error {
	if err := c.refuseForeignNode(ctx); err != nil {
		return err
	}
	state, err := c.prepareState(ctx, size)
	if err != nil {
		return err
	}
	if err := c.Build(ctx, state.Core); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout,
		fmt.Errorf("the cluster did not work within %s: `testbed logs` lists where to look", timeout))
	defer cancel()
	if err := c.start(ctx, state); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return nil
}

// Builder builds what the cluster is made of into the state directory's cache.
func (c *Cluster) Builder() (product.Builder, error) {
	source, err := layout.Source()
	if err != nil {
		return product.Builder{}, err
	}
	return product.Builder{Source: source, Cache: build.Cache(c.dir.Cache()), Progress: c.progress}, nil
}

// prepareState decides the number of nodes, and records the machine's settings before anything
// changes them.
func (c *Cluster) prepareState(ctx context.Context, size Size) (machineState, error) {
	if err := size.Validate(); err != nil {
		return machineState{}, err
	}
	state, found, err := readState(c.dir)
	if err != nil {
		return machineState{}, err
	}
	boot, err := bootID()
	if err != nil {
		return machineState{}, err
	}
	if found && state.BootID != boot {
		c.progress.Say("the machine was restarted: starting a new cluster")
		if err := c.Down(ctx); err != nil {
			return machineState{}, err
		}
		found = false
		size.Nodes = max(size.Nodes, state.Nodes)
	}
	if !found {
		if err := os.RemoveAll(c.dir.Logs()); err != nil {
			return machineState{}, fmt.Errorf("removing the logs of the last cluster: %w", err)
		}
		state = machineState{BootID: boot, Nodes: 1, Core: true}
		if state.Sysctls, err = c.sysctlsBefore(boot); err != nil {
			return machineState{}, err
		}
	}
	if found && size.Nodes != 0 && size.Nodes < state.Nodes {
		return machineState{}, fmt.Errorf("the cluster has %d nodes and cannot shrink to %d: run `testbed down` first", state.Nodes, size.Nodes)
	}
	state.Nodes = max(state.Nodes, size.Nodes)
	state.Core = state.Core && size.Core
	return state, writeState(c.dir, state)
}

// start starts the control plane and, in parallel, the nodes' containerd, which imports the images.
// On two processors that saves a third of the time.
func (c *Cluster) start(ctx context.Context, state machineState) error {
	nodes := state.Nodes
	// From here on an ended process is a failure, not a left-over.
	if err := c.processes.Forget(); err != nil {
		return err
	}
	if err := writeSysctls(wantedSysctls(readSysctls())); err != nil {
		return err
	}
	if err := c.progress.Step("certificates and configuration", nil, func() error { return c.configure(nodes) }); err != nil {
		return err
	}
	if err := c.progress.Step("network", nil, func() error { return c.startNetwork(ctx, nodes) }); err != nil {
		return err
	}
	var group errgroup.Group
	group.Go(func() error { return c.startControlPlane(ctx) })
	for number := 1; number <= nodes; number++ {
		group.Go(func() error { return c.startContainerd(ctx, number) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := c.progress.Step("starting the nodes", nil, func() error { return c.startNodes(nodes) }); err != nil {
		return err
	}
	if err := c.progress.Step("applying the add-ons", nil, func() error { return c.applyManifests(ctx, state.Core) }); err != nil {
		return err
	}
	return c.waitWorking(ctx, state)
}

func (c *Cluster) configure(nodes int) error {
	if err := c.ensureCertificates(nodes); err != nil {
		return err
	}
	if err := c.writeClusterConfig(); err != nil {
		return err
	}
	for number := 1; number <= nodes; number++ {
		if err := c.writeNodeConfig(number); err != nil {
			return err
		}
		if err := cgroup.CreateNode(NodeName(number)); err != nil {
			return err
		}
	}
	return cgroup.Weigh(nodes, runtime.NumCPU())
}

func (c *Cluster) startNetwork(ctx context.Context, nodes int) error {
	if err := ensureBridge(ctx); err != nil {
		return err
	}
	for number := 1; number <= nodes; number++ {
		if err := ensureNodeNetwork(ctx, number); err != nil {
			return err
		}
	}
	return ensureRoutes(ctx, nodes)
}

func (c *Cluster) startControlPlane(ctx context.Context) error {
	return c.progress.Step("control plane", nil, func() error {
		for _, spec := range []proc.Spec{c.etcd(), c.apiserver()} {
			if err := c.ensure(spec); err != nil {
				return err
			}
		}
		if err := c.waitAPIServer(ctx); err != nil {
			return err
		}
		for _, spec := range []proc.Spec{c.manager(), c.scheduler()} {
			if err := c.ensure(spec); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *Cluster) startContainerd(ctx context.Context, number int) error {
	node := NodeName(number)
	return c.progress.Step("containerd and images of "+node, nil, func() error {
		if err := c.ensure(c.containerd(number)); err != nil {
			return err
		}
		if err := c.waitContainerd(ctx, node); err != nil {
			return err
		}
		for _, name := range product.Images() {
			if c.images[name] == "" {
				continue // none of a cluster's core
			}
			if err := c.ensureImage(ctx, node, c.images[name]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *Cluster) startNodes(nodes int) error {
	for number := 1; number <= nodes; number++ {
		for _, spec := range []proc.Spec{c.kubelet(number), c.nodeProxy(number)} {
			if err := c.ensure(spec); err != nil {
				return err
			}
		}
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding our own executable: %w", err)
	}
	info, err := os.Stat(self)
	if err != nil {
		return fmt.Errorf("reading our own executable: %w", err)
	}
	revision := info.ModTime().UTC().Format(time.RFC3339Nano)
	for _, spec := range []proc.Spec{c.hostProxy(), c.provisioner(self, revision)} {
		if err := c.ensure(spec); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) ensure(spec proc.Spec) error {
	record, started, err := c.processes.Ensure(spec)
	if err != nil {
		return err
	}
	if started {
		c.progress.Say("started %s (pid %d)", record.Name, record.PID)
	}
	return nil
}

func (c *Cluster) applyManifests(ctx context.Context, core bool) error {
	text, err := c.manifests(core)
	if err != nil {
		return err
	}
	_, err = commandWithInput(ctx, text, c.kube("kubectl"), "--kubeconfig", c.dir.Kubeconfig(),
		"apply", "--server-side", "--force-conflicts", "--field-manager=mainstay-testbed", "-f", "-")
	return err
}
