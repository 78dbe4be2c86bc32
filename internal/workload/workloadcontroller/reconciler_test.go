package workloadcontroller

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// TestResult: the result for the metrics, and when a namespace is reconciled again.
func TestResult(t *testing.T) {
	forbidden := apierrors.NewForbidden(corev1.Resource("replicasets"), "", errors.New("no right"))
	for name, test := range map[string]struct {
		pass            result
		want            metrics.Result
		atLeast, atMost time.Duration
	}{
		"nothing to do":    {want: metrics.Unchanged},
		"written":          {pass: result{writes: 1}, want: metrics.Changed},
		"something is due": {pass: result{due: time.Hour}, want: metrics.Unchanged, atLeast: time.Hour, atMost: time.Hour},
		"refused": {pass: result{writes: 2, refused: true}, want: metrics.Blocked, atLeast: time.Minute,
			atMost: 72 * time.Second},
		"refused, something due soon": {pass: result{writes: 1, refused: true, due: time.Second}, want: metrics.Blocked, atLeast: time.Second,
			atMost: time.Second},
		"refused, something due late": {pass: result{writes: 1, refused: true, due: time.Hour}, want: metrics.Blocked, atLeast: time.Minute,
			atMost: 72 * time.Second},
		"no network": {pass: result{writes: 1, err: errors.New("no route"), due: time.Second}, want: metrics.Transient,
			atLeast: time.Second, atMost: time.Second},
		"it may not be read": {pass: result{err: forbidden}, want: metrics.Blocked},
		"another client wrote in between": {pass: result{err: apierrors.NewConflict(corev1.Resource("pods"), "web", nil)},
			want: metrics.Conflict},
		"this process ends": {pass: result{err: context.Canceled}, want: metrics.Stopped},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.pass.result(); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			if got := test.pass.requeueAfter(); got < test.atLeast || got > test.atMost {
				t.Errorf("after %s, want %s to %s", got, test.atLeast, test.atMost)
			}
		})
	}
}

// TestPatchOf: the stamp and the restart are one patch. Without a restart the pod template is not
// part of it.
func TestPatchOf(t *testing.T) {
	target := &workload.Target{Ref: workload.TargetRef{Kind: "Deployment", Name: "web"}, UID: "1"}
	for want, patch := range map[string]workload.TargetPatch{
		`{"metadata":{"annotations":{"config.mainstay.dev/observed":null},"uid":"1"}}`: {},
		`{"metadata":{"annotations":{"config.mainstay.dev/observed":"{}"},"uid":"1"},` +
			`"spec":{"template":{"metadata":{"annotations":{"config.mainstay.dev/restarted-for":"flags=1#1"}}}}}`: {Observed: "{}",
			RestartedFor: "flags=1#1"},
	} {
		made := patchOf("shop", target, patch)
		if form, body, err := made.Body(); err != nil || form != types.MergePatchType || string(body) != want {
			t.Errorf("got %s %s, %v; want %s", form, body, err, want)
		}
		if made.Ref != (plan.Ref{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}) || made.APIVersion != "apps/v1" {
			t.Errorf("it is for %s, %s", made.APIVersion, made.Ref)
		}
	}
}
