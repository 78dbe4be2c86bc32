package errclass

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

var resource = schema.GroupResource{Group: "apps", Resource: "deployments"}

func terminatingNamespace() error {
	err := apierrors.NewForbidden(resource, "shop", errors.New("the namespace is being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return err
}

func TestOf(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want Class
	}{
		"no error":                     {nil, "none"},
		"an invalid spec":              {InvalidSpecError{errors.New("x")}, "terminal"},
		"a child that is invalid":      {apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "shop", nil), "blocked"},
		"a bad request":                {apierrors.NewBadRequest("x"), "blocked"},
		"a request that is too large":  {apierrors.NewRequestEntityTooLargeError("x"), "blocked"},
		"a terminating namespace":      {terminatingNamespace(), "gone"},
		"a quota, policy or right":     {apierrors.NewForbidden(resource, "shop", errors.New("exceeded quota")), "blocked"},
		"a token that is not accepted": {apierrors.NewUnauthorized("x"), "blocked"},
		"a kind that is not installed": {&meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "HTTPRoute"}}, "blocked"},
		"something that is not found":  {apierrors.NewNotFound(resource, "shop"), "transient"},
		"a conflict of versions":       {apierrors.NewConflict(resource, "shop", errors.New("x")), "transient"},
		"a server that is busy":        {apierrors.NewTooManyRequests("x", 1), "transient"},
		"a server that fails":          {apierrors.NewInternalError(errors.New("x")), "transient"},
		"a timeout":                    {context.DeadlineExceeded, "transient"},
		"the network":                  {errors.New("connection refused"), "transient"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Of(test.err); got != test.want {
				t.Errorf("got %s", got)
			}
			if test.err == nil {
				return
			}
			if got := Of(fmt.Errorf("applying it: %w", test.err)); got != test.want {
				t.Errorf("wrapped: got %s", got)
			}
		})
	}
}

func TestFailure(t *testing.T) {
	invalid := InvalidSpecError{errors.New("spec.image: no")}
	quota := fmt.Errorf("applying Deployment web/shop: %w", apierrors.NewForbidden(resource, "shop", errors.New("exceeded quota: none")))
	kind := schema.GroupKind{Kind: "Deployment"}
	child := apierrors.NewInvalid(kind, "shop", field.ErrorList{field.Required(field.NewPath("spec"), "")})
	policy := apierrors.NewInvalid(kind, "shop", nil)
	policy.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: "ValidatingAdmissionPolicy 'x' denied request"}}
	for name, test := range map[string]struct {
		err  error
		want *plan.Failure
	}{
		"no error is no failure":          {nil, nil},
		"a terminating namespace is none": {terminatingNamespace(), nil},
		"an invalid spec stalls":          {invalid, &plan.Failure{Reason: "InvalidSpec", Message: "spec.image: no", Stalled: true}},
		"a refused field of a child stalls, and is retried": {
			child, &plan.Failure{Reason: "InvalidSpec", Message: `Deployment "shop" is invalid: spec: Required value`, Stalled: true, Retry: true},
		},
		"a policy's denial is retried": {policy, &plan.Failure{Reason: "Refused", Message: `Deployment "shop" is invalid`, Retry: true}},
		"transient errors have one message": {
			errors.New("read tcp 10.0.0.1:40123: connection refused"),
			&plan.Failure{Reason: "ReconcileFailed", Message: "a change could not be made and is retried; events have the reason", Transient: true},
		},
		"a refusal is reported literally": {quota, &plan.Failure{Reason: "Refused", Retry: true, Message: `applying Deployment web/shop: deployments.apps "shop" is forbidden: exceeded quota: none`}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Failure(test.err)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestIsShutdown(t *testing.T) {
	if !IsShutdown(fmt.Errorf("reading: %w", context.Canceled)) {
		t.Error("a cancelled context is the end of the process")
	}
	if IsShutdown(context.DeadlineExceeded) {
		t.Error("a timeout is not")
	}
}

// TestRateLimiter: the waits double from 1 s up to 5 min, each extended by a fifth at most.
func TestRateLimiter(t *testing.T) {
	seconds := []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300}
	differs := false
	for range 50 {
		limiter := RateLimiter[string]()
		for i, want := range seconds {
			got := limiter.When("a").Seconds()
			if got < want || got > want*1.2 {
				t.Fatalf("wait %d: %.2f s, want %.0f to %.0f s", i, got, want, want*1.2)
			}
			differs = differs || got > want*1.01
		}
		if got := limiter.When("b").Seconds(); got > 1.2 {
			t.Errorf("another object waits for the first: %.2f s", got)
		}
		limiter.Forget("a")
		if got := limiter.When("a").Seconds(); got > 1.2 {
			t.Errorf("a success does not reset the backoff: %.2f s", got)
		}
	}
	if !differs {
		t.Error("the waits are equal: many objects would be retried together")
	}
}

func TestSlowPoll(t *testing.T) {
	for range 100 {
		if got := SlowPoll(); got < 60*time.Second || got > 72*time.Second {
			t.Fatalf("got %s", got)
		}
	}
}

func TestSentence(t *testing.T) {
	if got := Sentence(errors.New("a\n\tb   c")); got != "a b c" {
		t.Errorf("got %q", got)
	}
}
