//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
)

// farmer returns a client that knows our served resources.
func farmer(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, farmv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	made, err := client.New(administrator(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// follower is an informer of client-go, and a check of its events: each object is added once, gets
// newer with each update, and is deleted once.
type follower struct {
	resource, namespace string
	objects             dynamic.ResourceInterface
	informer            toolscache.SharedIndexInformer

	mutex    sync.Mutex
	versions map[string]int
	wrong    []string
}

// follow starts an informer in a namespace until the test ends.
func follow(t *testing.T, ns, resource string) *follower {
	t.Helper()
	anything, err := dynamic.NewForConfig(administrator(t))
	if err != nil {
		t.Fatal(err)
	}
	kind := farmv1alpha1.GroupVersion.WithResource(resource)
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(anything, 0, ns, nil)
	started := &follower{
		resource: resource, namespace: ns, objects: anything.Resource(kind).Namespace(ns), informer: factory.ForResource(kind).Informer(),
		versions: map[string]int{},
	}
	_, err = started.informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { started.note("is new", object, false) },
		UpdateFunc: started.change,
		DeleteFunc: started.forget,
	})
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	if !toolscache.WaitForCacheSync(t.Context().Done(), started.informer.HasSynced) {
		t.Fatalf("%s could not be listed", resource)
	}
	t.Cleanup(factory.Shutdown)
	return started
}

// change records an updated object. After a relist it may be another object of the same name: the
// informer then reports no deletion of the first.
func (f *follower) change(before, object any) {
	old, _ := before.(metav1.Object)
	current, _ := object.(metav1.Object)
	if old != nil && current != nil && old.GetUID() != current.GetUID() {
		f.forget(before)
		f.note("replaces another", object, false)
		return
	}
	f.note("has changed", object, true)
}

// note records an object that is new, or was known.
func (f *follower) note(event string, object any, wasKnown bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	accessor, err := meta.Accessor(object)
	if err != nil {
		f.wrong = append(f.wrong, err.Error())
		return
	}
	version, err := strconv.Atoi(accessor.GetResourceVersion())
	key := accessor.GetName() + " " + string(accessor.GetUID())
	before, isKnown := f.versions[key]
	// An informer that relists reports every object as updated.
	if err != nil || isKnown != wasKnown || version < before {
		f.wrong = append(f.wrong, fmt.Sprintf("%s %s: %d after %d, known: %t, %v", key, event, version, before, isKnown, err))
	}
	f.versions[key] = version
}

func (f *follower) forget(object any) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if gone, is := object.(toolscache.DeletedFinalStateUnknown); is {
		object = gone.Obj
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		f.wrong = append(f.wrong, err.Error())
		return
	}
	key := accessor.GetName() + " " + string(accessor.GetUID())
	if _, isKnown := f.versions[key]; !isKnown {
		f.wrong = append(f.wrong, key+" is deleted, but was not known")
	}
	delete(f.versions, key)
}

// check compares the known objects with a list. The informer may need a moment to receive the
// latest.
func (f *follower) check(t *testing.T) {
	t.Helper()
	g := gomega.NewWithT(t)
	g.Eventually(func(g gomega.Gomega) {
		all, err := f.objects.List(t.Context(), metav1.ListOptions{})
		g.Expect(err).NotTo(gomega.HaveOccurred())
		want := map[string]int{}
		for _, one := range all.Items {
			version, err := strconv.Atoi(one.GetResourceVersion())
			g.Expect(err).NotTo(gomega.HaveOccurred())
			want[one.GetName()+" "+string(one.GetUID())] = version
		}
		f.mutex.Lock()
		defer f.mutex.Unlock()
		g.Expect(f.versions).To(gomega.Equal(want), f.resource)
	}).Should(gomega.Succeed())
	f.mutex.Lock()
	defer f.mutex.Unlock()
	g.Expect(f.wrong).To(gomega.BeEmpty(), f.resource)
}

// repeatedly calls do this often a second, in parallel if necessary, until the returned function is
// called. That function returns the number of calls and the failures.
func repeatedly(t *testing.T, perSecond int, do func(ctx context.Context, turn int) error) func() (int, []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	var mutex sync.Mutex
	var failed []string
	count, turns := 0, make(chan int, perSecond)
	for range 24 {
		working.Go(func() {
			for turn := range turns {
				// The call may outlive the test and must not fail because of that.
				err := do(context.WithoutCancel(ctx), turn)
				mutex.Lock()
				if count++; err != nil {
					failed = append(failed, time.Now().UTC().Format("15:04:05.000 ")+err.Error())
				}
				mutex.Unlock()
			}
		})
	}
	working.Go(func() {
		defer close(turns)
		ticker := time.NewTicker(time.Second / time.Duration(perSecond))
		defer ticker.Stop()
		for turn := 0; ; turn++ {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				turns <- turn
			}
		}
	})
	return func() (int, []string) {
		cancel()
		working.Wait()
		return count, failed
	}
}

