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

// Options are the values of the flags. The zero value serves nothing: NewOptions has the defaults.
type Options struct {
	// Resources are the names of the served resources.
	Resources []string
	// LlamaStorage is where Llamas are stored: records or memory.
	LlamaStorage string
	// Kubeconfig is the path of a kubeconfig file for the Kubernetes API server; empty means the pod's
	// own credentials.
	Kubeconfig string
	// ShutdownDelay is how long new requests are still answered after a shutdown was requested, until
	// clients stop sending them.
	ShutdownDelay time.Duration
	// SecureServing and Audit are the library's.
	SecureServing *genericoptions.SecureServingOptionsWithLoopback
	Audit         *genericoptions.AuditOptions
}

const (
	storageRecords = "records"
	storageMemory  = "memory"
)

// defaultPort is the pod's port, which needs no privilege.
const defaultPort = 6443

// maxStreams is how many requests one connection has at a time. All come from a few aggregators
// with one connection each (the library's RecommendedOptions have the same).
const maxStreams = 1000

// NewOptions returns the defaults: FarmPods, and a certificate in files.
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

// AddFlags adds our flags, and those of the library that we support.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.Resources, "resources", o.Resources, "resources to serve: any of "+strings.Join(AllResources(), ", "))
	flags.StringVar(&o.LlamaStorage, "llama-storage", o.LlamaStorage,
		"where llamas are stored: records (LlamaRecords in the cluster), or memory, for development: not shared between processes, and lost at the end")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig,
		"path of a kubeconfig file, to run outside the cluster (default: the pod's own credentials)")
	flags.DurationVar(&o.ShutdownDelay, "shutdown-delay-duration", o.ShutdownDelay,
		"how long to answer new requests after a shutdown was requested, until clients stop sending them")
	o.SecureServing.AddFlags(flags)
	o.Audit.AddFlags(flags)
}

// validate returns an error for invalid flags.
func (o *Options) validate() error {
	problems := slices.Concat(o.SecureServing.Validate(), o.Audit.Validate())
	if len(o.Resources) == 0 {
		problems = append(problems, fmt.Errorf("--resources: must name at least one of %s", strings.Join(AllResources(), ", ")))
	}
	for _, name := range o.Resources {
		if !slices.Contains(AllResources(), name) {
			problems = append(problems, fmt.Errorf("--resources: unsupported value %q: must be one of %s", name, strings.Join(AllResources(), ", ")))
		}
	}
	if o.LlamaStorage != storageRecords && o.LlamaStorage != storageMemory {
		problems = append(problems, fmt.Errorf("--llama-storage: unsupported value %q: must be one of %s, %s", o.LlamaStorage, storageRecords,
			storageMemory))
	}
	if o.ShutdownDelay < 0 {
		problems = append(problems, errors.New("--shutdown-delay-duration: must not be negative"))
	}
	if certificate := o.SecureServing.ServerCert.CertKey; certificate.CertFile == "" || certificate.KeyFile == "" {
		problems = append(problems, errors.New("--tls-cert-file and --tls-private-key-file are required"))
	}
	return utilerrors.NewAggregate(problems)
}
