package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/mainstay-platform/mainstay/internal/kit/logging"
	"github.com/mainstay-platform/mainstay/internal/version"
)

// Command returns the program mainstay with its subcommands.
func Command(logs io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "mainstay",
		Short:         "The application platform operator for Kubernetes",
		Version:       version.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(managerCommand(logs), uninstallCommand(logs))
	return root
}

// DefaultQPS and DefaultBurst are the requests to the API server per second on average, and at
// once. The API server limits us by priority and fairness: the client's own limit only has to stop
// a run-away loop. It is more than the workers can use: with 100 a second, 1,000 WebApps took three
// times as long (docs/performance.md).
const (
	DefaultQPS   = 1000
	DefaultBurst = 2000
)

// connection is how to reach the API server, and the rate of requests.
type connection struct {
	kubeconfig, context string
	// apiServer is the URL of a proxy that has the credentials.
	apiServer string
	qps       float32
	burst     int
}

func managerCommand(logs io.Writer) *cobra.Command {
	settings := DefaultSettings()
	var to connection
	var logOptions logging.Options
	var installCRDs bool
	var otlpEndpoint string
	command := &cobra.Command{
		Use:   "manager",
		Short: "Run the controllers",
		Long: "Run the controllers, in the cluster or outside it. Where --kubeconfig is not given, $KUBECONFIG is " +
			"used, then the pod's own credentials, then ~/.kube/config.",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			logger, err := logOptions.Logger(logs)
			if err != nil {
				return err
			}
			ctrl.SetLogger(logger)
			klog.SetLogger(logger)
			stop, err := startTracing(command.Context(), otlpEndpoint)
			if err != nil {
				return err
			}
			defer stop()
			return run(command.Context(), to, settings, installCRDs)
		},
	}
	flags := command.Flags()
	to.addFlags(flags)
	logOptions.AddFlags(flags)
	settings.addFlags(flags)
	flags.StringVar(&otlpEndpoint, "otlp-endpoint", "",
		"http(s)://host:port of the OpenTelemetry collector for traces (OTLP over HTTP; default: $OTEL_EXPORTER_OTLP_ENDPOINT, or none)")
	flags.BoolVar(&installCRDs, "install-crds", false, "install or update the CustomResourceDefinitions before starting")
	return command
}

