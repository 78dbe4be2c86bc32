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
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
)

const (
	// patchLimit limits the time of one patch, so that a webhook that does not answer does not delay
	// the other patches.
	patchLimit = 10 * time.Second
	// maxPatches limits the patches of a plan that run in parallel. With more, the API server of a
	// small cluster is not faster.
	maxPatches = 16
)

// Patch applies patches side by side. Then it waits until the cache shows them: the next reconcile
// must not start from the state before. A failed patch does not prevent the others.
//
// A patch that has changed its object again and again to the same content, because someone else
// undoes it, is left out for a while: Slowed names the object, and SlowedFor says for how long.
// Contested names the object, and the other field manager, at each later write.
//
// The result says, by object, which were written, refused, or failed otherwise. failures are the
// errors of the latter, in the order of the patches. An object that was written, but that the cache
// does not show in time, is among both. written is called for each written object, in the order of
// the patches, once all are sent, so that what it does delays none of them: with the index of its
// patch, and with the object as the cache shows it; nil if it does not. A process that ends in
// between does not call it.
func (a *Applier) Patch(ctx context.Context, manager string, patches []plan.Patch,
	written func(index int, object *metav1.PartialObjectMetadata, shown plan.Object)) (result plan.Result, failures []error) {
	objects, errs := make([]*metav1.PartialObjectMetadata, len(patches)), make([]error, len(patches))
	others, former := make([]string, len(patches)), make([]string, len(patches))
	var group errgroup.Group
	group.SetLimit(maxPatches)
	for i := range patches {
		if pause := a.slowedPatch(&patches[i]); pause > 0 {
			result.SlowedFor = requeue.Sooner(result.SlowedFor, pause)
			if result.Slowed == nil {
				result.Slowed = map[plan.Ref]string{}
			}
			result.Slowed[patches[i].Ref] = whySlowed
			continue
		}
		group.Go(func() error {
			others[i], former[i] = a.opponent(ctx, manager, &patches[i]), a.versionOf(ctx, &patches[i])
			objects[i], errs[i] = a.patch(ctx, manager, &patches[i])
			return nil
		})
	}
	_ = group.Wait() // each failure is in errs
	within, cancel := context.WithTimeout(ctx, children.AwaitLimit)
	defer cancel()
	for i, object := range objects {
		if object != nil {
			var shown plan.Object
			shown, errs[i] = a.shown(within, &patches[i], object.GetResourceVersion())
			written(i, object, shown)
		}
	}
	result.Unwritten = map[plan.Ref]string{}
	for i := range patches {
		ref, err := patches[i].Ref, errs[i]
		if objects[i] != nil {
			result.Patched = append(result.Patched, ref)
			if objects[i].GetResourceVersion() != former[i] && a.patched(&patches[i]) {
				result.Contested = append(result.Contested, plan.Contest{Ref: ref, By: others[i]})
			}
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
	r.result.Patched, r.result.Refused, r.result.Slowed = done.Patched, done.Refused, done.Slowed
	r.result.Contested = append(r.result.Contested, done.Contested...)
	r.result.SlowedFor = requeue.Sooner(r.result.SlowedFor, done.SlowedFor)
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

// patch applies one patch and returns the written object. An object that is gone or was replaced
// needs no patch; the watch reports it.
func (a *Applier) patch(ctx context.Context, manager string, patch *plan.Patch) (*metav1.PartialObjectMetadata, error) {
	ctx, cancel := context.WithTimeout(ctx, patchLimit)
	defer cancel()
	if _, err := a.emptyOf(patch); err != nil {
		return nil, err
	}
	form, body, err := patch.Body()
	if err != nil {
		return nil, fmt.Errorf("composing the patch: %w", err)
	}
	written := metadataOf(patch.Ref, patch.APIVersion, patch.UID)
	err = a.Client.Patch(ctx, written, client.RawPatch(form, body), client.FieldOwner(manager))
	switch {
	case apierrors.IsNotFound(err), isOtherObject(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return written, nil
}

// versionOf returns the version of an object before a patch, as the cache has it; empty if it has
// none. A patch after which the object still has it has changed nothing. A cache that is behind
// makes such a patch count as a change, which costs a pause at most.
func (a *Applier) versionOf(ctx context.Context, patch *plan.Patch) string {
	cached, err := a.emptyOf(patch)
	if err != nil || a.Children.Cached.Get(ctx, client.ObjectKeyFromObject(cached), cached) != nil {
		return ""
	}
	return cached.GetResourceVersion()
}

// shown returns a patched object as the cache shows it, at least in the version that was written.
func (a *Applier) shown(ctx context.Context, patch *plan.Patch, version string) (plan.Object, error) {
	cached, err := a.emptyOf(patch)
	if err == nil {
		err = children.Await(ctx, a.Children.Cached, cached, version)
	}
	if err != nil {
		return nil, err
	}
	return cached, nil
}

// emptyOf returns an empty object with the kind and name of the patched one. It fails for a kind
// that could not be awaited, because the cache does not know it.
func (a *Applier) emptyOf(patch *plan.Patch) (plan.Object, error) {
	kind := schema.FromAPIVersionAndKind(patch.APIVersion, patch.Ref.Kind)
	known, err := a.Children.Scheme.New(kind)
	if err != nil {
		return nil, fmt.Errorf("finding the kind of an object: %w", err)
	}
	object, isObject := known.(plan.Object)
	if !isObject {
		return nil, fmt.Errorf("%s is not the kind of an object", kind)
	}
	object.SetNamespace(patch.Ref.Namespace)
	object.SetName(patch.Ref.Name)
	return object, nil
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
