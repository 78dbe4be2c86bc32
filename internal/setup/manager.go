package setup

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/mainstay-platform/mainstay/internal/install/certificates"
	"github.com/mainstay-platform/mainstay/internal/install/webhooks"
	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
	"github.com/mainstay-platform/mainstay/internal/kit/transport/leaseguard"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/internal/policy/policyreader"
	"github.com/mainstay-platform/mainstay/internal/registration"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// Settings configure a manager. Flags set them; tests do so directly.
type Settings struct {
	// Kinds are the names of the enabled kinds. Nothing is read, admitted or changed of the others,
	// except that their definitions stay and their objects are converted between versions.
	Kinds []string
	// WatchNamespaces are the namespaces whose objects are watched, admitted and changed; none means
	// all.
	WatchNamespaces []string
	// SecretNamespaces are the namespaces whose Secrets may be read by kinds that restart workloads
	// when a Secret changes; none means that no Secrets are read. They must be among WatchNamespaces,
	// unless that is empty.
	SecretNamespaces []string
	// Namespace is the manager's own, to which no policy applies; empty outside a cluster.
	Namespace string
	// LeaderElection makes one manager of several work. Without it, only one may run.
	LeaderElection bool
	// LeaderElectionNamespace is the namespace of the Lease; empty means Namespace.
	LeaderElectionNamespace string
	// LeaderElectionIdentity is the holder identity in the Lease. It must be unique among running
	// processes, like a pod's name, and survive a restart of the process. Empty means a random one at
	// each start.
	LeaderElectionIdentity string
	// LeaseDuration, RenewDeadline and RetryPeriod are those of client-go's leader election.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// HealthAddress serves /healthz and /readyz; "0" disables them.
	HealthAddress string
	// MetricsAddress serves /metrics with TLS, to clients that may get that path; "0" disables it.
	MetricsAddress string
	// Concurrency is how many objects of one kind are reconciled at once.
	Concurrency int
	// ReconcileTimeout bounds one reconcile, so that a hanging call delays one object only.
	ReconcileTimeout time.Duration
	// ShutdownTimeout is how long running reconciles may take to end.
	ShutdownTimeout time.Duration
	// Webhooks configure the webhooks.
	Webhooks WebhookSettings
	// APIService configures the APIService of farm.mainstay.dev.
	APIService APIServiceSettings
	// DefaultPolicy creates the PlatformPolicy "default", once in the life of its definition. It needs
	// the kind to be on.
	DefaultPolicy bool
	// DefaultPolicyRegistries are the registries that it allows in production; none means any.
	DefaultPolicyRegistries []string
	// Environments are those of namespaces, each with its aliases (production:prod); none means the
	// default ones.
	Environments []string
	// ServiceMonitorLabels are the labels by which Prometheus selects ServiceMonitors.
	ServiceMonitorLabels map[string]string
	// PrometheusRuleLabels are the labels by which Prometheus selects PrometheusRules.
	PrometheusRuleLabels map[string]string
	// InstanceImage is the image with the program that database pods run: Mainstay's own.
	InstanceImage string
	// PostgreSQLImages are the servers' images by their major version.
	PostgreSQLImages map[string]string
	// PgBouncerImage is the image of the poolers of PostgreSQLs; "" is none.
	PgBouncerImage string
	// ValkeyImages are the servers' images of Caches by their major version.
	ValkeyImages map[string]string
	// StackObjects are the kinds of other projects whose objects may be components of AppStacks, as
	// RESOURCE.VERSION.GROUP/KIND.
	StackObjects []string
	// StakaterAnnotations makes the annotations of Stakater Reloader work like our own.
	StakaterAnnotations bool
	// Clock is the controllers' clock; nil means the real one.
	Clock clock.PassiveClock
	// SkipNameValidation lets tests run several managers in one process.
	SkipNameValidation bool

	// admitted are all WatchNamespaces, also those that are not served. The objects in all of them are
	// admitted, because replicas that started at different times publish the same webhooks.
	admitted []string
}

