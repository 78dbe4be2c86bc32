// Package errclass decides how to treat an error: whether to retry soon, slowly or not at all, and
// what to report to the user. No other package decides that.
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
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/workqueue"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// Class is how an error is treated.
type Class string

const (
	// None: no error.
	None Class = "none"
	// Transient: the network, load of the API server, a version conflict. Retried with backoff.
	// Readiness is unknown until then.
	Transient Class = "transient"
	// Blocked: the API server refuses, and something else must change first: a quota, a policy, a
	// permission, a missing kind. Reported in the status. Retried after an event, and by a slow
	// poll.
	Blocked Class = "blocked"
	// Terminal: only a change of the object itself helps. Reported in the status, not retried.
	Terminal Class = "terminal"
	// Gone: the namespace or the object is being deleted. There is nothing to do or report.
	Gone Class = "gone"
)

// InvalidSpecError is the error for a spec that can't be carried out.
type InvalidSpecError struct{ Err error }

// InvalidSpec returns an InvalidSpecError for the problems of a spec; nil if there are none.
func InvalidSpec(problems field.ErrorList) error {
	if len(problems) == 0 {
		return nil
	}
	return InvalidSpecError{conditions.FirstProblems(problems).ToAggregate()}
}

// Error returns the text of the wrapped error.
func (e InvalidSpecError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e InvalidSpecError) Unwrap() error { return e.Err }

// PolicyError is the error for a spec that violates policies.
type PolicyError struct{ Violations string }

// Error returns the violations, with the accepted values.
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
// A 422 may come from the API server's own validation, or from a policy, which may change. So it is
// retried slowly.
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

// Failure returns what an error reports to the user; nil for none, or if nothing is to be reported.
// The text of a refusal is the API server's. The text of a transient error is constant, because
// network errors differ from one attempt to the next. An event has the details.
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
		return &plan.Failure{Reason: api.ReasonReconcileFailed, Message: "a change could not be made and is retried; events have the reason",
			Transient: true}
	default:
		return nil
	}
}

// isFieldError reports whether an error is the API server's own validation, which names fields, and
// not a policy's denial.
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
	// firstRetry and longestRetry limit the exponential backoff of transient errors: 1 s, 2 s, 4 s
	// ... 5 min. A second is longer than a leader change of etcd. Beyond five minutes, doubling
	// saves nothing that matters.
	firstRetry   = time.Second
	longestRetry = 5 * time.Minute
	// slowPoll is the interval at which blocked work is retried without an event. People change
	// quotas and policies, so minutes are soon enough.
	slowPoll = time.Minute
	// jitter is the largest fraction by which a wait is extended, so that objects that failed
	// together are not retried together.
	jitter = 0.2
)

// SlowPoll returns the time until blocked work is retried, about a minute.
func SlowPoll() time.Duration { return spread(slowPoll) }

// RateLimiter returns the rate limiter of a work queue, with the backoff of transient errors.
func RateLimiter[T comparable]() workqueue.TypedRateLimiter[T] {
	return &jittered[T]{workqueue.NewTypedItemExponentialFailureRateLimiter[T](firstRetry, longestRetry)}
}

// jittered extends each wait by a random fraction of it.
type jittered[T comparable] struct {
	workqueue.TypedRateLimiter[T]
}

// When returns the wait of the wrapped limiter, extended by up to a fifth.
func (j *jittered[T]) When(item T) time.Duration { return spread(j.TypedRateLimiter.When(item)) }

// spread extends a wait by up to jitter of it.
func spread(d time.Duration) time.Duration {
	return d + time.Duration(rand.Float64()*jitter*float64(d)) //nolint:gosec // spreads load, guards nothing
}

// Sentence returns an error as one line for an event, without line breaks.
func Sentence(err error) string {
	return strings.Join(strings.Fields(fmt.Sprint(err)), " ")
}
