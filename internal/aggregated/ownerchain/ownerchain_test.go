package ownerchain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
)

const namespace = "web"

// object has its kind and name as UID, "Deployment/shop", and a controller unless that is empty.
func object(apiVersion, kind, name string, controller *metav1.OwnerReference) *metav1.PartialObjectMetadata {
	made := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(kind + "/" + name)},
	}
	if controller != nil {
		made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Other", Name: "not-in-control", UID: "x"}, *controller}
	}
	return made
}

func by(apiVersion, kind, name string) *metav1.OwnerReference {
	return &metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(kind + "/" + name), Controller: new(true)}
}

func podOf(controller *metav1.OwnerReference) *metav1.PartialObjectMetadata {
	return object("v1", "Pod", "pod", controller)
}

// shop returns a WebApp, its Deployment and its ReplicaSet.
func shop() []runtime.Object {
	return []runtime.Object{
		object("apps/v1", "ReplicaSet", "shop-1", by("apps/v1", "Deployment", "shop")),
		object("apps/v1", "Deployment", "shop", by("apps.mainstay.dev/v1", "WebApp", "shop")),
	}
}

var ofShop = by("apps/v1", "ReplicaSet", "shop-1")

func client(t *testing.T, objects ...runtime.Object) *fake.FakeMetadataClient {
	t.Helper()
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewSimpleMetadataClient(scheme, objects...)
}

// calls returns the client's requests, as "get deployments shop".
func calls(client *fake.FakeMetadataClient) []string {
	all := []string{}
	for _, action := range client.Actions() {
		call := action.GetVerb() + " " + action.GetResource().Resource
		if get, ok := action.(clienttesting.GetAction); ok {
			call += " " + get.GetName()
		}
		all = append(all, call)
	}
	client.ClearActions()
	return all
}

func expectCalls(t *testing.T, client *fake.FakeMetadataClient, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), calls(client)); diff != "" {
		t.Errorf("calls: -want +got:\n%s", diff)
	}
}

func expectOwner(t *testing.T, resolver *Resolver, pod metav1.Object, want string) {
	t.Helper()
	if got := resolver.Owner(t.Context(), namespace, pod); got != want {
		t.Errorf("got the owner %q, want %q", got, want)
	}
}

func fill(t *testing.T, resolver *Resolver) {
	t.Helper()
	if err := resolver.Fill(t.Context()); err != nil {
		t.Fatal(err)
	}
}

var lists = []string{"list replicasets", "list deployments", "list statefulsets", "list daemonsets", "list jobs", "list cronjobs"}

func TestOwner(t *testing.T) {
	for name, test := range map[string]struct {
		objects []runtime.Object
		pod     *metav1.OwnerReference
		want    string
		// calls are those of the first lookup without Fill. The second lookup makes no calls.
		calls []string
	}{
		"a Pod that stands alone":  {},
		"a WebApp's":               {shop(), ofShop, "WebApp/shop", []string{"get replicasets shop-1", "get deployments shop"}},
		"our own kind directly":    {nil, by("mainstay.dev/v1", "Task", "t"), "Task/t", nil},
		"a group that ends alike":  {nil, by("notmainstay.dev/v1", "Task", "t"), "Task/t", nil},
		"a kind that is not known": {nil, by("argoproj.io/v1alpha1", "Rollout", "r"), "Rollout/r", nil},
		"a kind of the name elsewhere": {
			nil, by("example.com/v1", "Deployment", "d"), "Deployment/d", nil,
		},
		"a static Pod": {nil, by("v1", "Node", "n1"), "Node/n1", nil},
		"a Job of a CronJob": {
			[]runtime.Object{object("batch/v1", "Job", "report-1", by("batch/v1", "CronJob", "report")),
				object("batch/v1", "CronJob", "report", nil)},
			by("batch/v1", "Job", "report-1"), "CronJob/report", []string{"get jobs report-1", "get cronjobs report"},
		},
		"a StatefulSet": {
			[]runtime.Object{object("apps/v1", "StatefulSet", "db", nil)}, by("apps/v1", "StatefulSet",
				"db"), "StatefulSet/db", []string{"get statefulsets db"},
		},
		"a DaemonSet": {
			[]runtime.Object{object("apps/v1", "DaemonSet", "log", nil)}, by("apps/v1", "DaemonSet",
				"log"), "DaemonSet/log", []string{"get daemonsets log"},
		},
		"an owner that is gone": {nil, ofShop, "ReplicaSet/shop-1", []string{"get replicasets shop-1"}},
		"an owner that was made anew": {
			shop(), &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "shop-1", UID: "former", Controller: new(true)},
			"ReplicaSet/shop-1", []string{"get replicasets shop-1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := client(t, test.objects...)
			resolver := New(client, clock.RealClock{})
			expectOwner(t, resolver, podOf(test.pod), test.want)
			expectCalls(t, client, test.calls...)
			expectOwner(t, resolver, podOf(test.pod), test.want)
			expectCalls(t, client)
		})
	}
}

