package campaign

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Count is how often an object of one name was created and deleted.
type Count struct{ Created, Deleted int }

// ledger records all events of the objects in a namespace, with its own watches.
type ledger struct {
	client    client.WithWatch
	kinds     []schema.GroupVersionKind
	namespace string

	mutex  sync.Mutex
	world  World
	counts map[string]Count
	// names maps UIDs to names: "WebApp shop 1" is the first object of that name.
	names map[types.UID]string
	// broken is why the ledger no longer receives all events.
	broken error
}

// openLedger opens the ledger of an empty namespace, until ctx ends.
func openLedger(ctx context.Context, c client.WithWatch, kinds []schema.GroupVersionKind, namespace string) (*ledger, error) {
	l := &ledger{client: c, kinds: kinds, namespace: namespace, world: World{}, counts: map[string]Count{}, names: map[types.UID]string{}}
	for _, kind := range kinds {
		stream, err := c.Watch(ctx, listOf(kind), client.InNamespace(namespace),
			&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}})
		if err != nil {
			return nil, fmt.Errorf("watching %s: %w", kind.Kind, err)
		}
		go l.follow(ctx, kind, stream)
	}
	return l, nil
}

func listOf(kind schema.GroupVersionKind) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list
}

func (l *ledger) follow(ctx context.Context, kind schema.GroupVersionKind, stream watch.Interface) {
	defer stream.Stop()
	for event := range stream.ResultChan() {
		l.note(event)
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if ctx.Err() == nil && l.broken == nil {
		l.broken = fmt.Errorf("the watch of %s ended", kind.Kind)
	}
}

func (l *ledger) note(event watch.Event) {
	object, ok := event.Object.(*unstructured.Unstructured)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if !ok || event.Type == watch.Error {
		l.broken = fmt.Errorf("a watch sent %s %v", event.Type, event.Object)
		return
	}
	name := object.GetKind() + " " + object.GetName()
	count := l.counts[name]
	switch event.Type {
	case watch.Added:
		count.Created++
		l.names[object.GetUID()] = fmt.Sprintf("%s %d", name, count.Created)
		l.world[name] = object
	case watch.Modified:
		l.world[name] = object
	case watch.Deleted:
		count.Deleted++
		delete(l.world, name)
	}
	l.counts[name] = count
}

// now returns the objects as far as the ledger knows.
func (l *ledger) now() (World, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return maps.Clone(l.world), l.broken
}

// sync waits until the ledger has received everything that the API server has.
func (l *ledger) sync(ctx context.Context) (World, error) {
	for {
		live, err := l.list(ctx)
		if err != nil {
			return nil, err
		}
		known, err := l.now()
		if err != nil || maps.EqualFunc(live, known, isSameVersion) {
			return known, err
		}
		if err := pause(ctx, poll); err != nil {
			return nil, fmt.Errorf("waiting for watches to show what is stored: %w", err)
		}
	}
}

func isSameVersion(a, b *unstructured.Unstructured) bool {
	return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion()
}

func (l *ledger) list(ctx context.Context) (World, error) {
	live := World{}
	for _, kind := range l.kinds {
		list := listOf(kind)
		if err := l.client.List(ctx, list, client.InNamespace(l.namespace)); err != nil {
			return nil, fmt.Errorf("listing %s: %w", kind.Kind, err)
		}
		if err := list.EachListItem(func(object runtime.Object) error {
			item := object.(*unstructured.Unstructured)
			live[item.GetKind()+" "+item.GetName()] = item
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return live, nil
}

// totals returns the counts so far.
func (l *ledger) totals() map[string]Count {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return maps.Clone(l.counts)
}

// who returns the name of each UID so far.
func (l *ledger) who() map[types.UID]string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return maps.Clone(l.names)
}

// pause waits for the interval, or returns an error if the context ends.
func pause(ctx context.Context, interval time.Duration) error {
	timer := time.NewTimer(interval)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
