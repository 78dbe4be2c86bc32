package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstay-platform/mainstay/testbed/internal/cluster"
)

func newPartition() *cobra.Command {
	from := ""
	command := ofNode("partition", "Disconnect a node from the network (any node: the API server runs on none)",
		func(ctx context.Context, c *cluster.Cluster, node string) error {
			switch from {
			case "":
				return c.Partition(ctx, node)
			case "api":
				return c.PartitionFromAPI(ctx, node)
			}
			return fmt.Errorf("--from %q: must be api, or be left out for everything", from)
		})
	command.Flags().StringVar(&from, "from", "", "from what alone: api is the API server; everything if empty")
	return command
}

func newHeal() *cobra.Command {
	return ofNode("heal", "Reconnect a node to the network", func(ctx context.Context, c *cluster.Cluster, node string) error {
		return c.Heal(ctx, node)
	})
}

func newStop() *cobra.Command {
	return ofNode("stop", "Let a node die: all its processes and pods are killed, and nothing answers",
		func(ctx context.Context, c *cluster.Cluster, node string) error { return c.StopNode(ctx, node) })
}

func newStart() *cobra.Command {
	timeout := time.Duration(0)
	command := ofNode("start", "Start a node that was stopped", func(ctx context.Context, c *cluster.Cluster, node string) error {
		return c.StartNode(ctx, node, timeout)
	})
	command.Flags().DurationVar(&timeout, "timeout", defaultTimeout, "how long to wait for the cluster to work")
	return command
}

func newFreeze() *cobra.Command {
	return ofClaim("freeze", "Stop all writes to a volume: who writes waits until it thaws",
		func(ctx context.Context, c *cluster.Cluster, namespace, claim string) error {
			return c.Freeze(ctx, namespace, claim)
		})
}

func newThaw() *cobra.Command {
	return ofClaim("thaw", "Let a frozen volume be written to again",
		func(ctx context.Context, c *cluster.Cluster, namespace, claim string) error {
			return c.Thaw(ctx, namespace, claim)
		})
}

// ofNode returns a command that does something with a node.
func ofNode(use, short string, work func(context.Context, *cluster.Cluster, string) error) *cobra.Command {
	return &cobra.Command{
		Use: use + " NODE", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			return locked(command.Context(), func(c *cluster.Cluster) error { return work(command.Context(), c, arguments[0]) })
		},
	}
}

// ofClaim returns a command that does something with the volume of a claim.
func ofClaim(use, short string, work func(ctx context.Context, c *cluster.Cluster, namespace, claim string) error) *cobra.Command {
	return &cobra.Command{
		Use: use + " NAMESPACE/CLAIM", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			namespace, claim, found := strings.Cut(arguments[0], "/")
			if !found || namespace == "" || claim == "" {
				return fmt.Errorf("%q: must be NAMESPACE/CLAIM", arguments[0])
			}
			return locked(command.Context(), func(c *cluster.Cluster) error { return work(command.Context(), c, namespace, claim) })
		},
	}
}
