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

// schemaless: the registry names the resource in what it tells of a missing one.
var schemaless = schema.GroupResource{}

var errReadOnly = errors.New("what is computed can't be written")

// attempts bounds how often a write is tried again because somebody else was faster; each time one of them has written.
const attempts = 100

// state is something as it was last seen.
type state struct {
	// served is never nil; it is empty if there is none.
	served Object
	exists bool
	// isCurrent tells that it was just read, not found in a cache.
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

// start is the cached state, if there is one, for then a write takes one call only.
func (s *Storage) start(ctx context.Context, key string, mayMiss bool, cached runtime.Object) (state, error) {
	if served, isObject := cached.(Object); isObject && served.GetResourceVersion() != "" {
		return state{served: served, exists: true}, nil
	}
	return s.current(ctx, key, mayMiss)
}

// GuaranteedUpdate changes one, again and again until nobody else was faster. It writes nothing if nothing is changed.
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

// insist tries until that says that it is done, each time with the state read anew, and returns the last. An error of a try that is not done may
// come of a state that was too old: it stands if the state is the same when it is read anew.
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
	return was, storage.NewTimeoutError(key, "others wrote it all the time")
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

// isOvertaken tells that somebody else wrote in between.
func isOvertaken(err error, existed bool) bool {
	return apierrors.IsConflict(err) || existed && apierrors.IsNotFound(err) || !existed && apierrors.IsAlreadyExists(err)
}

// notOvertaken is what of an error the next try will not mend.
func notOvertaken(err error, existed bool) error {
	if isOvertaken(err, existed) {
		return nil
	}
	return err
}

// Delete deletes one, in the state that validate has seen.
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
		// What was already being deleted is gone with its last finalizer.
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

// release takes our finalizer off what keeps something that has none any more.
func (s *Storage) release(ctx context.Context, key string, served Object) (Object, error) {
	backed, err := s.backed(key, served)
	if err != nil {
		return nil, err
	}
	backed.SetFinalizers(nil)
	return s.objects.Update(ctx, backed)
}

// backed is what keeps something at a key.
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
