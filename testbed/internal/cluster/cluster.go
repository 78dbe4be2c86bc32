// Package cluster starts, observes and ends a Kubernetes cluster on this machine.
//
// The control plane runs in the machine's network namespace, and every node in its own, connected
// by a bridge. `down` finds everything that the cluster changes on the machine without a record:
// processes by their control group, links and namespaces by their name, mounts and loop devices by
// their path. Only the original kernel settings must be recorded (see [machineState]).
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mainstay-platform/mainstay/testbed/internal/layout"
	"github.com/mainstay-platform/mainstay/testbed/internal/pki"
	"github.com/mainstay-platform/mainstay/testbed/internal/proc"
	"github.com/mainstay-platform/mainstay/testbed/internal/ui"
)

// Cluster is the one cluster of a state directory.
type Cluster struct {
	dir       layout.Dir
	store     pki.Store
	processes proc.Table
	progress  *ui.Progress
	binaries  string            // folder of Kubernetes' programs; set by Build
	programs  map[string]string // paths of the machine's programs; set by Build
	images    map[string]string // tarballs by image name; set by Build

	watching sync.Mutex // one look at all processes at a time
	restarts int        // kubelets that were started again
}

// New returns the cluster of a state directory, running or not.
func New(dir layout.Dir, progress *ui.Progress) *Cluster {
	return &Cluster{
		dir: dir, store: pki.Store(dir.PKI()), processes: proc.Table(dir.Processes()), progress: progress,
	}
}

// pollLock is the interval between two attempts to get the lock. The kernel's own wait could not be
// interrupted.
const pollLock = 100 * time.Millisecond

// Lock waits until no other command changes the cluster, and keeps others out until release. The
// lock ends with the process, however that ends. If ctx ends first, the error is its cause.
func (c *Cluster) Lock(ctx context.Context) (release func(), err error) {
	if err := os.MkdirAll(string(c.dir), 0o755); err != nil {
		return nil, fmt.Errorf("creating the state directory: %w", err)
	}
	file, err := os.OpenFile(c.dir.Lock(), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		c.progress.Say("waiting for another testbed command to end")
	}
	for errors.Is(err, unix.EWOULDBLOCK) {
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-time.After(pollLock):
			err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		}
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("waiting for the lock: %w", err)
	}
	return func() { _ = file.Close() }, nil
}

// client returns a client with the rights of the administrator.
func (c *Cluster) client() (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.dir.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS = -1 // one command makes few requests; none should wait
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return client, nil
}

// bootID changes with every start of the machine.
func bootID() (string, error) {
	content, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("reading the boot id: %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}
