package appconfig

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Observed is everything that decisions about one AppConfig depend on, read once.
type Observed struct {
	// Children are the ConfigMaps found: the one that pods use, and all that keep revisions.
	Children plan.Children
	// Hashes are the hashes of the contents of Children; nil computes them whenever they are needed.
	Hashes map[plan.Ref]string
	// Place is where the AppConfig is.
	Place Place
	// Older is the name of the AppConfig that is in effect for the same application instead of this
	// one; empty if this one is.
	Older string
	// Siblings are all AppConfigs for the same application that are not being deleted.
	Siblings []types.UID
	// Snapshot is what the namespace's workloads run, and Plan what is decided about them.
	Snapshot workload.Snapshot
	Plan     workload.RestartPlan
	// Now is when it was read.
	Now time.Time
	// Causes are what keeps rollouts of workloads that use the ConfigMap from making progress; nil
	// while it has not been read.
	Causes workload.Causes
	// IsOpen reports whether the maintenance window is open, and WindowChanges is after how long that
	// changes.
	IsOpen        bool
	WindowChanges time.Duration
	// Rendering is what the spec renders, if it is cached; nil makes Choose render it.
	Rendering *Rendering
}

// Revision is a kept content.
type Revision struct {
	Number int64
	Hash   string
	// ConfigMap is the name of the ConfigMap that keeps it.
	ConfigMap string
}

// Current is the ConfigMap that pods use, according to its annotations.
type Current struct {
	// Exists reports whether the ConfigMap exists and is ours.
	Exists bool
	// Revision and Hash belong to the content that it was given.
	Revision int64
	Hash     string
	// Holds is the hash of the content that it has; it differs from Hash after an edit by hand.
	Holds string
	// LastGood is the last revision that all pods, at least one, have run; 0 if there is none. Failed
	// are those whose rollout failed.
	LastGood int64
	Failed   []int64
	// Failure says which workloads did not become ready with the last failed one.
	Failure string
	// Highest is the highest revision number known to have been used.
	Highest int64
	// IsPutBack reports that the content was put back because a later one failed.
	IsPutBack bool
}

// HashOf returns the hash of a content.
func HashOf(content map[string]string) string {
	return hashOfConfigMap(&corev1.ConfigMap{Data: content})
}

// HashesOf returns the hashes of the contents of ConfigMaps.
func HashesOf(children plan.Children) map[plan.Ref]string {
	hashes := make(map[plan.Ref]string, len(children))
	for at, found := range children {
		if configMap, ok := found.Object.(*corev1.ConfigMap); ok {
			hashes[at] = hashOfConfigMap(configMap)
		}
	}
	return hashes
}

func hashOfConfigMap(configMap *corev1.ConfigMap) string {
	hashes := make(map[string]string, len(configMap.Data)+len(configMap.BinaryData))
	for key, value := range configMap.Data {
		hashes[key] = workload.HashText(value)
	}
	for key, value := range configMap.BinaryData {
		hashes[key] = workload.HashKey(value)
	}
	return workload.HashAll(hashes)
}

// holds returns the hash of the content that a ConfigMap has.
func (o Observed) holds(at plan.Ref, configMap *corev1.ConfigMap) string {
	if hash, known := o.Hashes[at]; known {
		return hash
	}
	return hashOfConfigMap(configMap)
}

// current returns the ConfigMap that pods use.
func (o Observed) current(config *configv1.AppConfig) Current {
	at := ref(config, config.ConfigMapName())
	object, ok := o.Children.Get(at)
	configMap, isConfigMap := object.(*corev1.ConfigMap)
	if !ok || !isConfigMap {
		return Current{}
	}
	marks := configMap.Annotations
	current := Current{
		Exists: true, Revision: number(marks[configv1.AnnotationRevision]), Hash: marks[configv1.AnnotationHash],
		Holds: o.holds(at, configMap), LastGood: number(marks[configv1.AnnotationLastGood]),
		Failure: marks[configv1.AnnotationFailure], IsPutBack: isPutBack(marks),
	}
	current.Failed = failedIn(marks[configv1.AnnotationFailed])
	current.Highest = max(current.Revision, current.LastGood, number(marks[configv1.AnnotationHighest]))
	for _, failed := range current.Failed {
		current.Highest = max(current.Highest, failed)
	}
	return current
}

