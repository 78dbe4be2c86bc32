package optionalapi

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var queueKind = schema.GroupVersionKind{Group: "mq.example.com", Version: "v1", Kind: "Queue"}

const queueCRD = "queues.mq.example.com"

// cluster is a manager of a cluster that may have Queues.
type cluster struct {
	ctrl.Manager
	mutex sync.Mutex
	// isServed reports whether the API server serves the kind, and isDefined whether there is a
	// definition.
	isServed, isDefined bool
	// refusals are the answers to the next lists; the last one stays. None means that all succeed.
	refusals []error
	// listed are the namespaces of all lists.
	listed  []string
	handler toolscache.ResourceEventHandler
}

func (c *cluster) GetRESTMapper() meta.RESTMapper { return mapper{of: c} }
func (c *cluster) GetCache() cache.Cache          { return definitions{of: c} }
func (c *cluster) GetAPIReader() client.Reader    { return reader{of: c} }

// set changes the cluster.
func (c *cluster) set(change func()) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	change()
}

// lists returns the number of lists.
func (c *cluster) lists() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return len(c.listed)
}

type mapper struct {
	meta.RESTMapper
	of *cluster
}

func (m mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	m.of.mutex.Lock()
	defer m.of.mutex.Unlock()
	if !m.of.isServed {
		return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	return &meta.RESTMapping{}, nil
}

type reader struct {
	client.Reader
	of *cluster
}

func (r reader) List(_ context.Context, _ client.ObjectList, options ...client.ListOption) error {
	r.of.mutex.Lock()
	defer r.of.mutex.Unlock()
	var asked client.ListOptions
	asked.ApplyOptions(options)
	r.of.listed = append(r.of.listed, asked.Namespace)
	if len(r.of.refusals) == 0 {
		return nil
	}
	refusal := r.of.refusals[0]
	if len(r.of.refusals) > 1 {
		r.of.refusals = r.of.refusals[1:]
	}
	return refusal
}

type definitions struct {
	cache.Cache
	of *cluster
}

func (d definitions) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	d.of.mutex.Lock()
	defer d.of.mutex.Unlock()
	if !d.of.isDefined || key.Name != queueCRD {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "customresourcedefinitions"}, key.Name)
	}
	return nil
}

func (d definitions) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return informer{of: d.of}, nil
}

type informer struct {
	cache.Informer
	of *cluster
}

func (i informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.of.mutex.Lock()
	defer i.of.mutex.Unlock()
	i.of.handler = handler
	if i.of.isDefined {
		handler.OnAdd(definition(), true)
	}
	return synced{}, nil
}

func (informer) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error { return nil }

type synced struct {
	toolscache.ResourceEventHandlerRegistration
}

func (synced) HasSynced() bool { return true }

// definition returns the definition of Queues.
func definition() client.Object {
	made := Definition()
	made.Name = queueCRD
	return made
}

var errUnconvertible = errors.New("conversion webhook for mq.example.com/v1beta1 failed:\n service not found")

func TestFind(t *testing.T) {
	for name, test := range map[string]struct {
		isServed   bool
		refusals   []error
		namespaces []string
		want       bool
		lists      []string
		problem    string
	}{
		"a kind that is not served is not listed": {},
		"all namespaces are one list":             {isServed: true, want: true, lists: []string{""}},
		"each namespace of the cache is listed":   {isServed: true, namespaces: []string{"a", "b"}, want: true, lists: []string{"a", "b"}},
		"a list that fails once is repeated": {isServed: true, refusals: []error{errUnconvertible, nil}, want: true,
			lists: []string{"", ""}},
		"one namespace is enough to fail": {isServed: true, refusals: []error{nil, errUnconvertible}, namespaces: []string{"a", "b"},
			problem: "mq.example.com/v1 Queue can't be listed: conversion webhook for mq.example.com/v1beta1 failed: service not found"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := &cluster{isServed: test.isServed, refusals: test.refusals}
				api, err := Find(t.Context(), queueKind, queueCRD, in, test.namespaces)
				if err != nil || api.Available() != test.want || api.Problem() != test.problem {
					t.Errorf("available %t, problem %q, error %v", api.Available(), api.Problem(), err)
				}
				if test.problem == "" && !slices.Equal(in.listed, test.lists) {
					t.Errorf("listed %q", in.listed)
				}
			})
		})
	}
	in := &cluster{isServed: true, refusals: []error{errUnconvertible}}
	if api, err := FindServed(t.Context(), queueKind, queueCRD, in); err != nil || !api.Available() || in.lists() > 0 {
		t.Errorf("a kind whose objects are not read was listed %d times, error %v", in.lists(), err)
	}
}

