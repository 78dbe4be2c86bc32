package aggregated

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/healthz"
)

const (
	// frontPatience bounds how long a server waits before it listens at all. Without the CA it is
	// alive, but not ready.
	frontPatience = 10 * time.Second
	// clientPatience bounds how long it then waits for the CA of the cluster's other clients, which
	// may not exist.
	clientPatience = 2 * time.Second
	frontPoll      = 20 * time.Millisecond
)

var errNoFront = errors.New("waiting for the CA of the API server's front proxy in ConfigMap kube-system/extension-apiserver-authentication")

// primed reads the CAs of clients before the first TLS handshake. The library starts without them
// and reads them a little later: an API server that connects in between is not authenticated, and
// keeps that connection.
type primed struct {
	dynamiccertificates.CAContentProvider
	// front is the CA that must exist.
	front dynamiccertificates.CAContentProvider
}

var _ dynamiccertificates.ControllerRunner = primed{}

// prime makes the server wait for the CA of the front proxy.
func prime(config *genericapiserver.RecommendedConfig) {
	if given := config.Authentication.RequestHeaderConfig; given != nil && config.SecureServing.ClientCA != nil {
		config.SecureServing.ClientCA = primed{config.SecureServing.ClientCA, given.CAContentProvider}
	}
	config.AddReadyzChecks(healthz.NamedCheck("front-proxy", func(*http.Request) error {
		if given := config.Authentication.RequestHeaderConfig; given != nil && isKnown(given.CAContentProvider) {
			return nil
		}
		return errNoFront
	}))
}

func isKnown(authority dynamiccertificates.CAContentProvider) bool {
	return len(authority.CurrentCABundleContent()) > 0
}

// RunOnce starts to read and watch the CAs until ctx ends, and waits for the first of each. A later
// first CA would race with the library, which still builds its TLS configuration in another
// goroutine.
func (p primed) RunOnce(ctx context.Context) error {
	if follow, can := p.CAContentProvider.(dynamiccertificates.ControllerRunner); can {
		go follow.Run(ctx, 1)
	}
	err := wait.PollUntilContextTimeout(ctx, frontPoll, frontPatience, true,
		func(context.Context) (bool, error) { return isKnown(p.front), nil })
	if err != nil {
		return errNoFront
	}
	_ = wait.PollUntilContextTimeout(ctx, frontPoll, clientPatience, true, func(context.Context) (bool, error) { return p.hasMore(), nil })
	return nil
}

// hasMore reports whether there is a CA besides the front proxy's.
func (p primed) hasMore() bool {
	return !bytes.Equal(bytes.TrimSpace(p.CurrentCABundleContent()), bytes.TrimSpace(p.front.CurrentCABundleContent()))
}

// Run only waits: RunOnce has started everything.
func (primed) Run(ctx context.Context, _ int) { <-ctx.Done() }
