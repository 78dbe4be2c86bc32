package setup

import (
	"context"
	"crypto/tls"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/mainstay-platform/mainstay/internal/access"
	"github.com/mainstay-platform/mainstay/internal/install/certificates"
	"github.com/mainstay-platform/mainstay/internal/install/webhooks"
	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
	"github.com/mainstay-platform/mainstay/internal/kit/transport/leaseguard"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/version"
)

// scrapesAtOnce is how many are answered at once: there are two Prometheus servers at most, and somebody
// with curl.
const scrapesAtOnce = 4

// metricsServer says how metrics are served: with TLS, to who may read them. The certificate is that of the
// webhooks, for clients can verify it by the Secret's ca.crt; without webhooks there is none to share, and one
// is made that nobody can verify.
func metricsServer(restConfig *rest.Config, settings Settings, keeper *certificates.Keeper) metricsserver.Options {
	return metricsserver.Options{
		BindAddress:   settings.MetricsAddress,
		SecureServing: true,
		// Not the manager's configuration: a replica that does not lead may not create even a review with it.
		FilterProvider: func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
			gate, err := access.New(restConfig)
			return func(_ logr.Logger, handler http.Handler) (http.Handler, error) { return gate.Filter(handler), nil }, err
		},
		TLSOpts: []func(*tls.Config){func(config *tls.Config) {
			// One small page at a time: HTTP/2 would only add what can go wrong.
			config.NextProtos, config.MinVersion = []string{"http/1.1"}, tls.VersionTLS12
			if keeper != nil {
				config.GetCertificate = keeper.GetCertificate
			}
		}},
		HandlerOpts: []func(*promhttp.HandlerOpts){func(options *promhttp.HandlerOpts) { options.MaxRequestsInFlight = scrapesAtOnce }},
	}
}

// told are those who know what metrics tell. Each may be nil.
type metricSources struct {
	keeper    *certificates.Keeper
	guard     *leaseguard.Guard
	publisher *webhooks.Publisher
	served    *served
}

// exposeMetrics tells metrics where to ask for what is not counted.
func exposeMetrics(ctx context.Context, wired wiring, by metricSources) error {
	manager := wired.manager
	sources := metrics.Sources{
		Version: version.Version,
		Leads: func() bool {
			select {
			case <-manager.Elected():
				return by.guard == nil || by.guard.Leads()
			default:
				return false
			}
		},
	}
	if haveNamespaces(wired.kinds) {
		sources.IsGone = func(ctx context.Context, namespace string) bool {
			return apierrors.IsNotFound(manager.GetCache().Get(ctx, client.ObjectKey{Name: namespace}, watch.Namespace()))
		}
	}
	if wired.injection != nil {
		sources.Instrumented = wired.injection.Count
	}
	for _, kind := range wired.kinds {
		tally, err := metrics.Count(ctx, manager.GetCache(), kind.groupKind.Kind, kind.object)
		if err != nil {
			return err
		}
		sources.Objects = append(sources.Objects, tally)
	}
	sources.CertificateExpiry = map[string]func() time.Time{}
	if by.keeper != nil {
		sources.CertificateExpiry["webhooks"] = by.keeper.NotAfter
	}
	if by.served != nil {
		sources.CertificateExpiry["apiserver"] = by.served.keeper.NotAfter
		sources.APIService = func() metrics.APIService { return metrics.APIService(by.served.publisher.State()) }
	}
	if by.publisher != nil {
		// Both: the publisher's answer stays once it was good, the certificate's does not.
		sources.WebhooksReady = func() error {
			if err := by.publisher.Ready(); err != nil {
				return err
			}
			return by.keeper.Ready()
		}
	}
	metrics.Expose(sources)
	return nil
}
