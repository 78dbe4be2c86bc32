package workload

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
)

// TargetRef names a workload within its namespace.
type TargetRef struct {
	// Kind is Deployment, StatefulSet or DaemonSet.
	Kind, Name string
}

// String returns, for example, "Deployment/web".
func (r TargetRef) String() string { return r.Kind + "/" + r.Name }

// Target is a workload as far as restarts are concerned.
type Target struct {
	Ref     TargetRef
	UID     types.UID
	Created time.Time
	// Generation is that of the object that was read.
	Generation int64
	// Template is when the template of its newest pods was created; nil if that has not been read yet,
	// zero if there were no pods.
	Template *time.Time
	// Labels are those of the pod template. Annotations are those of the pod template and of the
	// workload, which take precedence.
	Labels, Annotations map[string]string
	Uses                map[SourceRef]Use
	Stamp               Stamp
	// RestartedFor is the pod template's annotation of that name.
	RestartedFor string
	Rolled       Rolled
	// Refusal is the API server's answer to the last attempt to restart it, while that restart is due
	// and the workload has not changed.
	Refusal Refusal
}

// Rolled is how far the rollout of a workload's present template has got.
type Rolled struct {
	// Complete means that all its pods were replaced by pods of that template, which were available.
	Complete bool
	// Forgets means that the workload does not remember that it was complete: scaling or a lost pod
	// looks like a rollout that is under way. If the stamp remembers it, it counts as complete.
	Forgets bool
	// Since is when it became complete, as far as the workload says; zero otherwise.
	Since time.Time
	// Progressed is when it last made progress, as far as the workload says.
	Progressed time.Time
	// Failed says why it will not complete: the workload's own deadline has passed. Empty otherwise.
	Failed string
	// Blocked says why its pods are not replaced although the template changed: it is paused, or waits
	// until a user deletes them. Empty otherwise.
	Blocked string
	// Unseen means that the status is older than the last change of the spec: the controller has not
	// observed it yet.
	Unseen bool
	// Pods is the number of pods, Updated the number with the present template, Ready the number of
	// ready ones.
	Pods, Updated, Ready int32
	// Left is the number of pods of a complete StatefulSet that have another template. There are such
	// pods when the template was changed back before all pods were replaced. A pod that is being
	// deleted counts, too.
	Left int32
	// Ordered means that no pod is replaced while one is not ready, also not that one: a StatefulSet
	// whose podManagementPolicy is OrderedReady (kubernetes/kubernetes#67250).
	Ordered bool
}

// isForeign reports whether the pod template is not that of Mainstay's last restart any more:
// another client has changed it back, or has replaced it without our annotation.
func (t *Target) isForeign() bool {
	return t.Stamp.For != "" && t.Stamp.For != HashText(t.RestartedFor)
}

// isReverted reports whether pods may run an earlier content of a source than the stamp says: they
// were restarted for it, but their template is not that of the restart any more, and not known to
// be younger than the content.
func (t *Target) isReverted(source *Source) bool {
	if t.Stamp.Sources[source.Ref.String()].At == nil || !t.isForeign() {
		return false
	}
	return t.Template == nil || !t.Template.IsZero() && source.Changed.After(*t.Template)
}

// isReplaced reports whether another client has replaced the pod template of Mainstay's last
// restart, and no pods run an earlier content than the stamp says. A source that differs from its
// stamp, or can't be compared, may become equal again: there must have been no restart for it, or
// the template must be younger than that.
func (t *Target) isReplaced(relations []relation) bool {
	return t.isForeign() && !slices.ContainsFunc(relations, func(r relation) bool {
		at := t.Stamp.Sources[r.demand.Source.String()].At
		isYounger := at == nil || t.Template != nil && !at.After(*t.Template)
		return r.reason == ReasonReverted || r.state != UpToDate && !isYounger
	})
}

// isJustDone reports whether the rollout of Mainstay's last restart is complete, and neither the
// workload nor its stamp says since when.
func (t *Target) isJustDone() bool {
	return t.Rolled.Complete && t.Rolled.Progressed.IsZero() && !t.Stamp.isOver()
}