func (s *Settings) addFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&s.Kinds, "kinds", s.Kinds, "kinds that are enabled; objects of other kinds stay as they are")
	flags.StringSliceVar(&s.WatchNamespaces, "watch-namespaces", s.WatchNamespaces,
		"namespaces whose objects are watched, admitted and changed (default: all)")
	flags.StringSliceVar(&s.SecretNamespaces, "secret-namespaces", s.SecretNamespaces,
		"namespaces whose Secrets may be read, to restart workloads when one changes; needs --namespace (default: none)")
	flags.BoolVar(&s.StakaterAnnotations, "stakater-annotations", s.StakaterAnnotations,
		"honour the annotations of Stakater Reloader on workloads, ConfigMaps and Secrets")
	flags.BoolVar(&s.LeaderElection, "leader-elect", s.LeaderElection, "elect a leader, so that one of several managers works")
	flags.StringVar(&s.LeaderElectionNamespace, "leader-elect-namespace", s.LeaderElectionNamespace,
		"namespace of the Lease (default: --namespace)")
	flags.StringVar(&s.LeaderElectionIdentity, "leader-elect-identity", s.LeaderElectionIdentity,
		"holder identity in the Lease: unique among running processes, and the same after a restart (default: random at each start)")
	flags.DurationVar(&s.LeaseDuration, "leader-elect-lease-duration", s.LeaseDuration,
		"how long after the leader's last renewal another manager takes over, such as 15s")
	flags.DurationVar(&s.RenewDeadline, "leader-elect-renew-deadline", s.RenewDeadline,
		"how long the leader tries to renew before it gives up")
	flags.DurationVar(&s.RetryPeriod, "leader-elect-retry-period", s.RetryPeriod, "time between two attempts to acquire or renew the Lease")
	flags.StringVar(&s.HealthAddress, "health-address", s.HealthAddress, "address of /healthz and /readyz; 0 disables them")
	flags.StringVar(&s.MetricsAddress, "metrics-address", s.MetricsAddress,
		"address of /metrics, with TLS, for clients with the right to get that path; 0 disables it")
	flags.IntVar(&s.Concurrency, "concurrency", s.Concurrency, "objects of one kind that are reconciled at once")
	flags.DurationVar(&s.ReconcileTimeout, "reconcile-timeout", s.ReconcileTimeout, "longest time for one reconcile")
	flags.StringVar(&s.Namespace, "namespace", s.Namespace, "the manager's own namespace, to which no policy applies")
	flags.BoolVar(&s.DefaultPolicy, "default-policy", s.DefaultPolicy,
		"create the PlatformPolicy default, once in the life of the CustomResourceDefinition")
	flags.StringSliceVar(&s.DefaultPolicyRegistries, "default-policy-registries", s.DefaultPolicyRegistries,
		"registries that images may come from in production, by the policy that --default-policy creates (default: any)")
	flags.StringSliceVar(&s.Environments, "environments", s.Environments,
		"environments of namespaces, each with its aliases: production:prod (default: development:dev,staging,production:prod)")
	flags.StringToStringVar(&s.ServiceMonitorLabels, "servicemonitor-labels", s.ServiceMonitorLabels,
		"labels of the ServiceMonitors of WebApps, by which Prometheus selects them (default: none)")
	flags.StringToStringVar(&s.PrometheusRuleLabels, "prometheusrule-labels", s.PrometheusRuleLabels,
		"labels of the PrometheusRules of EcommercePlatforms, by which Prometheus selects them (default: none)")
	flags.StringVar(&s.InstanceImage, "instance-image", s.InstanceImage, "image with the program that database pods run: Mainstay's own")
	flags.StringToStringVar(&s.PostgreSQLImages, "postgresql-images", s.PostgreSQLImages,
		"images of PostgreSQL by major version, as 17=registry.example.com/postgresql:17.11 (default: none)")
	flags.StringVar(&s.PgBouncerImage, "pgbouncer-image", s.PgBouncerImage,
		"image of PgBouncer, for the poolers of PostgreSQLs, as registry.example.com/pgbouncer:1.24.1 (default: none)")
	flags.StringToStringVar(&s.ValkeyImages, "valkey-images", s.ValkeyImages,
		"images of Valkey by major version, as 9=registry.example.com/valkey:9.1 (default: none)")
	flags.StringSliceVar(&s.StackObjects, "stack-objects", s.StackObjects,
		"kinds of other projects whose objects may be components of AppStacks, as rabbitmqclusters.v1beta1.rabbitmq.com/RabbitmqCluster (default: none)")
	s.Webhooks.addFlags(flags)
	s.APIService.addFlags(flags)
	flags.DurationVar(&s.ShutdownTimeout, "shutdown-timeout", s.ShutdownTimeout, "how long running reconciles may take to end at shutdown")
}

func (w *WebhookSettings) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&w.Enabled, "webhooks", w.Enabled, "serve webhooks: admission, and conversion between versions")
	flags.StringVar(&w.Host, "webhook-host", w.Host, "address on which webhooks are served (default: all)")
	flags.IntVar(&w.Port, "webhook-port", w.Port, "port on which webhooks are served")
	flags.StringVar(&w.Service, "webhook-service", w.Service,
		"Service of the webhooks, in the manager's namespace")
	flags.BoolVar(&w.Withdraw, "withdraw-webhooks", w.Withdraw,
		"at the start, remove what an earlier manager with webhooks left: "+
			"the webhook configurations, and the conversion in CustomResourceDefinitions")
	flags.StringVar(&w.URL, "webhook-url", w.URL,
		"https://host:port of the webhooks of a manager outside the cluster")
	flags.StringVar(&w.Owner, "webhook-owner", w.Owner,
		"ClusterRole that owns the webhook configurations and the APIService; those of another owner are not changed")
	flags.StringVar(&w.Certificates.Name, "webhook-secret", w.Certificates.Name, "Secret with the webhooks' certificate")
	flags.BoolVar(&w.Certificates.External, "webhook-certificate-external", w.Certificates.External,
		"another program, such as cert-manager, makes that Secret")
}

