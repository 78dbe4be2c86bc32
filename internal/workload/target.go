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

// String is "Deployment/web".
func (r TargetRef) String() string { return r.Kind + "/" + r.Name }

// Target is a workload as far as restarts are concerned.
type Target struct {
	Ref     TargetRef
	UID     types.UID
	Created time.Time
	// Template is when the template was made that its newest pods are of; nil if nobody has asked yet, zero if there
	// have been no pods.
	Template *time.Time
	// Labels and Annotations are those of the pod template, where Annotations has also those of the workload, which
	// win.
	Labels, Annotations map[string]string
	Uses                map[SourceRef]Use
	Stamp               Stamp
	// RestartedFor is the pod template's annotation of that name.
	RestartedFor string
	Rolled       Rolled
}

// Rolled is how far a workload is with its present template.
type Rolled struct {
	// Complete means that its pods have been replaced by ones of it, which were available.
	Complete bool
	// Forgets means that the workload does not remember that it was complete: scaling, or a pod that is lost, looks like
	// a rollout that is under way. Then the stamp remembers.
	Forgets bool
	// Since is when that became so, as far as the workload tells; zero otherwise.
	Since time.Time
	// Progressed is when it came nearer to that, as far as the workload tells.
	Progressed time.Time
	// Failed says why it will not become so: the workload's own deadline has passed. Empty otherwise.
	Failed string
	// Blocked says why its pods are not replaced although the template changed: it is paused, or waits for
	// somebody to delete them. Empty otherwise.
	Blocked string
	// Unseen means that what the workload tells is of before its last change: its controller has not looked at it yet.
	Unseen bool
	// Pods is the number of pods, Updated of those that are of the present template, Ready of those that are ready.
	Pods, Updated, Ready int32
}

// Scope says which workloads a demand is about. Exactly one of Selector, Users and Target is set.
type Scope struct {
	// Selector matches the labels of pods.
	Selector labels.Selector
	// Declinable leaves those out that ask to be left alone.
	Declinable bool
	// Users are those whose pods refer to the source.
	Users bool
	// Target is that one.
	Target *TargetRef
}

// includes tells whether a demand on source with this scope is about target.
func (s Scope) includes(target *Target, source SourceRef) bool {
	switch {
	case s.Selector != nil:
		return s.Selector.Matches(labels.Set(target.Labels)) && (!s.Declinable || !target.Declines())
	case s.Users:
		_, uses := target.Uses[source]
		return uses
	default:
		return s.Target != nil && *s.Target == target.Ref
	}
}

// Declines tells whether the target asks to be left alone. AppConfigs and ConfigMonitors, which somebody has written on purpose, do not mind.
func (t *Target) Declines() bool {
	return strings.TrimSpace(t.Annotations[configv1.AnnotationReload]) == reloadOff
}

// sources are those that the target uses, in a fixed order.
func (t *Target) sources() []SourceRef {
	return slices.SortedFunc(maps.Keys(t.Uses), func(a, b SourceRef) int { return strings.Compare(a.String(), b.String()) })
}
