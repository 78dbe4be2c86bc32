// Package reconciler is the shape of every controller:
//
//	get -> admit -> observe -> desired -> apply -> status
//
// Admission has two halves: the kind's own rules, and, once it is observed what runs, the
// policies that govern the object (see Policy).
//
// A kind brings the steps that differ, as a Kind; the loop runs them in order, decides what
// an error means, writes status once at the end and tells events.
//
// What a kind does to objects that are not its children has to be undone when its object goes: such a kind has a
// finalizer. Then the steps are run for every state of an object, and the kind's Desired looks at which it is:
//
//	the object                    what is done
//	lives                         the finalizer is put on it first, then as ever
//	is being deleted and has it   as ever, whatever admission and policies say; once all is undone (see Finalizing)
//	                                the finalizer is taken off, and no status is written
//	is being deleted without it   nothing
//	is absent                     get, observe, desired and apply, of one that is as if it were being deleted: what is left
//	                                of an object whose finalizer was taken off by hand is undone, too
package reconciler

import (
	"cmp"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/apply"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/trace"
)

// Object is one of our kinds: a Kubernetes object with conditions, and with the record of when it was
// Ready for the first time.
type Object interface {
	client.Object
	GetConditions() []metav1.Condition
	SetConditions(conditions []metav1.Condition)
	GetFirstReadyTime() *metav1.Time
	SetFirstReadyTime(first *metav1.Time)
}

// Kind is what one kind brings to the loop. T is a pointer type, O the observation.
//
// Admit, Desired and Report are pure: no calls, clock, randomness or globals.
type Kind[T Object, O any] interface {
	// New is an empty object.
	New() T
	// Admit fills in defaults and validates, in memory: the same as the webhooks do.
	// The defaults are never written back to the spec.
	Admit(object T) error
	// Observe reads everything that the decision needs, once.
	Observe(ctx context.Context, object T) (O, error)
	// Children are those that the observation found, for apply.
	Children(observed O) plan.Children
	// Desired is what should exist.
	Desired(object T, observed O) plan.Plan
	// Report sets the status of into, the object as it is stored, from the admitted object,
	// what was observed and what apply did. Of conditions it sets type, status, reason and
	// message only. It does not read the status that is there. It returns after how long
	// to look again without an event; 0 means not at all.
	Report(into, object T, observed O, result plan.Result) time.Duration
	// Trouble names the condition types that are bad news when True.
	ProblemConditions() []string
}

// Finalizing is what a kind with a finalizer may have beside the rest.
type Finalizing[T Object, O any] interface {
	// Released reports whether all is undone, of an object that is being deleted, after its plan was applied without an
	// error. Of a kind without it all is, unless a patch was refused.
	Released(object T, observed O, result plan.Result) bool
}

// Reconciler runs the loop for one kind.
type Reconciler[T Object, O any] struct {
	// Name of the kind in lower case: "webapp". The field manager is derived from it.
	Name     string
	Kind     Kind[T, O]
	Client   client.Client
	Applier  *apply.Applier
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Policy is how policies govern the kind; nil if none does.
	Policy *Policy[T, O]
	// Finalizer keeps an object that is being deleted until what was done for it elsewhere is undone; empty if the kind does
	// nothing but to its children. With one, the kind is asked also about objects that are absent: New with a namespace, a name and a
	// time of deletion, without UID or version. Its plan then has no children, and what it reports is not stored.
	Finalizer string
}

// Reconcile brings one object to what its spec says, or tells why that can't be. It is
// idempotent and level-triggered; deletion is left to owner references, and to the finalizer if there is one.
func (r *Reconciler[T, O]) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	ctx, span := trace.Start(ctx, "Reconcile")
	stored, isOurs, err := r.get(ctx, request.NamespacedName)
	if err != nil || !isOurs {
		span.End(err)
		return ctrl.Result{}, err
	}
	done := r.begin(ctx, stored, span)
	defer done.end(ctx)
	result, err := r.reconcile(ctx, stored, done)
	done.returned(err)
	return result, r.recordFailure(stored, err)
}

