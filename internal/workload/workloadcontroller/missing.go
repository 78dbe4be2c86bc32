package workloadcontroller

import (
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
	"github.com/mainstay-platform/mainstay/internal/workload"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

const (
	// missingGrace is how long the sources of a new workload may be missing: tools that apply a folder
	// create a workload and its ConfigMap in any order.
	missingGrace = 10 * time.Second
	// maxMissing limits the memory to about a megabyte.
	maxMissing = 5_000
)

// missing remembers which workloads were reported for which sources that do not exist, or may not
// be read, so that each is reported once. It is lost with the process, which costs one more event
// each.
type missing struct {
	mutex    sync.Mutex
	reported *lru.Cache
}

func newMissing() *missing { return &missing{reported: lru.New(maxMissing)} }

// isNew reports whether this message about a workload is not its last one, and records it. With an
// empty message it forgets the workload. It keeps no names from the annotation, which can be long.
func (m *missing) isNew(target types.UID, message string) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	before, isKnown := m.reported.Get(target)
	switch {
	case message == "":
		if isKnown {
			m.reported.Remove(target)
		}
		return false
	case isKnown && before == message:
		return false
	default:
		m.reported.Add(target, message)
		return true
	}
}

// recordMissing records an event on each workload whose own annotation names sources that do not
// exist. It returns after how long to look again at new workloads; 0 for none.
func (r *reconciler) recordMissing(namespace string, snapshot *workload.Snapshot) time.Duration {
	var again time.Duration
	for i := range snapshot.Targets {
		target := &snapshot.Targets[i]
		gone := slices.DeleteFunc(workload.Listed(target), func(ref workload.SourceRef) bool {
			_, exists := snapshot.Sources[ref]
			return exists
		})
		if len(gone) == 0 {
			r.missing.isNew(target.UID, "")
			continue
		}
		if young := missingGrace - r.clock.Since(target.Created); young > 0 {
			again = requeue.Sooner(again, young)
			continue
		}
		if message := workload.MissingMessage(gone); r.missing.isNew(target.UID, message) {
			r.recordAbout(namespace, target, gone[0], workload.ReasonSourceMissing, message)
		}
	}
	return again
}

// recordNotGranted records an event on each workload whose own annotations ask for Secrets that may
// not be read.
func (r *reconciler) recordNotGranted(namespace string, snapshot *workload.Snapshot) {
	notGranted := snapshot.NotGranted()
	for i := range snapshot.Targets {
		target := &snapshot.Targets[i]
		secrets := notGranted[target.Ref]
		if len(secrets) == 0 {
			r.notGranted.isNew(target.UID, "")
			continue
		}
		if message := workload.NotGrantedMessage(namespace, secrets); r.notGranted.isNew(target.UID, message) {
			r.recordAbout(namespace, target, secrets[0], workload.ReasonNotGranted, message)
		}
	}
}

// recordAbout records an event on a workload about one of its sources, which keeps the recorder
// from counting events about others as this one.
func (r *reconciler) recordAbout(namespace string, target *workload.Target, source workload.SourceRef, reason, message string) {
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: string(source.Kind), Namespace: namespace, Name: strings.Clone(source.Name)}
	r.recorder.Eventf(observe.ObjectOf(target, namespace), about, corev1.EventTypeWarning, reason, "Read", "%s", message)
}
