package crdstorage

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// pageSize is the number of objects in one list call: some 2 MB of Pods.
const pageSize = 500

// Storage serves one resource out of another. Keys are prefix/namespace/name.
type Storage struct {
	objects Objects
	form    Form
	prefix  string
}

var _ storage.Interface = &Storage{}

// NewStorage returns a Storage that reads and writes through objects. It makes no call.
func NewStorage(objects Objects, form Form, prefix string) *Storage {
	return &Storage{objects: objects, form: form, prefix: prefix}
}

// Versioner returns that of every API object: resourceVersions are those of the backing objects.
func (s *Storage) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

// Create stores a new object. Times to live are not supported: ttl is ignored.
func (s *Storage) Create(ctx context.Context, key string, object, out runtime.Object, _ uint64) error {
	served, err := asObject(object)
	if err != nil {
		return err
	}
	if served.GetResourceVersion() != "" {
		return storage.ErrResourceVersionSetOnCreate
	}
	backed, err := s.backed(key, served)
	if err != nil {
		return err
	}
	made, err := s.objects.Create(ctx, backed)
	if apierrors.IsAlreadyExists(err) {
		return storage.NewKeyExistsError(key, 0)
	}
	if err != nil {
		return err
	}
	return s.into(ctx, made, out)
}

// Get reads one object. Every read is current, so it satisfies any requested minimum
// resourceVersion.
func (s *Storage) Get(ctx context.Context, key string, options storage.GetOptions, out runtime.Object) error {
	namespace, name := s.split(key)
	found, err := s.get(ctx, namespace, name)
	switch {
	case apierrors.IsNotFound(err) && options.IgnoreNotFound:
		return runtime.SetZeroValue(out)
	case apierrors.IsNotFound(err):
		return storage.NewKeyNotFoundError(key, 0)
	case err != nil:
		return err
	}
	return s.into(ctx, found, out)
}

func (s *Storage) get(ctx context.Context, namespace, name string) (Object, error) {
	backing, could := s.form.Backing(name)
	if !could {
		return nil, apierrors.NewNotFound(schemaless, name)
	}
	return s.objects.Get(ctx, namespace, backing)
}

// GetList reads many objects. A page may have fewer than the limit although more follow, as the API
// allows: a page of backing objects is read, and those that the selectors exclude are left out.
func (s *Storage) GetList(ctx context.Context, key string, options storage.ListOptions, out runtime.Object) error {
	namespace, asked, err := s.asked(key, options)
	if err != nil {
		return err
	}
	if s.form.Prepare != nil && asked.Continue == "" && namespace == "" {
		if err := s.form.Prepare(ctx); err != nil {
			return err
		}
	}
	var items []runtime.Object
	for {
		list, err := s.objects.List(ctx, namespace, asked)
		if err != nil {
			return err
		}
		if items, err = s.appendServed(ctx, items, list, options.Predicate); err != nil {
			return err
		}
		page, err := meta.ListAccessor(list)
		if err != nil {
			return err
		}
		asked.Continue = page.GetContinue()
		// Only the first page may have a resourceVersion; the others continue it.
		asked.ResourceVersion, asked.ResourceVersionMatch = "", ""
		if asked.Continue == "" || options.Predicate.Limit > 0 {
			return fill(out, items, page)
		}
	}
}

// asked returns the namespace and the list options for the backing objects.
func (s *Storage) asked(key string, options storage.ListOptions) (string, metav1.ListOptions, error) {
	namespace, name := s.split(key)
	asked := metav1.ListOptions{
		ResourceVersion: options.ResourceVersion, ResourceVersionMatch: options.ResourceVersionMatch,
		Limit: pageSize, Continue: options.Predicate.Continue,
	}
	if limit := options.Predicate.Limit; limit > 0 {
		asked.Limit = min(limit, pageSize)
	}
	if options.Predicate.Label != nil {
		asked.LabelSelector = options.Predicate.Label.String()
	}
	if !options.Recursive {
		backing, could := s.form.Backing(name)
		if !could {
			return "", asked, storage.NewInvalidError(nil)
		}
		asked.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, backing).String()
	}
	return namespace, asked, nil
}

// appendServed appends the selected objects of a page.
func (s *Storage) appendServed(ctx context.Context, items []runtime.Object, list runtime.Object,
	wanted storage.SelectionPredicate) ([]runtime.Object, error) {
	err := meta.EachListItem(list, func(item runtime.Object) error {
		backing, err := asObject(item)
		if err != nil {
			return err
		}
		served, err := s.form.Served(ctx, backing)
		if err != nil {
			return fmt.Errorf("reading %s/%s: %w", backing.GetNamespace(), backing.GetName(), err)
		}
		if wanted.Label == nil || wanted.Field == nil || wanted.Empty() {
			items = append(items, served)
			return nil
		}
		matches, err := wanted.Matches(served)
		if matches {
			items = append(items, served)
		}
		return err
	})
	return items, err
}