// DefaultSettings returns the production defaults. A lease lasts 15 s, is renewed for 10 s, and
// tried every 2 s, as in Kubernetes' own components.
func DefaultSettings() Settings {
	return Settings{
		Kinds:            allKinds(),
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

// leaderElectionID is the name of the Lease.
const leaderElectionID = "mainstay-manager"

// New returns the operator with all controllers. It reads from the API server which optional APIs
// exist and in which versions objects are stored, and starts nothing.
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
	settings, secrets, err := observeGrants(ctx, restConfig, settings, on)
	if err != nil {
		return nil, err
	}
	options, err := managerOptions(settings, on, stored)
	if err != nil {
		return nil, err
	}
	keeper, err := keepCertificate(restConfig, &settings)
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
	sources, err := stored.addSources(ctx, manager, settings, on, secrets)
	if err != nil {
		return nil, err
	}
	wired, err := wire(manager, restConfig, settings, on, sources)
	if err != nil {
		return nil, err
	}
	if err := wired.addControllers(ctx); err != nil {
		return nil, err
	}
	served, err := addForLeader(manager, restConfig, settings, stored)
	if err != nil {
		return nil, err
	}
	operator := &Operator{Manager: manager, isLeader: func() bool { return guard != nil && leads(manager) }}
	var publisher *webhooks.Publisher
	if settings.Webhooks.Enabled {
		operator.webhooks = newWebhookServer(settings.Webhooks, keeper)
		if publisher, err = addWebhooks(wired, restConfig, keeper, operator.webhooks); err != nil {
			return nil, err
		}
		operator.beside = append(operator.beside, keeper, publisher, stored.opener(publisher.Published()))
	}
	operator.checks = readyChecks(wired, stored, guard, operator.webhooks, publisher)
	if err := exposeMetrics(ctx, wired, metricSources{keeper, guard, publisher, served}); err != nil {
		return nil, err
	}
	return operator, nil
}

// addForLeader adds what only the leader migrates, publishes or withdraws.
func addForLeader(manager ctrl.Manager, restConfig *rest.Config, settings Settings, stored *storage) (*served, error) {
	if err := stored.addTo(manager, settings.WatchNamespaces); err != nil {
		return nil, err
	}
	if err := addWithdrawal(manager, restConfig, settings); err != nil {
		return nil, err
	}
	return addAPIService(manager, settings)
}

// wire returns the input of the kinds' functions, without the objects of other projects.
func wire(manager ctrl.Manager, restConfig *rest.Config, settings Settings, on []registration.Kind,
	sources *observe.Sources) (wiring, error) {
	settings = settings.withClock()
	environments, err := policy.NewEnvironments(settings.Environments)
	if err != nil {
		return wiring{}, err
	}
	wired := wiring{settings: settings, Input: registration.Input{
		Manager: manager, Kinds: on, Concurrency: settings.Concurrency, Clock: settings.Clock, HasWebhooks: settings.Webhooks.Enabled,
		Environments: environments,
		Watched:      settings.admitted, Ungoverned: policyreader.Ungoverned(settings.Namespace),
		MonitorLabels: settings.ServiceMonitorLabels, RuleLabels: settings.PrometheusRuleLabels,
		InstanceImage: settings.InstanceImage, PostgreSQLImages: settings.PostgreSQLImages, ValkeyImages: settings.ValkeyImages,
		PgBouncerImage: settings.PgBouncerImage,
		Workloads:      workloadReader(manager, settings, on, sources),
	}}
	if wired.Version, err = serverVersion(restConfig, manager.GetHTTPClient()); err != nil {
		return wired, err
	}
	if wired.Reviewing, err = reviewClient(restConfig); err != nil {
		return wired, err
	}
	wired.Rules, err = addPolicies(wired, restConfig)
	return wired, err
}

// serverVersion returns the version of the API server.
func serverVersion(restConfig *rest.Config, by *http.Client) (*version.Info, error) {
	api, err := discovery.NewDiscoveryClientForConfigAndClient(restConfig, by)
	if err != nil {
		return nil, fmt.Errorf("preparing to read the cluster's version: %w", err)
	}
	found, err := api.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's version: %w", err)
	}
	return found, nil
}

// withClock sets the real clock if there is none.
func (s Settings) withClock() Settings {
	if s.Clock == nil {
		s.Clock = clock.RealClock{}
	}
	return s
}

// validate returns the enabled kinds, or an error for invalid flags.
func (s Settings) validate() ([]registration.Kind, error) {
	if err := s.Webhooks.validate(s.Namespace); err != nil {
		return nil, err
	}
	if err := s.APIService.validate(s.Namespace); err != nil {
		return nil, err
	}
	for _, namespace := range s.WatchNamespaces {
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			return nil, fmt.Errorf("--watch-namespaces: invalid value %q: must be the name of a namespace: %s", namespace, problems[0])
		}
	}
	if err := s.validateSecretNamespaces(); err != nil {
		return nil, err
	}
	if err := s.validateEnvironments(); err != nil {
		return nil, err
	}
	if err := s.validateDefaultPolicy(); err != nil {
		return nil, err
	}
	if problems := metav1validation.ValidateLabels(s.ServiceMonitorLabels, field.NewPath("--servicemonitor-labels")); len(problems) > 0 {
		return nil, problems[0]
	}
	if problems := metav1validation.ValidateLabels(s.PrometheusRuleLabels, field.NewPath("--prometheusrule-labels")); len(problems) > 0 {
		return nil, problems[0]
	}
	if s.LeaderElection && s.leaseNamespace() == "" {
		return nil, errors.New("--leader-elect needs --namespace or --leader-elect-namespace, the namespace of the Lease")
	}
	return enabledKinds(s.Kinds)
}

