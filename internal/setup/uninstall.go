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

// uninstallPatience is how long each step may take: longer than the 35 s that a pod of the manager has to end. All together
// have four times as much, which is below the deadline of the chart's Job.
const uninstallPatience = 65 * time.Second

func uninstallCommand(logs io.Writer) *cobra.Command {
	options := uninstall.Options{Patience: uninstallPatience}
	var to connection
	var logOptions logging.Options
	var bestEffort bool
	command := &cobra.Command{
		Use:   "uninstall",
		Short: "Take back what would be in the way without a manager",
		Long: "Stop the managers and take back what would be in the way without them: the APIService, the webhook configurations, the conversion " +
			"between versions, and finalizers of Mainstay's. The Helm chart runs it before a release is deleted; it can be run by hand " +
			"at any time, as often as one likes, also where the installation is gone already.",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			logger, err := logOptions.Logger(logs)
			if err != nil {
				return err
			}
			ctrl.SetLogger(logger)
			err = runUninstall(ctrl.LoggerInto(command.Context(), logger), to, options)
			if err != nil && bestEffort {
				logger.Error(err, "Not all could be taken back: see the documentation, under Remove")
				return nil
			}
			return err
		},
	}
	flags := command.Flags()
	to.addFlags(flags)
	logOptions.AddFlags(flags)
	flags.StringVar(&options.Namespace, "namespace", "mainstay-system", "namespace of the installation")
	flags.StringVar(&options.Deployment, "deployment", "mainstay-manager", "Deployment of the managers, which are stopped if it is there")
	flags.StringVar(&options.Owner, "webhook-owner", "",
		"ClusterRole of the installation; what goes with another is left alone (default: take back whatever there is)")
	flags.StringSliceVar(&options.WatchNamespaces, "watch-namespaces", nil, "namespaces that the installation watched (default: all)")
	flags.BoolVar(&options.DeleteDefinitions, "delete-definitions-and-all-objects", false,
		"delete the definitions of our kinds, and with them ALL their objects")
	flags.BoolVar(&bestEffort, "best-effort", false, "say what could not be done, and succeed")
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