func TestCircle(t *testing.T) {
	client := client(t,
		object("apps/v1", "ReplicaSet", "a", by("apps/v1", "ReplicaSet", "b")),
		object("apps/v1", "ReplicaSet", "b", by("apps/v1", "ReplicaSet", "a")))
	expectOwner(t, New(client, clock.RealClock{}), podOf(by("apps/v1", "ReplicaSet", "a")), "ReplicaSet/a")
	expectCalls(t, client, "get replicasets a", "get replicasets b")
}

func TestFill(t *testing.T) {
	client := client(t, shop()...)
	resolver := New(client, clock.RealClock{})
	fill(t, resolver)
	expectCalls(t, client, lists...)
	expectOwner(t, resolver, podOf(ofShop), "WebApp/shop")
	expectCalls(t, client)
}

// TestOtherNamespace: a Pod that names the owner of another namespace, which its creator may do,
// does not show what owns that, and does not change what is known of it.
func TestOtherNamespace(t *testing.T) {
	client := client(t, shop()...)
	resolver := New(client, clock.RealClock{})
	fill(t, resolver)
	calls(client)
	if got := resolver.Owner(t.Context(), "other", podOf(ofShop)); got != "ReplicaSet/shop-1" {
		t.Errorf("got the owner %q of another namespace", got)
	}
	expectCalls(t, client, "get replicasets shop-1")
	expectOwner(t, resolver, podOf(ofShop), "WebApp/shop")
}

// paging lists ReplicaSets in pages, which the fake client can't: 1200 of them, each of the
// Deployment shop.
type paging struct {
	*fake.FakeMetadataClient
	asked []string
}

func (p *paging) Resource(resource schema.GroupVersionResource) metadata.Getter {
	getter := p.FakeMetadataClient.Resource(resource)
	if resource.Resource != "replicasets" {
		return getter
	}
	return &pagingGetter{getter, p}
}

type pagingGetter struct {
	metadata.Getter
	client *paging
}

func (g *pagingGetter) List(_ context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	g.client.asked = append(g.client.asked, fmt.Sprintf("%d %s", options.Limit, options.Continue))
	from, _ := strconv.Atoi(options.Continue)
	until := min(from+int(options.Limit), 1200)
	page := &metav1.PartialObjectMetadataList{}
	for i := from; i < until; i++ {
		page.Items = append(page.Items, *object("apps/v1", "ReplicaSet", strconv.Itoa(i), by("apps/v1", "Deployment", "shop")))
	}
	if until < 1200 {
		page.Continue = strconv.Itoa(until)
	}
	return page, nil
}

func TestFillPages(t *testing.T) {
	client := &paging{FakeMetadataClient: client(t)}
	resolver := New(client, clock.RealClock{})
	fill(t, resolver)
	if diff := cmp.Diff([]string{"500 ", "500 500", "500 1000"}, client.asked); diff != "" {
		t.Errorf("pages: -want +got:\n%s", diff)
	}
	expectCalls(t, client.FakeMetadataClient, lists[1:]...)
	for _, name := range []string{"0", "499", "500", "1199"} {
		expectOwner(t, resolver, podOf(by("apps/v1", "ReplicaSet", name)), "Deployment/shop")
	}
	expectCalls(t, client.FakeMetadataClient, "get deployments shop")
}

// TestChanges: a known owner is read again after some minutes, for the next change, or by Fill, and
// no sooner.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := client(t, object("apps/v1", "Deployment", "web", nil), object("apps/v1", "ReplicaSet", "web-1",
			by("apps/v1", "Deployment", "web")))
		resolver := New(client, clock.RealClock{})
		pod := podOf(by("apps/v1", "ReplicaSet", "web-1"))
		gone := podOf(by("apps/v1", "StatefulSet", "gone"))
		expectOwner(t, resolver, pod, "Deployment/web")
		expectOwner(t, resolver, gone, "StatefulSet/gone")
		change := func(controller *metav1.OwnerReference) {
			t.Helper()
			deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
			if err := client.Tracker().Update(deployments, object("apps/v1", "Deployment", "web", controller), namespace); err != nil {
				t.Fatal(err)
			}
			calls(client)
		}
		app := by("apps.mainstay.dev/v1", "WebApp", "web")
		for _, step := range []struct {
			now          *metav1.OwnerReference
			before, then string
		}{{app, "Deployment/web", "WebApp/web"}, {nil, "WebApp/web", "Deployment/web"}} {
			change(step.now)
			expectOwner(t, resolver, pod, step.before)
			expectOwner(t, resolver, gone, "StatefulSet/gone")
			expectCalls(t, client)
			time.Sleep(lifetime)
			expectOwner(t, resolver, pod, step.before)
			expectOwner(t, resolver, gone, "StatefulSet/gone")
			expectAsked(t, client, "get deployments web", "get replicasets web-1", "get statefulsets gone")
			expectOwner(t, resolver, pod, step.then)
			expectOwner(t, resolver, gone, "StatefulSet/gone")
			expectCalls(t, client)
		}
		change(app)
		fill(t, resolver)
		calls(client)
		expectOwner(t, resolver, pod, "WebApp/web")
		expectCalls(t, client)
	})
}

