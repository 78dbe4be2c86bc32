package crdstorage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// memoryEvents is the number of events that Memory keeps, for watches that begin in the past.
const memoryEvents = 10_000

// Memory has objects in this process, for development and tests: they are lost with it, and no
// other replica sees them. It behaves like a custom resource, finalizers included.
type Memory struct {
	resource schema.GroupResource
	newList  func() runtime.Object

	mutex   sync.Mutex
	version uint64
	objects map[types.NamespacedName]Object
	// events are the last ones, oldest first; forgotten is the version of the last dropped one.
	events    []memoryEvent
	forgotten uint64
	// changed is closed at the next event.
	changed chan struct{}
}

type memoryEvent struct {
	version uint64
	event   watch.EventType
	object  Object
}

var _ Objects = &Memory{}

// NewMemory returns an empty Memory. Errors name the resource.
func NewMemory(resource schema.GroupResource, newList func() runtime.Object) *Memory {
	return &Memory{resource: resource, newList: newList, version: 1, objects: map[types.NamespacedName]Object{}, changed: make(chan struct{})}
}

// Get implements Objects.
func (m *Memory) Get(_ context.Context, namespace, name string) (Object, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	found, exists := m.objects[types.NamespacedName{Namespace: namespace, Name: name}]
	if !exists {
		return nil, apierrors.NewNotFound(m.resource, name)
	}
	return copyOf(found), nil
}

// List implements Objects. It supports selectors of labels and of metadata.name, and always lists
// the current objects, whatever version is requested.
func (m *Memory) List(_ context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
	matches, err := matcher(namespace, options)
	if err != nil {
		return nil, err
	}
	after, prefix := "", prefixOf(namespace)
	if options.Continue != "" {
		if after, _, err = storage.DecodeContinue(options.Continue, prefix); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("continue: %v", err))
		}
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	var found []Object
	for _, object := range m.objects {
		if matches(object) && keyOf(object) >= after {
			found = append(found, object)
		}
	}
	slices.SortFunc(found, func(a, b Object) int { return cmp.Compare(keyOf(a), keyOf(b)) })
	list := m.newList()
	page, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	page.SetResourceVersion(strconv.FormatUint(m.version, 10))
	if options.Limit > 0 && int64(len(found)) > options.Limit {
		found = found[:options.Limit]
		next, err := storage.EncodeContinue(keyOf(found[len(found)-1])+"\x00", prefix, int64(m.version)) //nolint:gosec // it never gets that high
		if err != nil {
			return nil, err
		}
		page.SetContinue(next)
	}
	items := make([]runtime.Object, len(found))
	for i := range found {
		items[i] = copyOf(found[i])
	}
	return list, meta.SetList(list, items)
}

// Watch implements Objects. Without a version, or from 0, it begins with the current objects.
func (m *Memory) Watch(ctx context.Context, namespace string, options metav1.ListOptions) (watch.Interface, error) {
	matches, err := matcher(namespace, options)
	if err != nil {
		return nil, err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	var begin []memoryEvent
	since := m.version
	if options.ResourceVersion == "" || options.ResourceVersion == "0" {
		for _, object := range m.objects {
			begin = append(begin, memoryEvent{m.version, watch.Added, object})
		}
	} else if since, err = strconv.ParseUint(options.ResourceVersion, 10, 64); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("resourceVersion: Invalid value: %q: must be a number", options.ResourceVersion))
	}
	if since < m.forgotten {
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("resourceVersion: %d is too old, the oldest is %d", since, m.forgotten))
	}
	out := make(chan watch.Event)
	events := watch.NewProxyWatcher(out)
	begins := memoryWatch{since: since, matches: matches, out: out, stop: events.StopChan()}
	go m.send(ctx, begins, begin)
	return events, nil
}

// memoryWatch is a running watch.
type memoryWatch struct {
	since   uint64
	matches func(Object) bool
	out     chan<- watch.Event
	stop    <-chan struct{}
}

