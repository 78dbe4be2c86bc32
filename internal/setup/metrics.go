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

// scrapesAtOnce is how many scrapes are answered at once: at most two Prometheus servers, and a
// person with curl.
const scrapesAtOnce = 4

// metricsServer returns the options of the metrics server: with TLS, for clients that may read
// metrics. It uses the certificate of the webhooks, which clients can verify with the Secret's
// ca.crt. Without webhooks it uses a self-signed one that no client can verify.
func metricsServer(restConfig *rest.Config, settings Settings, keeper *certificates.Keeper) metricsserver.Options {
	return metricsserver.Options{
		BindAddress:   settings.MetricsAddress,
		SecureServing: true,
		// Not the manager's configuration: with that a replica that does not lead could not even create a
		// review.
		FilterProvider: func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
			gate, err := access.New(restConfig)
			return func(_ logr.Logger, handler http.Handler) (http.Handler, error) { return gate.Filter(handler), nil }, err
		},
		TLSOpts: []func(*tls.Config){func(config *tls.Config) {
			// One small page at a time: HTTP/2 would only add failure modes.
			config.NextProtos, config.MinVersion = []string{"http/1.1"}, tls.VersionTLS12
			if keeper != nil {
				config.GetCertificate = keeper.GetCertificate
			}
		}},
		HandlerOpts: []func(*promhttp.HandlerOpts){func(options *promhttp.HandlerOpts) { options.MaxRequestsInFlight = scrapesAtOnce }},
	}
}

// metricSources are the sources of metrics that are not counted. Each may be nil.
type metricSources struct {
	keeper    *certificates.Keeper
	guard     *leaseguard.Guard
	publisher *webhooks.Publisher
	served    *served
}

// exposeMetrics registers the sources of the metrics that are not counted.
func exposeMetrics(ctx context.Context, wired wiring, by metricSources) error {
	manager := wired.Manager
	sources := metrics.Sources{
		Version:  version.Version,
		Clock:    wired.Clock,
		Unserved: func() int { return len(wired.settings.admitted) - len(wired.settings.WatchNamespaces) },
		Leads: func() bool {
			select {
			case <-manager.Elected():
				return by.guard == nil || by.guard.Leads()
			default:
				return false
			}
		},
	}
	if wired.HasNamespaces() {
		sources.IsGone = func(ctx context.Context, namespace string) bool {
			return apierrors.IsNotFound(manager.GetCache().Get(ctx, client.ObjectKey{Name: namespace}, watch.Namespace()))
		}
	}
	for _, kind := range wired.Kinds {
		if kind.Metrics != nil {
			kind.Metrics(wired.Input, &sources)
		}
		tally, err := metrics.Count(ctx, manager.GetCache(), kind.GroupKind.Kind, kind.Object)
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
		// Check both: the publisher stays ready once it was, the certificate does not.
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
