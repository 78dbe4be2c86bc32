package metrics

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Sources are the functions that are called at each scrape. Each may be nil: then its metric is
// absent. None may make an API call or wait.
type Sources struct {
	// Version is the version of this program.
	Version string
	// Objects count the objects of each kind. Clock says for how long they have been as they are.
	Objects []*Tally
	Clock   clock.PassiveClock
	// Instrumented returns the number of matched workloads by kind and state. With an error the
	// metric is absent.
	Instrumented func(ctx context.Context) (map[Instrumented]int, error)
	// Leads reports whether this replica is the leader.
	Leads func() bool
	// CertificateExpiry has functions that return when a serving certificate expires; zero if there
	// is none yet.
	CertificateExpiry map[string]func() time.Time
	// WebhooksReady returns nil if this replica can serve webhooks.
	WebhooksReady func() error
	// APIService returns the state of the APIService that the leader manages.
	APIService func() APIService
	// Unserved returns the number of namespaces that this replica is to watch and may not.
	Unserved func() int
	// IsGone reports whether a namespace is known not to exist.
	IsGone func(ctx context.Context, namespace string) bool
}

// Instrumented is a kind of Instrumentation and a state of workloads.
type Instrumented struct{ Kind, State string }

// APIService is the state of the APIService, as the leader observes it.
type APIService struct {
	// Known is false on a replica that is not the leader.
	Known bool
	// Published reports that the APIService exists.
	Published bool
	// Available reports that the API server reaches the server behind it.
	Available bool
	// Endpoints is the number of ready endpoints.
	Endpoints int
}

// Expose registers all metrics with the registry of controller-runtime. In a process with several
// managers, for example in tests, the sources of the last call count.
func Expose(sources Sources) {
	if current.Swap(&sources) != nil {
		return
	}
	ctrlmetrics.Registry.MustRegister(reconciles, reconcileDuration, readyDuration, failures, denials, contests, restarts, configRollout,
		webhookFailures, calls, collector{})
}

var current atomic.Pointer[Sources]

// collector computes gauges at a scrape.
type collector struct{}

// Describe sends the descriptions of the gauges.
func (collector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{objects, unreadyObjects, unreadyObject, instrumented, leader, certificateExpiry,
		webhooksReady, apiServicePublished, apiServiceAvailable, apiServiceEndpoints, unserved, info} {
		descriptions <- description
	}
}

// sweepTimeout limits the reads from the cache in one scrape.
const sweepTimeout = time.Second

// Collect computes the gauges, and forgets deleted namespaces.
func (collector) Collect(into chan<- prometheus.Metric) {
	sources := current.Load()
	if sources == nil {
		return
	}
	emit := func(description *prometheus.Desc, value float64, labels ...string) {
		into <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, labels...)
	}
	emit(info, 1, sources.Version)
	if sources.Leads != nil {
		emit(leader, number(sources.Leads()))
	}
	if sources.WebhooksReady != nil {
		emit(webhooksReady, number(sources.WebhooksReady() == nil))
	}
	if sources.Unserved != nil {
		emit(unserved, float64(sources.Unserved()))
	}
	for of, expires := range sources.CertificateExpiry {
		if expiry := expires(); !expiry.IsZero() {
			emit(certificateExpiry, float64(expiry.Unix()), of)
		}
	}
	if sources.APIService != nil {
		if of := sources.APIService(); of.Known {
			emit(apiServicePublished, number(of.Published))
			if of.Published {
				emit(apiServiceAvailable, number(of.Available))
			}
			emit(apiServiceEndpoints, float64(of.Endpoints))
		}
	}
	for _, tally := range sources.Objects {
		if !tally.filled() {
			continue
		}
		byPhase, unreadyIn, named := tally.count(sources.Clock.Now())
		for _, phase := range phases {
			emit(objects, float64(byPhase[phase]), tally.kind, phase)
		}
		for label, count := range namespaces.sum(unreadyIn) {
			emit(unreadyObjects, float64(count), tally.kind, label)
		}
		for _, object := range named {
			emit(unreadyObject, 1, tally.kind, object.namespace, object.name, object.phase)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
	if sources.Instrumented != nil {
		if counts, err := sources.Instrumented(ctx); err == nil {
			for of, count := range counts {
				emit(instrumented, float64(count), of.Kind, of.State)
			}
		}
	}
	if sources.IsGone != nil {
		namespaces.sweep(func(namespace string) bool { return sources.IsGone(ctx, namespace) })
	}
}

func number(isTrue bool) float64 {
	if isTrue {
		return 1
	}
	return 0
}
