package setup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mainstay-platform/mainstay/internal/install/apiservice"
	"github.com/mainstay-platform/mainstay/internal/install/certificates"
)

// APIServiceSettings say where the resources of farm.mainstay.dev are served, so that the API server can be told.
type APIServiceSettings struct {
	// Service, in the manager's namespace, is that of Mainstay's own API server. Empty: there is none, and an APIService that an
	// earlier manager of this installation left is withdrawn.
	Service string
	// Certificates are kept in a Secret of the manager's namespace, which that server's pods mount.
	Certificates certificates.Options
}

func (a *APIServiceSettings) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&a.Service, "apiservice-service", a.Service,
		"Service in the manager's namespace of those who serve farm.mainstay.dev; the API server is told of it while somebody does (default: none, and what an earlier manager told it is taken back)")
	flags.StringVar(&a.Certificates.Name, "apiservice-secret", a.Certificates.Name, "Secret with the certificate of that Service")
	flags.BoolVar(&a.Certificates.External, "apiservice-certificate-external", a.Certificates.External,
		"somebody else, as cert-manager, makes that Secret")
}

// validate checks what flags can get wrong.
func (a APIServiceSettings) validate(namespace string) error {
	switch {
	case a.Service == "":
		return nil
	case namespace == "":
		return errors.New("--apiservice-service needs --namespace: where the Service is, and the Secret with its certificate")
	case a.Certificates.Name == "":
		return errors.New("--apiservice-service needs --apiservice-secret: where the certificate is kept")
	}
	return nil
}

// served is what the leader runs for who serves farm.mainstay.dev.
type served struct {
	keeper    *certificates.Keeper
	publisher *apiservice.Publisher
}

// withdrawalRetry is how long to wait after a failed withdrawal of the APIService.
const withdrawalRetry = 10 * time.Second

// addAPIService adds, for the leader alone, what keeps the APIService and the certificate of who serves. Where nobody does it adds the
// withdrawal of what an earlier manager left, and returns nil.
func addAPIService(to ctrl.Manager, settings Settings) (*served, error) {
	// The manager's own configuration: nothing of this is written by who does not lead.
	live, err := newClient(to.GetConfig())
	if err != nil {
		return nil, err
	}
	role := settings.Webhooks.Owner
	if settings.APIService.Service == "" {
		withdrawal := manager.RunnableFunc(func(ctx context.Context) error {
			return retry(ctx, withdrawalRetry, "Withdrawing the APIService", func() error {
				return apiservice.Withdraw(ctrl.LoggerInto(ctx, ctrl.Log.WithName("setup")), live, apiservice.Of(role))
			})
		})
		if err := to.Add(withdrawal); err != nil {
			return nil, fmt.Errorf("adding the withdrawal of the APIService: %w", err)
		}
		return nil, nil //nolint:nilnil // nothing served is a valid answer
	}
	service := client.ObjectKey{Namespace: settings.Namespace, Name: settings.APIService.Service}
	owner := func(ctx context.Context) (*metav1.OwnerReference, error) { return ownerOf(ctx, live, role) }
	certificate := settings.APIService.Certificates
	certificate.Namespace, certificate.Owner = service.Namespace, owner
	certificate.Names = []string{service.Name + "." + service.Namespace + ".svc"} // what API servers call a Service
	keeper, err := certificates.New(to.GetConfig(), certificate)
	if err != nil {
		return nil, fmt.Errorf("keeping the certificate of Service %s: %w", service, err)
	}
	watched, err := apiservice.NewCache(to.GetConfig(), to.GetScheme(), to.GetRESTMapper(), service)
	if err != nil {
		return nil, err
	}
	publisher := apiservice.New(apiservice.Options{
		Client: live, Cache: watched, Certificates: keeper, Namespace: service.Namespace, Service: service.Name,
		Owner: owner, Whose: apiservice.Of(role), External: certificate.External,
		Recorder: to.GetEventRecorder("mainstay-apiservice"), Clock: clock.RealClock{},
	})
	if err := to.Add(both{keeper, publisher}); err != nil {
		return nil, fmt.Errorf("adding what keeps the APIService: %w", err)
	}
	return &served{keeper, publisher}, nil
}

// both run together, on the leader alone: nobody serves with this certificate in this process, so there is nothing for a
// standby to have ready, and the Secret alone tells the next leader what is trusted.
type both [2]manager.Runnable

// Start runs until ctx ends.
func (b both) Start(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, runnable := range b {
		group.Go(func() error { return runnable.Start(ctx) })
	}
	return group.Wait()
}

// NeedLeaderElection is true, though a Keeper by itself needs none.
func (b both) NeedLeaderElection() bool { return true }
