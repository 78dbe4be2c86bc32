package appconfig

import (
	"fmt"
	"slices"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Choice says which content the ConfigMap gets, and why not another one.
type Choice struct {
	// Environment is what the content is rendered for.
	Environment policy.Environment
	// Problem is why the spec can't be rendered; empty if it can. In this case nothing is changed,
	// unless spec.revision selects a kept revision.
	Problem string
	// Content and Hash are what the spec renders; Rendered is the number of its revision, which exists
	// or will be created.
	Content  map[string]string
	Hash     string
	Rendered int64
	// Chosen is the revision whose content the ConfigMap gets, and ChosenHash the hash of that
	// content.
	Chosen     int64
	ChosenHash string
	// Pending is why Chosen is not Rendered; empty if it is.
	Pending string
	// IsPutBack reports that the content of Chosen is put back because a later one failed, or that it
	// was, and the ConfigMap has it still.
	IsPutBack bool
	// IsMissing reports that spec.revision names a revision that does not exist.
	IsMissing bool
	// IsLost reports that the content of Chosen is neither kept, nor in the ConfigMap, nor what the
	// spec renders.
	IsLost bool
	// Highest is the highest revision number known to have been used, not counting one that will be
	// created.
	Highest int64
	// Marks are what the ConfigMap is to record.
	Marks Marks
	// Kept is the content of Chosen, if it must be written and is not what the spec renders; otherwise
	// nil.
	Kept map[string]string
}

// Marks are what the ConfigMap records about its rollouts.
type Marks struct {
	// LastGood is the last revision that all pods, at least one, have run; 0 if there is none.
	LastGood int64
	// Failed are the revisions whose rollout failed, in the order of the failures.
	Failed []int64
	// Failure says which workloads did not become ready with the last of them; empty if none failed.
	Failure string
}

// Choose decides which content the ConfigMap gets. The first matching row counts:
//
//	situation                                                      content         pending
//	spec.revision names a kept revision                            that one        Pinned (1)
//	spec.revision names no kept revision                           the present     Pinned
//	there is no ConfigMap yet, and no revision is kept             the rendered    -
//	the rendered one failed, onFailure is Rollback, and another
//	  is the last good one                                         the last good   RolledBack
//	the ConfigMap has the rendered one                             the rendered    -
//	the mode is Manual, and approved is another hash               the present     AwaitingApproval
//	the window is closed                                           the present     OutsideWindow
//	none of these                                                  the rendered    -
//
// (1) Only if the spec renders another content.
//
// A rollback waits for no window. "The present" content of a ConfigMap that was deleted, or whose
// annotations were removed, is what recall returns.
func Choose(config *configv1.AppConfig, observed Observed) Choice {
	found, kept := observed.current(config), observed.revisions(config)
	current := found
	if found.Revision == 0 {
		current = recall(config, observed, found, kept)
	}
	choice := Choice{Highest: highestOf(current, kept), Marks: mark(current, observed.users(config))}
	choice.render(config, observed)
	if choice.Problem == "" {
		choice.Rendered = numberOf(choice.Hash, current, kept)
	} else if config.Spec.Revision == nil || hashOf(*config.Spec.Revision, current, kept) == "" {
		return choice
	}
	choice.pick(config, observed, current, kept)
	choice.IsPutBack = choice.Pending == configv1.ReasonRolledBack || current.IsPutBack && choice.Chosen == current.Revision
	choice.Kept, choice.IsLost = choice.keptContent(config, observed, found, kept)
	return choice
}

// isBarred reports that nothing can be chosen: the spec can't be rendered, and spec.revision names
// no kept revision.
func (c *Choice) isBarred() bool { return c.Problem != "" && c.Chosen == 0 }

// render sets what the spec renders for its environment.
func (c *Choice) render(config *configv1.AppConfig, observed Observed) {
	environment, problem := EnvironmentIn(config, observed.Place)
	c.Environment = environment
	if problem != nil {
		c.Problem = problem.Error()
		return
	}
	rendering := observed.Rendering
	if rendering == nil {
		rendering = new(RenderingIn(config, environment, observed.Place.Environments))
	}
	c.Content, c.Hash, c.Problem = rendering.Content, rendering.Hash, rendering.Problem
}

// recall returns what a ConfigMap contained that was deleted or has lost its annotations, if
// revisions are kept: deleting it by hand must neither approve a content, nor open a window, nor
// clear a failure. The marks come from the status that the AppConfig had when it was read. The
// status is written in each reconcile anyway, so that the marks cost no further write; on the
// revisions' ConfigMaps they would, because these are created before there is anything to mark. If
// there is no status either, as after a restore from a backup, the pods show what they run, and the
// first rollout that fails again is marked again.
//
// The content is the one in the status; otherwise the newest that pods were started with and that
// did not fail; otherwise the last good one; otherwise the newest. found is the ConfigMap as it is,
// which shares no memory with the result.
func recall(config *configv1.AppConfig, observed Observed, found Current, kept []Revision) Current {
	if len(kept) == 0 {
		return found
	}
	current, status := found, config.Status
	current.Failed = slices.Clone(found.Failed)
	current.LastGood = max(current.LastGood, status.LastGood)
	for _, revision := range status.Revisions {
		if revision.State == configv1.RevisionFailed && !slices.Contains(current.Failed, revision.Revision) {
			current.Failed = append(current.Failed, revision.Revision)
		}
	}
	slices.Sort(current.Failed)
	if len(current.Failed) > 0 && current.Failure == "" {
		current.Failure = "its pods did not become ready"
	}
	users := observed.users(config)
	isRun := func(r Revision) bool {
		return !slices.Contains(current.Failed, r.Number) && slices.ContainsFunc(users, func(u User) bool { return u.Hash == r.Hash })
	}
	had := kept[0]
	for _, is := range []func(Revision) bool{
		func(r Revision) bool { return r.Number == status.Revision && r.Hash == status.Hash },
		isRun,
		func(r Revision) bool { return r.Number == current.LastGood },
	} {
		if at := slices.IndexFunc(kept, is); at >= 0 {
			had = kept[at]
			break
		}
	}
	current.Revision, current.Hash = had.Number, had.Hash
	current.Highest = max(current.Highest, status.LastGood, status.Revision)
	for _, revision := range status.Revisions {
		current.Highest = max(current.Highest, revision.Revision)
	}
	return current
}

// highestOf returns the highest revision number known to have been used.
func highestOf(current Current, kept []Revision) int64 {
	highest := current.Highest
	for _, revision := range kept {
		highest = max(highest, revision.Number)
	}
	return highest
}

// numberOf returns the number of the revision with a hash, or of the one to be created. Numbers are
// never reused.
func numberOf(hash string, current Current, kept []Revision) int64 {
	for _, revision := range kept {
		if revision.Hash == hash {
			return revision.Number
		}
	}
	if current.Hash == hash && current.Revision > 0 {
		return current.Revision
	}
	return highestOf(current, kept) + 1
}

// mark returns what to record about the rollout of the ConfigMap's content. It succeeded once all
// pods that use it run it, at least one, and failed if a workload that was restarted for it did not
// become ready.
// A revision that was good once does not fail because of what happens to its pods later.
func mark(current Current, users []User) Marks {
	marks := Marks{LastGood: current.LastGood, Failed: slices.Clone(current.Failed), Failure: current.Failure}
	if !current.Exists || current.Holds != current.Hash || current.Revision == 0 {
		return marks
	}
	isGood := slices.ContainsFunc(users, func(user User) bool { return user.Pods > 0 })
	var down []string
	for _, user := range users {
		runs := user.Hash == current.Hash
		isGood = isGood && runs && user.State == workload.UpToDate && user.isCredible()
		if runs && user.State == workload.Failed && user.Restarted {
			down = append(down, fmt.Sprintf("%s: %s", user.Ref, user.Message))
		}
	}
	without := func(failed int64) bool { return failed == current.Revision }
	switch {
	case isGood:
		marks.LastGood = current.Revision
		marks.Failed = slices.DeleteFunc(marks.Failed, without)
	case len(down) > 0 && current.Revision != current.LastGood && !slices.ContainsFunc(marks.Failed, without):
		marks.Failed = append(marks.Failed, current.Revision)
		marks.Failure = conditions.FirstFew(down, "; ")
	}
	if len(marks.Failed) == 0 {
		marks.Failure = ""
	}
	return marks
}

// hashOf returns the hash of a revision that is kept or in the ConfigMap; empty for any other.
func hashOf(number int64, current Current, kept []Revision) string {
	at := slices.IndexFunc(kept, func(r Revision) bool { return r.Number == number })
	switch {
	case at >= 0:
		return kept[at].Hash
	case current.Revision > 0 && number == current.Revision:
		return current.Hash
	default:
		return ""
	}
}

// pick implements the table of Choose.
func (c *Choice) pick(config *configv1.AppConfig, observed Observed, current Current, kept []Revision) {
	rendered := func() { c.Chosen, c.ChosenHash = c.Rendered, c.Hash }
	hasOne := current.Revision > 0
	stay := func(reason string) {
		c.Chosen, c.ChosenHash, c.Pending = current.Revision, hashOf(current.Revision, current, kept), reason
	}
	spec, lastGood := &config.Spec, hashOf(c.Marks.LastGood, current, kept)
	switch {
	case spec.Revision != nil && hashOf(*spec.Revision, current, kept) != "":
		c.Chosen, c.ChosenHash = *spec.Revision, hashOf(*spec.Revision, current, kept)
		if c.ChosenHash != c.Hash {
			c.Pending = configv1.ReasonPinned
		}
	case spec.Revision != nil && hasOne:
		c.IsMissing = true
		stay(configv1.ReasonPinned)
	case spec.Revision != nil:
		c.IsMissing = true
		rendered()
	case !hasOne:
		rendered()
	case spec.Rollout.OnFailure == configv1.FailureRollback && slices.Contains(c.Marks.Failed, c.Rendered) &&
		c.Marks.LastGood != c.Rendered && lastGood != "":
		c.Chosen, c.ChosenHash, c.Pending = c.Marks.LastGood, lastGood, configv1.ReasonRolledBack
	case current.Hash == c.Hash:
		rendered()
	case spec.Rollout.Mode == configv1.RolloutManual && spec.Rollout.Approved != c.Hash:
		stay(configv1.ReasonAwaitingApproval)
	case !observed.IsOpen:
		stay(configv1.ReasonOutsideWindow)
	default:
		rendered()
	}
}

// keptContent returns the chosen content; nil if the spec renders it, if it need not be written, or
// if it is lost.
func (c *Choice) keptContent(config *configv1.AppConfig, observed Observed, current Current, kept []Revision) (content map[string]string,
	isLost bool) {
	isKept := slices.ContainsFunc(kept, func(r Revision) bool { return r.Number == c.Chosen })
	switch {
	case c.ChosenHash == c.Hash, isKept && c.isSettled(current):
		return nil, false
	case isKept:
		return observed.content(ref(config, revisionName(config, c.Chosen))), false
	case current.Holds == c.ChosenHash:
		return observed.content(ref(config, config.ConfigMapName())), false
	default:
		return nil, true
	}
}

// isSettled reports whether the ConfigMap is as desired.
func (c *Choice) isSettled(current Current) bool {
	return current.Exists && current.Holds == c.ChosenHash && current.Hash == c.ChosenHash && current.Revision == c.Chosen &&
		current.LastGood == c.Marks.LastGood && slices.Equal(current.Failed, c.Marks.Failed) && current.Failure == c.Marks.Failure &&
		current.IsPutBack == c.IsPutBack
}
