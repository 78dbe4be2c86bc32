package program

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

// measured are the sources of an instance's metrics.
type measured struct {
	of observed
	// receivers returns how many replicas receive from this server, and needed how many must, so that
	// commits need not wait.
	receivers, needed func() int
	// commitsWait is engine.Observation.CommitsWait.
	commitsWait func() bool
	// kind declares the server's own metrics, and server adds them. usage measures the volume, and
	// returns zeros if there is none. Both functions may take long, or not return.
	kind   kind
	server func(ctx context.Context, add adder) error
	usage  func() (used, size uint64, err error)
	// logUsage does the same for the log's own volume; it may be nil.
	logUsage func() (used, size uint64, err error)
	events   *events
	// database is the name of the database's object.
	database string
	log      logr.Logger
}

// adder adds a metric with the values of its labels, except the label with the name of the
// database's object.
type adder func(name string, value float64, labels ...string)

// events are counted since the program began.
type events struct{ promotions, fences atomic.Uint64 }

// collectTime is how long collecting the metrics may take. Prometheus waits for 10 seconds by
// default.
const collectTime = 8 * time.Second

// collector collects the metrics of one instance at each scrape.
type collector struct {
	measured
	descriptions map[string]*prometheus.Desc
	// usageBusy is true while a measurement of the volumes is in progress. No other one begins
	// meanwhile.
	usageBusy atomic.Bool
}

func newCollector(m measured) *collector {
	c := &collector{measured: m, descriptions: map[string]*prometheus.Desc{}}
	for _, metric := range slices.Concat(instanceMetrics(), m.kind.server()) {
		var labels []string
		for _, label := range metric.Labels {
			labels = append(labels, label.Name)
		}
		c.descriptions[metric.Name] = prometheus.NewDesc(metric.Name, metric.Help, labels, prometheus.Labels{m.kind.label.Name: m.database})
	}
	return c
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(into chan<- *prometheus.Desc) {
	for _, description := range c.descriptions {
		into <- description
	}
}

// Collect implements [prometheus.Collector]. It leaves out what can't be measured within
// collectTime.
func (c *collector) Collect(into chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTime)
	defer cancel()
	add := func(name string, value float64, labels ...string) {
		kind := prometheus.GaugeValue
		if isCounter(name) {
			kind = prometheus.CounterValue
		}
		into <- prometheus.MustNewConstMetric(c.descriptions[name], kind, value, labels...)
	}
	report := c.of.Status().Report
	add("mainstay_instance_primary", number(report.Role == contract.Primary && report.Refuses == "" && !c.commitsWait()))
	add("mainstay_instance_replica", number(report.Role == contract.Replica))
	add("mainstay_instance_term", float64(report.Term))
	add("mainstay_instance_timeline", float64(report.Timeline))
	add("mainstay_instance_receivers", float64(c.receivers()))
	add("mainstay_instance_needed_receivers", float64(c.needed()))
	add("mainstay_instance_problem", number(report.Problem != ""))
	add("mainstay_instance_promotions_total", float64(c.events.promotions.Load()))
	add("mainstay_instance_fences_total", float64(c.events.fences.Load()))
	measuring := c.measureVolume()
	if err := c.server(ctx, add); err != nil {
		c.log.V(1).Info("some statistics of the server are missing", "error", err.Error())
	}
	select {
	case found := <-measuring:
		for _, one := range found {
			add("mainstay_instance_volume_used_bytes", float64(one.used), one.volume)
			add("mainstay_instance_volume_size_bytes", float64(one.size), one.volume)
		}
	case <-ctx.Done():
	}
}

type usage struct {
	volume     string
	used, size uint64
}

// measureVolume measures the volumes in another goroutine, because a file system may not answer.
// While an earlier measurement is in progress, it begins no other, and nothing is sent on the
// channel. It leaves out a volume that can't be measured.
func (c *collector) measureVolume() <-chan []usage {
	answer := make(chan []usage, 1)
	if c.usageBusy.Swap(true) {
		return answer
	}
	go func() {
		defer c.usageBusy.Store(false)
		var all []usage
		if used, size, err := c.usage(); err == nil && size > 0 {
			all = append(all, usage{"data", used, size})
		}
		if c.logUsage != nil {
			if used, size, err := c.logUsage(); err == nil && size > 0 {
				all = append(all, usage{"wal", used, size})
			}
		}
		answer <- all
	}()
	return answer
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