// started returns an API that has been found and started, how often its kind appeared, and the
// error with which it ended.
func started(t *testing.T, in *cluster) (api *API, appeared *int, end chan error) {
	t.Helper()
	api, err := Find(t.Context(), queueKind, queueCRD, in, nil)
	if err != nil {
		t.Fatal(err)
	}
	appeared, end = new(int), make(chan error, 1)
	api.OnAppear = func(context.Context) error {
		*appeared++
		return nil
	}
	go func() { end <- api.Start(t.Context()) }()
	synctest.Wait()
	return api, appeared, end
}

// TestUnlistedAtStart: a kind whose objects can't be listed at the start is not used, and is tried
// again, ever more rarely, without an event of its definition.
func TestUnlistedAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := &cluster{isServed: true, isDefined: true, refusals: []error{errUnconvertible}}
		api, appeared, _ := started(t, in)
		if api.Available() || api.Problem() == "" {
			t.Fatalf("available %t, problem %q", api.Available(), api.Problem())
		}
		before := in.lists()
		time.Sleep(time.Hour)
		if lists := in.lists() - before; lists < 15 || lists > 30 {
			t.Errorf("in an hour there were %d lists", lists)
		}
		in.set(func() { in.refusals = nil })
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		if !api.Available() || api.Problem() != "" || *appeared != 1 {
			t.Errorf("available %t, problem %q, appeared %d times", api.Available(), api.Problem(), *appeared)
		}
		before = in.lists()
		time.Sleep(time.Hour)
		if lists := in.lists() - before; lists > 0 {
			t.Errorf("in use, it was listed %d times", lists)
		}
	})
}

// TestUnlistedLater: a kind that appears, and whose objects can't be listed, is not used. When its
// definition goes, nothing is asked any more, and when it comes back, it is used.
func TestUnlistedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := &cluster{}
		api, appeared, end := started(t, in)
		in.set(func() { in.isServed, in.isDefined, in.refusals = true, true, []error{errUnconvertible} })
		in.handler.OnAdd(definition(), false)
		time.Sleep(time.Minute)
		if api.Available() || !strings.Contains(api.Problem(), "can't be listed") {
			t.Errorf("available %t, problem %q", api.Available(), api.Problem())
		}
		// The mapper may not know yet.
		in.set(func() { in.isDefined = false })
		in.handler.OnDelete(definition())
		synctest.Wait()
		if api.Problem() != "" {
			t.Errorf("without a definition the problem is %q", api.Problem())
		}
		before := in.lists()
		time.Sleep(time.Hour)
		if lists := in.lists() - before; lists > 0 {
			t.Errorf("without a definition there were %d lists", lists)
		}
		in.set(func() { in.isDefined, in.refusals = true, nil })
		in.handler.OnAdd(definition(), false)
		synctest.Wait()
		if !api.Available() || *appeared != 1 {
			t.Errorf("available %t, appeared %d times", api.Available(), *appeared)
		}
		in.set(func() { in.isDefined = false })
		in.handler.OnDelete(definition())
		if err := <-end; err == nil || !strings.Contains(err.Error(), "was removed: restarting without it") {
			t.Errorf("without a kind in use it ended with: %v", err)
		}
	})
}
