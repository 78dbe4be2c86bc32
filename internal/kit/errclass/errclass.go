// Package errclass decides what an error means: whether to try again at once, slowly or not
// at all, and what to tell the user. It is the one place that does.
package errclass

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// Class is how an error is treated.
type Class string

const (
	// None: no error.
	None Class = "none"
	// Transient: the network, the API server's load, a conflict of versions. Tried again with
	// backoff; until then readiness is unknown.
	Transient Class = "transient"
	// Blocked: the API server says no, and something else must change first (quota, policy,
	// permission, a missing kind). Told in status; an event wakes the work, and a slow poll.
	Blocked Class = "blocked"
	// Terminal: only a change of the object itself helps. Told in status, not tried again.
	Terminal Class = "terminal"
	// Gone: the namespace or the object is being deleted. Nothing to do, nothing to tell.
	Gone Class = "gone"
)

// InvalidSpecError is what admission returns for a spec that can't be carried out.
type InvalidSpecError struct{ Err error }

// Error is the wrapped error's text.
func (e InvalidSpecError) Error() string { return e.Err.Error() }

// Unwrap gives the wrapped error.
func (e InvalidSpecError) Unwrap() error { return e.Err }

// PolicyError is what the check of the policies returns for a spec that breaks them.
type PolicyError struct{ Violations string }

// Error says what is broken and what is accepted.
func (e PolicyError) Error() string { return e.Violations }

// Of classifies an error:
//
//	error                                                class
//	nil                                                  none
//	InvalidSpecError, PolicyError                        terminal
//	namespace terminating                                gone
//	400, 401, 403, 413, 422 (validation, quota, policy,
//	  permission), kind not installed                    blocked
//	all else: network, timeouts, 404, 409, 429, 5xx      transient
//
// A 422 may be the API server's own validation or somebody's policy, which may change: so it
// is tried again, slowly.
func Of(err error) Class {
	var invalid InvalidSpecError
	var broken PolicyError
	switch {
	case err == nil:
		return None
	case errors.As(err, &invalid), errors.As(err, &broken):
		return Terminal
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return Gone
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), meta.IsNoMatchError(err),
		apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return Blocked
	default:
		return Transient
	}
}

// Failure is what an error tells the user; nil for none, or if there is nobody to tell. The
// text of a refusal is the API server's. That of a transient error is always the same, for
// errors of the network differ from one try to the next; an event has its text.
func Failure(err error) *plan.Failure {
	switch Of(err) {
	case Terminal:
		if _, ok := errors.AsType[PolicyError](err); ok {
			return &plan.Failure{Reason: api.ReasonPolicyViolation, Message: err.Error(), Stalled: true}
		}
		return &plan.Failure{Reason: api.ReasonInvalidSpec, Message: err.Error(), Stalled: true}
	case Blocked:
		if isFieldError(err) {
			return &plan.Failure{Reason: api.ReasonInvalidSpec, Message: err.Error(), Stalled: true, Retry: true}
		}
		return &plan.Failure{Reason: api.ReasonRefused, Message: err.Error(), Retry: true}
	case Transient:
		return &plan.Failure{Reason: api.ReasonReconcileFailed, Message: "a change could not be made and is tried again; events say why",
			Transient: true}
	default:
		return nil
	}
}

// isFieldError tells the API server's own validation, which names fields, from a policy's denial.
func isFieldError(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool { return cause.Field != "" })
}

// IsShutdown reports whether err only says that the process is stopping.
func IsShutdown(err error) bool { return errors.Is(err, context.Canceled) }

// Backoff bounds, and the spread of the slow poll.
const (
	// firstRetry and longestRetry bound the exponential backoff of transient errors: 1 s,
	// 2 s, 4 s ... 5 min. A second is more than a leader change of etcd takes; after five
	// minutes a further doubling would save nothing that matters.
	firstRetry   = time.Second
	longestRetry = 5 * time.Minute
	// slowPoll is how often blocked work is tried without an event: quotas and policies
	// change by hand, so minutes are soon enough.
	slowPoll = time.Minute
	// jitter is the largest share by which a wait is lengthened, so that many objects that
	// failed together do not come back together.
	jitter = 0.2
)

// SlowPoll is the time until blocked work is tried again, about a minute.
func SlowPoll() time.Duration { return spread(slowPoll) }

// RateLimiter is the backoff of transient errors for a work queue.
func RateLimiter[T comparable]() workqueue.TypedRateLimiter[T] {
	return &jittered[T]{workqueue.NewTypedItemExponentialFailureRateLimiter[T](firstRetry, longestRetry)}
}

// jittered lengthens each wait by a random share of it.
type jittered[T comparable] struct {
	workqueue.TypedRateLimiter[T]
}

// When is the wrapped limiter's answer, lengthened by up to a fifth.
func (j *jittered[T]) When(item T) time.Duration { return spread(j.TypedRateLimiter.When(item)) }

func spread(d time.Duration) time.Duration {
	return d + time.Duration(rand.Float64()*jitter*float64(d)) //nolint:gosec // spreads load, guards nothing
}

// Sentence makes one line out of an error for an event: no line breaks.
func Sentence(err error) string {
	return strings.Join(strings.Fields(fmt.Sprint(err)), " ")
}
