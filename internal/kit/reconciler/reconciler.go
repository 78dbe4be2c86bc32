// Package reconciler is the shape of every controller:
//
//	get -> admit -> observe -> decide -> act -> desired -> apply -> status
//
// Admission has two halves: the kind's own rules and, once it is observed what runs, the policies
// that govern the object (see Policy).
//
// A kind supplies the steps that differ, as a Kind. The reconciler runs them in order, classifies
// errors, writes the status once at the end and records events.
//
//	step      who                  what it may do
//	observe   Kind.Observe         read
//	decide    Kind.Decide          nothing: it is pure; its value says what is to be done
//	          Completing.Complete  read what the decision names in addition; then decide again
//	act       Acting.Act           carry out what is no child: evict a pod, for one
//	desired   Kind.Desired         nothing: it is pure; the children and patches that should exist
//	apply     kit/apply            write them
//	status    Kind.Report          nothing: it is pure; the reconciler writes the status
//
// What a kind does to objects that are not its children has to be undone when its object is
// deleted. Such a kind has a finalizer, and the steps run for every state of an object. The kind's
// Desired distinguishes these states:
//
//	the object                       what happens
//	exists                           it gets the finalizer first, then all steps run
//	is being deleted, with it        all steps run, whatever admission and policies say; once
//	                                   everything is undone (see Finalizing) the finalizer is
//	                                   removed, and no status is written
//	is being deleted, without it     the status says what it waits for, and nothing else is done
//	does not exist                   get to apply run for an object that looks as if it were being
//	                                   deleted, so that also what an object left whose finalizer was
//	                                   removed by hand is undone
package reconciler

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/apply"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
	"github.com/mainstay-platform/mainstay/internal/kit/trace"
)

// Object is an object of one of our kinds: a Kubernetes object with conditions and a phase, and
// with the time when it was Ready first.
type Object interface {
	client.Object
	GetConditions() []metav1.Condition
	SetConditions(conditions []metav1.Condition)
	GetFirstReadyTime() *metav1.Time
	SetFirstReadyTime(first *metav1.Time)
	GetPhase() string
	SetPhase(phase string)
	SetObservedGeneration(generation int64)
}

// Counting is implemented by an object whose status counts what is desired, and how much of it is
// ready: pods or workloads.
type Counting interface {
	GetCounts() (desired, ready int32)
}

// Kind is the steps of one kind. T is a pointer type, O what is observed, D what is decided.
//
// Admit, Decide, Desired and Report are pure: no calls, clock, randomness or globals.
type Kind[T Object, O, D any] interface {
	// Admit fills in defaults and validates, in memory, as the webhooks do. The defaults are never
	// written back to the spec.
	Admit(object T) error
	// Observe reads everything that the decision needs, once. A kind with Decisive children
	// derives nothing that decides from them here, but in Decide and Desired: the reconciler
	// adds to the observed children those that the cache did not have, after Observe has
	// returned.
	Observe(ctx context.Context, object T) (O, error)
	// Decide returns what is to be done. It is called for refused objects too, for their status.
	Decide(object T, observed O) D
	// Desired returns the children and patches that should exist.
	Desired(object T, observed O, decided D) plan.Plan
	// Report sets the status of into, which is the object as it is stored, from the admitted object,
	// what was observed and decided, and what apply did. Of conditions it sets type, status, reason
	// and message only. It does not read the existing status. It returns after how long to reconcile
	// again without an event; 0 means never.
	Report(into, object T, observed O, decided D, result plan.Result) time.Duration
}

// Completing is implemented by a kind whose decision names objects to read in addition, because
// reading all of them each time would cost too much.
type Completing[T Object, O, D any] interface {
	// Complete reads them into observed, and reports whether the decision has to be made again.
	Complete(ctx context.Context, object T, observed *O, decided D) (bool, error)
}

// Acting is implemented by a kind that does something other than writing children and patches.
type Acting[T Object, O, D any] interface {
	// Act carries the decision out and notes in it what became of it. It is not called for refused
	// objects. stored is the object as the cache has it; Act keeps it so
	// when it writes the object itself. An error ends the reconcile, which is retried with backoff
	// and reports nothing: what the status should report belongs into the decision.
	Act(ctx context.Context, stored, object T, observed O, decided *D) error
}

