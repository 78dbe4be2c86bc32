package program

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"github.com/mainstay-platform/mainstay/internal/instance"
	"github.com/mainstay-platform/mainstay/internal/instance/cluster"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/instance/peers"
	"github.com/mainstay-platform/mainstay/internal/instance/supervise"
	"github.com/mainstay-platform/mainstay/internal/instance/volume"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// run runs an instance until the context asked ends and the instance has handed over and ended, or
// until it can't go on.
func run(asked context.Context, o options, logger logr.Logger) error {
	access, err := connect(o, logger)
	if err != nil {
		return err
	}
	if err = runOn(asked, o, access, logger); err != nil && asked.Err() == nil {
		tell(asked, access, err)
	}
	return err
}

// tell reports on the Pod why the program ends. A failure to do so is ignored: the log has the
// reason too.
func tell(ctx context.Context, access *cluster.Cluster, why error) {
	const limit = 3 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	_ = access.Report(ctx, instance.Ended(why))
}

// runOn does so with access to the API server.
func runOn(asked context.Context, o options, access *cluster.Cluster, logger logr.Logger) error {
	parts, err := assemble(o, logger)
	if err != nil {
		return err
	}
	defer parts.close()
	settings, isStale, err := awaitSettings(asked, access.Settings, parts.volume, logger)
	if err != nil {
		return err
	}
	if err := checkVersion(asked, parts.kind.title, parts.engine, settings); err != nil {
		return err
	}
	if parts.kind.check != nil {
		if err := parts.kind.check(settings); err != nil {
			return err
		}
	}
	config := configOf(settings, o.pod)
	config.Election.Stale = isStale
	i, err := instance.New(instance.Options{
		Name: o.pod, PodUID: o.podUID, Volume: parts.volume, Engine: counted{parts.engine.Engine, &parts.events},
		Cluster: access, Peers: parts.client, Address: o.advertise, Host: func(pod string) string { return parts.hosts(o, pod)[0] },
		Config: config, Log: logger,
	})
	if err != nil {
		return err
	}
	parts.instance.Store(i)
	parts.remember(settings)
	return runAll(asked, o, i, access, parts)
}

// versioned is a server whose major version can be found out.
type versioned interface {
	FindVersion(ctx context.Context) (string, error)
}

// checkVersion returns an error if the server in the image has another major version than the
// settings. It is called before anything uses the data.
func checkVersion(ctx context.Context, title string, server versioned, settings contract.Settings) error {
	const limit = 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	found, err := server.FindVersion(ctx)
	if err != nil {
		return err
	}
	if settings.Version != "" && found != settings.Version {
		return fmt.Errorf("the image has %s %s, and spec.version is %s: set spec.image to an image of %s %s; nothing was changed",
			title, found, settings.Version, title, settings.Version)
	}
	return nil
}

