// Package aggregated is the API server of farm.mainstay.dev, behind that of Kubernetes. Its
// resources are computed, or stored by a server of their own. Everything that such a server does
// (authentication, discovery, watches, apply, OpenAPI) is k8s.io/apiserver's. This package has the
// served resources (resources.go) and who may see them (auth.go). The package crdstorage serves
// them out of resources of Kubernetes.
package aggregated

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	registryrest "k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	cachermetrics "k8s.io/apiserver/pkg/storage/cacher/metrics"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/aggregated/openapi"
	"github.com/mainstay-platform/mainstay/internal/version"
)

// Server serves the resources.
type Server struct {
	*genericapiserver.GenericAPIServer
}

// New reads the authentication configuration (ConfigMap
// kube-system/extension-apiserver-authentication), and listens. It serves nothing before Run.
func New(options *Options) (*Server, error) {
	if err := options.validate(); err != nil {
		return nil, err
	}
	if err := setFeatures(); err != nil {
		return nil, err
	}
	served, err := newSchema()
	if err != nil {
		return nil, err
	}
	config, err := configure(options, served)
	if err != nil {
		return nil, err
	}
	cachermetrics.Register() // caches count from now on; the library would register the metrics later, with the server
	group, err := install(served, config.ClientConfig, options)
	if err != nil {
		return nil, err
	}
	// Every resource that can be written: otherwise it would bypass the cluster's admission.
	if isWritten(group.VersionedResourcesStorageMap[farmv1alpha1.GroupVersion.Version]) {
		if err := admit(config); err != nil {
			return nil, err
		}
	}
	server, err := config.Complete().New("mainstay-apiserver", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, fmt.Errorf("building the server: %w", err)
	}
	if err := server.InstallAPIGroup(group); err != nil {
		return nil, fmt.Errorf("adding the resources: %w", err)
	}
	return &Server{server}, addChecks(server, group)
}

// addChecks makes the server ready when all resources can be read once. A resource that can't be
// read later responds with 429 itself. The cause is mostly the same for all replicas, and the other
// resources keep working.
func addChecks(server *genericapiserver.GenericAPIServer, group *genericapiserver.APIGroupInfo) error {
	for name, storage := range group.VersionedResourcesStorageMap[farmv1alpha1.GroupVersion.Version] {
		served, can := storage.(registryrest.StorageWithReadiness)
		if !can {
			continue
		}
		var wasRead atomic.Bool
		check := healthz.NamedCheck(name, func(*http.Request) error {
			if wasRead.Load() {
				return nil
			}
			if err := served.ReadinessCheck(); err != nil {
				return fmt.Errorf("waiting for the cache of %s: %w", name, err)
			}
			wasRead.Store(true)
			return nil
		})
		if err := server.AddReadyzChecks(check); err != nil {
			return fmt.Errorf("adding the check of %s: %w", name, err)
		}
	}
	return nil
}

// Run serves until ctx ends and all requests are answered.
func (s *Server) Run(ctx context.Context) error {
	return s.PrepareRun().RunWithContext(ctx)
}

// features sets feature gates of the library, which are global to the process.
var features = sync.OnceValue(func() error {
	return utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{
		// It compares the cache with a full list every few minutes. Our cache is filled through the API,
		// whose server has done so.
		"DetectCacheInconsistency": false,
		// A watch that begins with all objects needs an etcd that reports its progress on demand. Clients
		// fall back to list and watch.
		"WatchList": false,
		// Clients that request CBOR get it.
		"CBORServingAndStorage": true,
	})
})

func setFeatures() error {
	if err := features(); err != nil {
		return fmt.Errorf("setting features of the library: %w", err)
	}
	return nil
}

// configure returns the library's configuration.
func configure(options *Options, served *served) (*genericapiserver.RecommendedConfig, error) {
	config := genericapiserver.NewRecommendedConfig(served.codecs)
	config.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	config.ShutdownDelayDuration = options.ShutdownDelay
	// After the delay, new requests are refused with Retry-After until the last one is answered.
	config.ShutdownSendRetryAfter = true
	// Profiles show what is in memory. The library would also allow changing the log level and
	// resetting metrics.
	config.EnableProfiling = false
	limit(&config.Config)
	namer := openapinamer.NewDefinitionNamer(served.scheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(openapi.GetOpenAPIDefinitions, namer)
	config.OpenAPIConfig.Info.Title, config.OpenAPIConfig.Info.Version = "Mainstay", version.Version
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(openapi.GetOpenAPIDefinitions, namer)
	config.OpenAPIV3Config.Info.Title, config.OpenAPIV3Config.Info.Version = "Mainstay", version.Version
	if err := options.SecureServing.ApplyToConfig(&config.Config); err != nil {
		return nil, fmt.Errorf("preparing to serve: %w", err)
	}
	if err := delegate(options, config); err != nil {
		return nil, err
	}
	if err := options.Audit.ApplyTo(&config.Config); err != nil {
		return nil, fmt.Errorf("preparing the audit: %w", err)
	}
	if err := (&genericoptions.CoreAPIOptions{CoreAPIKubeconfigPath: options.Kubeconfig}).ApplyTo(config); err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	config.ClientConfig.UserAgent = "mainstay-apiserver/" + version.Version
	// The API server limits us by priority and fairness.
	config.ClientConfig.QPS = -1
	return config, nil
}

// Limits of a request. They are those of the Kubernetes API server, and explicit so that another
// release of the library does not change what docs/served-api.md promises.
const (
	// maxBody is the largest request body, in bytes.
	maxBody = 3 << 20
	// maxTime bounds a request that is not a watch.
	maxTime = 60 * time.Second
	// minWatch is the shortest duration of a watch whose client sets none. The longest is twice that;
	// it is random, so that not all clients reconnect at once.
	minWatch = 30 * time.Minute
	// maxReads and maxWrites are the concurrent requests, besides watches and probes. One user may
	// have a share of them, see shares.
	maxReads, maxWrites = 400, 200
)

func limit(config *genericapiserver.Config) {
	config.MaxRequestBodyBytes = maxBody
	config.RequestTimeout = maxTime
	config.MinRequestTimeout = int(minWatch.Seconds())
	config.MaxRequestsInFlight, config.MaxMutatingRequestsInFlight = maxReads, maxWrites
	config.LongRunningFunc, config.BuildHandlerChainFunc = isUncounted(), chainWithShares
}

// delegate lets the Kubernetes API server authenticate and authorize callers. Answers are cached
// for 10 s.
func delegate(options *Options, config *genericapiserver.RecommendedConfig) error {
	authentication := genericoptions.NewDelegatingAuthenticationOptions()
	authentication.RemoteKubeConfigFile = options.Kubeconfig
	if err := authentication.ApplyTo(&config.Authentication, config.SecureServing, config.OpenAPIConfig); err != nil {
		return fmt.Errorf("preparing the authentication: %w", err)
	}
	prime(config)
	config.Authentication.Authenticator = known{config.Authentication.Authenticator}
	authorization := genericoptions.NewDelegatingAuthorizationOptions().WithAlwaysAllowPaths(probes()...)
	authorization.RemoteKubeConfigFile = options.Kubeconfig
	if err := authorization.ApplyTo(&config.Authorization); err != nil {
		return fmt.Errorf("preparing the authorization: %w", err)
	}
	config.Authorization.Authorizer = behindPods(config.Authorization.Authorizer)
	return nil
}
