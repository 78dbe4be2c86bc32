package metrics

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Sources tell what is not counted but asked for at each scrape. Each may be nil: then there is no such metric.
// None may make a call, nor wait.
type Sources struct {
	// Version of this program.
	Version string
	// Objects count those of each kind.
	Objects []*Tally
	// Instrumented counts, by kind and state, the workloads that are matched; an error leaves the metric out.
	Instrumented func(ctx context.Context) (map[Instrumented]int, error)
	// Leads reports whether this replica works.
	Leads func() bool
	// CertificateExpiry is when the serving certificate of each that has one expires; zero if there is none yet.
	CertificateExpiry map[string]func() time.Time
	// WebhooksReady is nil if this replica can answer webhooks.
	WebhooksReady func() error
	// APIService tells of the APIService that the leader keeps.
	APIService func() APIService
	// IsGone reports whether a namespace is known not to exist.
	IsGone func(ctx context.Context, namespace string) bool
}

// Instrumented is what Instrumentations of a kind say of workloads.
type Instrumented struct{ Kind, State string }

// APIService is what the leader knows of the APIService that it keeps.
type APIService struct {
	// Known is false where nobody has looked: on a replica that does not lead.
	Known bool
	// Published tells that it is there.
	Published bool
	// Available tells that the API server says that it reaches who serves.
	Available bool
	// Endpoints is how many are ready.
	Endpoints int
}

// Expose hands all metrics out by controller-runtime's registry from now on. In a process with several managers,
// as tests have, the last one's sources count.
func Expose(sources Sources) {
	if current.Swap(&sources) != nil {
		return
	}
	ctrlmetrics.Registry.MustRegister(reconciles, reconcileDuration, readyDuration, failures, denials, restarts, configRollout, calls,
		collector{})
}

var current atomic.Pointer[Sources]

// collector computes what is asked for at a scrape.
type collector struct{}

// Describe tells of which metrics there are.
func (collector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{objects, instrumented, leader, certificateExpiry, webhooksReady, apiServicePublished,
		apiServiceAvailable, apiServiceEndpoints, info} {
		descriptions <- description
	}
}

// sweepTimeout bounds what looks into the cache may take in all.
const sweepTimeout = time.Second

// Collect computes the metrics, and forgets namespaces that are gone.
func (collector) Collect(into chan<- prometheus.Metric) {
	sources := current.Load()
	if sources == nil {
		return
	}
	tell := func(description *prometheus.Desc, value float64, labels ...string) {
		into <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, labels...)
	}
	tell(info, 1, sources.Version)
	if sources.Leads != nil {
		tell(leader, number(sources.Leads()))
	}
	if sources.WebhooksReady != nil {
		tell(webhooksReady, number(sources.WebhooksReady() == nil))
	}
	for of, expires := range sources.CertificateExpiry {
		if expiry := expires(); !expiry.IsZero() {
			tell(certificateExpiry, float64(expiry.Unix()), of)
		}
	}
	if sources.APIService != nil {
		if of := sources.APIService(); of.Known {
			tell(apiServicePublished, number(of.Published))
			if of.Published {
				tell(apiServiceAvailable, number(of.Available))
			}
			tell(apiServiceEndpoints, float64(of.Endpoints))
		}
	}
	for _, tally := range sources.Objects {
		if !tally.filled() {
			continue
		}
		counts := tally.count()
		for _, phase := range phases {
			tell(objects, float64(counts[phase]), tally.kind, phase)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
	if sources.Instrumented != nil {
		if counts, err := sources.Instrumented(ctx); err == nil {
			for of, count := range counts {
				tell(instrumented, float64(count), of.Kind, of.State)
			}
		}
	}
	if sources.IsGone != nil {
		namespaces.sweep(func(namespace string) bool { return sources.IsGone(ctx, namespace) })
	}
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
