// Package cli is the testbed's command line.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstay-platform/mainstay/testbed/internal/cluster"
	"github.com/mainstay-platform/mainstay/testbed/internal/layout"
	"github.com/mainstay-platform/mainstay/testbed/internal/product"
	"github.com/mainstay-platform/mainstay/testbed/internal/ui"
)

// defaultTimeout is some ten times as long as a start takes on two processors.
const defaultTimeout = 5 * time.Minute

// New returns the root command. Progress goes to stderr, results to stdout.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:   "testbed",
		Short: "A real Kubernetes cluster on this one Linux machine",
		Long: "testbed builds Kubernetes from its Go modules and runs it on this machine: etcd, the control\n" +
			"plane, nodes in network namespaces, containerd, DNS, volumes and metrics.\n" +
			"The state is in $" + layout.DirVariable + " (default ~/.cache/mainstay/testbed).\n" +
			"$" + layout.NameVariable + "=NAME selects a further cluster, in its own network.",
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if err := os.Setenv("PATH", withSbin(os.Getenv("PATH"))); err != nil {
				return fmt.Errorf("extending PATH: %w", err)
			}
			return nil
		},
	}
	root.AddCommand(newUp(), newBuild(), newPackages(), newDown(), newStatus(), newExec(), newKubeconfig(), newAudit(), newAssets(), newLogs(),
		newPartition(), newHeal(), newStop(), newStart(), newFreeze(), newThaw(), newImage(), newLaunch(), newProvisioner())
	return root
}

// withSbin adds the folders of a machine's programs to a PATH: that of a user or of su may lack
// them, and every command runs some.
func withSbin(path string) string {
	folders := filepath.SplitList(path)
	for _, folder := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
	}
	return strings.Join(folders, string(filepath.ListSeparator))
}

// open returns the cluster of the state directory.
func open() (*cluster.Cluster, error) {
	dir, err := layout.Default()
	if err != nil {
		return nil, err
	}
	return cluster.New(dir, ui.New(os.Stderr)), nil
}

// locked runs work in the network of a running cluster while no other command changes the cluster.
func locked(ctx context.Context, work func(*cluster.Cluster) error) error {
	c, err := open()
	if err != nil {
		return err
	}
	return inTurn(ctx, c.Lock, func() error { return c.EnterNetwork(ctx) }, func() error { return work(c) })
}

// lockedAnyway is locked for a cluster that need not run.
func lockedAnyway(ctx context.Context, work func(*cluster.Cluster) error) error {
	c, err := open()
	if err != nil {
		return err
	}
	return inTurn(ctx, c.Lock, func() error { return c.MakeNetwork(ctx) }, func() error { return work(c) })
}

// inTurn waits for the lock before it enters the network: the command that it waits for may be a
// `down`, which deletes the network. A cluster in a deleted network is out of reach of all later
// commands.
func inTurn(ctx context.Context, lock func(context.Context) (release func(), err error), enter, work func() error) error {
	release, err := lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := enter(); err != nil {
		return err
	}
	return work()
}

func newUp() *cobra.Command {
	var size cluster.Size
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "up",
		Short: "Start the cluster, or repair or extend a running one",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := size.Validate(); err != nil {
				return err
			}
			c, err := open()
			if err != nil {
				return err
			}
			if err := c.Build(command.Context(), size.Core); err != nil {
				return err
			}
			return lockedAnyway(command.Context(), func(c *cluster.Cluster) error { return c.Up(command.Context(), size, timeout) })
		},
	}
	command.Flags().IntVar(&size.Nodes, "nodes", 0, "number of nodes (0: as many as the cluster has, at least one)")
	command.Flags().BoolVar(&size.Core, "core", false, "leave out metrics-server and nginx, which a first application does not need; a later `up` adds them")
	command.Flags().DurationVar(&timeout, "timeout", defaultTimeout, "how long the cluster may take to start after the build")
	return command
}

func newDown() *cobra.Command {
	var purge bool
	command := &cobra.Command{
		Use:   "down",
		Short: "End the cluster and remove everything that it created on this machine",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return lockedAnyway(command.Context(), func(c *cluster.Cluster) error {
				if err := c.Down(command.Context()); err != nil {
					return err
				}
				if purge {
					return c.Purge()
				}
				return nil
			})
		},
	}
	command.Flags().BoolVar(&purge, "purge", false, "also remove the logs and the cache of built products")
	return command
}

func newBuild() *cobra.Command {
	var core bool
	command := &cobra.Command{
		Use:   "build",
		Short: "Build everything that `up` starts, without starting it",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := open()
			if err != nil {
				return err
			}
			return c.Build(command.Context(), core)
		},
	}
	command.Flags().BoolVar(&core, "core", false, "leave out metrics-server and nginx")
	return command
}

func newPackages() *cobra.Command {
	return &cobra.Command{
		Use:   "packages",
		Short: "Print how many packages Kubernetes is compiled from",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := open()
			if err != nil {
				return err
			}
			builder, err := c.Builder()
			if err != nil {
				return err
			}
			packages, err := builder.Packages(command.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(command.OutOrStdout(), packages)
			return err
		},
	}
}

func newExec() *cobra.Command {
	return &cobra.Command{
		Use:   "exec -- PROGRAM [ARGUMENT]...",
		Short: "Run a program in the cluster's network (the machine's own, unless the cluster has a name)",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			c, err := open()
			if err != nil {
				return err
			}
			if err := c.EnterNetwork(command.Context()); err != nil {
				return err
			}
			program, err := exec.LookPath(arguments[0])
			if err != nil {
				return fmt.Errorf("finding the program: %w", err)
			}
			return fmt.Errorf("executing %s: %w", program, syscall.Exec(program, arguments, os.Environ()))
		},
	}
}

func newStatus() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show processes and nodes; the exit code is 0 only when the cluster works",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := open()
			if err != nil {
				return err
			}
			if err := c.EnterNetwork(command.Context()); err != nil {
				return err
			}
			status, err := c.Observe(command.Context())
			if err != nil {
				return err
			}
			if err := status.Write(command.OutOrStdout()); err != nil {
				return err
			}
			problems := make([]error, 0, len(status.Problems))
			for _, problem := range status.Problems {
				problems = append(problems, errors.New(problem))
			}
			return errors.Join(problems...)
		},
	}
}

// printPath returns a command that prints one path of the state directory.
func printPath(use, short string, path func(layout.Dir) string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			dir, err := layout.Default()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(command.OutOrStdout(), path(dir))
			return err
		},
	}
}

func newKubeconfig() *cobra.Command {
	return printPath("kubeconfig", "Print the path of the administrator's kubeconfig", layout.Dir.Kubeconfig)
}

func newAudit() *cobra.Command {
	return printPath("audit", "Print the path of the API server's audit log (JSON lines)", layout.Dir.Audit)
}

func newAssets() *cobra.Command {
	var kubernetes string
	command := &cobra.Command{
		Use:   "assets",
		Short: "Print the folder of etcd, kube-apiserver and kubectl (for KUBEBUILDER_ASSETS), built if needed",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := open()
			if err != nil {
				return err
			}
			builder, err := c.Builder()
			if err != nil {
				return err
			}
			folder, err := builder.Kubernetes(command.Context(), kubernetes)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(command.OutOrStdout(), folder)
			return err
		},
	}
	command.Flags().StringVar(&kubernetes, "kubernetes", product.Current,
		"the Kubernetes release ("+strings.Join(product.Releases(), ", ")+"); only "+product.Current+" has more than etcd and kube-apiserver")
	return command
}
