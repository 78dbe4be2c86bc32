package instrumentationcontroller

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/agentrollout"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// Object is an Instrumentation or a ClusterInstrumentation.
type Object interface {
	reconciler.Object
	injection.Object
	GetStatus() *instrv1.InstrumentationStatus
}

// Observed is what was read for one Instrumentation.
type Observed struct {
	identity injection.Identity
	// agent is nil if the object is being deleted or is invalid.
	agent *injection.Agent
	seen  []agentrollout.ObservedWorkload
	now   time.Time
	// assessment compares seen with what the agent wants; nil if the object is invalid.
	assessment *agentrollout.Assessment
	// direct are, without webhooks, the patches of the workloads to write, by index.
	direct map[int]plan.Patch
}

// kind implements the reconciler's interface for one of the two kinds. It has no children.
type kind[T Object] struct {
	reader *Reader
	clock  clock.PassiveClock
	// isDirect reports that there are no webhooks.
	isDirect bool
}

// Admit fills in defaults and validates.
func (kind[T]) Admit(object T) error {
	instrumentation.Default(object)
	return errclass.InvalidSpec(instrumentation.Validate(object))
}

// Observe reads the workloads that may be concerned, and all Instrumentations that may be, from the
// cache. From the API server it reads the pods of canaries and of workloads that are being
// replaced.
func (k kind[T]) Observe(ctx context.Context, object T) (Observed, error) {
	observed := Observed{identity: injection.IdentityOf(object), now: k.clock.Now()}
	agents, err := k.reader.agents(ctx, object.GetNamespace())
	if err != nil {
		return observed, err
	}
	if object.GetDeletionTimestamp() == nil {
		agent := k.reader.agent(object)
		if agent.Invalid != nil {
			return observed, nil //nolint:nilerr // Admit refuses it: nothing is done, and the status says so
		}
		observed.agent = agent
	}
	found, err := k.reader.workloads(ctx, object.GetNamespace())
	if err != nil {
		return observed, err
	}
	if err := k.reader.settle(ctx, found, agents); err != nil {
		return observed, err
	}
	observed.seen = make([]agentrollout.ObservedWorkload, len(found))
	for i := range found {
		observed.seen[i] = found[i].ObservedWorkload
	}
	observed.assessment = agentrollout.Assess(observed.identity, observed.agent, observed.seen, observed.now)
	observed.assessment.LastRemovals = k.reader.lastRemovals(&observed)
	return observed, k.reader.watch(ctx, observed.assessment.Watched(), found)
}

// Decide returns which workloads to write to; nothing for an invalid object.
func (kind[T]) Decide(_ T, observed Observed) agentrollout.Decision {
	if observed.assessment == nil {
		return agentrollout.Decision{}
	}
	decided, err := observed.assessment.Decide()
	if err != nil {
		return agentrollout.Decision{} // the window is invalid, and Admit refuses it
	}
	return decided
}

// Complete reads, without webhooks, the workloads to be changed, in full.
func (k kind[T]) Complete(ctx context.Context, _ T, observed *Observed, decided agentrollout.Decision) (bool, error) {
	if !k.isDirect {
		return false, nil
	}
	var err error
	observed.direct, err = k.reader.directPatches(ctx, observed, decided.Writes)
	return false, err
}

// Act remembers the removals that are about to be written.
func (k kind[T]) Act(_ context.Context, _, _ T, observed Observed, decided *agentrollout.Decision) error {
	k.reader.remember(observed.identity, decided.Removals)
	return nil
}

// Desired returns the patches of workloads. If the canaries of a revision have failed, it returns
// only a patch that records this on the Instrumentation. If a recorded failure is to be cleared, it
// returns that patch and those that need not wait for it.
func (k kind[T]) Desired(object T, observed Observed, decided agentrollout.Decision) plan.Plan {
	var patches []plan.Patch
	switch {
	case decided.Failure != "":
		return plan.Plan{Patches: []plan.Patch{recordFailurePatch(object, &observed, decided.Failure)}}
	case decided.ClearsFailure:
		patches = append(patches, clearFailurePatch(object, &observed))
	}
	for _, write := range decided.Writes {
		if patch, changes := k.patchOf(&observed, write); changes {
			patches = append(patches, patch)
		}
	}
	return plan.Plan{Patches: patches, Warnings: warnings(object, &observed, decided)}
}

// patchOf returns the patch of one workload, and whether it changes anything.
func (k kind[T]) patchOf(observed *Observed, write agentrollout.GrantWrite) (plan.Patch, bool) {
	one := &observed.seen[write.Index]
	patch, changes := observed.direct[write.Index]
	patch.Ref, patch.APIVersion, patch.UID, patch.IsDone = refOf(one), "apps/v1", one.UID, observed.isDone(write.Index)
	patch.Reason, patch.Message = write.Reason, write.Message
	if !k.isDirect {
		var grant any // nil deletes it
		if write.Grant != nil {
			grant = write.Grant.String()
		}
		patch.Merge, changes = plan.Annotation(injection.GrantKey(observed.identity.ID()), grant), true
	}
	return patch, changes
}