// isJustHeld reports whether the rollout of Mainstay's last restart waits for a user, and neither
// the workload nor its stamp says so.
func (t *Target) isJustHeld() bool {
	return t.Rolled.Blocked != "" && !t.Rolled.Unseen && t.Rolled.Progressed.IsZero() && !t.Stamp.isOver() && !t.Stamp.Held
}

// isJustResumed reports whether that rollout goes on, and the stamp does not say so yet.
func (t *Target) isJustResumed() bool {
	return t.Stamp.Held && t.Rolled.Blocked == "" && !t.Rolled.Unseen
}

// neverReady reports whether no pod is ready, and, as far as the workload says, none of the present
// pods ever was.
func (t *Target) neverReady() bool {
	return t.Rolled.Ready == 0 && (t.Rolled.Since.IsZero() || t.Rolled.Pods == 0)
}

// isStarting reports whether the workload says itself that the rollout of its present template is
// not complete, and no more pods are ready than there are of earlier templates.
func (t *Target) isStarting() bool {
	rolled := &t.Rolled
	return !rolled.Complete && !rolled.Unseen && !rolled.Progressed.IsZero() && rolled.Ready <= rolled.Pods-rolled.Updated
}

// completedAt returns when the rollout of a complete target became complete, as the workload says,
// or else its stamp; zero if neither does.
func (t *Target) completedAt(now time.Time) time.Time {
	switch {
	case !t.Rolled.Since.IsZero():
		return t.Rolled.Since
	case t.Stamp.DoneAt != nil:
		return *t.Stamp.DoneAt
	case t.isJustDone():
		return now // the stamp is about to say so
	default:
		return time.Time{}
	}
}

// Scope says which workloads a demand applies to. Exactly one of Selector, Users and Target is set.
type Scope struct {
	// Selector matches the labels of pods.
	Selector labels.Selector
	// Declinable excludes workloads that opt out.
	Declinable bool
	// Users selects the workloads whose pods refer to the source.
	Users bool
	// Target selects one workload.
	Target *TargetRef
}

// Index finds the targets that demands concern.
type Index struct {
	targets []Target
	byRef   map[TargetRef]int
	// users are the targets that use each source.
	users map[SourceRef][]int
}

// NewIndex returns an index of targets, which must not change afterwards.
func NewIndex(targets []Target) Index {
	index := Index{targets: targets, byRef: map[TargetRef]int{}, users: map[SourceRef][]int{}}
	for i := range targets {
		index.byRef[targets[i].Ref] = i
		for source := range targets[i].Uses {
			index.users[source] = append(index.users[source], i)
		}
	}
	return index
}

// Concerned returns the indices of the targets in the scope of a demand, in their order.
func (x Index) Concerned(demand *Demand) []int {
	switch scope := demand.Scope; {
	case scope.Selector != nil:
		return x.selected(scope)
	case scope.Users:
		return x.users[demand.Source]
	case scope.Target != nil:
		if target, there := x.byRef[*scope.Target]; there {
			return []int{target}
		}
	}
	return nil
}

// selected returns the indices of the targets that a scope's selector matches.
func (x Index) selected(scope Scope) []int {
	var found []int
	for i := range x.targets {
		target := &x.targets[i]
		if scope.Selector.Matches(labels.Set(target.Labels)) && (!scope.Declinable || !target.Declines()) {
			found = append(found, i)
		}
	}
	return found
}

// Declines reports whether the target opts out of restarts. The opt-out does not apply to demands
// of our kinds, whose objects are written for the purpose.
func (t *Target) Declines() bool {
	return strings.TrimSpace(t.Annotations[configv1.AnnotationReload]) == reloadOff
}

// sources returns the sources that the target uses, in a fixed order.
func (t *Target) sources() []SourceRef {
	return slices.SortedFunc(maps.Keys(t.Uses), func(a, b SourceRef) int { return strings.Compare(a.String(), b.String()) })
}
