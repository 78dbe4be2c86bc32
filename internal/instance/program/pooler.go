package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"github.com/mainstay-platform/mainstay/internal/instance/pooler"
	"github.com/mainstay-platform/mainstay/internal/kit/logging"
	"github.com/mainstay-platform/mainstay/internal/pgbouncer"
)

// modes are the values of --mode.
var modes = []string{string(pgbouncer.Transaction), string(pgbouncer.Session)}

// poolerOptions are the flags of the subcommand pooler.
type poolerOptions struct {
	logging  logging.Options
	settings pgbouncer.Settings
	mode     string
	program  string
	probes   string
	within   time.Duration
}

func poolerCommand(logs io.Writer, environment []string) *cobra.Command {
	var o poolerOptions
	command := &cobra.Command{
		Use:   "pooler",
		Short: "Run PgBouncer in front of a PostgreSQL",
		Long: "Run PgBouncer in front of a PostgreSQL: clients wait, and do not fail, while the primary hands over. At SIGTERM, the " +
			"program waits until clients have disconnected, for at most --ends-within, and ends.",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return o.run(command.Context(), logs, environment)
		},
	}
	flags := command.Flags()
	o.logging.AddFlags(flags)
	flags.StringVar(&o.settings.Host, "host", "", "host name of the primary")
	flags.IntVar(&o.settings.Port, "port", 5432, "port of the primary")
	flags.StringVar(&o.settings.Listen, "listen", "*", "address on which clients connect; * for all")
	flags.IntVar(&o.settings.ListenPort, "listen-port", 5432, "port for clients")
	flags.StringVar(&o.settings.Run, "run", "/run/mainstay", "directory for the socket and the configuration, in memory, used by this container only")
	flags.StringVar(&o.settings.Certificates, "certificates", "/etc/mainstay/certificates", "directory with tls.crt, tls.key and ca.crt")
	flags.StringVar(&o.mode, "mode", modes[0], "when PgBouncer takes back a client's connection to the server: after each transaction, or when the client disconnects (session)")
	flags.IntVar(&o.settings.PoolSize, "pool-size", 20, "most connections to the server for each pair of user and database")
	flags.IntVar(&o.settings.MaxConnections, "max-connections", 50, "most connections to the server for each database, of all users")
	flags.IntVar(&o.settings.MaxClients, "max-clients", 1000, "most clients that may be connected at once")
	flags.StringSliceVar(&o.settings.Ignored, "ignore", nil, "startup parameters of clients to ignore, in addition to extra_float_digits")
	flags.StringVar(&o.program, "program", "pgbouncer", "path of PgBouncer, or its name on the PATH or in /usr/sbin")
	flags.StringVar(&o.probes, "probes", ":8080", "address on which the kubelet's probes are served")
	flags.DurationVar(&o.within, "ends-within", time.Minute, "how long clients may take to disconnect after SIGTERM")
	return command
}

// lookPath finds a program on the PATH, or in /usr/sbin, where Debian has programs for
// administrators.
func lookPath(name string) (string, error) {
	for _, candidate := range []string{name, "/usr/sbin/" + name} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("the image has no program %s on its PATH: it must be an image of PgBouncer", name)
}

func (o poolerOptions) run(ctx context.Context, logs io.Writer, environment []string) error {
	switch {
	case o.settings.Host == "":
		return errors.New("--host: Required value")
	case !slices.Contains(modes, o.mode):
		return fmt.Errorf("--mode: Unsupported value: %q: must be %s or %s", o.mode, modes[0], modes[1])
	}
	logger, err := o.logging.Logger(logs)
	if err != nil {
		return err
	}
	probed, err := net.Listen("tcp", o.probes)
	if err != nil {
		return fmt.Errorf("listening for the probes: %w", err)
	}
	o.settings.Mode = pgbouncer.Mode(o.mode)
	if o.program, err = lookPath(o.program); err != nil {
		return err
	}
	runs := pooler.New(pooler.Options{
		Settings: o.settings, Program: o.program, Environment: environment, EndsWithin: o.within, Output: os.Stdout,
		Clock: clock.RealClock{}, Log: logger,
	})
	group, serving := errgroup.WithContext(context.WithoutCancel(ctx))
	serving, end := context.WithCancel(serving)
	group.Go(func() error {
		defer end()
		return runs.Run(ctx)
	})
	group.Go(func() error { return serveProbes(serving, probed, runs.Probes()) })
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
