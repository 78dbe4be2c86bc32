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
	"k8s.io/apimachinery/pkg/types"
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

// Patch applies patches side by side, and waits until the cache shows them: the next reconcile must
// not start from the state before. A failed patch does not prevent the others.
//
// The result says, by object, which were written, refused, or failed otherwise. failures are the
// errors of the latter, in the order of the patches. An object that was written, but that the cache
// does not show in time, is among both. written is called for each written object, concurrently:
// with the index of its patch, and with the object as the cache shows it; nil if it does not.
func (a *Applier) Patch(ctx context.Context, manager string, patches []plan.Patch,
	written func(index int, object *metav1.PartialObjectMetadata, shown plan.Object)) (result plan.Result, failures []error) {
	objects, errs := make([]*metav1.PartialObjectMetadata, len(patches)), make([]error, len(patches))
	var group errgroup.Group
	group.SetLimit(maxPatches)
	for i := range patches {
		group.Go(func() error {
			var shown plan.Object
			if objects[i], shown, errs[i] = a.patch(ctx, manager, &patches[i]); objects[i] != nil {
				written(i, objects[i], shown)
			}
			return nil
		})
	}
	_ = group.Wait() // each failure is in errs
	result.Unwritten = map[plan.Ref]string{}
	for i := range patches {
		ref, err := patches[i].Ref, errs[i]
		if objects[i] != nil {
			result.Patched = append(result.Patched, ref)
		}
		switch errclass.Of(err) {
		case errclass.None, errclass.Gone:
		case errclass.Blocked:
			if result.Refused == nil {
				result.Refused = map[plan.Ref]string{}
			}
			result.Refused[ref] = errclass.Sentence(err)
		default:
			failures = append(failures, fmt.Errorf("patching %s: %w", ref, err))
			result.Unwritten[ref] = errclass.Sentence(err)
		}
	}
	return result, failures
}

// patchAll applies the patches of a plan. Failures are returned together if no patch succeeded and
// the API server did not answer; otherwise they are recorded in the result, because they concern
// those objects alone.
func (r *run) patchAll(ctx context.Context, patches []plan.Patch) error {
	done, failures := r.Patch(ctx, r.manager, patches, func(i int, object *metav1.PartialObjectMetadata, shown plan.Object) {
		patch := &patches[i]
		if r.Recorder != nil && patch.Reason != "" && (patch.IsDone == nil || shown != nil && patch.IsDone(shown)) {
			r.Recorder.Eventf(object, nil, corev1.EventTypeNormal, patch.Reason, "Reconcile", "%s", patch.Message)
		}
	})
	r.result.Patched, r.result.Refused = done.Patched, done.Refused
	err := errors.Join(failures...)
	if err == nil || errclass.IsShutdown(err) || len(done.Patched) == 0 && slices.ContainsFunc(failures, isNoAnswer) {
		return err
	}
	r.result.Unwritten = done.Unwritten
	return nil
}

// isNoAnswer reports whether an error is about the API server or its load, and says nothing about
// the object.
func isNoAnswer(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}

// patch applies one patch. It returns the written object, also if the cache then lags, and the
// object that the cache shows. An object that is gone or was replaced needs no patch; the watch
// reports it.
func (a *Applier) patch(ctx context.Context, manager string, patch *plan.Patch) (*metav1.PartialObjectMetadata, plan.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, patchLimit)
	defer cancel()
	kind := schema.FromAPIVersionAndKind(patch.APIVersion, patch.Ref.Kind)
	known, err := a.Children.Scheme.New(kind)
	if err != nil {
		return nil, nil, fmt.Errorf("finding the kind of an object: %w", err)
	}
	cached, isObject := known.(plan.Object)
	if !isObject {
		return nil, nil, fmt.Errorf("%s is not the kind of an object", kind)
	}
	cached.SetNamespace(patch.Ref.Namespace)
	cached.SetName(patch.Ref.Name)
	form, body, err := patch.Body()
	if err != nil {
		return nil, nil, fmt.Errorf("composing the patch: %w", err)
	}
	written := metadataOf(patch.Ref, patch.APIVersion, patch.UID)
	err = a.Client.Patch(ctx, written, client.RawPatch(form, body), client.FieldOwner(manager))
	switch {
	case apierrors.IsNotFound(err), isOtherObject(err):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	}
	if err := children.Await(ctx, a.Children.Cached, cached, written.GetResourceVersion()); err != nil {
		return written, nil, err
	}
	return written, cached, nil
}

// metadataOf returns what writes and events need of an object.
func metadataOf(ref plan.Ref, apiVersion string, uid types.UID) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name, UID: uid}}
	object.SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, ref.Kind))
	return object
}

// recordWarnings records the warnings of a plan as events.
func (r *run) recordWarnings(warnings []plan.Warning) {
	if r.Recorder == nil {
		return
	}
	for i := range warnings {
		warning := &warnings[i]
		about := metadataOf(warning.Ref, warning.APIVersion, warning.UID)
		r.Recorder.Eventf(about, nil, corev1.EventTypeWarning, warning.Reason, "Reconcile", "%s", warning.Message)
	}
}