// get reads an object, and tells whether there is anything to do for it.
func (r *Reconciler[T, O]) get(ctx context.Context, key client.ObjectKey) (stored T, isOurs bool, err error) {
	stored = r.Kind.New()
	_, step := trace.Start(ctx, "get")
	err = client.IgnoreNotFound(r.Client.Get(ctx, key, stored))
	step.End(err)
	switch {
	case err != nil:
		return stored, false, err
	case isAbsent(stored):
		return r.absent(key), r.Finalizer != "", nil
	default:
		return stored, stored.GetDeletionTimestamp() == nil || r.hasFinalizer(stored), nil
	}
}

// course is an object on its way through the steps.
type run[T Object, O any] struct {
	// object is the admitted one.
	object   T
	observed O
	review   review
	// err is why not all of the plan was carried out.
	err    error
	result plan.Result
}

// bring does what Reconcile says, and notes what it did.
func (r *Reconciler[T, O]) reconcile(ctx context.Context, stored T, done *stats) (ctrl.Result, error) {
	if err := r.ensureFinalizer(ctx, stored, done); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // it has gone, and the watch tells
	}
	course, err := r.observe(ctx, stored)
	if err != nil {
		return ctrl.Result{}, err
	}
	if course.err == nil {
		if vanished, err := r.apply(ctx, stored, course); err != nil || vanished {
			return ctrl.Result{}, err
		}
	}
	done.applied(course.result, course.err)
	if errclass.Of(course.err) == errclass.Gone || apierrors.IsConflict(course.err) {
		return ctrl.Result{}, course.err
	}
	if r.isReleased(stored, course) {
		return ctrl.Result{}, r.removeFinalizer(ctx, stored, done)
	}
	return r.report(ctx, stored, course, done)
}

// observe admits the object and reads what there is. The course's error is that of admission; one that is returned means
// that nothing is known. An object that is being deleted is undone whatever it says.
func (r *Reconciler[T, O]) observe(ctx context.Context, stored T) (*run[T, O], error) {
	course := &run[T, O]{object: stored.DeepCopyObject().(T)}
	_, step := trace.Start(ctx, "admit")
	admission := r.Kind.Admit(course.object)
	step.End(admission)
	within, step := trace.Start(ctx, "observe")
	var err error
	course.observed, err = r.Kind.Observe(within, course.object)
	step.End(err)
	if err != nil || stored.GetDeletionTimestamp() != nil {
		return course, err
	}
	within, step = trace.Start(ctx, "policy")
	course.review, err = r.Policy.review(within, course.object, course.observed)
	step.End(cmp.Or(err, course.review.refusal))
	course.err = cmp.Or(admission, course.review.refusal)
	return course, err
}

// apply decides what should exist and brings it about. It notes in the course what that did, but for an object that has vanished.
func (r *Reconciler[T, O]) apply(ctx context.Context, stored T, course *run[T, O]) (vanished bool, err error) {
	_, step := trace.Start(ctx, "desired")
	wanted, found := r.Kind.Desired(course.object, course.observed), r.Kind.Children(course.observed)
	step.End(nil)
	if vanished, err := r.hasVanished(ctx, stored, wanted, found); err != nil || vanished {
		return vanished, err
	}
	within, step := trace.Start(ctx, "apply")
	course.result, course.err = r.Applier.Apply(within, course.object, naming.Manager(r.Name), wanted, found)
	step.End(course.err)
	for _, change := range course.result.Changes {
		log.FromContext(ctx).Info("Changed a child", "child", change.Ref.String(), "operation", change.Operation)
	}
	for _, ref := range course.result.Patched {
		log.FromContext(ctx).Info("Patched an object", "object", ref.String())
	}
	return false, nil
}

// report has the kind tell, in status, what became of the object. An absent one has none: of what the kind reports only after how
// long to look again counts.
func (r *Reconciler[T, O]) report(ctx context.Context, stored T, course *run[T, O], done *stats) (ctrl.Result, error) {
	course.result.Failure = errclass.Failure(course.err)
	reported := stored.DeepCopyObject().(T)
	lookAgain := r.Kind.Report(reported, course.object, course.observed, course.result)
	if isAbsent(stored) {
		if errclass.Of(course.err) == errclass.Transient {
			return ctrl.Result{}, course.err
		}
		return ctrl.Result{RequeueAfter: requeueAfter(course.result, lookAgain, errclass.SlowPoll())}, nil
	}
	reported.SetConditions(append(reported.GetConditions(), course.review.conditions...))
	within, step := trace.Start(ctx, "status")
	written := r.writeStatus(within, stored, reported, done)
	step.End(written)
	if errclass.Of(course.err) == errclass.Transient {
		return ctrl.Result{}, course.err // it comes back anyway: what became of the status matters less
	}
	if written != nil {
		return ctrl.Result{}, written
	}
	return ctrl.Result{RequeueAfter: requeueAfter(course.result, lookAgain, r.sinceReadyChanged(reported))}, nil
}

