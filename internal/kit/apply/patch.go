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
	// patchLimit is how long one patch may take, until the cache shows it. A webhook of somebody's that does not answer must not
	// hold up the others.
	patchLimit = 10 * time.Second
	// patchesAtOnce is how many patches of a plan are made at the same time: more than the API server of a small cluster answers faster.
	patchesAtOnce = 16
)

// patchAll carries out the patches of a plan. One that fails keeps no other from being made: refusals are noted in the result. All other errors are
// returned together, in the order of the plan, where no patch was made; where some were they are noted, for it is those objects that something is
// wrong with; and so they are where the API server answered.
func (p *run) patchAll(ctx context.Context, patches []plan.Patch) error {
	made, failures := make([]bool, len(patches)), make([]error, len(patches))
	var group errgroup.Group
	group.SetLimit(patchesAtOnce)
	for i := range patches {
		group.Go(func() error {
			made[i], failures[i] = p.patch(ctx, &patches[i])
			return nil
		})
	}
	_ = group.Wait() // each failure stands in failures
	var transient []error
	unmade := map[plan.Ref]string{}
	for i := range patches {
		if made[i] {
			p.result.Patched = append(p.result.Patched, patches[i].Ref)
		}
		switch errclass.Of(failures[i]) {
		case errclass.None, errclass.Gone:
		case errclass.Blocked:
			if p.result.Refused == nil {
				p.result.Refused = map[plan.Ref]string{}
			}
			p.result.Refused[patches[i].Ref] = errclass.Sentence(failures[i])
		default:
			transient = append(transient, fmt.Errorf("patching %s: %w", patches[i].Ref, failures[i]))
			unmade[patches[i].Ref] = errclass.Sentence(failures[i])
		}
	}
	err := errors.Join(transient...)
	if err == nil || errclass.IsShutdown(err) || len(p.result.Patched) == 0 && slices.ContainsFunc(transient, isNoAnswer) {
		return err
	}
	p.result.Unwritten = unmade
	return nil
}

// isNoAnswer tells that an error says something of the API server, and nothing of the object.
func isNoAnswer(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}

// patch makes one patch, and waits until the cache shows it. It reports whether it was made, also where the cache then lags. An
// object that has gone, or has another in its place, needs none, and the watch tells.
func (p *run) patch(ctx context.Context, patch *plan.Patch) (made bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patchLimit)
	defer cancel()
	kind := schema.FromAPIVersionAndKind(patch.APIVersion, patch.Ref.Kind)
	known, err := p.Children.Scheme.New(kind)
	if err != nil {
		return false, fmt.Errorf("finding the kind of an object: %w", err)
	}
	cached, isObject := known.(plan.Object)
	if !isObject {
		return false, fmt.Errorf("%s is no kind of an object", kind)
	}
	cached.SetNamespace(patch.Ref.Namespace)
	cached.SetName(patch.Ref.Name)
	written := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: patch.Ref.Namespace, Name: patch.Ref.Name,
		UID: patch.UID}}
	written.SetGroupVersionKind(kind)
	err = p.Client.Patch(ctx, written, client.RawPatch(patch.Type, patch.Body), client.FieldOwner(p.manager))
	switch {
	case apierrors.IsNotFound(err), isOtherObject(err):
		return false, nil
	case err != nil:
		return false, err
	}
	if err := children.Await(ctx, p.Children.Cached, cached, written.GetResourceVersion()); err != nil {
		return true, err
	}
	if p.Recorder != nil && patch.Reason != "" && (patch.IsDone == nil || patch.IsDone(cached)) {
		p.Recorder.Eventf(written, nil, corev1.EventTypeNormal, patch.Reason, "Reconcile", "%s", patch.Message)
	}
	return true, nil
}

// warn tells the warnings of a plan.
func (p *run) recordWarnings(warnings []plan.Warning) {
	if p.Recorder == nil {
		return
	}
	for i := range warnings {
		warning := &warnings[i]
		about := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: warning.Ref.Namespace, Name: warning.Ref.Name,
			UID: warning.UID}}
		about.SetGroupVersionKind(schema.FromAPIVersionAndKind(warning.APIVersion, warning.Ref.Kind))
		p.Recorder.Eventf(about, nil, corev1.EventTypeWarning, warning.Reason, "Reconcile", "%s", warning.Message)
	}
}
