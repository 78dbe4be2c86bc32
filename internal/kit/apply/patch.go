package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

const (
	// patchLimit limits the time of one patch, including the wait for the cache, so that a webhook
	// that does not answer does not delay the other patches.
	patchLimit = 10 * time.Second
	// maxPatches limits the patches of a plan that run in parallel. With more, the API server of a
	// small cluster is not faster.
	maxPatches = 16
)

// patchAll applies the patches of a plan. A failed patch does not prevent the others. Refusals are
// recorded in the result. Other errors are returned together, in the order of the plan, if no patch
// succeeded and the API server did not answer; otherwise they are recorded in the result, because
// they concern those objects alone.
func (r *run) patchAll(ctx context.Context, patches []plan.Patch) error {
	applied, failures := make([]bool, len(patches)), make([]error, len(patches))
	var group errgroup.Group
	group.SetLimit(maxPatches)
	for i := range patches {
		group.Go(func() error {
			applied[i], failures[i] = r.patch(ctx, &patches[i])
			return nil
		})
	}
	_ = group.Wait() // each failure is in failures
	var transient []error
	unwritten := map[plan.Ref]string{}
	for i := range patches {
		if applied[i] {
			r.result.Patched = append(r.result.Patched, patches[i].Ref)
		}
		switch errclass.Of(failures[i]) {
		case errclass.None, errclass.Gone:
		case errclass.Blocked:
			if r.result.Refused == nil {
				r.result.Refused = map[plan.Ref]string{}
			}
			r.result.Refused[patches[i].Ref] = errclass.Sentence(failures[i])
		default:
			transient = append(transient, fmt.Errorf("patching %s: %w", patches[i].Ref, failures[i]))
			unwritten[patches[i].Ref] = errclass.Sentence(failures[i])
		}
	}
	err := errors.Join(transient...)
	if err == nil || errclass.IsShutdown(err) || len(r.result.Patched) == 0 && slices.ContainsFunc(transient, isNoAnswer) {
		return err
	}
	r.result.Unwritten = unwritten
	return nil
}

// isNoAnswer reports whether an error is about the API server or its load, and says nothing about
// the object.
func isNoAnswer(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}

// patch applies one patch, and waits until the cache shows it. It reports whether the patch was
// applied, also if the cache then lags. An object that is gone or was replaced needs no patch; the
// watch reports it.
func (r *run) patch(ctx context.Context, patch *plan.Patch) (applied bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patchLimit)
	defer cancel()
	kind := schema.FromAPIVersionAndKind(patch.APIVersion, patch.Ref.Kind)
	known, err := r.Children.Scheme.New(kind)
	if err != nil {
		return false, fmt.Errorf("finding the kind of an object: %w", err)
	}
	cached, isObject := known.(plan.Object)
	if !isObject {
		return false, fmt.Errorf("%s is not the kind of an object", kind)
	}
	cached.SetNamespace(patch.Ref.Namespace)
	cached.SetName(patch.Ref.Name)
	written := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: patch.Ref.Namespace, Name: patch.Ref.Name,
		UID: patch.UID}}
	written.SetGroupVersionKind(kind)
	err = r.Client.Patch(ctx, written, client.RawPatch(patch.Type, patch.Body), client.FieldOwner(r.manager))
	switch {
	case apierrors.IsNotFound(err), isOtherObject(err):
		return false, nil
	case err != nil:
		return false, err
	}
	if err := children.Await(ctx, r.Children.Cached, cached, written.GetResourceVersion()); err != nil {
		return true, err
	}
	if r.Recorder != nil && patch.Reason != "" && (patch.IsDone == nil || patch.IsDone(cached)) {
		r.Recorder.Eventf(written, nil, corev1.EventTypeNormal, patch.Reason, "Reconcile", "%s", patch.Message)
	}
	return true, nil
}

// recordWarnings records the warnings of a plan as events.
func (r *run) recordWarnings(warnings []plan.Warning) {
	if r.Recorder == nil {
		return
	}
	for i := range warnings {
		warning := &warnings[i]
		about := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: warning.Ref.Namespace, Name: warning.Ref.Name,
			UID: warning.UID}}
		about.SetGroupVersionKind(schema.FromAPIVersionAndKind(warning.APIVersion, warning.Ref.Kind))
		r.Recorder.Eventf(about, nil, corev1.EventTypeWarning, warning.Reason, "Reconcile", "%s", warning.Message)
	}
}
