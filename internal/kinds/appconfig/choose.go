package appconfig

import (
	"fmt"
	"slices"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Choice is which content the ConfigMap gets, and why not another.
type Choice struct {
	// Environment that the content is rendered for.
	Environment policy.Environment
	// Problem is why the spec renders nothing; then nothing is changed, but to what spec.revision names. Empty if it does.
	Problem string
	// Content and Hash are what the spec renders; Rendered is the number of its revision, kept or to be made.
	Content  map[string]string
	Hash     string
	Rendered int64
	// Chosen is the revision whose content the ConfigMap gets, and ChosenHash that content's hash.
	Chosen     int64
	ChosenHash string
	// Pending is why Chosen is not Rendered; empty if it is.
	Pending string
	// IsMissing tells that spec.revision names a revision that is not kept.
	IsMissing bool
	// IsLost tells that the content of Chosen is neither kept, nor in the ConfigMap, nor what the spec renders.
	IsLost bool
	// Highest is the highest number that a revision is known to have or to have had, without one that is to be made.
	Highest int64
	// Marks are what the ConfigMap is to remember.
	Marks Marks
	// Read names the ConfigMap that has the content of Chosen, where it has to be written and is not what the spec
	// renders; empty if it need not be read.
	Read string
}

// Marks are what the ConfigMap remembers of its rollouts.
type Marks struct {
	// LastGood is the last revision that all pods have run; 0 if there is none.
	LastGood int64
	// Failed are those whose rollout failed, in the order in which they did.
	Failed []int64
	// Failure says which workloads did not come up with the last of them; empty if none failed.
	Failure string
}

// Choose says which content the ConfigMap gets. The first row that applies counts:
//
//	what is the case                                               it gets         pending
//	spec.revision names one that is kept                           that            Pinned, if the spec renders another
//	spec.revision names none                                       what it has     Pinned
//	there is no ConfigMap yet, and no revision is kept             the rendered    -
//	the rendered one failed, onFailure is Rollback, and another
//	  is the last good one                                         the last good   RolledBack
//	it has the rendered one                                        the rendered    -
//	the mode is Manual, and approved is another hash               what it has     AwaitingApproval
//	the window is closed                                           what it has     OutsideWindow
//	none of these                                                  the rendered    -
//
// Going back waits for no window: the content is put back at once. "What it has" is, of a ConfigMap that somebody has deleted or
// taken the marks from, what recall finds.
func Choose(config *configv1.AppConfig, observed Observed) Choice {
	found, kept := observed.current(config), observed.revisions(config)
	current := found
	if found.Revision == 0 {
		current = recall(config, observed, kept)
	}
	choice := Choice{Highest: highestOf(current, kept), Marks: mark(current, observed.users(config))}
	choice.render(config, observed)
	if choice.Problem == "" {
		choice.Rendered = numberOf(choice.Hash, current, kept)
	} else if config.Spec.Revision == nil || hashOf(*config.Spec.Revision, current, kept) == "" {
		return choice
	}
	choice.pick(config, observed, current, kept)
	choice.Read, choice.IsLost = choice.source(config, found, kept)
	return choice
}

// isBarred tells that nothing can be chosen, for the spec renders nothing, and spec.revision names nothing else.
func (c *Choice) isBarred() bool { return c.Problem != "" && c.Chosen == 0 }

// render has what the spec renders for its environment.
func (c *Choice) render(config *configv1.AppConfig, observed Observed) {
	environment, problem := EnvironmentIn(config, observed.Labels)
	c.Environment = environment
	if problem != nil {
		c.Problem = problem.Error()
		return
	}
	rendering := observed.Rendering
	if rendering == nil {
		rendering = new(RenderingIn(config, environment))
	}
	c.Content, c.Hash, c.Problem = rendering.Content, rendering.Hash, rendering.Problem
}

// recall is what a ConfigMap had that is gone, or that has lost its marks, while revisions are kept: who deletes it by hand
// neither approves a content, nor opens a window, nor has a failure forgotten. The marks are those of the status that the AppConfig had
// when it was read. It is written in each pass anyway, so that they cost no further write, as they would on the revisions' ConfigMaps,
// which are made before there is anything to mark. Where there is no status either, as after a restore from a backup, pods tell what they
// run, and the first rollout that fails again is marked again.
//
// The content is the one that status tells of; else the newest that pods were started with and that did not fail; else the
// last good one; else the newest.
func recall(config *configv1.AppConfig, observed Observed, kept []Revision) Current {
	current := observed.current(config)
	if len(kept) == 0 {
		return current
	}
	told := config.Status
	current.LastGood = max(current.LastGood, told.LastGood)
	for _, revision := range told.Revisions {
		if revision.State == configv1.RevisionFailed && !slices.Contains(current.Failed, revision.Revision) {
			current.Failed = append(current.Failed, revision.Revision)
		}
	}
	slices.Sort(current.Failed)
	if len(current.Failed) > 0 && current.Failure == "" {
		current.Failure = "its pods did not come up"
	}
	users := observed.users(config)
	isRun := func(r Revision) bool {
		return !slices.Contains(current.Failed, r.Number) && slices.ContainsFunc(users, func(u User) bool { return u.Hash == r.Hash })
	}
	had := kept[0]
	for _, is := range []func(Revision) bool{
		func(r Revision) bool { return r.Number == told.Revision && r.Hash == told.Hash },
		isRun,
		func(r Revision) bool { return r.Number == current.LastGood },
	} {
		if at := slices.IndexFunc(kept, is); at >= 0 {
			had = kept[at]
			break
		}
	}
	current.Revision, current.Hash = had.Number, had.Hash
	current.Highest = max(current.Highest, told.LastGood, told.Revision)
	for _, revision := range told.Revisions {
		current.Highest = max(current.Highest, revision.Revision)
	}
	return current
}

// HashOf is the hash of a content.
func HashOf(content map[string]string) string {
	hashes := make(map[string]string, len(content))
	for key, value := range content {
		hashes[key] = workload.HashKey([]byte(value))
	}
	return workload.HashAll(hashes)
}

// highestOf is the highest number that a revision is known to have or to have had.
func highestOf(current Current, kept []Revision) int64 {
	highest := current.Highest
	for _, revision := range kept {
		highest = max(highest, revision.Number)
	}
	return highest
}

// numberOf is the number of the revision with a hash, or of the one to be made: numbers are not used twice.
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

// mark is what there is to remember of the rollout of what the ConfigMap has: it went well once all pods that use it run
// it, and it failed if a workload that was restarted for it does not come up. A revision that was good once does not fail
// any more by what becomes of its pods later.
func mark(current Current, users []User) Marks {
	marks := Marks{LastGood: current.LastGood, Failed: slices.Clone(current.Failed), Failure: current.Failure}
	if !current.Exists || current.Holds != current.Hash || current.Revision == 0 {
		return marks
	}
	isGood := len(users) > 0
	var down []string
	for _, user := range users {
		runs := user.Hash == current.Hash
		isGood = isGood && runs && user.State == workload.UpToDate
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

// hashOf is the hash of a revision that is kept, or that the ConfigMap has; empty for another.
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

// pick is the table of Choose.
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

// source names the ConfigMap to read the chosen content from; empty where it is at hand, or nothing is to be written, or it is
// lost.
func (c *Choice) source(config *configv1.AppConfig, current Current, kept []Revision) (name string, isLost bool) {
	isKept := slices.ContainsFunc(kept, func(r Revision) bool { return r.Number == c.Chosen })
	switch {
	case c.ChosenHash == c.Hash:
		return "", false
	case isKept && c.isSettled(current):
		return "", false
	case isKept:
		return RevisionName(config, c.Chosen), false
	case current.Holds == c.ChosenHash:
		return ConfigMapName(config), false
	default:
		return "", true
	}
}

// isSettled tells whether the ConfigMap is as it should be.
func (c *Choice) isSettled(current Current) bool {
	return current.Exists && current.Holds == c.ChosenHash && current.Hash == c.ChosenHash && current.Revision == c.Chosen &&
		current.LastGood == c.Marks.LastGood && slices.Equal(current.Failed, c.Marks.Failed) && current.Failure == c.Marks.Failure
}
