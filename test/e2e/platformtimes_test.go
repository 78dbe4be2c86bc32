//go:build e2e

package e2e

import (
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// platformTimes are when the objects of a platform were created, and Ready for the first time, as a
// watch says: times in objects are whole seconds.
type platformTimes struct {
	t    *testing.T
	name string

	mu             sync.Mutex
	created, ready map[string]time.Time
}

// recordPlatform records the times of a platform that is not there yet.
func recordPlatform(t *testing.T, ns, name string) *platformTimes {
	t.Helper()
	record := &platformTimes{t: t, name: name, created: map[string]time.Time{}, ready: map[string]time.Time{}}
	for _, resource := range []string{"ecommerceplatforms", "postgresqls", "caches", "webapps"} {
		watcher, err := objectsOf(t, ns, resource).Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(watcher.Stop)
		go record.follow(watcher)
	}
	return record
}

func (p *platformTimes) follow(watcher watch.Interface) {
	for event := range watcher.ResultChan() {
		object, isObject := event.Object.(*unstructured.Unstructured)
		if !isObject {
			continue
		}
		status, _ := conditionOf(object, "Ready")
		p.mu.Lock()
		p.note(p.created, object.GetName())
		if status == "True" {
			p.note(p.ready, object.GetName())
		}
		p.mu.Unlock()
	}
}

// note notes that something has happened now, for the first time.
func (p *platformTimes) note(times map[string]time.Time, name string) {
	if times[name].IsZero() {
		times[name] = time.Now()
	}
}

// print prints how long the platform took, and Mainstay's own share of that: from the readiness of
// what a part waits for to the creation of the part, and from that of the last part to that of the
// platform.
func (p *platformTimes) print() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	created := func(part string) time.Time { return p.created[p.name+part] }
	ready := func(part string) time.Time { return p.ready[p.name+part] }
	later := func(a, b time.Time) time.Time {
		if a.After(b) {
			return a
		}
		return b
	}
	share := later(created("-db"), created("-cache")).Sub(created("")) + created("-backend").Sub(later(ready("-db"), ready("-cache"))) +
		created("-frontend").Sub(ready("-backend")) + ready("").Sub(later(ready("-frontend"), ready("-backend")))
	p.t.Logf("%s: Ready after %s, of which Mainstay's own share is %s; db after %s, cache %s, backend %s, frontend %s", p.t.Name(),
		ready("").Sub(created("")).Round(100*time.Millisecond), share.Round(10*time.Millisecond), p.took("-db"), p.took("-cache"),
		p.took("-backend"), p.took("-frontend"))
}

// took returns how long a part took from its creation to its readiness.
func (p *platformTimes) took(part string) time.Duration {
	return p.ready[p.name+part].Sub(p.created[p.name+part]).Round(100 * time.Millisecond)
}
