package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstay-platform/mainstay/testbed/internal/cluster"
	"github.com/mainstay-platform/mainstay/testbed/internal/product"
)

func newImage() *cobra.Command {
	command := &cobra.Command{Use: "image", Short: "Build, import and list container images"}
	command.AddCommand(newImageLoad(), newImageBuild(), newImageList())
	return command
}

func newImageLoad() *cobra.Command {
	return &cobra.Command{
		Use:   "load TAR...",
		Short: "Import tarballs (of `docker save`, or OCI) to every node",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			return locked(command.Context(), func(c *cluster.Cluster) error { return c.LoadImages(command.Context(), arguments) })
		},
	}
}

func newImageBuild() *cobra.Command {
	return &cobra.Command{
		Use:       "build NAME...",
		Short:     "Build images (" + strings.Join(product.AllImages(), ", ") + ") and print their tarballs",
		Args:      cobra.MinimumNArgs(1),
		ValidArgs: product.AllImages(),
		RunE: func(command *cobra.Command, arguments []string) error {
			c, err := open()
			if err != nil {
				return err
			}
			builder, err := c.Builder()
			if err != nil {
				return err
			}
			for _, name := range arguments {
				tarball, err := builder.Image(command.Context(), name)
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintln(command.OutOrStdout(), tarball); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func newImageList() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the images on every node",
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := open()
			if err != nil {
				return err
			}
			images, err := c.ListImages(command.Context())
			if err != nil {
				return err
			}
			for _, node := range slices.Sorted(maps.Keys(images)) {
				for _, reference := range images[node] {
					if _, err := fmt.Fprintf(command.OutOrStdout(), "%s  %s\n", node, reference); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
}
