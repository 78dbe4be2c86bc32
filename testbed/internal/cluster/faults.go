package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/testbed/internal/cgroup"
)

// partitionTable is the nftables table in a node's namespace that drops what goes to the API server
// or comes from it.
const partitionTable = "mainstay_partition"

// setLink plugs a node's network cable in ("up") or out ("down").
func (c *Cluster) setLink(ctx context.Context, node, state string) error {
	number, err := c.runningNode(node)
	if err != nil {
		return err
	}
	return setNodeLink(ctx, nodeLink(number), state)
}

// runningNode returns the number of a node that this cluster has.
func (c *Cluster) runningNode(node string) (int, error) {
	number, err := NodeNumber(node)
	if err != nil {
		return 0, err
	}
	if !linkExists(nodeLink(number)) {
		return 0, fmt.Errorf("node %s is not running: `testbed status` lists the nodes", node)
	}
	return number, nil
}

// Partition cuts a node off: from the API server, the other nodes and this machine.
// Its pods go on running. Idempotent.
func (c *Cluster) Partition(ctx context.Context, node string) error {
	return c.setLink(ctx, node, "down")
}

// PartitionFromAPI cuts a node and its pods off from the API server alone. Idempotent.
func (c *Cluster) PartitionFromAPI(ctx context.Context, node string) error {
	number, err := c.runningNode(node)
	if err != nil {
		return err
	}
	var rules strings.Builder
	_, _ = fmt.Fprintf(&rules, "add table inet %[1]s; delete table inet %[1]s; add table inet %[1]s;", partitionTable)
	for _, hook := range []string{"input", "output", "forward"} {
		_, _ = fmt.Fprintf(&rules, "add chain inet %[1]s %[2]s { type filter hook %[2]s priority 0; };"+
			"add rule inet %[1]s %[2]s ip daddr %[3]s tcp dport %[4]d drop;"+
			"add rule inet %[1]s %[2]s ip saddr %[3]s tcp sport %[4]d drop;", partitionTable, hook, hostAddress, apiPort)
	}
	_, err = command(ctx, "ip", "netns", "exec", nodeNamespace(number), "nft", rules.String())
	return err
}

// Heal ends the partitions of a node. Idempotent.
func (c *Cluster) Heal(ctx context.Context, node string) error {
	number, err := c.runningNode(node)
	if err != nil {
		return err
	}
	// A table is added first, so that there is one to delete.
	remove := fmt.Sprintf("add table inet %s; delete table inet %s", partitionTable, partitionTable)
	if _, err := command(ctx, "ip", "netns", "exec", nodeNamespace(number), "nft", remove); err != nil {
		return err
	}
	return setNodeLink(ctx, nodeLink(number), "up")
}

// StopNode lets a node die: nothing of it answers any more, and all its processes and pods are
// killed. Its volumes stay. Idempotent.
func (c *Cluster) StopNode(ctx context.Context, node string) error {
	if err := c.setLink(ctx, node, "down"); err != nil {
		return err
	}
	return cgroup.KillNode(node, killTimeout)
}

// StartNode starts a node that StopNode let die, and waits until the cluster works. Idempotent.
func (c *Cluster) StartNode(ctx context.Context, node string, timeout time.Duration) error {
	if err := c.Heal(ctx, node); err != nil {
		return err
	}
	return c.Up(ctx, Size{Core: true}, timeout) // it completes no cluster that was started without the rest
}

// Freeze stops all writes to the volume of a claim: who writes waits, and can't be killed, until
// Thaw. Idempotent.
func (c *Cluster) Freeze(ctx context.Context, namespace, claim string) error {
	return c.freeze(ctx, namespace, claim, "--freeze", "busy")
}

// Thaw ends Freeze. Idempotent.
func (c *Cluster) Thaw(ctx context.Context, namespace, claim string) error {
	return c.freeze(ctx, namespace, claim, "--unfreeze", "invalid argument")
}

// freeze runs fsfreeze on the volume of a claim. done is how that says that it is so already.
func (c *Cluster) freeze(ctx context.Context, namespace, claim, option, done string) error {
	point, err := c.mountOf(ctx, namespace, claim)
	if err != nil {
		return err
	}
	_, err = command(ctx, "fsfreeze", option, point)
	if err != nil && strings.Contains(strings.ToLower(err.Error()), done) {
		return nil
	}
	return err
}

// mountOf returns where the volume of a claim is mounted.
func (c *Cluster) mountOf(ctx context.Context, namespace, claim string) (string, error) {
	client, err := c.client()
	if err != nil {
		return "", err
	}
	found, err := client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, claim, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the claim: %w", err)
	}
	if found.Spec.VolumeName == "" {
		return "", fmt.Errorf("the claim %s/%s has no volume yet", namespace, claim)
	}
	volume, err := client.CoreV1().PersistentVolumes().Get(ctx, found.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the volume: %w", err)
	}
	if volume.Spec.Local == nil {
		return "", errors.New("the volume is not one of this testbed's")
	}
	return volume.Spec.Local.Path, nil
}
