// Package aggregated is the API server of farm.mainstay.dev, which stands behind that of Kubernetes: resources that are computed when asked for, or
// kept by a server of their own. All that such a server does (authentication, discovery, watches, apply, OpenAPI) is k8s.io/apiserver's; here
// stands what is served (resources.go), who may see it (auth.go), and how it comes out of resources of Kubernetes (backing).
package aggregated

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/rest"
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

// New reads what it needs to know of who may ask (ConfigMap extension-apiserver-authentication in kube-system), and listens. It serves nothing
// before Run.
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
	cachermetrics.Register() // caches count what they read from now on; the library would register what they count with, too late, when it makes the server
	group, err := install(served, config.ClientConfig, options)
	if err != nil {
		return nil, err
	}
	// Whichever it is: a resource that were written past the cluster's admission would be a way around it.
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

// addChecks has the server be ready once all resources can be read. Later on one that can't be read for a while says so itself to who asks for it
// (429): what keeps one resource from being read is mostly the same for all replicas, and the others go on.
func addChecks(server *genericapiserver.GenericAPIServer, group *genericapiserver.APIGroupInfo) error {
	for name, storage := range group.VersionedResourcesStorageMap[farmv1alpha1.GroupVersion.Version] {
		served, can := storage.(rest.StorageWithReadiness)
		if !can {
			continue
		}
		var wasRead atomic.Bool
		check := healthz.NamedCheck(name, func(*http.Request) error {
			if wasRead.Load() {
				return nil
			}
			if err := served.ReadinessCheck(); err != nil {
				return fmt.Errorf("waiting until all %s of the cluster are read: %w", name, err)
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

// features of the library, which are of the process.
var features = sync.OnceValue(func() error {
	return utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{
		// It compares the cache with a list of all there is, every few minutes: our cache is filled by the API, which has done so.
		"DetectCacheInconsistency": false,
		// A watch that begins with all there is takes an etcd that tells on demand how far its watch is. Clients list and then watch, when told so.
		"WatchList": false,
		// Clients that ask for CBOR get it.
		"CBORServingAndStorage": true,
	})
})

func setFeatures() error {
	if err := features(); err != nil {
		return fmt.Errorf("setting features of the library: %w", err)
	}
	return nil
}

// configure makes the library's configuration.
func configure(options *Options, served *served) (*genericapiserver.RecommendedConfig, error) {
	config := genericapiserver.NewRecommendedConfig(served.codecs)
	config.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	config.ShutdownDelayDuration = options.ShutdownDelay
	// After the delay new requests are refused with a word on when to try again, until the last one is answered.
	config.ShutdownSendRetryAfter = true
	// Profiles show what is in memory. The library would also let the level of the log be set, and metrics be put back to zero.
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
	// It limits by priority and fairness.
	config.ClientConfig.QPS = -1
	return config, nil
}

// What a request may take: as with the API server of Kubernetes, said here too so that another release of the library changes nothing of what users are
// told (docs/served-api.md).
const (
	// maxBody is of what somebody sends, in bytes.
	maxBody = 3 << 20
	// maxTime is until a request is answered that is no watch.
	maxTime = 60 * time.Second
	// minWatch is how long a watch goes on whose client does not say; it is at most twice that, by chance, so that not all come back at once.
	minWatch = 30 * time.Minute
	// maxReads and maxWrites are answered at a time, beside watches.
	maxReads, maxWrites = 400, 200
)

func limit(config *genericapiserver.Config) {
	config.MaxRequestBodyBytes = maxBody
	config.RequestTimeout = maxTime
	config.MinRequestTimeout = int(minWatch.Seconds())
	config.MaxRequestsInFlight, config.MaxMutatingRequestsInFlight = maxReads, maxWrites
}

// delegate asks the API server of Kubernetes who somebody is, and what he may. Answers are kept for 10 s.
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
