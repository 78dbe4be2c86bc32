package metrics

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
)

// Phases of an object of any kind, in the order in which they are checked.
const (
	deleting    = "Deleting"
	pending     = "Pending"
	ready       = "Ready"
	paused      = "Paused"
	suspended   = "Suspended"
	stalled     = "Stalled"
	degraded    = "Degraded"
	unknown     = "Unknown"
	progressing = "Progressing"
)

// hibernated is the reason for which a database is not Ready because its user has stopped it.
const hibernated = "Hibernated"

var phases = []string{deleting, pending, ready, paused, suspended, stalled, degraded, unknown, progressing}

// object is an object with conditions.
type object interface {
	client.Object
	GetConditions() []metav1.Condition
}

// phaseOf returns the first phase that applies:
//
//	the object                      phase
//	is being deleted                Deleting
//	has no condition Ready, or      Pending
//	one of an earlier generation
//	Ready is True                   Ready
//	Paused is True                  Paused
//	Suspended is True, or Ready     Suspended
//	has the reason Hibernated
//	Stalled is True                 Stalled
//	Degraded is True                Degraded
//	Ready is Unknown                Unknown
//	none of these                   Progressing
func phaseOf(object object) string {
	if object.GetDeletionTimestamp() != nil {
		return deleting
	}
	statuses := map[string]metav1.ConditionStatus{}
	for _, condition := range object.GetConditions() {
		// 0 means that the kind does not set it. Otherwise a condition from before the change says
		// nothing about the current spec. A controller that panics on that spec never writes a
		// status.
		if condition.Type == "Ready" && condition.ObservedGeneration != 0 && condition.ObservedGeneration < object.GetGeneration() {
			return pending
		}
		statuses[condition.Type] = condition.Status
		if condition.Type == "Ready" && condition.Reason == hibernated {
			statuses[suspended] = metav1.ConditionTrue
		}
	}
	switch statuses["Ready"] {
	case "":
		return pending
	case metav1.ConditionTrue:
		return ready
	}
	for _, phase := range []string{paused, suspended, stalled, degraded} {
		if statuses[phase] == metav1.ConditionTrue {
			return phase
		}
	}
	if statuses["Ready"] == metav1.ConditionUnknown {
		return unknown
	}
	return progressing
}

// unready are the phases of objects that need attention if they last.
var unready = []string{pending, stalled, degraded, unknown}

// overdueAfter is for how long an object may be in progress, or being deleted, until that is too
// long.
const overdueAfter = time.Hour

// counted is an object in a Tally. Times are in seconds since 1970.
type counted struct {
	phase, namespace, name string
	// since is when its condition Ready last changed, or it was created.
	since int64
	// begun is since when it is being deleted, or in progress by its own condition; 0 if it is not: it
	// may wait for a window, or for a user.
	begun int64
	// isComponent reports whether an AppStack is its controller.
	isComponent bool
}

// isOverdue reports whether an object has been in progress, or being deleted, for too long.
func (c counted) isOverdue(now time.Time) bool {
	return (c.phase == progressing || c.phase == deleting) && c.begun != 0 && now.Sub(time.Unix(c.begun, 0)) > overdueAfter
}

const (
	// mostNamed is how many objects of a kind that are not ready are named, those that have not been
	// for longest, and as many of those that are overdue.
	mostNamed = 50
	// mostComponents is how many components of AppStacks are named beside them: the alerts of a
	// platform look for its parts by name, whatever else in the cluster is not ready.
	mostComponents = 500
)

// Tally counts the objects of one kind in the cache. It makes no call, and needs about 100 bytes
// per object.
type Tally struct {
	kind string
	// filled reports that all objects have been counted.
	filled func() bool

	mutex sync.Mutex
	known map[types.UID]counted
}