// send sends pending events and all later ones to a watcher, until it stops.
func (m *Memory) send(ctx context.Context, to memoryWatch, pending []memoryEvent) {
	defer close(to.out)
	for {
		for _, event := range pending {
			if !to.matches(event.object) {
				continue
			}
			select {
			case to.out <- watch.Event{Type: event.event, Object: copyOf(event.object)}:
			case <-to.stop:
				return
			case <-ctx.Done():
				return
			}
		}
		m.mutex.Lock()
		first, _ := slices.BinarySearchFunc(m.events, to.since+1,
			func(e memoryEvent, version uint64) int { return cmp.Compare(e.version, version) })
		pending, to.since = slices.Clone(m.events[first:]), m.version
		changed := m.changed
		m.mutex.Unlock()
		if len(pending) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-to.stop:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Create implements Objects.
func (m *Memory) Create(_ context.Context, object Object) (Object, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if _, exists := m.objects[nameOf(object)]; exists {
		return nil, apierrors.NewAlreadyExists(m.resource, object.GetName())
	}
	return m.put(watch.Added, object), nil
}

// Update implements Objects. As in the API server, an object that is being deleted stays so, and is
// gone with its last finalizer; a version other than the stored one is a conflict.
func (m *Memory) Update(_ context.Context, object Object) (Object, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	former, err := m.at(nameOf(object), object.GetResourceVersion())
	if err != nil {
		return nil, err
	}
	object = copyOf(object)
	object.SetDeletionTimestamp(former.GetDeletionTimestamp())
	if former.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 {
		return m.put(watch.Deleted, object), nil
	}
	return m.put(watch.Modified, object), nil
}

// Delete implements Objects.
func (m *Memory) Delete(_ context.Context, namespace, name, resourceVersion string) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	former, err := m.at(types.NamespacedName{Namespace: namespace, Name: name}, resourceVersion)
	if err != nil {
		return err
	}
	object := copyOf(former)
	if len(object.GetFinalizers()) == 0 {
		m.put(watch.Deleted, object)
		return nil
	}
	now := metav1.Now()
	object.SetDeletionTimestamp(&now)
	m.put(watch.Modified, object)
	return nil
}

// at returns the object with a resourceVersion. It requires the mutex, as do all functions below.
func (m *Memory) at(name types.NamespacedName, resourceVersion string) (Object, error) {
	former, exists := m.objects[name]
	if !exists {
		return nil, apierrors.NewNotFound(m.resource, name.Name)
	}
	if resourceVersion != "" && resourceVersion != former.GetResourceVersion() {
		return nil, apierrors.NewConflict(m.resource, name.Name, fmt.Errorf("resourceVersion: Invalid value: %s: must be the current one, %s",
			resourceVersion,
			former.GetResourceVersion()))
	}
	return former, nil
}

// put stores or deletes an object under the next version, and tells the watches. It returns a copy.
func (m *Memory) put(event watch.EventType, object Object) Object {
	object = copyOf(object)
	m.version++
	object.SetResourceVersion(strconv.FormatUint(m.version, 10))
	if event == watch.Deleted {
		delete(m.objects, nameOf(object))
	} else {
		m.objects[nameOf(object)] = object
	}
	m.events = append(m.events, memoryEvent{m.version, event, object})
	if len(m.events) > memoryEvents {
		m.forgotten = m.events[0].version
		m.events = m.events[1:]
	}
	close(m.changed)
	m.changed = make(chan struct{})
	return copyOf(object)
}

// matcher returns a function that reports whether an object is selected.
func matcher(namespace string, options metav1.ListOptions) (func(Object) bool, error) {
	byLabel, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("labelSelector: %v", err))
	}
	byField, err := fields.ParseSelector(options.FieldSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("fieldSelector: %v", err))
	}
	return func(object Object) bool {
		return (namespace == "" || object.GetNamespace() == namespace) && byLabel.Matches(labels.Set(object.GetLabels())) &&
			byField.Matches(fields.Set{metav1.ObjectNameField: object.GetName()})
	}, nil
}

func copyOf(object Object) Object {
	copied, _ := object.DeepCopyObject().(Object) // a copy is of the same type
	return copied
}

func nameOf(object Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// prefixOf returns the prefix of the keys of a namespace, or of all. A token for the next page has
// a key without it, like a token of the API server: the library's cache decodes tokens that way.
func prefixOf(namespace string) string {
	if namespace == "" {
		return "/"
	}
	return "/" + namespace + "/"
}

func keyOf(object Object) string { return prefixOf(object.GetNamespace()) + object.GetName() }