// maxFailed is the length of the longest list of failed revisions that counts, in bytes: only those
// that are kept are in it, at most a hundred.
const maxFailed = 4 << 10

// failedIn parses a list of failed revisions. A longer one than we write counts as none.
func failedIn(text string) []int64 {
	if len(text) > maxFailed {
		return nil
	}
	var all []int64
	for one := range strings.SplitSeq(text, ",") {
		if failed := number(one); failed > 0 {
			all = append(all, failed)
		}
	}
	return all
}

// revisions returns the kept revisions, newest first. A ConfigMap that is not ours, or whose
// content has changed, does not count.
func (o Observed) revisions(config *configv1.AppConfig) []Revision {
	var kept []Revision
	for at, found := range o.Children {
		configMap, isConfigMap := found.Object.(*corev1.ConfigMap)
		if found.Ownership != plan.Ours || !isConfigMap || configMap.DeletionTimestamp != nil {
			continue
		}
		revision := Revision{Number: number(configMap.Labels[configv1.LabelRevision]), Hash: configMap.Annotations[configv1.AnnotationHash],
			ConfigMap: at.Name}
		if revision.Number > 0 && at.Name == revisionName(config, revision.Number) && o.holds(at, configMap) == revision.Hash {
			kept = append(kept, revision)
		}
	}
	slices.SortFunc(kept, func(a, b Revision) int { return cmp.Compare(b.Number, a.Number) })
	return kept
}

// isBehind reports whether workloads were compared with another content than the one that the
// ConfigMap has: they are compared by means of another cache. While an edit by hand is being
// reverted they are compared with none.
func (o Observed) isBehind(config *configv1.AppConfig, holds string) bool {
	source, known := o.Snapshot.Sources[workload.SourceRef{Kind: workload.ConfigMap, Name: config.ConfigMapName()}]
	return known && source.State == workload.Present && !source.IsEdited() && source.All() != holds
}

// content returns the content of a ConfigMap of ours; nil if there is none of the name.
func (o Observed) content(at plan.Ref) map[string]string {
	if configMap, ok := o.Children[at].Object.(*corev1.ConfigMap); ok {
		return configMap.Data
	}
	return nil
}

// User is a workload that uses the ConfigMap.
type User struct {
	Ref   workload.TargetRef
	State workload.State
	// Message says why it is not up to date.
	Message string
	// Hash is the hash of the content that its newest pods were started with; Was is that of the one
	// before.
	Hash, Was string
	// Pods is the number of its pods, Updated the number with its newest template, and Ready the
	// number of ready ones.
	Pods, Updated, Ready int32
	// Restarted reports that it was restarted for the content that it has, and Completed that it says
	// itself that the pods of its newest template were available.
	Restarted, Completed bool
	// Blocked reports that its pods are not replaced until a user acts; Message says why.
	Blocked bool
	// Reverted reports that its pod template was changed back after that restart: its pods may run an
	// earlier content.
	Reverted bool
	// Cause is what is wrong with its pods; nil if nothing is, or nothing is known.
	Cause *workload.Problem
}

// isRolling reports whether its pods are being replaced, or did not become ready in time.
func (u User) isRolling() bool { return u.State == workload.Rolling || u.State == workload.Failed }

// isCredible reports whether nothing suggests that the pods of an up-to-date workload never became
// ready with its content. A new StatefulSet counts as complete at once, and so does a workload that
// is scaled up from 0.
func (u User) isCredible() bool {
	switch {
	case u.Pods == 0:
		return true
	case u.Restarted || u.Completed:
		return u.Ready > 0
	default:
		return u.Ready >= u.Pods
	}
}

// Suspects returns the targets whose pods are worth reading, and when there will be others.
func (o Observed) Suspects(config *configv1.AppConfig) ([]int, time.Duration) {
	if o.Older != "" {
		return nil, 0 // they use the other AppConfig
	}
	return o.Plan.Suspects(&o.Snapshot, Origin(config.Name), o.Now)
}

