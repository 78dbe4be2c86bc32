package setup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/mainstay-platform/mainstay/internal/install/certificates"
	"github.com/mainstay-platform/mainstay/internal/install/webhooks"
	"github.com/mainstay-platform/mainstay/internal/kinds/platformpolicy"
	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
	"github.com/mainstay-platform/mainstay/internal/kit/transport/leaseguard"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/internal/policy/policyreader"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// Settings are what a manager is started with. Flags set them; tests do so directly.
type Settings struct {
	// Kinds names those that are on. Of the others nothing is read, admitted or changed; their definitions are
	// kept, and their objects converted between versions.
	Kinds []string
	// WatchNamespaces are those whose objects are watched, admitted and changed; none means all.
	WatchNamespaces []string
	// SecretNamespaces are those whose Secrets may be read, by kinds that have workloads restarted when one changes; none means
	// that no Secret is. They are among WatchNamespaces, if there are any.
	SecretNamespaces []string
	// Namespace is the manager's own, which no policy governs; empty outside a cluster.
	Namespace string
	// LeaderElection makes sure that one manager of several works. Off, there must be one only.
	LeaderElection bool
	// LeaderElectionNamespace holds the Lease; empty means Namespace.
	LeaderElectionNamespace string
	// LeaderElectionIdentity is who holds the Lease: a name that no two processes have at a time, as a pod's, and that stays
	// when the process is started anew. Empty makes one up at each start.
	LeaderElectionIdentity string
	// LeaseDuration, RenewDeadline and RetryPeriod are those of client-go's leader election.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// HealthAddress serves /healthz and /readyz; "0" turns it off.
	HealthAddress string
	// MetricsAddress serves /metrics, with TLS and to who may read them; "0" turns it off.
	MetricsAddress string
	// Concurrency is how many objects of one kind are reconciled at once.
	Concurrency int
	// ReconcileTimeout bounds one reconcile, so that a call that hangs holds up one object only.
	ReconcileTimeout time.Duration
	// ShutdownTimeout is how long running reconciles may take to end.
	ShutdownTimeout time.Duration
	// Webhooks say how webhooks are served.
	Webhooks WebhookSettings
	// APIService says where the resources of farm.mainstay.dev are served.
	APIService APIServiceSettings
	// DefaultPolicy makes the PlatformPolicy "default", once in the life of its definition. It needs the
	// kind to be on.
	DefaultPolicy bool
	// StakaterAnnotations has the annotations of Stakater Reloader count, as our own do.
	StakaterAnnotations bool
	// Clock tells the controllers the time; nil means the true one.
	Clock clock.PassiveClock
	// SkipNameValidation lets tests run several managers in one process.
	SkipNameValidation bool
}

// DefaultSettings are the production defaults. Leases last 15 s, are renewed for 10 s, and
// tried every 2 s: those of Kubernetes' own components.
func DefaultSettings() Settings {
	return Settings{
		Kinds:            AllKinds(),
		LeaderElection:   true,
		LeaseDuration:    15 * time.Second,
		RenewDeadline:    10 * time.Second,
		RetryPeriod:      2 * time.Second,
		HealthAddress:    ":8081",
		MetricsAddress:   "0",
		Concurrency:      5,
		ReconcileTimeout: 2 * time.Minute,
		ShutdownTimeout:  20 * time.Second,
		Webhooks:         WebhookSettings{Port: webhook.DefaultPort, Certificates: certificates.Options{Name: "mainstay-webhook"}},
		APIService:       APIServiceSettings{Certificates: certificates.Options{Name: "mainstay-apiserver"}},
	}
}

// leaderElectionID names the Lease.
const leaderElectionID = "mainstay-manager"

