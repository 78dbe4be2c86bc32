package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mainstay-platform/mainstay/testbed/internal/layout"
)

// ensureBridge creates the network that connects this machine and its nodes. Idempotent.
//
// The machine forwards nothing between this network and the outside: pods can reach only each other
// and this machine.
func ensureBridge(ctx context.Context) error {
	if _, err := net.InterfaceByName(bridgeName); err != nil {
		if _, err := command(ctx, "ip", "link", "add", bridgeName, "type", "bridge"); err != nil {
			return err
		}
	}
	for _, arguments := range [][]string{
		{"address", "replace", hostAddress + nodeNetwork, "dev", bridgeName},
		{"link", "set", bridgeName, "up"},
		// A packet to a Service that kube-proxy did not rewrite ends on the bridge,
		// instead of leaving by the machine's default route.
		{"route", "replace", serviceRange, "dev", bridgeName, "src", hostAddress},
	} {
		if _, err := command(ctx, "ip", arguments...); err != nil {
			return err
		}
	}
	return nil
}

// ensureNodeNetwork creates a node's network namespace and its cable to the bridge. Idempotent; it
// does not heal a partition.
func ensureNodeNetwork(ctx context.Context, number int) error {
	namespace, link := nodeNamespace(number), nodeLink(number)
	if !isNamespace(nodeNamespaceFile(number)) {
		_ = os.Remove(nodeNamespaceFile(number)) // a left-over without a namespace behind it
		if _, err := command(ctx, "ip", "netns", "add", namespace); err != nil {
			return err
		}
	}
	if _, err := command(ctx, "ip", "-n", namespace, "link", "show", "eth0"); err != nil {
		if err := addCable(ctx, namespace, link); err != nil {
			return err
		}
	}
	for _, arguments := range [][]string{
		{"link", "set", "lo", "up"},
		{"address", "replace", nodeAddress(number) + nodeNetwork, "dev", "eth0"},
		{"link", "set", "eth0", "up"},
		{"route", "replace", "default", "via", hostAddress},
	} {
		if _, err := command(ctx, "ip", append([]string{"-n", namespace}, arguments...)...); err != nil {
			return err
		}
	}
	_, err := command(ctx, "ip", "route", "replace", nodePods(number), "via", nodeAddress(number), "src", hostAddress)
	return err
}

// addCable connects a node's namespace to the bridge.
func addCable(ctx context.Context, namespace, link string) error {
	// A cable that an interrupted command has not plugged in yet.
	if linkExists(link) {
		if _, err := command(ctx, "ip", "link", "delete", link); err != nil {
			return err
		}
	}
	for _, arguments := range cable(namespace, link) {
		if _, err := command(ctx, "ip", arguments...); err != nil {
			return err
		}
	}
	return nil
}

// cable returns the arguments of ip that make a node's cable. The node's end gets into its
// namespace last, and its name with that: a node that has eth0 has a whole cable, so that `up`,
// interrupted anywhere, can be repeated.
func cable(namespace, link string) [][]string {
	peer := link + peerSuffix
	return [][]string{
		{"link", "add", link, "type", "veth", "peer", "name", peer},
		{"link", "set", link, "master", bridgeName},
		{"link", "set", link, "up"},
		{"link", "set", peer, "netns", namespace, "name", "eth0"},
	}
}

// setNodeLink plugs a node's cable in ("up") or out ("down").
func setNodeLink(ctx context.Context, link, state string) error {
	_, err := command(ctx, "ip", "link", "set", link, state)
	return err
}

