package setup

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/semaphore"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mainstay-platform/mainstay/internal/install/certificates"
	"github.com/mainstay-platform/mainstay/internal/install/crds"
	"github.com/mainstay-platform/mainstay/internal/install/webhooks"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/kit/recorder"
	"github.com/mainstay-platform/mainstay/internal/version"
)

// WebhookSettings configure the webhooks.
type WebhookSettings struct {
	// Enabled serves webhooks. Without them only the storage versions of our kinds are served, and
	// only the controllers check policies.
	Enabled bool
	// Withdraw removes, at the start, what an earlier manager with webhooks left. It excludes Enabled.
	Withdraw bool
	// Host and Port are the address of the server; an empty host means all addresses.
	Host string
	Port int
	// Service, in the manager's namespace, is how the API server reaches the webhooks. URL,
	// https://host:port, is the alternative for a manager outside the cluster.
	Service, URL string
	// Certificates configure the Secret in the manager's namespace.
	Certificates certificates.Options
	// Owner is the name of the installation's ClusterRole. It owns the webhook configurations, and
	// configurations that another one owns are not changed. If it is empty they have no owner, and all
	// are ours.
	Owner string
	// TimeoutSeconds is how long the API server waits for each of the webhooks; 0 means 5 s. No flag
	// sets it: tests wait longer, on machines where processes stand still for seconds.
	TimeoutSeconds int32
}

// addWebhooks registers the webhooks of the enabled kinds with their server, and returns their
// publisher.
func addWebhooks(wired wiring, restConfig *rest.Config, keeper *certificates.Keeper, server *webhookServer) (*webhooks.Publisher, error) {
	scheme, settings := wired.Manager.GetScheme(), wired.settings
	hooks := wired.hooks()
	parsing := semaphore.NewWeighted(parsedAtOnce)
	reviews := newIntake(maxAdmission, longestAdmission(wired.settings.Webhooks), parsing)
	registerHooks(server.Register, hooks, reviews)
	converter, err := Converter(scheme)
	if err != nil {
		return nil, err
	}
	server.Register(webhooks.ConvertPath, newIntake(maxConversion, longestConversion, parsing).bounded(converter))
	watched, err := webhooks.NewCache(restConfig, scheme, wired.Manager.GetRESTMapper())
	if err != nil {
		return nil, err
	}
	direct, err := crds.NewClient(restConfig)
	if err != nil {
		return nil, err
	}
	live, err := newClient(restConfig)
	if err != nil {
		return nil, err
	}
	started := server.StartedChecker()
	return webhooks.New(webhooks.Options{
		Client: live, Cache: watched, Certificates: keeper, Release: version.Version, Clock: clock.RealClock{},
		Wanted: webhooks.Wanted{
			Hooks: hooks, Endpoint: endpoint(settings),
			Watched: wired.Watched, Ungoverned: wired.Ungoverned, TimeoutSeconds: settings.Webhooks.TimeoutSeconds,
		},
		Convert: func(ctx context.Context, webhook apiextensionsv1.WebhookClientConfig) error {
			return crds.Convert(ctx, direct, webhook)
		},
		External: settings.Webhooks.Certificates.External,
		Owner:    settings.Webhooks.Certificates.Owner,
		Started:  func() error { return started(nil) },
		Recorder: recorder.Bounded(wired.Manager.GetEventRecorder("mainstay-webhooks")),
		Leads:    func() bool { return leads(wired.Manager) },
	}), nil
}

// registerHooks registers the hooks, and an answer for those that this replica does not have.
func registerHooks(register func(path string, handler http.Handler), hooks []admission.Hook, reviews *intake) {
	for _, hook := range hooks {
		register(hook.Path, reviews.bounded(hook.Handler))
	}
	for _, prefix := range admission.Prefixes() {
		register(prefix, reviews.bounded(admission.Unserved()))
	}
}

// leads reports whether this process leads, or needs no lease to.
func leads(manager ctrl.Manager) bool {
	select {
	case <-manager.Elected():
		return true
	default:
		return false
	}
}