// Telling is implemented by a kind that has events for changes that no condition shows.
type Telling[T Object] interface {
	// Tell returns the events for the change of an object's status from before to after, which has
	// been written.
	Tell(before, after T) []conditions.Event
}

// Finalizing is implemented by a kind with a finalizer that knows itself when everything is undone.
type Finalizing[T Object, O, D any] interface {
	// Released reports whether everything is undone, for an object that is being deleted, after its
	// plan was applied without an error. For a kind without this method everything is, unless a
	// patch was refused, not written, or left out for a while.
	Released(object T, observed O, decided D, result plan.Result) bool
}

// Reconciler runs the steps of one kind.
type Reconciler[T Object, O, D any] struct {
	// Name of the kind in lower case: "webapp". The field manager is derived from it.
	Name string
	// New returns an empty object.
	New  func() T
	Kind Kind[T, O, D]
	// Children returns the children that the observation found, for apply; nil for a kind that has
	// none.
	Children func(observed O) plan.Children
	// ProblemConditions are the condition types that are bad news when True: a change to True is a
	// warning event.
	ProblemConditions []string
	Client            client.Client
	Applier           *apply.Applier
	Recorder          events.EventRecorder
	Clock             clock.PassiveClock
	// Policy is how policies govern the kind; nil if none does.
	Policy *Policy[T, O]
	// Finalizer keeps an object that is being deleted until what was done for it elsewhere is undone;
	// empty if the kind does nothing but to its children. With one, the steps also run for objects
	// that do not exist: New with a namespace, a name and a deletion time, without UID or version.
	// The plan then has no children, and the reported status is not stored.
	Finalizer string

	unseen sync.Map // see awaitWrite
}

// Reconcile makes one object what its spec says, or reports why it can't. It is idempotent and
// level-triggered. Deletion is left to owner references, and to the finalizer if there is one.
func (r *Reconciler[T, O, D]) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	ctx, span := trace.Start(ctx, "Reconcile")
	stored, isOurs, err := r.read(ctx, request.NamespacedName)
	if err != nil {
		unread := r.begin(ctx, r.absent(request.NamespacedName), span)
		unread.returned(err)
		unread.end(ctx)
		return ctrl.Result{}, err
	}
	if !isOurs {
		span.End(nil)
		return ctrl.Result{}, nil
	}
	done := r.begin(ctx, stored, span)
	defer done.end(ctx)
	result, err := r.reconcile(ctx, stored, done)
	done.returned(err)
	return result, r.recordFailure(ctx, stored, err)
}

// read waits until the cache shows the last write of an object's status, and reads the object.
func (r *Reconciler[T, O, D]) read(ctx context.Context, key client.ObjectKey) (stored T, isOurs bool, err error) {
	if err := r.awaitWrite(ctx, key); err != nil {
		return stored, false, err
	}
	return r.get(ctx, key)
}

// get reads an object, and reports whether there is anything to do for it.
func (r *Reconciler[T, O, D]) get(ctx context.Context, key client.ObjectKey) (stored T, isOurs bool, err error) {
	stored = r.New()
	_, step := trace.Start(ctx, "get")
	err = client.IgnoreNotFound(r.Client.Get(ctx, key, stored))
	step.End(err)
	switch {
	case err != nil:
		return stored, false, err
	case isAbsent(stored):
		return r.absent(key), r.Finalizer != "", nil
	default:
		return stored, true, nil
	}
}

// run is an object on its way through the steps.
type run[T Object, O, D any] struct {
	// object is the admitted object.
	object   T
	observed O
	decided  D
	review   review
	// err is why not all of the plan was carried out.
	err    error
	result plan.Result
}