// fill puts items into a list with the metadata of a page of backing objects.
func fill(out runtime.Object, items []runtime.Object, page metav1.ListInterface) error {
	list, err := meta.ListAccessor(out)
	if err != nil {
		return err
	}
	list.SetResourceVersion(page.GetResourceVersion())
	list.SetContinue(page.GetContinue())
	// The number of remaining items is known only if none is left out.
	return meta.SetList(out, items)
}

// Watch watches the objects of a namespace, or of all. The library's cache is the only watcher, and
// does the selecting.
func (s *Storage) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	namespace, _ := s.split(key)
	events, err := s.objects.Watch(ctx, namespace, metav1.ListOptions{ResourceVersion: options.ResourceVersion, AllowWatchBookmarks: true})
	if err != nil {
		return nil, err
	}
	out := make(chan watch.Event)
	served := watch.NewProxyWatcher(out)
	go s.serve(ctx, events, out, served.StopChan())
	return served, nil
}

// serve forwards events until one side ends. The library's watch.Filter would block for ever on a
// receiver that has stopped.
func (s *Storage) serve(ctx context.Context, events watch.Interface, out chan<- watch.Event, stop <-chan struct{}) {
	defer close(out)
	defer events.Stop()
	for {
		select {
		case <-stop:
			return
		case event, more := <-events.ResultChan():
			if !more {
				return
			}
			select {
			case out <- s.event(ctx, event):
			case <-stop:
				return
			}
		}
	}
}

// event converts an event. An object that can't be read ends the watch, because leaving the event
// out would lose it.
func (s *Storage) event(ctx context.Context, event watch.Event) watch.Event {
	backing, isObject := event.Object.(Object)
	if event.Type == watch.Error || !isObject {
		return event
	}
	if event.Type == watch.Bookmark {
		at := s.form.New()
		if object, err := meta.Accessor(at); err == nil {
			object.SetResourceVersion(backing.GetResourceVersion())
		}
		return watch.Event{Type: watch.Bookmark, Object: at}
	}
	served, err := s.form.Served(ctx, backing)
	if err != nil {
		status := apierrors.NewInternalError(fmt.Errorf("reading %s/%s: %w", backing.GetNamespace(), backing.GetName(), err)).Status()
		return watch.Event{Type: watch.Error, Object: &status}
	}
	return watch.Event{Type: event.Type, Object: served}
}

// Stats returns nothing: they would need a full list, and are not used.
func (s *Storage) Stats(context.Context) (storage.Stats, error) { return storage.Stats{}, nil }

// ReadinessCheck returns nil: each call reports itself whether it could be answered.
func (s *Storage) ReadinessCheck() error { return nil }

// RequestWatchProgress does nothing: the API can't request bookmarks, but sends them anyway.
func (s *Storage) RequestWatchProgress(context.Context) error { return nil }

// GetCurrentResourceVersion lists one object, because a list has the current version.
func (s *Storage) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	list, err := s.objects.List(ctx, "", metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	page, err := meta.ListAccessor(list)
	if err != nil {
		return 0, err
	}
	return s.Versioner().ParseResourceVersion(page.GetResourceVersion())
}

// EnableResourceSizeEstimation does nothing: sizes are the concern of the API server behind.
func (s *Storage) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }

// IsWatchListSemanticsUnSupported makes the cache list in pages before it watches, so that a form
// can prepare. The method's name is the library's.
func (s *Storage) IsWatchListSemanticsUnSupported() bool { return true }

// CompactRevision returns 0 for unknown.
func (s *Storage) CompactRevision() int64 { return 0 }

// split returns namespace and name of a key. The name is empty in the key of a namespace, both are
// in the key of all.
func (s *Storage) split(key string) (string, string) {
	namespace, name, _ := strings.Cut(strings.Trim(strings.TrimPrefix(key, s.prefix), "/"), "/")
	return namespace, name
}

// into converts a backing object into the caller's object.
func (s *Storage) into(ctx context.Context, backing Object, out runtime.Object) error {
	served, err := s.form.Served(ctx, backing)
	if err != nil {
		return storage.NewInternalError(fmt.Errorf("reading %s/%s: %w", backing.GetNamespace(), backing.GetName(), err))
	}
	return set(out, served)
}

func set(out runtime.Object, served Object) error {
	target, err := conversion.EnforcePtr(out)
	if err != nil {
		return err
	}
	target.Set(reflect.ValueOf(served).Elem())
	return nil
}

func asObject(object runtime.Object) (Object, error) {
	served, isObject := object.(Object)
	if !isObject {
		return nil, storage.NewInternalError(fmt.Errorf("a %T has no metadata", object))
	}
	return served, nil
}
