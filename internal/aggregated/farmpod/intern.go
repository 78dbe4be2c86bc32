package farmpod

import (
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// What thousands of FarmPods have in common is kept once. The tables are memory only: what a FarmPod says does not depend on them.
var (
	texts     = shared[string]{limit: 8192}
	labelSets = shared[map[string]string]{limit: 4096}
	amounts   = shared[corev1.ResourceList]{limit: 2048}
	agentSets = shared[[]string]{limit: 1024}
)

// maxKey is how long a key may be: a text that is longer is seldom the same twice.
const maxKey = 1024

// shared has one value for each key. It forgets what was not asked for while limit other keys were: at most twice the limit are there, which is 2 MB of
// texts, as they are here. (unique.Handle forgets a text once nobody holds its handle, and a handle is no field of an API type.)
type shared[V any] struct {
	limit      int
	mutex      sync.Mutex
	young, old map[string]V
}

// get returns the value of a key; first is asked for one that is not known, and must give the same for the same key always.
func (s *shared[V]) get(key []byte, first func() V) V {
	if len(key) > maxKey {
		return first()
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if known, ok := s.young[string(key)]; ok {
		return known
	}
	value, ok := s.old[string(key)]
	if !ok {
		value = first()
	}
	if s.young == nil || len(s.young) >= s.limit {
		s.young, s.old = map[string]V{}, s.young
	}
	s.young[string(key)] = value
	return value
}

// text is one copy of a text, cut out of what it was part of.
func text(given string) string {
	if given == "" {
		return ""
	}
	return texts.get([]byte(given), func() string { return strings.Clone(given) })
}

// labels are one copy of a Pod's: those of one ReplicaSet are the same.
func labels(given map[string]string) map[string]string {
	if len(given) == 0 {
		return nil
	}
	key := make([]byte, 0, 512)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		key = append(append(key, name...), '=')
		key = append(append(key, given[name]...), ',') // neither = nor , can stand in a label
	}
	return labelSets.get(key, func() map[string]string { return given })
}

// resources are one copy of a list; nil for an empty one.
func resources(given corev1.ResourceList) corev1.ResourceList {
	if len(given) == 0 {
		return nil
	}
	key := make([]byte, 0, 128)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		quantity := given[name]
		key = append(append(key, name...), '=')
		key = append(append(key, quantity.String()...), ',')
	}
	return amounts.get(key, func() corev1.ResourceList { return given })
}
