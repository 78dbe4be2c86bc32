package setup

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mainstay-platform/mainstay/internal/install/crds"
	"github.com/mainstay-platform/mainstay/internal/install/uninstall"
	"github.com/mainstay-platform/mainstay/internal/kit/logging"
)

// uninstallPatience bounds each step. It is longer than the 35 s in which a manager's pod ends. All
// steps together may take four times as long, which is below the deadline of the chart's Job.
const uninstallPatience = 65 * time.Second

func uninstallCommand(logs io.Writer) *cobra.Command {
	options := uninstall.Options{Patience: uninstallPatience}
	var to connection
	var logOptions logging.Options
	var bestEffort bool
	command := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove what would not work without a manager",
		Long: "Stop the managers and remove what would not work without them: the APIService,  the webhook configurations, the conversion " +
			"between versions, and Mainstay's finalizers. The Helm chart runs it before a release is deleted. You can also run it by hand " +
			"at any time, repeatedly, and after the installation is gone.",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			logger, err := logOptions.Logger(logs)
			if err != nil {
				return err
			}
			ctrl.SetLogger(logger)
			err = runUninstall(ctrl.LoggerInto(command.Context(), logger), to, options)
			if err != nil && bestEffort {
				logger.Error(err, "Not everything could be removed: see the section Remove of the documentation")
				return nil
			}
			return err
		},
	}
	flags := command.Flags()
	to.addFlags(flags)
	logOptions.AddFlags(flags)
	flags.StringVar(&options.Namespace, "namespace", "mainstay-system", "namespace of the installation")
	flags.StringVar(&options.Deployment, "deployment", "mainstay-manager", "Deployment of the managers, which is scaled to zero if it exists")
	flags.StringVar(&options.Owner, "webhook-owner", "",
		"ClusterRole of the installation; objects of another owner are not changed (default: remove those of any installation)")
	flags.StringSliceVar(&options.WatchNamespaces, "watch-namespaces", nil, "namespaces that the installation watched (default: all)")
	flags.BoolVar(&options.DeleteDefinitions, "delete-definitions-and-all-objects", false,
		"delete Mainstay's CustomResourceDefinitions, and with them ALL their objects")
	flags.BoolVar(&bestEffort, "best-effort", false, "report failed steps, and exit with 0")
	return command
}

func runUninstall(ctx context.Context, to connection, options uninstall.Options) error {
	config, err := to.config()
	if err != nil {
		return err
	}
	if options.Client, err = newClient(config); err != nil {
		return err
	}
	if options.Definitions, err = crds.NewClient(config); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 4*options.Patience)
	defer cancel()
	if err := awaitAPI(ctx, config, apiPoll); err != nil {
		return err
	}
	if err := uninstall.Run(ctx, options); err != nil {
		return fmt.Errorf("uninstalling: %w", err)
	}
	return nil
}
