package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mainstay-platform/mainstay/testbed/internal/cgroup"
	"github.com/mainstay-platform/mainstay/testbed/internal/proc"
)

const (
	stopGrace   = time.Second      // for a component to end by itself: its state is thrown away
	killTimeout = 20 * time.Second // for the kernel to end what was killed
)

// Down ends the cluster and removes everything that it created on the machine except logs and the
// cache. Idempotent, also after a crash or an incomplete `up`.
func (c *Cluster) Down(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("a testbed needs root: run it with sudo")
	}
	for _, step := range []struct {
		name string
		work func(context.Context) error
	}{
		// Writers to a frozen file system never end.
		{"thawing volumes", func(ctx context.Context) error { return thawBelow(ctx, c.dir.Run()) }},
		{"ending processes", c.stopProcesses},
		{"removing mounts and loop devices", c.removeStorage},
		// Before the network and the state, which show that a cluster has run.
		{"removing kube-proxy's tables", c.removeProxyTables},
		{"removing the kubelet's sockets", func(context.Context) error { return c.removeKubeletSockets() }},
		{"removing the network", removeNetwork},
		{"removing control groups", func(context.Context) error { return cgroup.Remove(killTimeout) }},
		{"restoring kernel settings", func(context.Context) error { return c.restoreSysctls() }},
		{"removing files", func(context.Context) error { return c.removeFiles() }},
	} {
		err := c.progress.Step(step.name, nil, func() error { return step.work(ctx) })
		if err != nil {
			return err
		}
	}
	return nil
}

// Purge removes the cache too.
func (c *Cluster) Purge() error {
	for _, folder := range []string{c.dir.Cache(), c.dir.Logs()} {
		if err := os.RemoveAll(folder); err != nil {
			return fmt.Errorf("removing %s: %w", folder, err)
		}
	}
	return nil
}

// stopProcesses first ends what would start other processes (kubelets and the control plane), then
// containers, then containerd (which cleans up after its containers), then the rest.
func (c *Cluster) stopProcesses(context.Context) error {
	records, err := c.processes.List()
	if err != nil {
		return err
	}
	var managers, runtimes []proc.Record
	for _, record := range records {
		if strings.HasPrefix(record.Name, "containerd-") {
			runtimes = append(runtimes, record)
		} else {
			managers = append(managers, record)
		}
	}
	if err := stopAll(managers); err != nil {
		return err
	}
	if err := cgroup.KillPods(killTimeout); err != nil {
		return err
	}
	if err := stopAll(runtimes); err != nil {
		return err
	}
	return cgroup.KillAll(killTimeout)
}

func stopAll(records []proc.Record) error {
	var group errgroup.Group
	for _, record := range records {
		group.Go(func() error { return record.Stop(stopGrace) })
	}
	return group.Wait()
}

func (c *Cluster) removeStorage(ctx context.Context) error {
	if err := unmountBelow(c.dir.Run()); err != nil {
		return err
	}
	return detachLoops(ctx, c.dir.Run())
}

func (c *Cluster) restoreSysctls() error {
	state, found, err := readState(c.dir)
	if err != nil || !found {
		return err
	}
	boot, err := bootID()
	if err != nil || boot != state.BootID {
		return err // the restart restored them
	}
	// The last cluster of a machine restores them.
	if others, err := c.siblings(boot); err != nil || len(others) > 0 {
		return err
	}
	return writeSysctls(state.Sysctls)
}

// removeFiles deletes the run folder, and what containerd and the kubelet wrote to
// places that cannot be configured.
func (c *Cluster) removeFiles() error {
	if err := c.removeShimSockets(); err != nil {
		return err
	}
	if err := c.removeLogLinks(); err != nil {
		return err
	}
	if err := c.removeCNIResults(); err != nil {
		return err
	}
	for _, folder := range []string{
		"/var/lib/kubelet/device-plugins", "/var/lib/kubelet", "/var/log/containers", "/var/log/pods",
		"/run/containerd/s", "/run/containerd/runc/k8s.io", "/run/containerd/runc", "/run/containerd", "/var/lib/cni/results",
		"/var/lib/cni/cache", "/var/lib/cni",
	} {
		_ = os.Remove(folder) // only when empty: somebody else may use it
	}
	// Last: the run folder has the state that the next `down` needs if this one is interrupted.
	if err := os.RemoveAll(c.dir.Run()); err != nil {
		return fmt.Errorf("removing the run folder: %w", err)
	}
	return nil
}

// hasRun reports whether a cluster of a testbed runs in this network, or has left something there:
// a state, or the bridge, which shows one of another state directory too.
func (c *Cluster) hasRun() bool {
	_, err := os.Stat(c.dir.State())
	return err == nil || linkExists(bridgeName)
}

// removeKubeletSockets deletes what kubelets write to places that cannot be configured, if the
// kubelets were those of a testbed. That of every node overwrites it: with no kubelet it is dead.
func (c *Cluster) removeKubeletSockets() error {
	if !c.hasRun() {
		return nil
	}
	for _, file := range []string{"/var/lib/kubelet/device-plugins/kubelet.sock", "/var/lib/kubelet/device-plugins/DEPRECATION"} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing %s: %w", file, err)
		}
	}
	return nil
}

// removeCNIResults deletes CNI's records of the pods that ran until the end, of their own network
// and of the loopback. The file name of a loopback's record does not identify the cluster, but its
// content names the pod's network namespace.
func (c *Cluster) removeCNIResults() error {
	results, err := filepath.Glob("/var/lib/cni/results/*")
	if err != nil {
		return fmt.Errorf("listing CNI's cache: %w", err)
	}
	for _, file := range results {
		isOurs := strings.HasPrefix(filepath.Base(file), podNetwork()+"-")
		if !isOurs {
			content, err := os.ReadFile(file)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return fmt.Errorf("reading CNI's cache: %w", err)
			}
			isOurs = bytes.Contains(content, []byte(c.dir.Run()+"/"))
		}
		if !isOurs {
			continue
		}
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing CNI's cache: %w", err)
		}
	}
	return nil
}

// removeShimSockets deletes the sockets of killed shims. They are in /run/containerd/s, under a
// name that only the container's folder contains.
func (c *Cluster) removeShimSockets() error {
	found, err := filepath.Glob(c.dir.Node("*", "containerd-run", "io.containerd.runtime.v2.task", "*", "*", "address"))
	if err != nil {
		return fmt.Errorf("listing the shims: %w", err)
	}
	for _, file := range found {
		content, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		socket, isUnix := strings.CutPrefix(strings.TrimSpace(string(content)), "unix://")
		if isUnix && strings.HasPrefix(socket, "/run/containerd/s/") {
			_ = os.Remove(socket) // gone already when the shim ended by itself
		}
	}
	return nil
}

// removeLogLinks deletes the links to our pods' logs from /var/log/containers.
func (c *Cluster) removeLogLinks() error {
	const folder = "/var/log/containers"
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing %s: %w", folder, err)
	}
	for _, entry := range entries {
		link := filepath.Join(folder, entry.Name())
		target, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(target, c.dir.Run()+"/") {
			continue
		}
		if err := os.Remove(link); err != nil {
			return fmt.Errorf("removing a log link: %w", err)
		}
	}
	return nil
}