// New builds the operator with all controllers. It talks to the API server to learn which optional
// APIs there are and what is stored, and starts nothing.
func New(ctx context.Context, restConfig *rest.Config, settings Settings) (*Operator, error) {
	on, err := settings.validate()
	if err != nil {
		return nil, err
	}
	restConfig = rest.CopyConfig(restConfig)
	restConfig.Wrap(metrics.Calls)
	stored, err := observeStorage(ctx, restConfig, definitionsOf(on), settings.Webhooks.Enabled)
	if err != nil {
		return nil, err
	}
	secrets, err := secretAccess(ctx, restConfig, settings, on)
	if err != nil {
		return nil, err
	}
	options, err := managerOptions(settings, on, secrets, stored)
	if err != nil {
		return nil, err
	}
	keeper, err := serve(restConfig, &settings, &options)
	if err != nil {
		return nil, err
	}
	options.Metrics = metricsServer(restConfig, settings, keeper)
	fenced, guard, err := guardedConfig(restConfig, settings, &options)
	if err != nil {
		return nil, err
	}
	manager, err := ctrl.NewManager(fenced, options)
	if err != nil {
		return nil, fmt.Errorf("building the manager: %w", err)
	}
	wired, err := wire(manager, restConfig, settings, on, secrets)
	if err != nil {
		return nil, err
	}
	if err := wired.addControllers(ctx); err != nil {
		return nil, err
	}
	if err := stored.addTo(manager, settings.WatchNamespaces); err != nil {
		return nil, err
	}
	served, err := addForLeader(manager, restConfig, settings)
	if err != nil {
		return nil, err
	}
	operator := &Operator{Manager: manager}
	var publisher *webhooks.Publisher
	if settings.Webhooks.Enabled {
		if publisher, err = addWebhooks(wired, restConfig, keeper); err != nil {
			return nil, err
		}
		operator.beside = append(operator.beside, keeper, publisher, stored.opener(publisher.Published()))
	}
	operator.checks = readyChecks(manager, stored, guard, publisher)
	if err := exposeMetrics(ctx, wired, metricSources{keeper, guard, publisher, served}); err != nil {
		return nil, err
	}
	return operator, nil
}

// addForLeader adds what the leader alone tells the API server, or takes back.
func addForLeader(manager ctrl.Manager, restConfig *rest.Config, settings Settings) (*served, error) {
	if err := addWithdrawal(manager, restConfig, settings); err != nil {
		return nil, err
	}
	return addAPIService(manager, settings)
}

// wire makes what kinds are given.
func wire(manager ctrl.Manager, restConfig *rest.Config, settings Settings, on []kind, secrets observe.SecretAccess) (wiring, error) {
	settings = settings.withClock()
	wired := wiring{manager: manager, settings: settings, kinds: on, workloads: workloadReader(manager, settings, on, secrets)}
	var err error
	if wired.rules, err = addPolicies(manager, restConfig, settings); err != nil {
		return wired, err
	}
	wired.injection, err = injectionReader(restConfig, wired)
	return wired, err
}

// withClock has the true time where no other is given.
func (s Settings) withClock() Settings {
	if s.Clock == nil {
		s.Clock = clock.RealClock{}
	}
	return s
}

// validate checks what flags can get wrong, and returns the kinds that are on.
func (s Settings) validate() ([]kind, error) {
	if err := s.Webhooks.validate(s.Namespace); err != nil {
		return nil, err
	}
	if err := s.APIService.validate(s.Namespace); err != nil {
		return nil, err
	}
	for _, namespace := range s.WatchNamespaces {
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			return nil, fmt.Errorf("--watch-namespaces: %q is no name of a namespace: %s", namespace, problems[0])
		}
	}
	if err := s.validateSecretNamespaces(); err != nil {
		return nil, err
	}
	if s.DefaultPolicy && !s.hasPolicies() {
		return nil, fmt.Errorf("--default-policy needs %s among --kinds", platformpolicy.Controller)
	}
	if s.LeaderElection && s.leaseNamespace() == "" {
		return nil, errors.New("--leader-elect needs --namespace or --leader-elect-namespace, where the Lease is")
	}
	return enabledKinds(s.Kinds)
}