// questions gets and lists our served resources in turn.
func questions(t *testing.T, perSecond int, ns string) func() (int, []string) {
	t.Helper()
	asking := farmer(t)
	constant := client.ObjectKey{Namespace: ns, Name: "constant"}
	var pods farmv1alpha1.FarmPodList
	if err := asking.List(t.Context(), &pods, client.InNamespace(ns)); err != nil || len(pods.Items) == 0 {
		t.Fatalf("there is nothing to get: %v", err)
	}
	pod := client.ObjectKeyFromObject(&pods.Items[0])
	return repeatedly(t, perSecond, func(ctx context.Context, turn int) error {
		switch turn % 4 {
		case 0:
			return asking.Get(ctx, constant, &farmv1alpha1.Llama{})
		case 1:
			return asking.Get(ctx, pod, &farmv1alpha1.FarmPod{})
		case 2:
			return asking.List(ctx, &farmv1alpha1.LlamaList{}, client.InNamespace(ns))
		default:
			return asking.List(ctx, &farmv1alpha1.FarmPodList{}, client.InNamespace(ns))
		}
	})
}

// changes creates, changes and deletes Llamas and Pods continuously.
func changes(t *testing.T, ns string) func() (int, []string) {
	t.Helper()
	writing := farmer(t)
	return repeatedly(t, 10, func(ctx context.Context, turn int) error {
		metadata := metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("changing-%d", turn%20)}
		animal := &farmv1alpha1.Llama{ObjectMeta: metadata, Spec: farmv1alpha1.LlamaSpec{Weight: float64(turn + 1), Height: 1}}
		// A pod that is never scheduled.
		pod := &corev1.Pod{ObjectMeta: metadata, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "web", Image: demo}}, SchedulingGates: []corev1.PodSchedulingGate{{Name: "example.com/never"}},
		}}
		for _, object := range []client.Object{animal, pod} {
			labelled := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{"turn":"%d"}}}`, turn))
			if turn/20%3 == 2 {
				if err := writing.Delete(ctx, object, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
					return err
				}
				continue
			}
			if err := writing.Patch(ctx, object.DeepCopyObject().(client.Object), labelled); err == nil || !apierrors.IsNotFound(err) {
				if err != nil {
					return err
				}
				continue
			}
			if err := writing.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
		return nil
	})
}

// testServersReplaced replaces the pods of our server while informers follow it and clients read:
// first one pod is deleted, then all are replaced one after the other.
func testServersReplaced(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "replaced")
	awaitServed(t)
	apply(t, ns, llama("name: constant", "{weight: 1, height: 1}")+webapp("shop", demo, "replicas: 1"))
	waitReady(t, ns, "shop")
	followers := []*follower{follow(t, ns, "llamas"), follow(t, ns, "farmpods")}
	begun := time.Now()
	stopAsking, stopWriting := questions(t, 50, ns), changes(t, ns)
	pods := names(t, system, "pods", servers)
	g.Expect(pods).To(gomega.HaveLen(2))
	remove(t, system, "pod/"+pods[0])
	awaitGone(t, system, "pod/"+pods[0], within)
	rollout(t, system, "deployment/mainstay-apiserver")
	kubectl(t, "-n", system, "rollout", "restart", "deployment", "mainstay-apiserver")
	rollout(t, system, "deployment/mainstay-apiserver")
	g.Eventually(func() []string { return names(t, system, "pods", servers) }).Should(gomega.And(gomega.HaveLen(2),
		gomega.Not(gomega.ContainElement(pods[1]))), "the old pods have ended")
	written, unwritten := stopWriting()
	asked, unanswered := stopAsking()
	t.Logf("%d reads, %.0f a second, %d failed; %d writes, %d failed", asked, float64(asked)/time.Since(begun).Seconds(), len(unanswered),
		written, len(unwritten))
	for _, failed := range [][]string{unanswered, unwritten} {
		if len(failed) > 0 {
			t.Errorf("%d failed; the first: %s; the last: %s", len(failed), failed[0], failed[len(failed)-1])
		}
	}
	g.Expect(asked).To(gomega.BeNumerically(">=", 200), "there was load; the rate depends on the machine")
	for _, one := range followers {
		one.check(t)
	}
}
