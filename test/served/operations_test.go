package served

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
	"github.com/mainstay-platform/mainstay/test/cases"
)

const (
	// operations is the number of operations on each resource by default, names the number of objects.
	// Watches begin all the time.
	operations = 1500
	names      = 30
	watchers   = 8
)

// more multiplies the operations for long runs.
var more = flag.Int("more", 1, "factor of the number of operations")

// TestListThenWatch checks that a client that lists at any time, and watches from there, receives
// each object's versions in order and ends with the same state as a list. It does so for Llamas,
// which our server stores, and for FarmPods, which it computes.
func TestListThenWatch(t *testing.T) {
	t.Run("llamas", func(t *testing.T) {
		t.Parallel()
		listThenWatch(t, &farmv1alpha1.LlamaList{}, writeLlama, func(ctx context.Context, namespace string) (map[string]string, error) {
			return listVersions(ctx, cluster.client, &farmv1alpha1.LlamaList{}, namespace, "")
		})
	})
	t.Run("farmpods", func(t *testing.T) {
		t.Parallel()
		listThenWatch(t, &farmv1alpha1.FarmPodList{}, writePod, func(ctx context.Context, namespace string) (map[string]string, error) {
			return listVersions(ctx, cluster.client, &corev1.PodList{}, namespace, farmv1alpha1.FarmPodPrefix)
		})
	})
}

func listThenWatch(
	t *testing.T, list client.ObjectList, write func(context.Context, *rand.Rand, client.ObjectKey) error,
	truth func(ctx context.Context, namespace string) (map[string]string, error),
) {
	g := gomega.NewWithT(t)
	random := rand.New(rand.NewPCG(cases.Seed(t, 20261122), 0)) //nolint:gosec // guards nothing
	operations := operations * *more
	namespace := newNamespace(t)
	watching, err := client.NewWithWatch(cluster.config, client.Options{Scheme: scheme()})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	var followers []*follower
	for i := range operations {
		if i%(operations/watchers) == 0 {
			followers = append(followers, follow(t, watching, namespace, list))
		}
		key := client.ObjectKey{Namespace: namespace, Name: "o" + strconv.Itoa(random.IntN(names))}
		if err := write(t.Context(), random, key); err != nil {
			t.Fatalf("operation %d on %s: %v", i, key.Name, err)
		}
	}
	want, err := truth(t.Context(), namespace)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(want).NotTo(gomega.BeEmpty())
	g.Eventually(func() (string, error) {
		listed, err := listVersions(t.Context(), watching, list, namespace, "")
		return cmp.Diff(want, listed), err
	}).Should(gomega.BeEmpty(), "differences from a list")
	for i, one := range followers {
		g.Eventually(func() (string, error) { return cmp.Diff(want, one.copy()), one.problem() }).Should(gomega.BeEmpty(), "watcher %d", i)
	}
}

// writeLlama creates, updates or deletes a Llama, sometimes with a finalizer, sometimes from an old
// version.
func writeLlama(ctx context.Context, random *rand.Rand, key client.ObjectKey) error {
	llama := &farmv1alpha1.Llama{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec: farmv1alpha1.LlamaSpec{Weight: 1 + random.Float64(), Height: 1}}
	switch random.IntN(6) {
	case 0, 1:
		if random.IntN(4) == 0 {
			llama.Finalizers = []string{"example.com/held"}
		}
		return expected(cluster.client.Create(ctx, llama), apierrors.IsAlreadyExists)
	case 2:
		return expected(cluster.client.Delete(ctx, llama), apierrors.IsNotFound)
	case 3:
		body := fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, random.IntN(3))
		return expected(cluster.client.Patch(ctx, llama, client.RawPatch("application/merge-patch+json", []byte(body))), apierrors.IsNotFound)
	case 4:
		return expected(cluster.client.Patch(ctx, llama, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))), apierrors.IsNotFound)
	default:
		llama.ResourceVersion = strconv.Itoa(1 + random.IntN(1000))
		return expected(cluster.client.Update(ctx, llama), func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) })
	}
}