// expectAsked waits for background requests, in any order.
func expectAsked(t *testing.T, client *fake.FakeMetadataClient, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := slices.Sorted(slices.Values(calls(client))); !slices.Equal(got, want) {
		t.Errorf("it asked %q, want %q", got, want)
	}
}

// TestGone: Pods that outlive their owners keep the last known chain.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := client(t, shop()...)
		resolver := New(client, clock.RealClock{})
		fill(t, resolver)
		for resource, name := range map[string]string{"replicasets": "shop-1", "deployments": "shop"} {
			if err := client.Tracker().Delete(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: resource}, namespace,
				name); err != nil {
				t.Fatal(err)
			}
		}
		fill(t, resolver)
		calls(client)
		expectOwner(t, resolver, podOf(ofShop), "WebApp/shop")
		expectCalls(t, client)
		time.Sleep(lifetime)
		expectOwner(t, resolver, podOf(ofShop), "WebApp/shop")
		expectAsked(t, client, "get deployments shop", "get replicasets shop-1")
		expectOwner(t, resolver, podOf(ofShop), "WebApp/shop")
		expectCalls(t, client)
	})
}

// TestKnownBefore: without an answer the old one is used at once, and requests for many owners are
// limited.
func TestKnownBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 100
		answers := client(t)
		hanging := &slow{Interface: answers, after: time.Hour, givenUp: make(chan error, many)}
		resolver := New(hanging, clock.RealClock{})
		owner := func(i int) *metav1.OwnerReference { return by("apps/v1", "ReplicaSet", strconv.Itoa(i)) }
		for i := range many {
			resolver.remember(key{namespace, owner(i).UID}, answer{controllerOf(podOf(by("apps/v1", "Rollout", "r"))), time.Now()})
		}
		time.Sleep(lifetime)
		start := time.Now()
		for range 2 {
			for i := range many {
				expectOwner(t, resolver, podOf(owner(i)), "Rollout/r")
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %s", took)
		}
		synctest.Wait()
		if asked := hanging.asked.Load(); asked != atOnce {
			t.Errorf("%d were asked for at once", asked)
		}
		time.Sleep(endurance)
	})
}

// TestLate: a late answer does not replace that of a later request.
func TestLate(t *testing.T) {
	resolver := New(client(t), clock.RealClock{})
	now := time.Now()
	for _, test := range []struct {
		app   string
		asked time.Time
		want  string
	}{{"a", now, "a"}, {"b", now.Add(-time.Second), "a"}, {"c", now.Add(time.Second), "c"}} {
		resolver.remember(key{uid: "web"}, answer{reference{name: test.app}, test.asked})
		if known, _ := resolver.remembered(key{uid: "web"}); known.above.name != test.want {
			t.Errorf("after %s the controller is %s", test.app, known.above.name)
		}
	}
}

// TestErrors: after an error the known part of the chain is used, and the next lookup tries again.
func TestErrors(t *testing.T) {
	client := client(t, shop()...)
	failing := true
	client.PrependReactor("get", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		return failing, nil, apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, "shop", errors.New("no"))
	})
	resolver := New(client, clock.RealClock{})
	expectOwner(t, resolver, podOf(ofShop), "Deployment/shop")
	expectCalls(t, client, "get replicasets shop-1", "get deployments shop")
	expectOwner(t, resolver, podOf(ofShop), "Deployment/shop")
	expectCalls(t, client, "get deployments shop")
	failing = false
	expectOwner(t, resolver, podOf(ofShop), "WebApp/shop")
	expectCalls(t, client, "get deployments shop")
}

func TestFillErrors(t *testing.T) {
	client := client(t, shop()...)
	client.PrependReactor("list", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("away")
	})
	resolver := New(client, clock.RealClock{})
	if err := resolver.Fill(t.Context()); err == nil || err.Error() != "listing deployments.apps: away" {
		t.Errorf("got the error %v", err)
	}
	expectCalls(t, client, lists...)
	expectOwner(t, resolver, podOf(ofShop), "WebApp/shop")
	expectCalls(t, client, "get deployments shop")
}

