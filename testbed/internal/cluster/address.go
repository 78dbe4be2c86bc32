package cluster

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/mainstay-platform/mainstay/testbed/internal/layout"
)

// The addresses lie in 198.18.0.0/15, the range for benchmarks (RFC 2544): no real
// host has one, so that nothing outside can be shadowed or reached by mistake.
const (
	podRange     = "198.18.0.0/16" // node N has 198.18.N.0/24
	serviceRange = "198.19.0.0/16"
	apiService   = "198.19.0.1" // first of serviceRange: the `kubernetes` Service
	dnsService   = "198.19.0.10"
	hostAddress  = "198.18.255.1" // this machine on the nodes' network
	nodeNetwork  = "/24"
	apiPort      = 6443
	etcdAddress  = "127.0.0.1:22379"
	etcdPeer     = "127.0.0.1:22380"
	kubeletPort  = 10250

	clusterDomain = "cluster.local"
)

// Names on this machine that `down` looks for.
const (
	bridgeName = "mstb0"
	linkPrefix = "mstb-v"
	// peerSuffix is that of the other end of a cable, until it is in a node's namespace. A link's
	// name has at most 15 bytes.
	peerSuffix = "-eth0"
)

// namespacePrefix returns the prefix of the names of the nodes' network namespaces. No cluster's
// prefix is a prefix of another's.
func namespacePrefix() string { return "mstb" + layout.Suffix() + "-node-" }

// hostNamespace returns the network namespace that a named cluster uses instead of the machine's.
func hostNamespace() string { return "mstb" + layout.Suffix() + "-host" }

func hostNamespaceFile() string { return "/run/netns/" + hostNamespace() }

// podNetwork returns CNI's name for the pods' network, with which the names of its cache files
// begin.
func podNetwork() string { return "mstb" + layout.Suffix() + "-pods" }

// MaxNodes is bounded by one /24 of pods each and by what one machine can carry.
const MaxNodes = 50

// NodeName returns the name of the node with a number, which starts at 1.
func NodeName(number int) string { return "node-" + strconv.Itoa(number) }

// NodeNumber returns the number of a node: the inverse of [NodeName].
func NodeNumber(name string) (int, error) {
	number, err := strconv.Atoi(strings.TrimPrefix(name, "node-"))
	if err != nil || number < 1 || NodeName(number) != name {
		return 0, fmt.Errorf("%q is not a node of this testbed (node-1, node-2, ...)", name)
	}
	return number, nil
}

func nodeAddress(number int) string { return fmt.Sprintf("198.18.255.%d", 10+number) }

func nodePods(number int) string { return fmt.Sprintf("198.18.%d.0/24", number) }

func nodePodGateway(number int) string { return fmt.Sprintf("198.18.%d.1", number) }

func nodeNamespace(number int) string { return namespacePrefix() + strconv.Itoa(number) }

func nodeNamespaceFile(number int) string { return "/run/netns/" + nodeNamespace(number) }

// nodeLink returns the machine's end of a node's cable.
func nodeLink(number int) string { return linkPrefix + strconv.Itoa(number) }

func apiURL() string { return "https://" + net.JoinHostPort(hostAddress, strconv.Itoa(apiPort)) }