// keepCertificate returns the keeper of the webhooks' certificate, or nil if webhooks are off.
func keepCertificate(restConfig *rest.Config, settings *Settings) (*certificates.Keeper, error) {
	if !settings.Webhooks.Enabled {
		return nil, nil
	}
	live, err := newClient(restConfig)
	if err != nil {
		return nil, err
	}
	certificate := &settings.Webhooks.Certificates
	certificate.Namespace, certificate.Names = settings.Namespace, endpoint(*settings).Names()
	certificate.Owner = ownerNamed(live, settings.Webhooks.Owner)
	keeper, err := certificates.New(restConfig, *certificate)
	if err != nil {
		return nil, fmt.Errorf("keeping the webhooks' certificate: %w", err)
	}
	return keeper, nil
}

// guardedConfig returns the configuration for everything that only the leader may do: writes are
// refused when the lease may be lost. What every replica does (certificates, webhooks) is not
// guarded, and neither is the election itself, which is watched. Without an election there is no
// guard: nil.
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

// managerOptions returns the options of controller-runtime's manager.
//
// +kubebuilder:rbac:part=election,groups=coordination.k8s.io,namespace=mainstay-system,resources=leases,verbs=get;create;update
// +kubebuilder:rbac:part=election,groups="",namespace=mainstay-system,resources=events,verbs=create;patch
func managerOptions(settings Settings, on []registration.Kind, stored *storage) (ctrl.Options, error) {
	scheme, err := Scheme()
	if err != nil {
		return ctrl.Options{}, err
	}
	cached, err := cacheOptions(on, settings.StackObjects)
	return ctrl.Options{
		Scheme:                        scheme,
		NewCache:                      stored.newCache,
		Cache:                         watch.Default(cached, settings.WatchNamespaces),
		HealthProbeBindAddress:        "0", // see probes.go
		LeaderElection:                settings.LeaderElection,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &settings.LeaseDuration,
		RenewDeadline:                 &settings.RenewDeadline,
		RetryPeriod:                   &settings.RetryPeriod,
		GracefulShutdownTimeout:       &settings.ShutdownTimeout,
		Controller: config.Controller{
			// Fills the caches of a standby, so that it can work at once when it becomes the leader.
			EnableWarmup:          new(true),
			SkipNameValidation:    &settings.SkipNameValidation,
			ReconciliationTimeout: settings.ReconcileTimeout,
		},
	}, err
}

// reviewsPerSecond and reviewsAtOnce bound the webhooks' requests, which are about namespaces that
// the cache does not have yet, as in the milliseconds after their creation.
const (
	reviewsPerSecond = 10
	reviewsAtOnce    = 50
)

// reviewClient returns the client through which all webhooks read what the cache does not have:
// reviews that a client forges with invented namespaces must not use up the controllers' requests.
// The limiter is one for all that is read; with QPS and Burst each resource would have its own.
func reviewClient(restConfig *rest.Config) (client.Reader, error) {
	bounded := rest.CopyConfig(restConfig)
	bounded.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(reviewsPerSecond, reviewsAtOnce)
	return newClient(bounded)
}

// addPolicies adds the creation of the default policy, if it is enabled, and returns the source of
// the rules that apply to a namespace, or nil if policies are off.
func addPolicies(wired wiring, restConfig *rest.Config) (policy.Source, error) {
	manager, settings := wired.Manager, wired.settings
	if !settings.hasPolicies() {
		return nil, nil
	}
	reader := policyreader.Reader{Cached: manager.GetClient(), Live: wired.Reviewing, Environments: wired.Environments,
		Clock: wired.Clock, Ungoverned: wired.Ungoverned}
	if settings.DefaultPolicy {
		written, err := newDefaultPolicy(settings.DefaultPolicyRegistries)
		if err != nil {
			return nil, err
		}
		made := &defaultPolicy{config: restConfig, policy: written, cached: manager.GetClient(), known: make(chan struct{})}
		if err := manager.Add(made); err != nil {
			return nil, fmt.Errorf("adding the default policy: %w", err)
		}
		reader.Known = made.Known
	}
	return reader.Rules, nil
}
