package aggregated

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericoptions "k8s.io/apiserver/pkg/server/options"
)

// Options are what flags say. The zero value serves nothing: NewOptions has the defaults.
type Options struct {
	// Resources are the names of those that are served.
	Resources []string
	// LlamaStorage is where Llamas are kept: records or memory.
	LlamaStorage string
	// Kubeconfig is the path of a file that says how to reach the API server of Kubernetes; empty means the pod's own credentials.
	Kubeconfig string
	// ShutdownDelay is how long requests are still answered after the end was asked for: until nobody sends any.
	ShutdownDelay time.Duration
	// SecureServing and Audit are the library's.
	SecureServing *genericoptions.SecureServingOptionsWithLoopback
	Audit         *genericoptions.AuditOptions
}

const (
	storageRecords = "records"
	storageMemory  = "memory"
)

// defaultPort is that of the pod, which needs no privilege.
const defaultPort = 6443

// maxStreams is how many requests one connection has at a time. All come from few aggregators, each with one connection (the library's
// RecommendedOptions have the same).
const maxStreams = 1000

// NewOptions are the defaults: FarmPods, and a certificate in files.
func NewOptions() *Options {
	serving := genericoptions.NewSecureServingOptions().WithLoopback()
	serving.BindPort = defaultPort
	serving.HTTP2MaxStreamsPerConnection = maxStreams
	serving.ServerCert.CertDirectory = ""
	return &Options{
		Resources: []string{farmPods}, LlamaStorage: storageRecords, ShutdownDelay: 5 * time.Second,
		SecureServing: serving, Audit: genericoptions.NewAuditOptions(),
	}
}

// AddFlags adds ours, and those of the library that we know how to answer for.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.Resources, "resources", o.Resources, "what is served, of "+strings.Join(AllResources(), ", "))
	flags.StringVar(&o.LlamaStorage, "llama-storage", o.LlamaStorage,
		"where llamas are kept: records (LlamaRecords of the cluster), or memory, which one process alone has and loses with its end: for development")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig,
		"path of a kubeconfig file, to run outside the cluster (default: the pod's own credentials)")
	flags.DurationVar(&o.ShutdownDelay, "shutdown-delay-duration", o.ShutdownDelay,
		"how long to answer still after the end was asked for, until nobody sends requests any more")
	o.SecureServing.AddFlags(flags)
	o.Audit.AddFlags(flags)
}

// validate says what flags can get wrong.
func (o *Options) validate() error {
	problems := slices.Concat(o.SecureServing.Validate(), o.Audit.Validate())
	if len(o.Resources) == 0 {
		problems = append(problems, fmt.Errorf("--resources: none is given, accepted are %s", strings.Join(AllResources(), ", ")))
	}
	for _, name := range o.Resources {
		if !slices.Contains(AllResources(), name) {
			problems = append(problems, fmt.Errorf("--resources: %q is given, accepted are %s", name, strings.Join(AllResources(), ", ")))
		}
	}
	if o.LlamaStorage != storageRecords && o.LlamaStorage != storageMemory {
		problems = append(problems, fmt.Errorf("--llama-storage: %q is given, accepted are %s, %s", o.LlamaStorage, storageRecords,
			storageMemory))
	}
	if o.ShutdownDelay < 0 {
		problems = append(problems, errors.New("--shutdown-delay-duration can't be negative"))
	}
	if certificate := o.SecureServing.ServerCert.CertKey; certificate.CertFile == "" || certificate.KeyFile == "" {
		problems = append(problems, errors.New("--tls-cert-file and --tls-private-key-file are needed: who asks must know whom"))
	}
	return utilerrors.NewAggregate(problems)
}
