package aggregated

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// slowCA knows its certificate some time after it was started.
type slowCA struct {
	dynamiccertificates.CAContentProvider
	known atomic.Bool
	runs  atomic.Int32
	ended chan struct{}
}

func (s *slowCA) CurrentCABundleContent() []byte {
	if !s.known.Load() {
		return nil
	}
	return []byte("a certificate")
}

func (s *slowCA) RunOnce(context.Context) error { return nil }

func (s *slowCA) Run(ctx context.Context, _ int) {
	s.runs.Add(1)
	s.known.Store(true)
	<-ctx.Done()
	close(s.ended)
}

// TestPrime: before the CA of the front proxy is known, nothing is served and the server is not
// ready.
func TestPrime(t *testing.T) {
	t.Parallel()
	authority := &slowCA{ended: make(chan struct{})}
	config := &genericapiserver.RecommendedConfig{}
	config.SecureServing = &genericapiserver.SecureServingInfo{ClientCA: authority}
	config.Authentication.RequestHeaderConfig = &authenticatorfactory.RequestHeaderConfig{CAContentProvider: authority}
	prime(config)
	check := config.ReadyzChecks[0]
	if got := check.Check(&http.Request{}); check.Name() != "front-proxy" || !errors.Is(got, errNoFront) {
		t.Errorf("%s is %v before the CA is known", check.Name(), got)
	}
	runner, is := config.SecureServing.ClientCA.(dynamiccertificates.ControllerRunner)
	if !is {
		t.Fatal("the CA does not follow its source")
	}
	ctx, stop := context.WithCancel(t.Context())
	if err := runner.RunOnce(ctx); err != nil {
		t.Fatal(err)
	}
	if !isKnown(config.SecureServing.ClientCA) || check.Check(&http.Request{}) != nil {
		t.Error("what is served begins without the CA")
	}
	go runner.Run(ctx, 1)
	stop()
	<-authority.ended
	if diff := cmp.Diff(int32(1), authority.runs.Load()); diff != "" {
		t.Error("how often it was run", diff)
	}
}

// TestPrimeWithoutFront: without a front proxy in the cluster, readiness says so.
func TestPrimeWithoutFront(t *testing.T) {
	t.Parallel()
	config := &genericapiserver.RecommendedConfig{}
	config.SecureServing = &genericapiserver.SecureServingInfo{}
	prime(config)
	if got := config.ReadyzChecks[0].Check(&http.Request{}); !errors.Is(got, errNoFront) {
		t.Errorf("ready: %v", got)
	}
}
