package cli

import (
	"context"
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
	command.AddCommand(newImageLoad(), newImageBuild(), newImageRoot(), newImageList())
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
			return built(command, arguments, product.Builder.Image)
		},
	}
}

func newImageRoot() *cobra.Command {
	return &cobra.Command{
		Use:       "root NAME...",
		Short:     "Build and unpack images, and print the folders with their files",
		Args:      cobra.MinimumNArgs(1),
		ValidArgs: product.AllImages(),
		RunE: func(command *cobra.Command, arguments []string) error {
			return built(command, arguments, product.Builder.Root)
		},
	}
}

// built makes something of each image, and prints where it is.
func built(command *cobra.Command, names []string, build func(product.Builder, context.Context, string) (string, error)) error {
	c, err := open()
	if err != nil {
		return err
	}
	if err := c.CheckImages(command.Context(), names); err != nil {
		return err
	}
	builder, err := c.Builder()
	if err != nil {
		return err
	}
	for _, name := range names {
		path, err := build(builder, command.Context(), name)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(command.OutOrStdout(), path); err != nil {
			return err
		}
	}
	return nil
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