// reconcile runs the steps from the finalizer to the status, and notes in done what they did.
func (r *Reconciler[T, O, D]) reconcile(ctx context.Context, stored T, done *stats) (ctrl.Result, error) {
	if r.isLeft(stored) {
		return ctrl.Result{}, r.reportDeletion(ctx, stored, done)
	}
	if err := r.ensureFinalizer(ctx, stored, done); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // it is gone, and the watch shows that
	}
	run, vanished, err := r.carryOut(ctx, stored, nil)
	for tries := 1; err == nil && errors.Is(run.err, apply.ErrTaken) && tries < maxTries; tries++ {
		earlier := run.result.Changes
		run, vanished, err = r.carryOut(ctx, stored, r.Children(run.observed))
		if err == nil {
			run.result.Changes = append(earlier, run.result.Changes...)
		}
	}
	if err != nil || vanished {
		return ctrl.Result{}, err
	}
	done.applied(run.result, run.err)
	if errclass.Of(run.err) == errclass.Gone || apierrors.IsConflict(run.err) {
		return ctrl.Result{}, run.err
	}
	if r.isReleased(stored, run) {
		return ctrl.Result{}, r.removeFinalizer(ctx, stored, done)
	}
	return r.report(ctx, stored, run, done)
}

// maxTries is how often a plan is made in one reconcile: again, if the name of a decisive child is
// taken. No kind has more than two such children.
const maxTries = 3

// carryOut runs the steps from admission to apply. The run's error is why not all of the plan was
// carried out; a returned error means that there is nothing to report. known are children that an
// earlier try has read from the API server.
func (r *Reconciler[T, O, D]) carryOut(ctx context.Context, stored T, known plan.Children) (run *run[T, O, D], vanished bool, err error) {
	run, err = r.observe(ctx, stored, known)
	if err == nil {
		err = r.decide(ctx, run)
	}
	if err == nil && run.err == nil {
		err = r.act(ctx, stored, run)
	}
	if err == nil && run.err == nil {
		vanished, err = r.apply(ctx, stored, run)
	}
	return run, vanished, err
}

// observe admits the object and reads the present state, with known in addition. The run's error is
// that of admission; a returned error means that nothing is known. The content of an object that is
// being deleted does not matter.
//
// known is added after Observe has returned: what Observe derives from children does not take it
// into account. See Child.Decisive.
func (r *Reconciler[T, O, D]) observe(ctx context.Context, stored T, known plan.Children) (*run[T, O, D], error) {
	run := &run[T, O, D]{object: stored.DeepCopyObject().(T)}
	_, step := trace.Start(ctx, "admit")
	admission := r.Kind.Admit(run.object)
	step.End(admission)
	within, step := trace.Start(ctx, "observe")
	var err error
	run.observed, err = r.Kind.Observe(within, run.object)
	step.End(err)
	if err == nil && r.Children != nil {
		observed := r.Children(run.observed)
		for ref, child := range known {
			if child.IsLive {
				observed[ref] = child
			}
		}
	}
	if err != nil || stored.GetDeletionTimestamp() != nil {
		return run, err
	}
	within, step = trace.Start(ctx, "policy")
	run.review, err = r.Policy.review(within, run.object, run.observed)
	step.End(cmp.Or(err, run.review.refusal))
	run.err = cmp.Or(admission, run.review.refusal)
	return run, err
}

// decide decides, and decides again where what the first decision named has been read.
func (r *Reconciler[T, O, D]) decide(ctx context.Context, run *run[T, O, D]) error {
	within, step := trace.Start(ctx, "decide")
	run.decided = r.Kind.Decide(run.object, run.observed)
	kind, completes := r.Kind.(Completing[T, O, D])
	if !completes {
		step.End(nil)
		return nil
	}
	again, err := kind.Complete(within, run.object, &run.observed, run.decided)
	if again && err == nil {
		run.decided = r.Kind.Decide(run.object, run.observed)
	}
	step.End(err)
	return err
}

// act carries out what is neither a child nor a patch.
func (r *Reconciler[T, O, D]) act(ctx context.Context, stored T, run *run[T, O, D]) error {
	kind, acts := r.Kind.(Acting[T, O, D])
	if !acts {
		return nil
	}
	within, step := trace.Start(ctx, "act")
	err := kind.Act(within, stored, run.object, run.observed, &run.decided)
	if err == nil && stored.GetGeneration() != run.object.GetGeneration() {
		err = apierrors.NewConflict(schema.GroupResource{Resource: r.Name}, stored.GetName(), errors.New("its spec has changed meanwhile"))
	}
	step.End(err)
	return err
}