// writePod creates, changes or deletes a Pod.
func writePod(ctx context.Context, random *rand.Rand, key client.ObjectKey) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	switch random.IntN(4) {
	case 0:
		pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "demo"}}
		return expected(cluster.client.Create(ctx, pod), apierrors.IsAlreadyExists)
	case 1:
		return expected(cluster.client.Delete(ctx, pod, client.GracePeriodSeconds(0)), apierrors.IsNotFound)
	case 2:
		body := fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, random.IntN(3))
		return expected(cluster.client.Patch(ctx, pod, client.RawPatch("application/merge-patch+json", []byte(body))), apierrors.IsNotFound)
	default:
		body := fmt.Sprintf(`{"status":{"phase":"Running","containerStatuses":[{"name":"main","restartCount":%d,"ready":true,"image":"demo","imageID":""}]}}`, random.IntN(3))
		return expected(cluster.client.Status().Patch(ctx, pod, client.RawPatch("application/merge-patch+json", []byte(body))),
			apierrors.IsNotFound)
	}
}

// expected returns nil for errors that may happen.
func expected(err error, may func(error) bool) error {
	if err != nil && may(err) {
		return nil
	}
	return err
}

// follower is a client that has listed once and watches since.
type follower struct {
	mutex sync.Mutex
	// known has the version of each object by name.
	known map[string]string
	// last is the version of the last event, from which a new watch continues.
	last string
	err  error
}

// follow lists and watches from there until the test ends.
func follow(t *testing.T, watching client.WithWatch, namespace string, list client.ObjectList) *follower {
	t.Helper()
	from, isList := list.DeepCopyObject().(client.ObjectList)
	if !isList {
		t.Fatalf("%T is not a list", list)
	}
	if err := watching.List(t.Context(), from, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	known, err := versionsOf(from, "")
	if err != nil {
		t.Fatal(err)
	}
	f := &follower{known: known, last: from.GetResourceVersion()}
	begin := func() (watch.Interface, error) {
		return watching.Watch(t.Context(), from, client.InNamespace(namespace),
			&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: f.last}})
	}
	events, err := begin()
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		// A server may end the watch of a slow client. The client then continues from its last version.
		for err == nil {
			for event := range events.ResultChan() {
				f.take(event)
			}
			events, err = begin()
		}
	})
	t.Cleanup(running.Wait)
	return f
}

// take records an event, and an error if it is inconsistent.
func (f *follower) take(event watch.Event) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	object, err := meta.Accessor(event.Object)
	if err != nil || event.Type == watch.Error {
		f.err = errors.Join(f.err, apierrors.FromObject(event.Object))
		return
	}
	f.last = object.GetResourceVersion()
	was, knew := f.known[object.GetName()]
	switch {
	case event.Type == watch.Added && knew, event.Type == watch.Modified && !knew, event.Type == watch.Deleted && !knew:
		f.err = errors.Join(f.err, fmt.Errorf("%s %s, which was known: %t", event.Type, object.GetName(), knew))
	case knew && !isNewer(object.GetResourceVersion(), was):
		f.err = errors.Join(f.err, fmt.Errorf("%s %s at %s, after %s", event.Type, object.GetName(), object.GetResourceVersion(), was))
	}
	if event.Type == watch.Deleted {
		delete(f.known, object.GetName())
	} else {
		f.known[object.GetName()] = object.GetResourceVersion()
	}
}

func isNewer(version, than string) bool {
	a, _ := strconv.ParseUint(version, 10, 64)
	b, _ := strconv.ParseUint(than, 10, 64)
	return a > b
}

func (f *follower) copy() map[string]string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return maps.Clone(f.known)
}

func (f *follower) problem() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.err
}

// listVersions returns the versions of all objects in a namespace, by name.
func listVersions(ctx context.Context, reader client.Reader, list client.ObjectList, namespace, prefix string) (map[string]string, error) {
	fresh, isList := list.DeepCopyObject().(client.ObjectList)
	if !isList {
		return nil, fmt.Errorf("%T is not a list", list)
	}
	if err := reader.List(ctx, fresh, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	return versionsOf(fresh, prefix)
}

func versionsOf(list client.ObjectList, prefix string) (map[string]string, error) {
	versions := map[string]string{}
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object, err := meta.Accessor(item)
		if err == nil {
			versions[prefix+object.GetName()] = object.GetResourceVersion()
		}
		return err
	})
	return versions, err
}

// newNamespace creates a namespace for one test. Its objects remain until the API server ends.
func newNamespace(t *testing.T) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "served-"}}
	if err := cluster.client.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}
