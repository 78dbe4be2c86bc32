package injector

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/injection"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
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

// Observed is what was read for one Instrumentation, and what follows from it.
type Observed struct {
	identity injection.Identity
	// agent is nil if it is being deleted, or is invalid.
	agent *injection.Agent
	seen  []injection.ObservedWorkload
	now   time.Time
	// decision is made here already: without webhooks it says which workloads have to be read whole.
	decision injection.Decision
	// bodies are, without webhooks, the patches of those that are written.
	bodies map[int][]byte
}

// kind brings one of the kinds to the loop. It has no children.
type kind[T Object] struct {
	reader *Reader
	clock  clock.PassiveClock
	// definition is that by which webhooks admit the kind, too.
	definition admission.Kind[T]
	// isDirect tells that there are no webhooks.
	isDirect bool
}

// New is an empty object.
func (k kind[T]) New() T { return k.definition.New() }

// Admit fills in defaults and validates.
func (k kind[T]) Admit(object T) error {
	k.definition.Default(object)
	if problems := k.definition.Validate(object); len(problems) > 0 {
		return errclass.InvalidSpecError{Err: problems.ToAggregate()}
	}
	return nil
}

// Observe reads, from the cache, the workloads that may be concerned and all Instrumentations that may be. Asked of the API server are the
// pods of workloads that are being replaced or try a revision; and without webhooks, whole, the workloads that are to be changed.
func (k kind[T]) Observe(ctx context.Context, object T) (Observed, error) {
	observed := Observed{identity: injection.IdentityOf(object), now: k.clock.Now()}
	agents, err := k.reader.agents(ctx, object.GetNamespace())
	if err != nil {
		return observed, err
	}
	if object.GetDeletionTimestamp() == nil {
		agent := k.reader.agent(object)
		if agent.Invalid != nil {
			return observed, nil //nolint:nilerr // Admit has refused it: nothing is done, and that is said
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
	observed.seen = make([]injection.ObservedWorkload, len(found))
	for i := range found {
		observed.seen[i] = found[i].ObservedWorkload
	}
	assessment := injection.Assess(observed.identity, observed.agent, observed.seen, observed.now)
	if err := k.reader.watch(ctx, assessment.Watched(), found); err != nil {
		return observed, err
	}
	if observed.decision, err = assessment.Decide(); err != nil {
		return observed, nil //nolint:nilerr // the window is invalid, and Admit has refused it
	}
	k.reader.skipRepeated(&observed, observed.now)
	if k.isDirect {
		observed.bodies, err = k.reader.bodies(ctx, &observed)
	}
	return observed, err
}

// Children are none.
func (kind[T]) Children(Observed) plan.Children { return nil }

// Desired are the patches of workloads; or, where the canaries of a revision have failed, one that notes that on the Instrumentation; or one that
// takes such a note off, with the patches that do not wait for it.
func (k kind[T]) Desired(object T, observed Observed) plan.Plan {
	var patches []plan.Patch
	switch {
	case observed.decision.Failure != "":
		return plan.Plan{Patches: []plan.Patch{recordFailurePatch(object, &observed)}}
	case observed.decision.ClearsFailure:
		patches = append(patches, clearFailurePatch(object, &observed))
	}
	for _, write := range observed.decision.Writes {
		if patch, changes := k.patchOf(&observed, write); changes {
			patches = append(patches, patch)
		}
	}
	return plan.Plan{Patches: patches, Warnings: warnings(object, &observed)}
}

// patchOf is the patch of one workload; and whether it changes anything.
func (k kind[T]) patchOf(observed *Observed, write injection.GrantWrite) (plan.Patch, bool) {
	one := &observed.seen[write.Index]
	patch := plan.Patch{
		Ref: refOf(one), APIVersion: "apps/v1", UID: one.UID, Reason: write.Reason, Message: write.Message,
		IsDone: observed.isDone(write.Index),
		Type:   types.MergePatchType, Body: annotate(one.UID, injection.GrantKey(observed.identity.ID()), write.Grant),
	}
	if !k.isDirect {
		return patch, true
	}
	body, changes := observed.bodies[write.Index]
	patch.Type, patch.Body = types.JSONPatchType, body
	return patch, changes
}

// isDone tells of a workload that was written whether it is as it should be now: the webhook may not have answered.
func (o *Observed) isDone(index int) func(plan.Object) bool {
	return func(written plan.Object) bool {
		object, isObject := written.(client.Object)
		if !isObject || observe.PodTemplate(object) == nil {
			return false
		}
		one := o.seen[index]
		one.Workload = *workloadOf(object, one.Kind, observe.PodTemplate(object))
		return injection.IsSettled(o.identity, o.agent, one, o.now)
	}
}

// warnings are about workloads that have failed since the status was written.
func warnings(object Object, observed *Observed) []plan.Warning {
	facts := injection.StatusInput{Agent: observed.agent, Seen: observed.seen, Decision: observed.decision}
	var found []plan.Warning
	for _, failed := range facts.News(object.GetStatus().Workloads) {
		one := &observed.seen[failed.Index]
		found = append(found, plan.Warning{
			Ref: refOf(one), APIVersion: "apps/v1", UID: one.UID, Reason: failed.Status.Reason,
			Message: fmt.Sprintf("%s: %s", observed.identity, failed.Status.Message),
		})
	}
	return found
}

// maxFailure bounds what is noted of a failure, in bytes.
const maxFailure = 1000

// failed notes on an Instrumentation that the canaries of its revision have failed. Only then is anything undone.
func recordFailurePatch(object client.Object, observed *Observed) plan.Patch {
	text := observed.agent.Revision + " " + observed.decision.Failure
	text = strings.ToValidUTF8(text[:min(len(text), maxFailure)], "")
	return patchSelf(object, observed, annotation(object.GetUID(), instrv1.AnnotationFailed, text))
}

// forgiven takes the note of a failure off, before anything is injected for which it does not count: whoever comes after, also after a crash in between,
// finds it only where it counts. It fails where the Instrumentation has changed meanwhile: there may be canaries again.
func clearFailurePatch(object client.Object, observed *Observed) plan.Patch {
	// Strings and null can be encoded.
	body, _ := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": object.GetUID(), "resourceVersion": object.GetResourceVersion(), "annotations": map[string]any{instrv1.AnnotationFailed: nil},
	}})
	return patchSelf(object, observed, body)
}