// runAll runs the instance and everything around it: the peers' port, probes, metrics, watches.
// When the instance ends, everything does.
func runAll(asked context.Context, o options, i *instance.Instance, access *cluster.Cluster, parts *parts) error {
	listener, err := net.Listen("tcp", net.JoinHostPort(o.listen, strconv.Itoa(o.peerPort)))
	if err != nil {
		return fmt.Errorf("listening for the other instances: %w", err)
	}
	probed, err := net.Listen("tcp", o.probes)
	if err != nil {
		return fmt.Errorf("listening for the probes: %w", err)
	}
	scraped, err := listenForMetrics(o)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(context.WithoutCancel(asked))
	ctx, end := context.WithCancel(ctx)
	defer context.AfterFunc(asked, func() { i.Stop(ctx) })()
	group.Go(func() error {
		defer end()
		return i.Run(ctx)
	})
	group.Go(func() error { return peers.Serve(ctx, listener, parts.certificates, i, parts.engine.streams) })
	group.Go(func() error {
		parts.certificates.Watch(ctx, func() {
			parts.log.Info("the certificates have changed")
			parts.client.Renew()
			i.CertificatesChanged(ctx)
		}, func(err error) { parts.log.Error(err, "the certificates can't be read; the previous ones stay in use") })
		return ctx.Err()
	})
	group.Go(func() error { return serveProbes(ctx, probed, probes(i)) })
	if scraped != nil {
		handler := metricsHandler(newCollector(parts.measured(i, o.database)), o.metricsCredentials)
		group.Go(func() error { return serveMetrics(ctx, scraped, parts.certificates.Own, handler) })
	}
	group.Go(func() error { return parts.engine.provide(ctx, i, access.Provisions) })
	group.Go(func() error {
		return access.Watch(ctx, func(version string) { i.RecordChanged(ctx, version) }, func(data map[string]string) {
			configure(ctx, i, o.pod, data, parts)
		})
	})
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// listenForMetrics returns the listener for metrics; nil if they are not served.
func listenForMetrics(o options) (net.Listener, error) {
	if o.metrics == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", o.metrics)
	if err != nil {
		return nil, fmt.Errorf("listening for the metrics: %w", err)
	}
	return listener, nil
}

// configOf returns the configuration that follows from the settings for the instance of a pod.
func configOf(settings contract.Settings, pod string) instance.Config {
	return instance.Config{
		Election:   settings.Election(),
		Others:     slices.DeleteFunc(slices.Clone(settings.Pods), func(name string) bool { return name == pod }),
		SwitchFrom: settings.SwitchFrom, SwitchTo: settings.SwitchTo, SwitchOnly: settings.SwitchOnly,
		Parameters: parametersOf(settings),
	}
}

// parametersOf returns the parameters for the engine: those of the server, and the lines of
// pg_hba.conf under postgres.AccessParameter.
func parametersOf(settings contract.Settings) map[string]string {
	if len(settings.Access) == 0 {
		return settings.Parameters
	}
	all := map[string]string{postgres.AccessParameter: strings.Join(settings.Access, "\n")}
	for name, value := range settings.Parameters {
		if name != postgres.AccessParameter {
			all[name] = value
		}
	}
	return all
}

// configure applies changed settings. Settings that can't be read or are not supported change
// nothing.
func configure(ctx context.Context, i *instance.Instance, pod string, data map[string]string, parts *parts) {
	settings, err := contract.ParseSettings(data[contract.SettingsKey])
	if err == nil && parts.kind.check != nil {
		err = parts.kind.check(settings)
	}
	if err == nil {
		i.Configure(ctx, configOf(settings, pod))
		parts.remember(settings)
		parts.keep(data[contract.SettingsKey])
		return
	}
	parts.log.Error(err, "the settings can't be read; the previous ones stay in use")
}

// serveProbes answers the kubelet until the context ends.
func serveProbes(ctx context.Context, listener net.Listener, handler http.Handler) error {
	const limit = 5 * time.Second
	served := &http.Server{Handler: handler, ReadHeaderTimeout: limit, WriteTimeout: limit, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10}
	stop := context.AfterFunc(ctx, func() { _ = served.Close() })
	defer stop()
	if err := served.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the probes: %w", err)
	}
	return ctx.Err()
}

// connect returns the access to the API server. It does not connect yet.
func connect(o options, logger logr.Logger) (*cluster.Cluster, error) {
	var config *rest.Config
	var err error
	if o.kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	} else {
		config, err = rest.InClusterConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("finding the API server: %w", err)
	}
	cluster.FindDeadConnections()
	return cluster.New(cluster.Configure(config), cluster.Options{
		Namespace: o.namespace, Database: o.database, Pod: o.pod, PodUID: o.podUID, Clock: clock.RealClock{}, Log: logger,
		Address: o.advertise, Port: int32(o.port), PlainPort: int32(o.plainPort), //nolint:gosec // they are ports
	})
}

// kept stores the settings that were read last: a volume.
type kept interface {
	Settings() (string, error)
	SaveSettings(text string) error
}

// awaitSettings reads the settings, and retries until it has some, because they name the other
// instances. If they can't be read, it returns those that were read last and are on the volume, and
// that they are stale: so a database starts without the API server.
func awaitSettings(
	ctx context.Context, read func(context.Context) (map[string]string, error), volume kept, logger logr.Logger,
) (contract.Settings, bool, error) {
	const pause = time.Second
	said := ""
	for {
		settings, text, err := readSettings(ctx, read)
		if err == nil {
			save(volume, text, logger)
			return settings, false, nil
		}
		if last, keptErr := volume.Settings(); keptErr == nil {
			if settings, keptErr = contract.ParseSettings(last); keptErr == nil {
				logger.Info("using the settings that were read last", "error", err.Error())
				return settings, true, nil
			}
		}
		if text := err.Error(); text != said {
			said = text
			logger.Info("waiting for the settings", "error", text)
		}
		select {
		case <-ctx.Done():
			return contract.Settings{}, false, ctx.Err()
		case <-time.After(pause):
		}
	}
}

func readSettings(ctx context.Context, read func(context.Context) (map[string]string, error)) (contract.Settings, string, error) {
	const limit = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	data, err := read(ctx)
	if err != nil {
		return contract.Settings{}, "", err
	}
	settings, err := contract.ParseSettings(data[contract.SettingsKey])
	return settings, data[contract.SettingsKey], err
}

// parts are the parts of an instance. They must be closed.
type parts struct {
	volume       *volume.Volume
	supervisor   *supervise.Supervisor
	kind         kind
	engine       database
	certificates *peers.Certificates
	client       *peers.Client
	// instance is nil until it is created, which needs the other parts.
	instance atomic.Pointer[instance.Instance]
	log      logr.Logger
	// events are counted for the metrics.
	events events
	// needed is how many replicas must receive, as neededReceivers returns.
	needed atomic.Int64
	// provisions is the revision of the databases and users that the primary makes.
	provisions atomic.Pointer[string]
	// rotationDue is when a password is next to change or to expire; nil is unknown, and the zero time
	// is never.
	rotationDue atomic.Pointer[time.Time]
	// initialise is Settings.Initialise, and ephemeral Settings.Ephemeral.
	initialise, ephemeral atomic.Bool
}