// apply makes the children and patches what they should be. It notes in run what that did, except
// for an object that has vanished.
func (r *Reconciler[T, O, D]) apply(ctx context.Context, stored T, run *run[T, O, D]) (vanished bool, err error) {
	_, step := trace.Start(ctx, "desired")
	wanted := r.Kind.Desired(run.object, run.observed, run.decided)
	var found plan.Children
	if r.Children != nil {
		found = r.Children(run.observed)
	}
	step.End(nil)
	if vanished, err := r.hasVanished(ctx, stored, wanted, found); err != nil || vanished {
		return vanished, err
	}
	within, step := trace.Start(ctx, "apply")
	run.result, run.err = r.Applier.Apply(within, run.object, naming.Manager(r.Name), wanted, found)
	step.End(run.err)
	for _, change := range run.result.Changes {
		log.FromContext(ctx).Info("Changed a child", "child", change.Ref.String(), "operation", change.Operation)
	}
	r.recordReverts(run.object, run.result)
	for _, ref := range run.result.Patched {
		log.FromContext(ctx).Info("Patched an object", "object", ref.String())
	}
	return false, nil
}

// report has the kind set the status, and writes it. An object that does not exist has no status:
// only the time until the next reconcile counts.
func (r *Reconciler[T, O, D]) report(ctx context.Context, stored T, run *run[T, O, D], done *stats) (ctrl.Result, error) {
	run.result.Failure = cmp.Or(errclass.Failure(run.err), slowedFailure(run.result))
	reported := stored.DeepCopyObject().(T)
	asked := r.Kind.Report(reported, run.object, run.observed, run.decided, run.result)
	done.reported = reported
	if isAbsent(stored) {
		if errclass.Of(run.err) == errclass.Transient {
			return ctrl.Result{}, run.err
		}
		return ctrl.Result{RequeueAfter: requeueAfter(run.result, asked, errclass.SlowPoll())}, nil
	}
	if stored.GetDeletionTimestamp() != nil {
		reported.SetPhase(string(api.PhaseDeleting))
	}
	reported.SetConditions(append(reported.GetConditions(), run.review.conditions...))
	within, step := trace.Start(ctx, "status")
	written := r.writeStatus(within, stored, reported, done)
	step.End(written)
	if errclass.Of(run.err) == errclass.Transient {
		return ctrl.Result{}, run.err // it is retried anyway: an error of the status matters less
	}
	if written != nil {
		return ctrl.Result{}, written
	}
	return ctrl.Result{RequeueAfter: requeueAfter(run.result, asked, r.sinceReadyChanged(reported))}, nil
}

const (
	// firstPoll is the time until the first retry after a refusal.
	firstPoll = 2 * time.Second
	// terminatingPoll is the time until the next check whether a child that is being deleted is gone,
	// in case no watch shows its deletion (it may never have had our labels).
	terminatingPoll = 5 * time.Second
	// conflictPoll is the time until the next check whether a foreign object is gone, or consents:
	// there is no watch of objects that are not ours. It costs one GET.
	conflictPoll = 10 * time.Second
)

// sinceReadyChanged returns for how long the condition Ready has had its status.
func (r *Reconciler[T, O, D]) sinceReadyChanged(object T) time.Duration {
	for _, condition := range object.GetConditions() {
		if condition.Type == conditions.Ready {
			return r.Clock.Since(condition.LastTransitionTime.Time)
		}
	}
	return 0
}