// endpoint returns how the API server reaches the webhooks.
func endpoint(settings Settings) webhooks.Endpoint {
	if settings.Webhooks.URL != "" {
		return webhooks.Endpoint{URL: settings.Webhooks.URL}
	}
	return webhooks.Endpoint{Namespace: settings.Namespace, Service: settings.Webhooks.Service}
}

// ownerNamed returns a function that reads the installation's ClusterRole and returns an owner
// reference to it, or nil if name is empty. The right to read it is in the chart's
// templates/rbac.yaml, because it uses resourceNames.
func ownerNamed(live client.Reader, name string) func(context.Context) (*metav1.OwnerReference, error) {
	return func(ctx context.Context) (*metav1.OwnerReference, error) {
		if name == "" {
			return nil, nil //nolint:nilnil // no owner is a valid answer
		}
		role := &metav1.PartialObjectMetadata{}
		role.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"))
		if err := live.Get(ctx, client.ObjectKey{Name: name}, role); err != nil {
			return nil, fmt.Errorf("reading ClusterRole %s of the installation: %w", name, err)
		}
		return &metav1.OwnerReference{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole", Name: role.Name, UID: role.UID}, nil
	}
}

// newClient returns a client without a cache that knows all our kinds.
func newClient(config *rest.Config) (client.Client, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	live, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	return live, nil
}

// validate returns an error for flags that contradict each other.
func (w WebhookSettings) validate(namespace string) error {
	switch {
	case w.Enabled && w.Withdraw:
		return errors.New("--withdraw-webhooks can't be used with --webhooks")
	case !w.Enabled:
		return nil
	case w.Service == "" && w.URL == "":
		return errors.New("--webhooks needs --webhook-service or --webhook-url, by which the API server reaches them")
	case w.URL != "" && !isServed(w.URL):
		return fmt.Errorf("--webhook-url: invalid value %q: must be https://host:port", w.URL)
	case namespace == "":
		return errors.New("--webhooks needs --namespace, the namespace of the Secret with their certificate")
	case w.Port < 1 || w.Port > 65535:
		return fmt.Errorf("--webhook-port: invalid value %d: must be between 1 and 65535", w.Port)
	default:
		return nil
	}
}

// isServed reports whether the API server can call a URL: it requires TLS and a host.
func isServed(address string) bool {
	parsed, err := url.Parse(address)
	return err == nil && parsed.Scheme == "https" && parsed.Hostname() != ""
}

// installDefinitions installs the definitions of this release.
func installDefinitions(ctx context.Context, config *rest.Config) error {
	direct, err := crds.NewClient(config)
	if err != nil {
		return err
	}
	return crds.Install(ctx, direct)
}

// withdrawals is how often the webhooks are removed, with retryPause in between.
const withdrawals = 9

// addWithdrawal adds, if it is enabled, the removal of an earlier manager's webhooks by the leader.
// It removes them until they stay removed: the last replicas with webhooks write them again while
// they run, for up to a minute.
func addWithdrawal(to ctrl.Manager, config *rest.Config, settings Settings) error {
	if !settings.Webhooks.Withdraw {
		return nil
	}
	err := to.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for range withdrawals {
			if err := withdrawWebhooks(ctx, config, settings.Webhooks.Owner); err != nil && ctx.Err() == nil {
				ctrl.Log.WithName("setup").Error(err, "Removing webhooks")
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(retryPause):
			}
		}
		return nil
	}))
	if err != nil {
		return fmt.Errorf("adding the removal of webhooks: %w", err)
	}
	return nil
}

// withdrawWebhooks removes the webhooks of an earlier run, because this one does not answer them.
// It fails while stored objects need conversion, and if they belong to another installation.
func withdrawWebhooks(ctx context.Context, config *rest.Config, owner string) error {
	direct, err := crds.NewClient(config)
	if err != nil {
		return err
	}
	live, err := newClient(config)
	if err != nil {
		return err
	}
	if err := webhooks.Ours(ctx, live, owner); err != nil {
		return err
	}
	if err := crds.Withdraw(ctx, direct); err != nil {
		return err
	}
	return webhooks.Remove(ctx, live)
}