// serve adds the server of webhooks, and returns what keeps its certificate; nil where there are none.
func serve(restConfig *rest.Config, settings *Settings, options *ctrl.Options) (*certificates.Keeper, error) {
	if !settings.Webhooks.Enabled {
		return nil, nil
	}
	var err error
	if settings.Webhooks.Certificates, err = certificateOptions(restConfig, *settings); err != nil {
		return nil, err
	}
	keeper, err := newKeeper(restConfig, *settings)
	if err != nil {
		return nil, err
	}
	options.WebhookServer = webhookServer(settings.Webhooks, keeper)
	return keeper, nil
}

// fencedConfig is the configuration for all that only the leader may do: writes are refused once the lease may be
// lost. What every replica does (certificates, webhooks) goes without, and so does the election itself, which
// is watched. Without an election there is no fence: nil.
func guardedConfig(restConfig *rest.Config, settings Settings, options *ctrl.Options) (*rest.Config, *leaseguard.Guard, error) {
	if !settings.LeaderElection {
		return restConfig, nil, nil
	}
	guard := leaseguard.New(settings.RenewDeadline, clock.RealClock{})
	watched := rest.CopyConfig(restConfig)
	watched.Wrap(guard.ObserveElection)
	guarded := rest.CopyConfig(restConfig)
	guarded.Wrap(guard.Transport)
	if settings.LeaderElectionIdentity == "" {
		settings.LeaderElectionIdentity = string(uuid.NewUUID())
	}
	lock, err := electionLock(watched, options.Scheme, settings, guard)
	options.LeaderElectionResourceLockInterface = lock
	return guarded, guard, err
}

// managerOptions are those of controller-runtime's manager.
//
// +kubebuilder:rbac:part=election,groups=coordination.k8s.io,namespace=mainstay-system,resources=leases,verbs=get;create;update
// +kubebuilder:rbac:part=election,groups="",namespace=mainstay-system,resources=events,verbs=create;patch
func managerOptions(settings Settings, on []kind, secrets observe.SecretAccess, stored *storage) (ctrl.Options, error) {
	scheme, err := Scheme()
	if err != nil {
		return ctrl.Options{}, err
	}
	cached, err := cacheOptions(on, secrets)
	return ctrl.Options{
		Scheme:                        scheme,
		NewCache:                      stored.newCache,
		Cache:                         watch.Default(cached, settings.WatchNamespaces),
		HealthProbeBindAddress:        "0", // probes.go
		LeaderElection:                settings.LeaderElection,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &settings.LeaseDuration,
		RenewDeadline:                 &settings.RenewDeadline,
		RetryPeriod:                   &settings.RetryPeriod,
		GracefulShutdownTimeout:       &settings.ShutdownTimeout,
		Controller: config.Controller{
			// Fills the caches of a standby, so that it can work at once when it leads.
			EnableWarmup:          new(true),
			SkipNameValidation:    &settings.SkipNameValidation,
			ReconciliationTimeout: settings.ReconcileTimeout,
		},
	}, err
}

// newNamespacesPerSecond and newNamespacesAtOnce bound how often the API server is asked for a namespace that
// the cache does not have yet, which is so for some milliseconds after it was made.
const (
	newNamespacesPerSecond = 10
	newNamespacesAtOnce    = 50
)

// addPolicies makes the default policy, if that is asked for, and returns what reads the rules that govern
// a namespace; nil if policies are off.
func addPolicies(manager ctrl.Manager, restConfig *rest.Config, settings Settings) (policy.Source, error) {
	if !settings.hasPolicies() {
		return nil, nil
	}
	// Who makes up namespaces in reviews of their own must not use up what the controllers may ask.
	slow := rest.CopyConfig(restConfig)
	slow.QPS, slow.Burst = newNamespacesPerSecond, newNamespacesAtOnce
	live, err := newClient(slow)
	if err != nil {
		return nil, err
	}
	reader := policyreader.Reader{Cached: manager.GetClient(), Live: live, Ungoverned: policyreader.Ungoverned(settings.Namespace)}
	if settings.DefaultPolicy {
		made := &defaultPolicy{config: restConfig, cached: manager.GetClient(), known: make(chan struct{})}
		if err := manager.Add(made); err != nil {
			return nil, fmt.Errorf("adding the default policy: %w", err)
		}
		reader.Known = made.Known
	}
	return reader.Rules, nil
}
