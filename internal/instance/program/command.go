// Package program is the command line of the program in a database pod. It connects the parts of an
// instance: the server, the volume, the other instances and the API server.
package program

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/install"
	"github.com/mainstay-platform/mainstay/internal/kit/logging"
	"github.com/mainstay-platform/mainstay/internal/version"
)

// Command returns the command mainstay-instance with its subcommands. It logs to logs. environment
// is that of the process, as "name=value".
func Command(logs io.Writer, environment []string) *cobra.Command {
	root := &cobra.Command{
		Use:           "mainstay-instance",
		Short:         "Run the server of a database in its pod",
		Version:       version.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(installCommand(), runCommand(logs, environment), poolerCommand(logs, environment))
	return root
}

func installCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "install DIRECTORY",
		Short: "Copy this program to a directory, with a passwd and a group file for the user that runs it",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, arguments []string) error {
			itself, err := os.Executable()
			if err != nil {
				return fmt.Errorf("finding this program: %w", err)
			}
			return install.Install(itself, arguments[0], os.Getuid(), os.Getgid())
		},
	}
}

// options are the flags of the subcommand run. Settings that may change while it runs are in the
// ConfigMap.
type options struct {
	logging logging.Options
	// database, namespace, pod and podUID say which instance this is.
	database, namespace, pod, podUID string
	engine                           string
	// walVolume is "" if the log is in the data directory.
	volume, walVolume, run, certificates string
	application                          string
	// listen is the address on which the server and the port for peers listen, and advertise is the
	// one that is published.
	listen, advertise string
	port, peerPort    int
	// plainPort is the server's second port, without TLS; 0 means none.
	plainPort int
	// probes and metrics are the addresses on which they are served; with "", metrics are not.
	probes, metrics    string
	metricsCredentials string
	hosts              map[string]string
	kubeconfig         string
	// environment is that of the process, which the server inherits.
	environment []string
}

func runCommand(logs io.Writer, environment []string) *cobra.Command {
	o := options{environment: environment}
	command := &cobra.Command{
		Use:   "run",
		Short: "Run the server, and let it lead, follow or stop as the election decides",
		Long: "Run the server, and let it lead, follow or stop as the election decides. At SIGTERM, an instance that " +
			"leads hands over, and the program ends. All other settings are read from the ConfigMap DATABASE-config.",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			logger, err := o.logging.Logger(logs)
			if err != nil {
				return err
			}
			if err := o.check(); err != nil {
				return err
			}
			return run(command.Context(), o, logger)
		},
	}
	flags := command.Flags()
	o.logging.AddFlags(flags)
	flags.StringVar(&o.database, "database", "", "name of the database: that of the Lease, and the prefix of the EndpointSlice and the ConfigMap")
	flags.StringVar(&o.namespace, "namespace", "", "namespace of the database's objects")
	flags.StringVar(&o.pod, "pod", "", "name of this pod")
	flags.StringVar(&o.podUID, "pod-uid", "", "uid of this pod")
	flags.StringVar(&o.engine, "engine", PostgreSQL, "the database: "+PostgreSQL+" or "+Valkey)
	flags.StringVar(&o.volume, "volume", "/var/lib/mainstay", "directory of the volume")
	flags.StringVar(&o.walVolume, "wal-volume", "", "directory of a separate volume for the server's log; if empty, the log is in the data directory")
	flags.StringVar(&o.run, "run", "/run/mainstay", "directory for the socket and for keys, in memory, used by this container only")
	flags.StringVar(&o.certificates, "certificates", "/etc/mainstay/certificates", "directory with tls.crt, tls.key and ca.crt of this pod")
	flags.StringVar(&o.application, "application", "/etc/mainstay/application",
		"directory with username, password and dbname of the role and the database that the primary of a PostgreSQL creates, or with "+
			"username, password and, optionally, password.previous of the user of a Valkey; it may be missing")
	flags.StringVar(&o.listen, "listen", "", "address on which the server and the port for peers listen; all addresses if empty")
	flags.StringVar(&o.advertise, "advertise", "", "address of this pod, which is published when this instance leads")
	flags.IntVar(&o.port, "port", 5432, "port of the server")
	flags.IntVar(&o.plainPort, "plain-port", 0, "second port of a Valkey, for clients without TLS; none if 0")
	flags.IntVar(&o.peerPort, "peer-port", 8443, "port for the other instances")
	flags.StringVar(&o.probes, "probes", ":8080", "address on which the kubelet's probes are served")
	flags.StringVar(&o.metrics, "metrics", "", "address on which the metrics are served, by TLS; not served if empty")
	flags.StringVar(&o.metricsCredentials, "metrics-credentials", "/etc/mainstay/metrics",
		"directory with the username and password that clients of the metrics need")
	flags.StringToStringVar(&o.hosts, "hosts", nil,
		"addresses of other pods, such as db-1=10.0.0.7; the default is POD.DATABASE-pods.NAMESPACE.svc")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "path of a kubeconfig file; the pod's service account if empty")
	return command
}

// check returns an error that names the first flag that is missing.
func (o options) check() error {
	for flag, value := range map[string]string{
		"database": o.database, "namespace": o.namespace, "pod": o.pod, "pod-uid": o.podUID, "advertise": o.advertise,
	} {
		if value == "" {
			return fmt.Errorf("--%s: Required value", flag)
		}
	}
	if _, known := kindOf(o.engine); !known {
		return fmt.Errorf("--engine: Unsupported value: %q: must be %s or %s", o.engine, PostgreSQL, Valkey)
	}
	if o.plainPort != 0 && (o.engine != Valkey || o.plainPort == o.port) {
		return fmt.Errorf("--plain-port: Invalid value: %d: only a Valkey has one, and it must differ from --port", o.plainPort)
	}
	return nil
}

// host returns the host by which another pod is reached, and whether it is set by --hosts.
func (o options) host(pod string) (host string, isFixed bool) {
	if host, named := o.hosts[pod]; named {
		return host, true
	}
	return contract.Host(pod, o.database, o.namespace), false
}
