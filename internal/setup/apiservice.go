package setup

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mainstay-platform/mainstay/internal/install/apiservice"
	"github.com/mainstay-platform/mainstay/internal/install/certificates"
	"github.com/mainstay-platform/mainstay/internal/kit/recorder"
)

// APIServiceSettings configure the APIService of farm.mainstay.dev.
type APIServiceSettings struct {
	// Service is the Service of Mainstay's own API server, in the manager's namespace. If it is empty
	// there is no server, and the APIService that an earlier manager of this installation left is
	// deleted.
	Service string
	// Certificates configure the Secret in the manager's namespace that the server's pods mount.
	Certificates certificates.Options
}

func (a *APIServiceSettings) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&a.Service, "apiservice-service", a.Service,
		"name of the Service of our API server, in the manager's namespace; the manager registers the API farm.mainstay.dev while the Service has a ready endpoint (default: none, and the APIService of an earlier manager is deleted)")
	flags.StringVar(&a.Certificates.Name, "apiservice-secret", a.Certificates.Name, "Secret with the certificate of that Service")
	flags.BoolVar(&a.Certificates.External, "apiservice-certificate-external", a.Certificates.External,
		"another program, such as cert-manager, makes that Secret")
}

// validate returns an error for flags that contradict each other.
func (a APIServiceSettings) validate(namespace string) error {
	switch {
	case a.Service == "":
		return nil
	case namespace == "":
		return errors.New("--apiservice-service needs --namespace, the namespace of the Service and of the Secret with its certificate")
	case a.Certificates.Name == "":
		return errors.New("--apiservice-service needs --apiservice-secret, the Secret with its certificate")
	}
	return nil
}

// served is what the leader runs for the server of farm.mainstay.dev.
type served struct {
	keeper    *certificates.Keeper
	publisher *apiservice.Publisher
}

// addAPIService adds, for the leader only, the publisher of the APIService and the keeper of the
// server's certificate. If there is no server, it adds the deletion of an earlier manager's
// APIService, and returns nil.
func addAPIService(to ctrl.Manager, settings Settings) (*served, error) {
	// This is the manager's own configuration: only the leader writes here.
	live, err := newClient(to.GetConfig())
	if err != nil {
		return nil, err
	}
	role := settings.Webhooks.Owner
	if settings.APIService.Service == "" {
		withdrawal := manager.RunnableFunc(func(ctx context.Context) error {
			return retry(ctx, retryPause, "Deleting the APIService", func() error {
				return apiservice.Withdraw(ctrl.LoggerInto(ctx, ctrl.Log.WithName("setup")), live, apiservice.Of(role))
			})
		})
		if err := to.Add(withdrawal); err != nil {
			return nil, fmt.Errorf("adding the deletion of the APIService: %w", err)
		}
		return nil, nil //nolint:nilnil // nothing served is a valid answer
	}
	service := client.ObjectKey{Namespace: settings.Namespace, Name: settings.APIService.Service}
	owner := ownerNamed(live, role)
	certificate := settings.APIService.Certificates
	certificate.Namespace, certificate.Owner = service.Namespace, owner
	certificate.Names = []string{service.Name + "." + service.Namespace + ".svc"} // the name with which API servers call a Service
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
		Recorder: recorder.Bounded(to.GetEventRecorder("mainstay-apiservice")), Clock: clock.RealClock{},
	})
	if err := to.Add(forLeader{together{keeper, publisher}}); err != nil {
		return nil, fmt.Errorf("adding the publisher of the APIService: %w", err)
	}
	return &served{keeper, publisher}, nil
}

// forLeader runs a Keeper and a Publisher on the leader only. This process does not serve with this
// certificate, so a standby needs nothing ready, and the Secret tells the next leader which CAs are
// trusted.
type forLeader struct{ together }

// NeedLeaderElection returns true, although a Keeper alone needs no leader.
func (forLeader) NeedLeaderElection() bool { return true }