// requeueAfter returns after how long to reconcile again without an event: never (0), unless the
// kind asks for it or something that is not watched is in the way. A refusal, also of a patch, is
// retried after as long as the object has not been ready, at least 2 s, so that each wait is about
// twice the one before, and then about every minute: rights that were just granted take a second to
// be known.
func requeueAfter(result plan.Result, asked, since time.Duration) time.Duration {
	wait := requeue.Sooner(asked, result.SlowedFor)
	if len(result.Refused)+len(result.Unwritten) > 0 || (result.Failure != nil && result.Failure.Retry) {
		wait = requeue.Sooner(wait, min(errclass.SlowPoll(), max(firstPoll, since)))
	}
	if len(result.Conflicts) > 0 {
		wait = requeue.Sooner(wait, conflictPoll)
	}
	if len(result.Terminating) > 0 {
		wait = requeue.Sooner(wait, terminatingPoll)
	}
	return wait
}

// recordFailure records an event for an error that is retried with backoff. It returns the error,
// or nil if there is nothing left to work on. An object that is gone, or is being deleted, gets no
// event: its deletion is often the cause.
func (r *Reconciler[T, O, D]) recordFailure(ctx context.Context, object T, err error) error {
	switch {
	case err == nil, errclass.IsShutdown(err), errclass.Of(err) == errclass.Gone:
		return nil
	case apierrors.IsConflict(err), isAbsent(object), r.isGone(ctx, object):
		// Another client wrote in between, and its write triggers a reconcile: not worth an event.
		return err
	}
	r.Recorder.Eventf(object, nil, corev1.EventTypeWarning, api.ReasonReconcileFailed, "Reconcile", "%s", errclass.Sentence(err))
	return err
}

// isGone reports whether the cache shows that an object was deleted, or is being deleted, since it
// was read.
func (r *Reconciler[T, O, D]) isGone(ctx context.Context, object T) bool {
	now := r.New()
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(object), now)
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	return now.GetUID() != object.GetUID() || (now.GetDeletionTimestamp() != nil && object.GetDeletionTimestamp() == nil)
}

// writeStatus completes the conditions of reported, stores its status if it differs from that of
// stored, and records events and metrics for what changed.
func (r *Reconciler[T, O, D]) writeStatus(ctx context.Context, stored, reported T, done *stats) error {
	before, now := stored.GetConditions(), metav1.NewTime(r.Clock.Now())
	merged := conditions.Merge(before, reported.GetConditions(), stored.GetGeneration(), now)
	reported.SetConditions(merged)
	reported.SetFirstReadyTime(firstReady(stored, merged, now))
	if equality.Semantic.DeepEqual(stored, reported) && !r.isUncertain(stored) {
		return nil
	}
	wrote, err := patchStatus(ctx, r.Client, naming.Manager(r.Name), stored, reported)
	if err != nil {
		r.noteWrite(reported, err)
	}
	if err != nil || !wrote {
		return err
	}
	done.wroteStatus(stored, reported)
	for _, event := range conditions.Events(before, merged, append(slices.Clone(r.ProblemConditions), api.ConditionPolicyViolation)...) {
		r.Recorder.Eventf(reported, nil, event.Type, event.Reason, "Reconcile", "%s", event.Note)
	}
	if kind, tells := r.Kind.(Telling[T]); tells {
		for _, event := range kind.Tell(stored, reported) {
			r.Recorder.Eventf(reported, nil, event.Type, event.Reason, "Reconcile", "%s", event.Note)
		}
	}
	if r.isLeft(stored) {
		return nil // it may be gone before the cache shows the write
	}
	r.noteWrite(reported, nil)
	return r.awaitWrite(ctx, client.ObjectKeyFromObject(reported))
}

// firstReady returns when the object was Ready for the first time: the recorded time, or now. An
// object that an earlier release left without a record gets one when Ready ends, the last time at
// which it is known.
func firstReady(stored Object, merged []metav1.Condition, now metav1.Time) *metav1.Time {
	before, after := meta.FindStatusCondition(stored.GetConditions(), conditions.Ready), meta.IsStatusConditionTrue(merged, conditions.Ready)
	wasReady := before != nil && before.Status == metav1.ConditionTrue
	switch {
	case stored.GetFirstReadyTime() != nil:
		return stored.GetFirstReadyTime()
	case wasReady && !after:
		return new(before.LastTransitionTime)
	case after && !wasReady:
		return &now
	default:
		return nil
	}
}
