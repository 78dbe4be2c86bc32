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
	// frontPatience bounds how long a server waits before it listens at all: without the CA it is alive, and not ready.
	frontPatience = 10 * time.Second
	// clientPatience bounds how long it waits, besides, for the CA of the cluster's other clients: there may be none.
	clientPatience = 2 * time.Second
	frontPoll      = 20 * time.Millisecond
)

var errNoFront = errors.New("waiting for the CA of the API server's front proxy, by the ConfigMap extension-apiserver-authentication in kube-system")

// primed has the CAs of clients read before the first of them is asked for its certificate. The library begins with none, and reads them a little
// later: an API server that asks meanwhile is not known, and keeps the connection on which it was not.
type primed struct {
	dynamiccertificates.CAContentProvider
	// front is the CA that it must have.
	front dynamiccertificates.CAContentProvider
}

var _ dynamiccertificates.ControllerRunner = primed{}

// prime has what is served wait for the CA of the front proxy.
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

// RunOnce begins to read and to follow the CAs, until ctx ends, and waits for the first of each. What came a moment later the library would take up
// while it is still at its TLS configuration, from another goroutine.
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

// hasMore tells that there is a CA beside the front proxy's.
func (p primed) hasMore() bool {
	return !bytes.Equal(bytes.TrimSpace(p.CurrentCABundleContent()), bytes.TrimSpace(p.front.CurrentCABundleContent()))
}

// Run only waits: RunOnce has begun it.
func (primed) Run(ctx context.Context, _ int) { <-ctx.Done() }
