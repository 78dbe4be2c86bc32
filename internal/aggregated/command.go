package aggregated

import (
	"io"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/mainstay-platform/mainstay/internal/kit/logging"
	"github.com/mainstay-platform/mainstay/internal/version"
)

// Command returns the program mainstay-apiserver.
func Command(logs io.Writer) *cobra.Command {
	options := NewOptions()
	var logOptions logging.Options
	command := &cobra.Command{
		Use:   "mainstay-apiserver",
		Short: "Serve farm.mainstay.dev behind the API server of Kubernetes",
		Long: "Serve farm.mainstay.dev behind the Kubernetes API server, which finds it by an APIService. In a cluster the manager creates that, and " +
			"makes the certificate.",
		Version:       version.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			logger, err := logOptions.Logger(logs)
			if err != nil {
				return err
			}
			klog.SetLogger(logger)
			logger.Info("Starting Mainstay's API server", "version", version.Version, "resources", options.Resources)
			server, err := New(options)
			if err != nil {
				return err
			}
			return server.Run(command.Context())
		},
	}
	options.AddFlags(command.Flags())
	logOptions.AddFlags(command.Flags())
	return command
}