// patchSelf is a merge patch of the Instrumentation itself.
func patchSelf(object client.Object, observed *Observed, body []byte) plan.Patch {
	return plan.Patch{
		Ref:        selfRef(object, observed),
		APIVersion: instrv1.GroupVersion.String(), UID: object.GetUID(), Type: types.MergePatchType, Body: body,
	}
}

// annotate is a merge patch that writes a grant, or takes it off. It fails where the object is not the one that was looked at.
func annotate(uid types.UID, key string, grant *injection.Grant) []byte {
	if grant == nil {
		return annotation(uid, key, nil)
	}
	return annotation(uid, key, grant.String())
}

func annotation(uid types.UID, key string, value any) []byte {
	// Strings and null can be encoded.
	body, _ := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "annotations": map[string]any{key: value}}})
	return body
}

// selfRef names the Instrumentation itself.
func selfRef(object client.Object, observed *Observed) plan.Ref {
	return plan.Ref{Group: instrv1.GroupVersion.Group, Kind: observed.identity.Kind, Namespace: object.GetNamespace(), Name: object.GetName()}
}

func refOf(one *injection.ObservedWorkload) plan.Ref {
	return plan.Ref{Group: appsv1.GroupName, Kind: one.Kind, Namespace: one.Namespace, Name: one.Name}
}

// Report sets the status.
func (k kind[T]) Report(into, object T, observed Observed, result plan.Result) time.Duration {
	facts := injection.StatusInput{
		Identity: observed.identity, Agent: observed.agent, Generation: into.GetGeneration(), Deleting: object.GetDeletionTimestamp() != nil,
		Seen: observed.seen, Decision: observed.decision, Refused: map[int]string{}, Unmade: map[int]string{}, Failure: result.Failure,
	}
	for i := range observed.seen {
		if refusal, isRefused := result.Refused[refOf(&observed.seen[i])]; isRefused {
			facts.Refused[i] = refusal
		}
		if failure, isUnmade := result.Unwritten[refOf(&observed.seen[i])]; isUnmade {
			facts.Unmade[i] = failure
		}
	}
	if failure := noteFailure(object, &observed, result); failure != nil {
		facts.Failure = failure
	}
	status := facts.Status()
	first := into.GetFirstReadyTime()
	*into.GetStatus() = status
	into.SetFirstReadyTime(first)
	return observed.decision.RequeueAfter
}

// noteFailure says that what is to be noted on the Instrumentation, or taken off it, could not be written; nil if nothing was in the way.
func noteFailure(object client.Object, observed *Observed, result plan.Result) *plan.Failure {
	self := selfRef(object, observed)
	why, isRefused := result.Refused[self]
	if unmade, isUnmade := result.Unwritten[self]; isUnmade {
		why = "it is tried again: " + unmade
	} else if !isRefused {
		return nil
	}
	message := "that its canaries failed can't be noted on it, and so nothing is undone: "
	if observed.decision.ClearsFailure {
		message = "the annotation " + instrv1.AnnotationFailed +
			", which does not count any more, can't be taken off it, and so no workload gets the agent: "
	}
	return &plan.Failure{Reason: api.ReasonRefused, Message: message + why}
}

// Trouble names the conditions that are bad news when True.
func (kind[T]) ProblemConditions() []string {
	return []string{instrv1.ConditionDegraded, instrv1.ConditionStalled, instrv1.ConditionOverruled}
}

// Released tells that nothing of it is left in any workload. A grant that was all that was left is gone, unless that was refused.
func (kind[T]) Released(_ T, observed Observed, result plan.Result) bool {
	return observed.decision.Leaving == 0 && len(result.Refused)+len(result.Unwritten) == 0
}