// ensureRoutes adds the routes to the pods of the other nodes on every node.
func ensureRoutes(ctx context.Context, nodes int) error {
	for from := 1; from <= nodes; from++ {
		for to := 1; to <= nodes; to++ {
			if from == to {
				continue
			}
			if _, err := command(ctx, "ip", "-n", nodeNamespace(from), "route", "replace", nodePods(to), "via", nodeAddress(to)); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeNetwork deletes the namespaces, the cables, and the bridge with its routes.
func removeNetwork(ctx context.Context) error {
	namespaces, err := ownNamespaces()
	if err != nil {
		return err
	}
	for _, namespace := range namespaces {
		if _, err := command(ctx, "ip", "netns", "delete", namespace); err != nil {
			return err
		}
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("listing the network links: %w", err)
	}
	for _, link := range interfaces {
		if link.Name != bridgeName && !strings.HasPrefix(link.Name, linkPrefix) {
			continue
		}
		// The other end of a cable may have gone with its namespace in between.
		if _, err := command(ctx, "ip", "link", "delete", link.Name); err != nil && linkExists(link.Name) {
			return err
		}
	}
	if layout.Name() == "" || !isNamespace(hostNamespaceFile()) {
		return nil
	}
	// This process is in the namespace, which ends with it.
	_, err = command(ctx, "ip", "netns", "delete", hostNamespace())
	return err
}

// MakeNetwork is [Cluster.EnterNetwork] for commands that work without a running cluster: it makes
// the network unless it is there. Idempotent.
func (c *Cluster) MakeNetwork(ctx context.Context) error {
	if layout.Name() != "" && !isNamespace(hostNamespaceFile()) {
		_ = os.Remove(hostNamespaceFile()) // a left-over without a namespace behind it
		if _, err := command(ctx, "ip", "netns", "add", hostNamespace()); err != nil {
			return err
		}
	}
	return c.EnterNetwork(ctx)
}

// EnterNetwork makes this process run in the cluster's network, which for the default cluster is
// the machine's own. A named cluster has a network namespace instead, in which equal addresses,
// links and rules do not conflict. To enter it, the process executes itself again, which ends its
// locks. If the network is not there, the error is [ErrNotRunning].
func (c *Cluster) EnterNetwork(ctx context.Context) error {
	if layout.Name() == "" {
		return nil
	}
	if !isNamespace(hostNamespaceFile()) {
		return ErrNotRunning
	}
	var ours, wanted unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &ours); err != nil {
		return fmt.Errorf("reading our network namespace: %w", err)
	}
	if err := unix.Stat(hostNamespaceFile(), &wanted); err != nil {
		return fmt.Errorf("reading the cluster's network namespace: %w", err)
	}
	if ours.Dev == wanted.Dev && ours.Ino == wanted.Ino {
		return nil
	}
	// Each time, because the command that made the namespace may have been interrupted before this.
	if os.Geteuid() == 0 {
		if _, err := command(ctx, "ip", "-n", hostNamespace(), "link", "set", "lo", "up"); err != nil {
			return err
		}
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return errors.New("nsenter is missing: apt-get install util-linux")
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding our own executable: %w", err)
	}
	// Not `ip netns exec`: that hides the control groups.
	arguments := append([]string{nsenter, "--net=" + hostNamespaceFile(), self}, os.Args[1:]...)
	return fmt.Errorf("entering the cluster's network: %w", unix.Exec(nsenter, arguments, os.Environ()))
}

// proxyTable is the name of kube-proxy's nftables tables. Every cluster's kube-proxy uses it.
const proxyTable = "kube-proxy"

// proxyFamilies returns the address families in which the host's namespace has a table of
// kube-proxy.
func proxyFamilies(ctx context.Context) ([]string, error) {
	tables, err := command(ctx, "nft", "list", "tables")
	if errors.Is(err, exec.ErrNotFound) {
		return nil, nil // a cluster needs it, so none has run here
	}
	if err != nil {
		return nil, err
	}
	var families []string
	for line := range strings.Lines(tables) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[2] == proxyTable {
			families = append(families, fields[1])
		}
	}
	return families, nil
}

// removeProxyTables deletes kube-proxy's nftables tables from the host's namespace, if they are
// those of a testbed.
func (c *Cluster) removeProxyTables(ctx context.Context) error {
	if !c.hasRun() {
		return nil
	}
	families, err := proxyFamilies(ctx)
	if err != nil {
		return err
	}
	for _, family := range families {
		if _, err := command(ctx, "nft", "delete", "table", family, proxyTable); err != nil {
			return err
		}
	}
	return nil
}

// refuseForeignNode returns an error if this machine has kube-proxy's tables of another cluster:
// those of this one would replace them, and cut its Services.
func (c *Cluster) refuseForeignNode(ctx context.Context) error {
	if layout.Name() != "" || c.hasRun() {
		return nil // in a network of its own, or the tables are a testbed's
	}
	families, err := proxyFamilies(ctx)
	if err != nil || len(families) == 0 {
		return err
	}
	return fmt.Errorf("this machine has the nftables table %q (family %s), and no testbed runs: it seems to be a node of another cluster. "+
		"Use another machine or, if that cluster is gone, delete the table: nft delete table %s %s",
		proxyTable, strings.Join(families, ", "), families[0], proxyTable)
}

// ownNamespaces lists the network namespaces of our nodes.
func ownNamespaces() ([]string, error) {
	entries, err := os.ReadDir("/run/netns")
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the network namespaces: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), namespacePrefix()) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

func linkExists(name string) bool {
	_, err := net.InterfaceByName(name)
	return err == nil
}