func (c *connection) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "path of a kubeconfig file, to run outside the cluster")
	flags.StringVar(&c.context, "context", "", "context of the kubeconfig file (default: its current one)")
	flags.StringVar(&c.apiServer, "api-server", "",
		"URL of a proxy that has the credentials for the API server, such as kubectl proxy: http://127.0.0.1:8001")
	flags.Float32Var(&c.qps, "api-qps", DefaultQPS, "requests to the API server per second, on average")
	flags.IntVar(&c.burst, "api-burst", DefaultBurst, "requests to the API server at once")
}

func (c *connection) config() (*rest.Config, error) {
	restConfig, err := c.found()
	if err != nil {
		return nil, err
	}
	restConfig.QPS, restConfig.Burst = c.qps, c.burst
	restConfig.UserAgent = "mainstay/" + version.Version
	return restConfig, nil
}

// found returns the address of the API server, and the credentials.
func (c *connection) found() (*rest.Config, error) {
	if c.apiServer != "" {
		if c.kubeconfig != "" || c.context != "" {
			return nil, errors.New("--api-server can't be used with --kubeconfig or --context: the proxy has the credentials")
		}
		parsed, err := url.Parse(c.apiServer)
		if err != nil || parsed.Hostname() == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") {
			return nil, fmt.Errorf("--api-server: invalid value %q: must be http://host:port", c.apiServer)
		}
		return &rest.Config{Host: c.apiServer}, nil
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.context}
	restConfig, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return restConfig, nil
}

// run serves until ctx ends or a part fails for good.
func run(ctx context.Context, to connection, settings Settings, installCRDs bool) error {
	restConfig, err := to.config()
	if err != nil {
		return err
	}
	listener, err := listen(ctx, settings.HealthAddress)
	if err != nil {
		return err
	}
	answers := &probes{}
	answers.set(map[string]healthz.Checker{"api": waitingForAPI})
	// The probes answer until all other parts have ended.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return answers.serve(serving, listener) })
	group.Go(func() error {
		defer stop()
		return work(ctx, restConfig, settings, answers, installCRDs)
	})
	return group.Wait()
}

// prepare creates in the cluster what this process needs.
func prepare(ctx context.Context, restConfig *rest.Config, settings Settings, installCRDs bool) error {
	if installCRDs {
		if err := installDefinitions(ctx, restConfig); err != nil {
			return err
		}
	}
	if settings.Webhooks.Withdraw {
		if err := withdrawWebhooks(ctx, restConfig, settings.Webhooks.Owner); err != nil {
			return err
		}
	}
	return nil
}

// work waits for the API server and for the end of another installation, prepares the cluster, and
// runs the operator.
func work(ctx context.Context, restConfig *rest.Config, settings Settings, answers *probes, installCRDs bool) error {
	if err := awaitAPI(ctx, restConfig, apiPoll); err != nil || ctx.Err() != nil {
		return err
	}
	if err := awaitAlone(ctx, restConfig, settings, answers); err != nil || ctx.Err() != nil {
		return err
	}
	if err := prepare(ctx, restConfig, settings, installCRDs); err != nil {
		return err
	}
	operator, err := New(ctx, restConfig, settings)
	if err != nil {
		return err
	}
	answers.set(operator.checks)
	ctrl.Log.Info("Starting Mainstay", "version", version.Version)
	if err := operator.Start(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("running Mainstay: %w", err)
	}
	return nil
}