// isDone returns a function that reports whether a written workload has its desired state: the
// webhook may not have answered.
func (o *Observed) isDone(index int) func(plan.Object) bool {
	return func(written plan.Object) bool {
		object, isObject := written.(client.Object)
		if !isObject || observe.PodTemplate(object) == nil {
			return false
		}
		one := o.seen[index]
		one.Workload = *workloadOf(object, one.Kind, observe.PodTemplate(object))
		return agentrollout.IsSettled(o.identity, o.agent, one, o.now)
	}
}

// warnings returns warnings about workloads that have failed since the status was written.
func warnings(object Object, observed *Observed, decided agentrollout.Decision) []plan.Warning {
	input := agentrollout.StatusInput{Identity: observed.identity, Agent: observed.agent, Seen: observed.seen, Decision: decided}
	var found []plan.Warning
	for _, failed := range input.News(object.GetStatus().Workloads) {
		one := &observed.seen[failed.Index]
		found = append(found, plan.Warning{
			Ref: refOf(one), APIVersion: "apps/v1", UID: one.UID, Reason: failed.Status.Reason,
			Message: fmt.Sprintf("%s: %s", observed.identity, failed.Status.Message),
		})
	}
	return found
}

// maxFailure limits the text recorded for a failure, in bytes.
const maxFailure = 1000

// recordFailurePatch returns the patch that records on an Instrumentation that the canaries of its
// revision have failed. Nothing is undone before it is written.
func recordFailurePatch(object client.Object, observed *Observed, failure string) plan.Patch {
	text := observed.agent.Revision + " " + failure
	text = strings.ToValidUTF8(text[:min(len(text), maxFailure)], "")
	return patchSelf(object, observed, text)
}

// clearFailurePatch returns the patch that deletes the record of a failure, before anything is
// injected for which it does not count. So any later reconcile, also after a crash, finds a record
// only if it counts. The patch fails if the Instrumentation has changed meanwhile, because its spec
// may have canaries again.
func clearFailurePatch(object client.Object, observed *Observed) plan.Patch {
	patch := patchSelf(object, observed, nil)
	patch.Version = object.GetResourceVersion()
	return patch
}

// patchSelf returns a patch that records a failure on the Instrumentation; nil deletes the record.
func patchSelf(object client.Object, observed *Observed, failure any) plan.Patch {
	return plan.Patch{
		Ref: selfRef(object, observed), APIVersion: instrv1.GroupVersion.String(), UID: object.GetUID(),
		Merge: plan.Annotation(instrv1.AnnotationFailed, failure),
	}
}

// selfRef names the Instrumentation itself.
func selfRef(object client.Object, observed *Observed) plan.Ref {
	return plan.Ref{Group: instrv1.GroupVersion.Group, Kind: observed.identity.Kind, Namespace: object.GetNamespace(), Name: object.GetName()}
}

func refOf(one *agentrollout.ObservedWorkload) plan.Ref {
	return plan.Ref{Group: appsv1.GroupName, Kind: one.Kind, Namespace: one.Namespace, Name: one.Name}
}

// Report sets the status.
func (k kind[T]) Report(into, object T, observed Observed, decided agentrollout.Decision, result plan.Result) time.Duration {
	input := agentrollout.StatusInput{
		Identity: observed.identity, Agent: observed.agent, Generation: into.GetGeneration(), Deleting: object.GetDeletionTimestamp() != nil,
		Seen: observed.seen, Decision: decided, Refused: map[int]string{}, Unmade: map[int]string{}, Failure: result.Failure,
	}
	for i := range observed.seen {
		if refusal, isRefused := result.Refused[refOf(&observed.seen[i])]; isRefused {
			input.Refused[i] = refusal
		}
		if failure, isUnmade := result.Unmade(refOf(&observed.seen[i])); isUnmade {
			input.Unmade[i] = failure
		}
	}
	if failure := noteFailure(object, &observed, decided, result); failure != nil {
		input.Failure = failure
	}
	status := input.Status()
	first := into.GetFirstReadyTime()
	*into.GetStatus() = status
	into.SetFirstReadyTime(first)
	return decided.RequeueAfter
}

// noteFailure returns a Failure if the record of a failure could not be written or deleted; nil
// otherwise.
func noteFailure(object client.Object, observed *Observed, decided agentrollout.Decision, result plan.Result) *plan.Failure {
	self := selfRef(object, observed)
	why, isRefused := result.Refused[self]
	if unmade, isUnmade := result.Unmade(self); isUnmade {
		why = "retrying: " + unmade
	} else if !isRefused {
		return nil
	}
	message := "the failure of its canaries can't be recorded on it, so nothing is undone: "
	if decided.ClearsFailure {
		message = "the annotation " + instrv1.AnnotationFailed +
			", which no longer applies, can't be removed from it, so no workload gets the agent: "
	}
	return &plan.Failure{Reason: api.ReasonRefused, Message: message + why}
}

// Released reports whether the agent is removed from all workloads. Grants that were left over are
// deleted too, unless the API server refused that or someone else puts them back.
func (kind[T]) Released(_ T, _ Observed, decided agentrollout.Decision, result plan.Result) bool {
	return decided.Leaving == 0 && result.ArePatchesMade()
}
