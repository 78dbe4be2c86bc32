package metrics

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// maxNamespaces is the number of namespaces with series of their own. Each has at most about 20
	// per kind: 7 results, 10 of the histogram, 3 of denials and contests, 1 of unready objects. So
	// ten kinds have at most 105,000, which Prometheus stores easily, and this process in about 30 MB.
	// Few clusters have that many namespaces with our objects.
	maxNamespaces = 500
	// otherNamespaces is the label of all other namespaces.
	otherNamespaces = "(other)"
)

// namespaces are the namespaces with series.
var namespaces = &namespaceLabels{limit: maxNamespaces, vectors: []*prometheus.MetricVec{reconciles.MetricVec, readyDuration.MetricVec,
	denials.MetricVec, contests.MetricVec, restarts.MetricVec, configRollout.MetricVec}}

// namespaceLabels limits the values of the label namespace.
type namespaceLabels struct {
	limit   int
	vectors []*prometheus.MetricVec

	mutex sync.Mutex
	known map[string]struct{}
}

// with calls record with the label of a namespace. It keeps the lock meanwhile: a sweep in between
// would forget the namespace first, and the series created after it would stay forever.
func (n *namespaceLabels) with(namespace string, record func(label string)) {
	if namespace == "" {
		record("")
		return
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	record(n.label(namespace))
}

// sum returns counts per namespace as counts per label.
func (n *namespaceLabels) sum(counts map[string]int) map[string]int {
	byLabel := map[string]int{}
	for namespace, count := range counts {
		n.with(namespace, func(label string) { byLabel[label] += count })
	}
	return byLabel
}

// label returns the label of a namespace. The caller has the lock.
func (n *namespaceLabels) label(namespace string) string {
	if _, known := n.known[namespace]; known {
		return namespace
	}
	if len(n.known) >= n.limit {
		return otherNamespaces
	}
	if n.known == nil {
		n.known = map[string]struct{}{}
	}
	n.known[namespace] = struct{}{}
	return namespace
}

// sweep deletes the series of deleted namespaces. If a late reconcile creates one again, the next
// sweep deletes it.
func (n *namespaceLabels) sweep(isGone func(namespace string) bool) {
	n.mutex.Lock()
	known := slices.Collect(maps.Keys(n.known))
	n.mutex.Unlock()
	gone := slices.DeleteFunc(known, func(namespace string) bool { return !isGone(namespace) })
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for _, namespace := range gone {
		delete(n.known, namespace)
		for _, vector := range n.vectors {
			vector.DeletePartialMatch(prometheus.Labels{namespaceLabel.Name: namespace})
		}
	}
}