// Count returns a Tally of the objects of a kind. empty is an empty object of the kind. The cache
// must have all objects, complete, and need not have been started.
func Count(ctx context.Context, cached cache.Cache, kind string, empty client.Object) (*Tally, error) {
	informer, err := cached.GetInformer(ctx, empty, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("counting %s: %w", kind, err)
	}
	tally := &Tally{kind: kind, known: map[types.UID]counted{}}
	registration, err := informer.AddEventHandler(tally)
	if err != nil {
		return nil, fmt.Errorf("counting %s: %w", kind, err)
	}
	tally.filled = registration.HasSynced
	return tally, nil
}

// OnAdd counts an object.
func (t *Tally) OnAdd(added any, _ bool) {
	object, ok := added.(object)
	if !ok {
		return
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.known[object.GetUID()] = counted{
		phase: phaseOf(object), namespace: object.GetNamespace(), name: object.GetName(),
		since: since(object), begun: begun(object), isComponent: isComponent(object),
	}
}

// OnUpdate counts an object again. An object that was recreated under its name arrives as an update
// too.
func (t *Tally) OnUpdate(before, after any) {
	if object, ok := before.(object); ok {
		t.forget(object)
	}
	t.OnAdd(after, false)
}

// OnDelete removes an object from the count.
func (t *Tally) OnDelete(deleted any) {
	if missed, ok := deleted.(toolscache.DeletedFinalStateUnknown); ok {
		deleted = missed.Obj
	}
	if object, ok := deleted.(object); ok {
		t.forget(object)
	}
}

func (t *Tally) forget(object object) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	delete(t.known, object.GetUID())
}

// begun returns since when an object is being deleted, or else has been in progress and not ready;
// 0 if neither is so.
func begun(object object) int64 {
	if deleted := object.GetDeletionTimestamp(); deleted != nil {
		return deleted.Unix()
	}
	for _, condition := range object.GetConditions() {
		if condition.Type == progressing && condition.Status == metav1.ConditionTrue {
			return max(condition.LastTransitionTime.Unix(), since(object))
		}
	}
	return 0
}

// since returns when the condition Ready of an object last changed, or it was created.
func since(object object) int64 {
	for _, condition := range object.GetConditions() {
		if condition.Type == "Ready" && !condition.LastTransitionTime.IsZero() {
			return condition.LastTransitionTime.Unix()
		}
	}
	return object.GetCreationTimestamp().Unix()
}

// isComponent reports whether an AppStack is the controller of an object.
func isComponent(object object) bool {
	controller := metav1.GetControllerOfNoCopy(object)
	return controller != nil && controller.Kind == "AppStack" && strings.HasPrefix(controller.APIVersion, "platform."+api.Domain+"/")
}

// count returns the number of objects per phase, and of those in a phase of unready per namespace.
// Of the latter it names mostNamed, and mostComponents of the rest; and mostNamed of those that are
// overdue.
func (t *Tally) count(now time.Time) (byPhase, unreadyIn map[string]int, named []counted) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	byPhase, unreadyIn = map[string]int{}, map[string]int{}
	var overdue []counted
	for _, object := range t.known {
		byPhase[object.phase]++
		switch {
		case slices.Contains(unready, object.phase):
			unreadyIn[object.namespace]++
			named = append(named, object)
		case object.isOverdue(now):
			overdue = append(overdue, object)
		}
	}
	byName := func(a, b counted) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	}
	slices.SortFunc(named, func(a, b counted) int { return cmp.Or(cmp.Compare(a.since, b.since), byName(a, b)) })
	slices.SortFunc(overdue, func(a, b counted) int { return cmp.Or(cmp.Compare(a.begun, b.begun), byName(a, b)) })
	first := min(len(named), mostNamed)
	components := slices.DeleteFunc(slices.Clone(named[first:]), func(object counted) bool { return !object.isComponent })
	return byPhase, unreadyIn, slices.Concat(named[:first], components[:min(len(components), mostComponents)],
		overdue[:min(len(overdue), mostNamed)])
}
