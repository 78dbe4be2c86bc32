package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/mainstay-platform/mainstay/internal/install/webhooks"
	"github.com/mainstay-platform/mainstay/internal/kit/transport/leaseguard"
)

// probes serve /healthz and /readyz. /healthz reports that the process lives, and never depends on
// the API server. /readyz reports whether it can work. Both are served for the whole life of the
// process, so that one that waits for the API server is not killed.
type probes struct {
	mutex  sync.Mutex
	checks map[string]healthz.Checker
}

// set sets the checks of /readyz.
func (p *probes) set(checks map[string]healthz.Checker) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.checks = checks
}

func (p *probes) ready(response http.ResponseWriter, request *http.Request) {
	p.mutex.Lock()
	handler := healthz.Handler{Checks: p.checks}
	p.mutex.Unlock()
	handler.ServeHTTP(response, request)
}

// listen opens the address of the probes, and returns nil for "0".
func listen(ctx context.Context, address string) (net.Listener, error) {
	if address == "0" {
		return nil, nil //nolint:nilnil // no probes is a valid answer
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--health-address: listening for probes: %w", err)
	}
	return listener, nil
}

// serve answers until ctx ends. Without a listener it only waits.
func (p *probes) serve(ctx context.Context, listener net.Listener) error {
	if listener == nil {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("/healthz", http.StripPrefix("/healthz", &healthz.Handler{Checks: map[string]healthz.Checker{"ping": healthz.Ping}}))
	mux.Handle("/readyz", http.StripPrefix("/readyz", http.HandlerFunc(p.ready)))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving probes: %w", err)
	}
	return nil
}

// waitingForAPI is the check of a process that has not reached the API server yet.
func waitingForAPI(*http.Request) error {
	return errors.New("waiting for the API server to answer")
}

const (
	// apiPoll is how often an API server that is down is tried: the process must work again seconds
	// after the server does.
	apiPoll = 2 * time.Second
	// apiTimeout bounds one request.
	apiTimeout = 5 * time.Second
	// apiSilence is how long the API server may be silent before a replica reports that it can't work,
	// unless three periods of the leader election (--leader-elect-retry-period) are longer: requests
	// of a replica that does not lead are up to 2.2 periods apart.
	apiSilence = 30 * time.Second
)

// awaitAPI waits until the API server answers. If the process ended instead, it would be restarted
// with a growing back-off, and come back up to five minutes late. awaitAPI also returns nil when
// ctx ends.
func awaitAPI(ctx context.Context, restConfig *rest.Config, poll time.Duration) error {
	asking := rest.CopyConfig(restConfig)
	asking.Timeout = apiTimeout
	api, err := discovery.NewDiscoveryClientForConfig(asking)
	if err != nil {
		return fmt.Errorf("connecting to the API server: %w", err)
	}
	last := ""
	_ = wait.PollUntilContextCancel(ctx, poll, true, func(context.Context) (bool, error) {
		_, err := api.ServerVersion()
		if err != nil && err.Error() != last {
			last = err.Error()
			ctrl.Log.WithName("setup").Info("Waiting for the API server", "because", last)
		}
		return err == nil, nil
	})
	return nil
}

// awaitAlone waits while the cluster has another installation. This process would lead in its own
// namespace and reconcile every object a second time, so it changes nothing before. It is alive and
// not ready then, and the check "installation" says why. An installation without webhooks is not
// found. awaitAlone also returns nil when ctx ends.
func awaitAlone(ctx context.Context, restConfig *rest.Config, settings Settings, answers *probes) error {
	live, err := newClient(restConfig)
	if err != nil {
		return err
	}
	answers.await(ctx, apiPoll, func(ctx context.Context) error {
		return webhooks.OursIn(ctx, live, settings.Webhooks.Owner, settings.Namespace)
	})
	return nil
}

// await calls try until it returns nil or ctx ends. Its error is a check of /readyz meanwhile, and
// is logged when it changes.
func (p *probes) await(ctx context.Context, poll time.Duration, try func(context.Context) error) {
	last := ""
	_ = wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		asking, cancel := context.WithTimeout(ctx, apiTimeout)
		defer cancel()
		err := try(asking)
		switch {
		case ctx.Err() != nil:
		case err == nil && last != "":
			p.set(map[string]healthz.Checker{"api": waitingForAPI})
		case err != nil && err.Error() != last:
			last = err.Error()
			p.set(map[string]healthz.Checker{"installation": func(*http.Request) error { return err }})
			ctrl.LoggerFrom(ctx).WithName("setup").Info("Waiting to know that this is the only installation", "because", last)
		}
		return err == nil, nil
	})
}

// cachesAreFilled waits until ctx ends, and reports whether the caches are filled.
func (w wiring) cachesAreFilled(ctx context.Context) bool {
	sources := w.Workloads.Sources
	return w.Manager.GetCache().WaitForCacheSync(ctx) && (sources == nil || sources.GetCache().WaitForCacheSync(ctx))
}

// readyChecks returns the checks of /readyz: the caches are filled, the API server has answered
// lately, and admission works. While stored objects wait for conversion the caches can't be filled,
// and conversion needs a ready replica: then the caches do not count. Without leader election (no
// guard) there is no check of the API server: at rest only watches remain, so its silence would
// mean nothing.
func readyChecks(wired wiring, stored *storage, guard *leaseguard.Guard, server *webhookServer,
	publisher *webhooks.Publisher) map[string]healthz.Checker {
	checks := map[string]healthz.Checker{
		"caches": func(request *http.Request) error {
			if stored.converting.Load() || wired.cachesAreFilled(request.Context()) {
				return nil
			}
			return errors.New("the caches are not filled yet")
		},
	}
	if guard != nil {
		most := max(apiSilence, 3*wired.settings.RetryPeriod)
		checks["api"] = func(*http.Request) error {
			if silence := guard.Silence(); silence > most {
				return fmt.Errorf("the API server has not answered for %s", silence.Round(time.Second))
			}
			return nil
		}
	}
	if publisher != nil {
		checks["webhooks"] = func(*http.Request) error { return cmp.Or(server.ready(), publisher.Ready()) }
	}
	return checks
}