// remember stores what other parts use of the settings.
func (p *parts) remember(settings contract.Settings) {
	p.needed.Store(neededReceivers(settings))
	p.provisions.Store(&settings.Provisions)
	p.initialise.Store(settings.Initialise)
	p.ephemeral.Store(settings.Ephemeral)
}

// usage measures the volume with the data. While they are ephemeral it returns zeros: what is there
// in place of a volume is a directory of the node, whose disk others fill.
func (p *parts) usage() (used, size uint64, err error) {
	if p.ephemeral.Load() {
		return 0, 0, nil
	}
	return p.volume.Usage()
}

// leads reports whether this instance is reported as the primary.
func (p *parts) leads() bool {
	i := p.instance.Load()
	return i != nil && i.Status().Report.Role == contract.Primary
}

// measured returns the sources of the instance's metrics.
func (p *parts) measured(of observed, database string) measured {
	return measured{
		of: of, receivers: func() int { return receiving(p.engine.Observe(), time.Now()) },
		needed: func() int { return int(p.needed.Load()) }, commitsWait: func() bool { return p.engine.Observe().CommitsWait },
		kind: p.kind, server: p.engine.metrics, usage: p.usage, logUsage: p.volume.LogUsage, events: &p.events,
		database: database, log: p.log,
	}
}

// neededReceivers returns how many replicas must receive, so that together with the primary more
// than half of the instances have each commit; 0 if commits wait for no replica.
func neededReceivers(settings contract.Settings) int64 {
	if settings.Election().Durability == election.Asynchronous {
		return 0
	}
	return int64(len(settings.Pods) / 2) //nolint:mnd // half of them, rounded down
}

// receiverTimeout is how long after its last report of a flush a replica still counts as receiving.
const receiverTimeout = 5 * time.Second

// receiving returns how many replicas receive. A former connection of one that is not gone yet does
// not count.
func receiving(seen engine.Observation, now time.Time) int {
	pods := map[string]bool{}
	for _, receiver := range seen.Receivers {
		if now.Sub(receiver.FlushedAt) < receiverTimeout {
			pods[receiver.Member.Name] = true
		}
	}
	return len(pods)
}

// assemble opens the volume and prepares the rest. It starts nothing.
func assemble(o options, logger logr.Logger) (*parts, error) {
	p := &parts{log: logger}
	p.kind, _ = kindOf(o.engine) // The flags were checked.
	var err error
	if p.certificates, err = peers.LoadCertificates(o.certificates); err != nil {
		return nil, err
	}
	if p.volume, err = volume.Open(o.volume, o.walVolume); err != nil {
		return nil, err
	}
	if p.supervisor, err = supervise.New(p.volume.Lock(), clock.RealClock{}); err != nil {
		return nil, errors.Join(err, p.volume.Close())
	}
	p.client = peers.NewClient(p.certificates, func(pod string) []string {
		addresses := p.hosts(o, pod)
		for i := range addresses {
			addresses[i] = net.JoinHostPort(addresses[i], strconv.Itoa(o.peerPort))
		}
		return addresses
	})
	p.engine = p.kind.open(o, p)
	return p, nil
}

// hosts returns the hosts by which another pod is reached, the best one first: its IP address, if
// that is known, and its DNS name, which may not resolve at times.
func (p *parts) hosts(o options, pod string) []string {
	host, isFixed := o.host(pod)
	if running := p.instance.Load(); running != nil && !isFixed {
		if address := running.Address(pod); address != "" {
			return []string{address, host}
		}
	}
	return []string{host}
}

// keep stores settings for a start without the API server, in another goroutine, because a disk may
// block forever.
func (p *parts) keep(text string) {
	go save(p.volume, text, p.log)
}

// save stores settings. An error is only logged, so that a full volume does not prevent the start.
func save(volume kept, text string, logger logr.Logger) {
	if err := volume.SaveSettings(text); err != nil {
		logger.Error(err, "could not store the settings on the volume; a start without the API server uses the previous ones")
	}
}

func (p *parts) member() election.Member {
	if i := p.instance.Load(); i != nil {
		return i.Member()
	}
	return election.Member{}
}

func (p *parts) members() []election.Member {
	if i := p.instance.Load(); i != nil {
		return i.Members()
	}
	return nil
}

func (p *parts) close() {
	p.engine.Kill()
	p.client.Close()
	p.supervisor.Close()
	if err := p.volume.Close(); err != nil {
		p.log.Error(err, "closing the volume")
	}
}
