package farmpod

import (
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// Values that thousands of FarmPods have in common are in memory once. A FarmPod's content does not
// depend on these tables.
var (
	texts     = shared[string]{limit: 8192}
	labelSets = shared[map[string]string]{limit: 4096}
	amounts   = shared[corev1.ResourceList]{limit: 2048}
	agentSets = shared[[]string]{limit: 1024}
)

// maxKey is the longest key. Longer texts are seldom the same twice.
const maxKey = 1024

// shared has one value per key. It drops a key that was not used while limit other keys were. So it
// has at most twice the limit, which is 2 MB of texts with the limits here. (unique.Handle drops a
// text when no handle to it is left, but the fields of an API type are no handles.)
type shared[V any] struct {
	limit      int
	mutex      sync.Mutex
	young, old map[string]V
}

// get returns the value of a key. It calls first for a new key; first must always return the same
// for the same key.
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

// text returns the shared copy of a text, so that the string it was cut from can be freed.
func text(given string) string {
	if given == "" {
		return ""
	}
	return texts.get([]byte(given), func() string { return strings.Clone(given) })
}

// labels returns the shared copy of a Pod's labels: Pods of one ReplicaSet have the same.
func labels(given map[string]string) map[string]string {
	if len(given) == 0 {
		return nil
	}
	key := make([]byte, 0, 512)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		key = append(append(key, name...), '=')
		key = append(append(key, given[name]...), ',') // a label has neither = nor ,
	}
	return labelSets.get(key, func() map[string]string { return given })
}

// resources returns the shared copy of a list, or nil for an empty one.
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
