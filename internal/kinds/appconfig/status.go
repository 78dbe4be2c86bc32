package appconfig

import (
	"fmt"
	"slices"
	"time"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

const (
	// maxWorkloads limits how many workloads a status lists.
	maxWorkloads = 100
	// lookBehind is how soon to compute the status again while workloads are compared with an earlier
	// content: the events of that cache do not reach this controller.
	lookBehind = time.Second
)

// Status returns the status of a defaulted AppConfig, given what was observed and what apply did,
// and when to requeue without an event (0: never). It does not read the previous status.
func Status(config *configv1.AppConfig, observed Observed, choice Choice, result plan.Result) (configv1.AppConfigStatus, time.Duration) {
	has := after(config, observed, choice, result)
	status := configv1.AppConfigStatus{
		ObservedGeneration: config.Generation,
		Environment:        string(choice.Environment),
		Revision:           has.Revision,
		Hash:               has.Hash,
		LastGood:           has.LastGood,
	}
	if has.Exists {
		status.ConfigMap = config.ConfigMapName()
	}
	if choice.Pending != "" && choice.Problem == "" && choice.Hash != has.Hash && observed.Older == "" {
		status.Pending = &configv1.PendingContent{Hash: choice.Hash, Reason: choice.Pending}
	}
	users := observed.users(config)
	if observed.Older != "" {
		users = nil // they use the other AppConfig
	}
	for _, user := range users {
		status.Workloads = append(status.Workloads, workloadStatus(user, has, observed.revisions(config)))
	}
	for _, of := range status.Workloads {
		status.Pods += of.Pods
		status.UpdatedPods += of.UpdatedPods
	}
	status.PodSummary = fmt.Sprintf("%d/%d", status.UpdatedPods, status.Pods)
	status.Workloads = status.Workloads[:min(len(status.Workloads), maxWorkloads)]
	status.Revisions = revisionStatuses(config, observed, choice, has, users)
	about := &subject{config: config, observed: observed, choice: choice, result: result, has: has, users: observed.users(config)}
	status.Conditions = about.conditions(observed.missing(config), observed.notGranted(config))
	status.Phase = summary.Phase(status.Conditions)
	_, look := observed.Suspects(config)
	if has.isBehind {
		look = requeue.Sooner(look, lookBehind)
	}
	return status, requeue.Sooner(requeueAfter(observed, choice), look)
}

// after returns the ConfigMap as apply left it.
func after(config *configv1.AppConfig, observed Observed, choice Choice, result plan.Result) stored {
	has := stored{Current: observed.current(config)}
	if has.Revision == 0 && observed.Older == "" {
		// It lost its annotations, and could not be written yet: the next reconcile finds the marks in
		// the status again.
		has.LastGood, has.Failed = choice.Marks.LastGood, choice.Marks.Failed
	}
	isWritten := slices.ContainsFunc(result.Changes, func(change plan.Change) bool {
		return change.Ref == ref(config, config.ConfigMapName()) && change.Operation != plan.Deleted
	})
	if isWritten {
		has.justChanged = choice.ChosenHash != has.Holds
		has.Exists, has.Revision, has.Hash, has.Holds = true, choice.Chosen, choice.ChosenHash, choice.ChosenHash
		has.LastGood, has.Failed = choice.Marks.LastGood, choice.Marks.Failed
	}
	if !has.justChanged && has.Exists && observed.Older == "" {
		has.isBehind = observed.isBehind(config, has.Holds)
		has.justChanged = has.isBehind
	}
	return has
}

// stored is the ConfigMap after a reconcile.
type stored struct {
	Current
	// justChanged reports that what is known about workloads is older than the content, because this
	// reconcile or the one before changed it. isBehind reports the latter.
	justChanged, isBehind bool
}

// states translates the states of package workload.
var states = map[workload.State]string{
	workload.UpToDate: configv1.WorkloadUpToDate, workload.Rolling: configv1.WorkloadRolling,
	workload.Waiting: configv1.WorkloadWaiting, workload.Left: configv1.WorkloadWaiting, workload.Failed: configv1.WorkloadFailed,
}

func workloadStatus(user User, has stored, revisions []Revision) configv1.WorkloadStatus {
	status := configv1.WorkloadStatus{
		Kind: user.Ref.Kind, Name: user.Ref.Name, State: states[user.State], Pods: user.Pods, Message: user.Message,
		Revision: revisionOf(user.Hash, has, revisions),
	}
	if user.Reverted {
		status.Revision = 0 // not known: the stamp is of the restart
	}
	if has.justChanged && user.Hash != has.Hash {
		status.State, status.Message = configv1.WorkloadWaiting, "the new content is written: this workload gets it next"
	}
	if user.Hash == has.Hash {
		status.UpdatedPods = user.running()
	}
	return status
}

// running returns how many pods run the content that the newest were started with. Pods are not
// counted individually: those of an earlier template count for the content before, and so do all
// whose template was changed back.
func (u User) running() int32 {
	if u.Reverted {
		return 0
	}
	if u.State == workload.UpToDate || !u.Restarted {
		return u.Pods
	}
	return min(u.Updated, u.Pods)
}

func revisionOf(hash string, has stored, revisions []Revision) int64 {
	if hash == "" {
		return 0
	}
	if hash == has.Hash {
		return has.Revision
	}
	for _, revision := range revisions {
		if revision.Hash == hash {
			return revision.Number
		}
	}
	return 0
}

// revisionStatuses returns the revisions as the next reconcile will find them: with the one that
// was just created, and without those that were pruned.
func revisionStatuses(config *configv1.AppConfig, observed Observed, choice Choice, has stored, users []User) []configv1.RevisionStatus {
	if observed.Older != "" {
		return nil
	}
	revisions := observed.revisions(config)
	if !choice.isBarred() {
		revisions = keptRevisions(config, observed, choice)
	}
	if has.Exists && !slices.ContainsFunc(revisions, func(r Revision) bool { return r.Number == has.Revision }) && has.Revision > 0 {
		revisions = append([]Revision{{Number: has.Revision, Hash: has.Hash, ConfigMap: revisionName(config, has.Revision)}}, revisions...)
		slices.SortStableFunc(revisions, func(a, b Revision) int { return int(b.Number - a.Number) })
	}
	var all []configv1.RevisionStatus
	for _, revision := range revisions {
		status := configv1.RevisionStatus{Revision: revision.Number, Hash: revision.Hash, ConfigMap: revision.ConfigMap,
			State: configv1.RevisionOld}
		switch {
		case revision.Number == has.Revision:
			status.State = configv1.RevisionCurrent
		case slices.Contains(has.Failed, revision.Number):
			status.State = configv1.RevisionFailed
		case revision.Number == has.LastGood:
			status.State = configv1.RevisionGood
		}
		for _, user := range users {
			if user.Hash == revision.Hash {
				status.Pods += user.running()
			}
			if user.Was == revision.Hash && user.Was != user.Hash {
				status.Pods += user.Pods - user.running()
			}
		}
		all = append(all, status)
	}
	return all
}

// requeueAfter returns after how long the decision or the status changes with time alone.
func requeueAfter(observed Observed, choice Choice) time.Duration {
	after := observed.Plan.RequeueAfter
	if waits := observed.WindowChanges; choice.Pending == configv1.ReasonOutsideWindow && waits > 0 && (after == 0 || waits < after) {
		after = waits
	}
	return after
}
