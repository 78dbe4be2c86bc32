package metrics

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// mostNamespaces is how many namespaces have series of their own. Each has at most some 20 per kind: 7
	// results, 10 of the histogram, 2 of denials. So ten kinds have at most 100,000, which a Prometheus holds
	// with ease, and this process in some 30 MB; few clusters have that many namespaces with our objects.
	mostNamespaces = 500
	// otherNamespaces stands for those beyond.
	otherNamespaces = "(other)"
)

// namespaces are those that series have.
var namespaces = &namespaceLabels{most: mostNamespaces, vectors: []*prometheus.MetricVec{reconciles.MetricVec, readyDuration.MetricVec,
	denials.MetricVec, restarts.MetricVec, configRollout.MetricVec}}

// namespaceLabels bounds the values of the label namespace.
type namespaceLabels struct {
	most    int
	vectors []*prometheus.MetricVec

	mutex sync.Mutex
	known map[string]struct{}
}

// with records with the value for a namespace. It holds the lock for as long: a sweep in between would forget the
// namespace first, and the series made after it would stay for ever.
func (r *namespaceLabels) with(namespace string, record func(label string)) {
	if namespace == "" {
		record("")
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	record(r.label(namespace))
}

// label is the value for a namespace. The caller holds the lock.
func (r *namespaceLabels) label(namespace string) string {
	if _, known := r.known[namespace]; known {
		return namespace
	}
	if len(r.known) >= r.most {
		return otherNamespaces
	}
	if r.known == nil {
		r.known = map[string]struct{}{}
	}
	r.known[namespace] = struct{}{}
	return namespace
}

// sweep deletes the series of namespaces that are gone. One that a late reconcile brings back goes with the next.
func (r *namespaceLabels) sweep(isGone func(namespace string) bool) {
	r.mutex.Lock()
	known := slices.Collect(maps.Keys(r.known))
	r.mutex.Unlock()
	gone := slices.DeleteFunc(known, func(namespace string) bool { return !isGone(namespace) })
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, namespace := range gone {
		delete(r.known, namespace)
		for _, vector := range r.vectors {
			vector.DeletePartialMatch(prometheus.Labels{namespaceLabel.Name: namespace})
		}
	}
}