const (
	// firstPoll is how soon a refusal is first looked at again.
	firstPoll = 2 * time.Second
	// terminatingPoll is how soon to look whether a child that is being deleted is gone, for
	// the case that no watch sees its deletion (it may never have carried our labels).
	terminatingPoll = 5 * time.Second
	// conflictPoll is how soon to look whether a foreign object is gone, or consents: we
	// do not watch what is not ours. It costs one GET.
	conflictPoll = 10 * time.Second
)

// sinceReadyChanged is for how long Ready has been as it is.
func (r *Reconciler[T, O]) sinceReadyChanged(object T) time.Duration {
	for _, condition := range object.GetConditions() {
		if condition.Type == conditions.Ready {
			return r.Clock.Since(condition.LastTransitionTime.Time)
		}
	}
	return 0
}

// next is after how long to look again without an event: never, unless the kind asks for it
// or something that we do not watch is in the way. A refusal, also of a patch, is looked at again after as long
// as the object has not been ready, 2 s at least, so that each wait is about twice the one before,
// and then about every minute: rights that were just granted take a second to be known.
func requeueAfter(result plan.Result, asked, since time.Duration) time.Duration {
	wait := asked
	sooner := func(than time.Duration) {
		if wait == 0 || than < wait {
			wait = than
		}
	}
	if len(result.Refused)+len(result.Unwritten) > 0 || (result.Failure != nil && result.Failure.Retry) {
		sooner(min(errclass.SlowPoll(), max(firstPoll, since)))
	}
	if len(result.Conflicts) > 0 {
		sooner(conflictPoll)
	}
	if len(result.Terminating) > 0 {
		sooner(terminatingPoll)
	}
	return wait
}

// tell handles an error that is tried again with backoff: an event says why. It returns the
// error, or nil if there is nothing left to work on. Of an absent object there is nobody to tell.
func (r *Reconciler[T, O]) recordFailure(object T, err error) error {
	switch {
	case err == nil, errclass.IsShutdown(err), errclass.Of(err) == errclass.Gone:
		return nil
	case apierrors.IsConflict(err), isAbsent(object):
		// Somebody wrote in between, and their write brings us back: not worth an event.
		return err
	}
	r.Recorder.Eventf(object, nil, corev1.EventTypeWarning, api.ReasonReconcileFailed, "Reconcile", "%s", errclass.Sentence(err))
	return err
}

// writeStatus completes the conditions of reported, stores its status if it differs from
// that of stored, and tells events and metrics about what changed.
func (r *Reconciler[T, O]) writeStatus(ctx context.Context, stored, reported T, done *stats) error {
	before, now := stored.GetConditions(), metav1.NewTime(r.Clock.Now())
	merged := conditions.Merge(before, reported.GetConditions(), stored.GetGeneration(), now)
	reported.SetConditions(merged)
	reported.SetFirstReadyTime(firstReady(stored, merged, now))
	wrote, err := patchStatus(ctx, r.Client, naming.Manager(r.Name), stored, reported)
	if err != nil || !wrote {
		return err
	}
	done.wroteStatus(stored, reported)
	for _, event := range conditions.Events(before, merged, append(r.Kind.ProblemConditions(), api.ConditionPolicyViolation)...) {
		r.Recorder.Eventf(reported, nil, event.Type, event.Reason, "Reconcile", "%s", event.Note)
	}
	return children.Await(ctx, r.Client, stored.DeepCopyObject().(T), reported.GetResourceVersion())
}

// firstReady is when the object was Ready for the first time: what is on record, or now. What an earlier
// release left without a record gets one as long as it can still be told, when Ready ends.
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