// TestPatience: an API server that does not answer delays a watch by 2 seconds, whatever the height
// of the chain.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := client(t, shop()...)
		hang := make(chan struct{})
		client.PrependReactor("get", "replicasets", func(clienttesting.Action) (bool, runtime.Object, error) {
			<-hang
			return false, nil, nil
		})
		resolver := New(client, clock.RealClock{})
		start := time.Now()
		expectOwner(t, resolver, podOf(ofShop), "ReplicaSet/shop-1")
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("it took %s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := resolver.Owner(ctx, namespace, podOf(ofShop)); got != "ReplicaSet/shop-1" || time.Since(start) != 3*time.Second {
			t.Errorf("got %q after %s", got, time.Since(start))
		}
		close(hang)
		synctest.Wait()
		expectOwner(t, resolver, podOf(ofShop), "WebApp/shop")
	})
}

// slow answers each GET after a time, and counts those that were cancelled.
type slow struct {
	metadata.Interface
	after   time.Duration
	givenUp chan error
	// asked is the number of requests.
	asked atomic.Int32
}

func (s *slow) Resource(resource schema.GroupVersionResource) metadata.Getter {
	return &slowGetter{s.Interface.Resource(resource), s}
}

type slowGetter struct {
	metadata.Getter
	client *slow
}

func (g *slowGetter) Namespace(namespace string) metadata.ResourceInterface {
	return &slowResource{g.Getter.Namespace(namespace), g.client}
}

type slowResource struct {
	metadata.ResourceInterface
	client *slow
}

func (r *slowResource) Get(ctx context.Context, name string, options metav1.GetOptions,
	subresources ...string) (*metav1.PartialObjectMetadata, error) {
	r.client.asked.Add(1)
	select {
	case <-ctx.Done():
		r.client.givenUp <- ctx.Err()
		return nil, ctx.Err()
	case <-time.After(r.client.after):
		return r.ResourceInterface.Get(ctx, name, options, subresources...)
	}
}

// TestSlow: an answer that is late for one change of a Pod is there for the next.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := client(t, shop()...)
		resolver := New(&slow{Interface: client, after: 2500 * time.Millisecond, givenUp: make(chan error, 1)}, clock.RealClock{})
		start := time.Now()
		expectOwner(t, resolver, podOf(ofShop), "ReplicaSet/shop-1") // until 2 s
		expectOwner(t, resolver, podOf(ofShop), "Deployment/shop")   // known after 2.5 s, until 4 s
		expectOwner(t, resolver, podOf(ofShop), "WebApp/shop")       // known after 5 s
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("it took %s", took)
		}
		expectOwner(t, resolver, podOf(ofShop), "WebApp/shop")
		expectCalls(t, client, "get replicasets shop-1", "get deployments shop")
	})
}

// TestNever: a request without an answer ends.
func TestNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &slow{Interface: client(t, shop()...), after: time.Hour, givenUp: make(chan error, 1)}
		start := time.Now()
		expectOwner(t, New(client, clock.RealClock{}), podOf(ofShop), "ReplicaSet/shop-1")
		if err := <-client.givenUp; !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 10*time.Second {
			t.Errorf("got %v after %s", err, time.Since(start))
		}
	})
}

// TestTogether: concurrent lookups make one request.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := client(t, shop()...)
		hang := make(chan struct{})
		client.PrependReactor("get", "replicasets", func(clienttesting.Action) (bool, runtime.Object, error) {
			<-hang
			return false, nil, nil
		})
		resolver := New(client, clock.RealClock{})
		var group sync.WaitGroup
		var mutex sync.Mutex
		var got []string
		for range 50 {
			group.Go(func() {
				owner := resolver.Owner(t.Context(), namespace, podOf(ofShop))
				mutex.Lock()
				defer mutex.Unlock()
				got = append(got, owner)
			})
		}
		synctest.Wait()
		close(hang)
		group.Wait()
		if got = slices.Compact(got); !slices.Equal(got, []string{"WebApp/shop"}) {
			t.Errorf("got %q", got)
		}
		expectCalls(t, client, "get replicasets shop-1", "get deployments shop")
	})
}

func TestBounds(t *testing.T) {
	resolver := New(client(t), clock.RealClock{})
	for i := range capacity + 10 {
		resolver.remember(key{uid: types.UID(fmt.Sprint(i))}, answer{asked: time.Now()})
	}
	if known := resolver.owners.Len(); known != 120_000 {
		t.Errorf("%d are remembered", known)
	}
}
