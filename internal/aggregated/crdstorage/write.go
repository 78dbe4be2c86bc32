package crdstorage

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
)

// schemaless is empty, because the registry adds the resource's name to NotFound errors.
var schemaless = schema.GroupResource{}

var errReadOnly = errors.New("computed resources are read-only")

// attempts bounds the retries of a write after conflicts; each conflict means that another client's
// write succeeded.
const attempts = 100

// state is an object as last read.
type state struct {
	// served is never nil; it is empty if the object does not exist.
	served Object
	exists bool
	// isCurrent reports whether it was just read and not found in a cache.
	isCurrent bool
}

// current reads the state.
func (s *Storage) current(ctx context.Context, key string, mayMiss bool) (state, error) {
	namespace, name := s.split(key)
	backing, err := s.get(ctx, namespace, name)
	if apierrors.IsNotFound(err) {
		if !mayMiss {
			return state{}, storage.NewKeyNotFoundError(key, 0)
		}
		empty, err := asObject(s.form.New())
		return state{served: empty, isCurrent: true}, err
	}
	if err != nil {
		return state{}, err
	}
	served, err := s.form.Served(ctx, backing)
	return state{served: served, exists: true, isCurrent: true}, err
}

// start returns the cached state if there is one, because then a write takes one call only.
func (s *Storage) start(ctx context.Context, key string, mayMiss bool, cached runtime.Object) (state, error) {
	if served, isObject := cached.(Object); isObject && served.GetResourceVersion() != "" {
		return state{served: served, exists: true}, nil
	}
	return s.current(ctx, key, mayMiss)
}

// GuaranteedUpdate changes an object, and retries after conflicts. It writes nothing if nothing
// changes.
func (s *Storage) GuaranteedUpdate( //nolint:revive // the library's interface
	ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, change storage.UpdateFunc, cached runtime.Object,
) error {
	_, err := s.insist(ctx, key, ignoreNotFound, cached, func(was state) (bool, error) {
		if err := preconditions.Check(key, was.served); err != nil {
			return was.isCurrent, err
		}
		return s.update(ctx, key, destination, change, was)
	})
	return err
}

// insist calls try until it is done, each time with a newly read state, and returns the last state.
// An error may be due to an old state: it is returned only if the state is the same when read
// again.
func (s *Storage) insist(ctx context.Context, key string, mayMiss bool, cached runtime.Object,
	try func(was state) (done bool, err error)) (state, error) {
	was, err := s.start(ctx, key, mayMiss, cached)
	if err != nil {
		return was, err
	}
	for range attempts {
		done, failed := try(was)
		if done {
			return was, failed
		}
		before := was.served.GetResourceVersion()
		if was, err = s.current(ctx, key, mayMiss); err != nil {
			return was, err
		}
		if failed != nil && was.served.GetResourceVersion() == before {
			return was, failed
		}
	}
	return was, storage.NewTimeoutError(key, "too many conflicting writes")
}

// update tries once.
func (s *Storage) update(ctx context.Context, key string, destination runtime.Object, change storage.UpdateFunc, was state) (bool, error) {
	version, err := s.Versioner().ObjectResourceVersion(was.served)
	if err != nil {
		return true, err
	}
	changed, _, err := change(was.served.DeepCopyObject(), storage.ResponseMeta{ResourceVersion: version})
	if err != nil {
		return was.isCurrent, err
	}
	served, err := asObject(changed)
	if err != nil {
		return true, err
	}
	served.SetResourceVersion(was.served.GetResourceVersion())
	served.GetObjectKind().SetGroupVersionKind(was.served.GetObjectKind().GroupVersionKind())
	if was.exists && equality.Semantic.DeepEqual(served, was.served) {
		if !was.isCurrent {
			return false, nil
		}
		return true, set(destination, served)
	}
	backed, err := s.backed(key, served)
	if err != nil {
		return true, err
	}
	write := s.objects.Update
	if !was.exists {
		write = s.objects.Create
	}
	written, err := write(ctx, backed)
	if err != nil {
		return !isOvertaken(err, was.exists), notOvertaken(err, was.exists)
	}
	return true, s.into(ctx, written, destination)
}

// isOvertaken reports whether another client wrote in between.
func isOvertaken(err error, existed bool) bool {
	return apierrors.IsConflict(err) || existed && apierrors.IsNotFound(err) || !existed && apierrors.IsAlreadyExists(err)
}

// notOvertaken returns the error, unless the next try may succeed.
func notOvertaken(err error, existed bool) error {
	if isOvertaken(err, existed) {
		return nil
	}
	return err
}

// Delete deletes an object in the state that validate has seen.
func (s *Storage) Delete( //nolint:revive // the library's interface
	ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions, validate storage.ValidateObjectFunc,
	cached runtime.Object, _ storage.DeleteOptions,
) error {
	was, err := s.insist(ctx, key, false, cached, func(was state) (bool, error) {
		if err := preconditions.Check(key, was.served); err != nil {
			return was.isCurrent, err
		}
		if err := validate(ctx, was.served); err != nil {
			return was.isCurrent, err
		}
		return s.remove(ctx, key, was)
	})
	if err != nil {
		return err
	}
	return set(out, was.served)
}

// remove tries once.
func (s *Storage) remove(ctx context.Context, key string, was state) (bool, error) {
	version := was.served.GetResourceVersion()
	if len(was.served.GetFinalizers()) > 0 {
		released, err := s.release(ctx, key, was.served)
		if err != nil {
			return !isOvertaken(err, true), notOvertaken(err, true)
		}
		// An object that was already being deleted is gone with its last finalizer.
		if released.GetDeletionTimestamp() != nil {
			return true, nil
		}
		version = released.GetResourceVersion()
	}
	namespace, name := s.split(key)
	backing, _ := s.form.Backing(name)
	err := s.objects.Delete(ctx, namespace, backing, version)
	return !isOvertaken(err, true), notOvertaken(err, true)
}

// release removes our finalizer from the backing object of one that has no finalizers left.
func (s *Storage) release(ctx context.Context, key string, served Object) (Object, error) {
	backed, err := s.backed(key, served)
	if err != nil {
		return nil, err
	}
	backed.SetFinalizers(nil)
	return s.objects.Update(ctx, backed)
}

// backed returns the backing object for a key.
func (s *Storage) backed(key string, served Object) (Object, error) {
	if s.form.Backed == nil {
		return nil, storage.NewInternalError(errReadOnly)
	}
	backed, err := s.form.Backed(served)
	if err != nil {
		return nil, err
	}
	namespace, name := s.split(key)
	name, _ = s.form.Backing(name)
	backed.SetName(name)
	backed.SetNamespace(namespace)
	backed.SetLabels(served.GetLabels())
	backed.SetResourceVersion(served.GetResourceVersion())
	if len(served.GetFinalizers()) > 0 {
		backed.SetFinalizers([]string{s.form.Finalizer})
	}
	return backed, nil
}
