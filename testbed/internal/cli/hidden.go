package cli

import (
	"github.com/spf13/cobra"

	"github.com/mainstay-platform/mainstay/testbed/internal/proc"
	"github.com/mainstay-platform/mainstay/testbed/internal/provision"
)

// newLaunch returns the command with which the testbed starts a component, see [proc.Launch].
func newLaunch() *cobra.Command {
	var component, namespace string
	command := &cobra.Command{
		Use:    "launch --component NAME [--netns FILE] -- PROGRAM [ARGUMENT]...",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, arguments []string) error {
			return proc.Launch(component, namespace, arguments)
		},
	}
	command.Flags().StringVar(&component, "component", "", "name of the component")
	command.Flags().StringVar(&namespace, "netns", "", "file of the network namespace")
	return command
}

// newProvisioner returns the command of the process that creates volumes.
func newProvisioner() *cobra.Command {
	var kubeconfig, folder, revision string
	command := &cobra.Command{
		Use:    "provisioner",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return provision.Run(command.Context(), kubeconfig, folder)
		},
	}
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file")
	command.Flags().StringVar(&revision, "revision", "", "version of this program; changes nothing but the command line")
	command.Flags().StringVar(&folder, "folder", "", "folder of the volumes")
	return command
}