// Reverted returns the targets whose pod template was changed back after a restart for the
// AppConfig, unless it is known to be younger than the content: that may not have been read yet.
func (o Observed) Reverted(config *configv1.AppConfig) []int {
	if o.Older != "" {
		return nil // they use the other AppConfig
	}
	var targets []int
	for _, status := range o.Plan.Statuses {
		if status.Reason == workload.ReasonReverted && o.Snapshot.Demands[status.Demand].Origin == Origin(config.Name) {
			targets = append(targets, status.Target)
		}
	}
	return targets
}

// users returns the workloads that use the ConfigMap.
func (o Observed) users(config *configv1.AppConfig) []User {
	source := workload.SourceRef{Kind: workload.ConfigMap, Name: config.ConfigMapName()}
	var all []User
	for _, status := range o.Plan.Statuses {
		demand := o.Snapshot.Demands[status.Demand]
		if demand.Origin != Origin(config.Name) || demand.Source != source {
			continue
		}
		target := o.Snapshot.Targets[status.Target]
		seen := target.Stamp.Sources[source.String()]
		user := User{
			Ref: target.Ref, State: status.State, Message: status.Message, Hash: seen.All, Was: seen.Was,
			Pods: target.Rolled.Pods, Updated: target.Rolled.Updated, Ready: target.Rolled.Ready, Restarted: seen.At != nil,
			Blocked:   status.State == workload.Rolling && status.Reason == workload.ReasonBlocked,
			Completed: !target.Rolled.Since.IsZero(), Reverted: status.Reason == workload.ReasonReverted,
		}
		if cause, known := o.Causes[status.Target]; known && user.isRolling() {
			user.Cause, user.Message = &cause, user.Message+o.Causes.Detail(status.Target)
		}
		if user.Hash == "" && status.State == workload.UpToDate {
			source := o.Snapshot.Sources[source]
			user.Hash = source.All() // the stamp is about to be written, with what was compared
		}
		all = append(all, user)
	}
	slices.SortFunc(all, func(a, b User) int {
		return cmp.Or(cmp.Compare(a.Ref.Kind, b.Ref.Kind), cmp.Compare(a.Ref.Name, b.Ref.Name))
	})
	return all
}

// refused returns the workloads whose restart for the AppConfig the API server refuses, each once,
// with its message.
func (o Observed) refused(config *configv1.AppConfig) []string {
	var named []string
	for _, status := range o.Plan.Statuses {
		if status.Reason != workload.ReasonRefused || o.Snapshot.Demands[status.Demand].Origin != Origin(config.Name) {
			continue
		}
		if one := fmt.Sprintf("%s: %s", o.Snapshot.Targets[status.Target].Ref, status.Message); !slices.Contains(named, one) {
			named = append(named, one)
		}
	}
	return named
}

// notGranted returns the Secrets of spec.secretRefs that may not be read.
func (o Observed) notGranted(config *configv1.AppConfig) []string {
	var names []string
	for _, secret := range config.Spec.SecretRefs {
		found := o.Snapshot.Sources[workload.SourceRef{Kind: workload.Secret, Name: secret.Secret}]
		if found.State == workload.NotGranted && !slices.Contains(names, secret.Secret) {
			names = append(names, secret.Secret)
		}
	}
	return names
}

// missing returns what spec.secretRefs names but does not exist: Secrets, and keys of existing
// ones. Secrets that may not be read are not included.
func (o Observed) missing(config *configv1.AppConfig) []string {
	var missing []string
	for i := range o.Snapshot.Demands {
		demand := &o.Snapshot.Demands[i]
		if demand.Origin != Origin(config.Name) || demand.Source.Kind != workload.Secret {
			continue
		}
		found := o.Snapshot.Sources[demand.Source]
		switch found.State {
		case workload.Absent:
			missing = append(missing, "Secret "+demand.Source.Name)
		case workload.Present:
			for _, key := range demand.Keys {
				if _, there := found.Keys[key]; !there {
					missing = append(missing, fmt.Sprintf("key %s of Secret %s", key, demand.Source.Name))
				}
			}
		}
	}
	return missing
}

// isLeft reports whether a ConfigMap belongs to an AppConfig that no longer exists: the garbage
// collector is about to delete it.
func (o Observed) isLeft(at plan.Ref) bool {
	found := o.Children[at]
	if found.Object == nil {
		return false
	}
	controller := metav1.GetControllerOf(found.Object)
	return isAppConfig(controller) && !slices.Contains(o.Siblings, controller.UID)
}
