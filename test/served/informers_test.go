package served

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/aggregated"
)

// ledger checks the events that handlers of an informer receive: no object may be added twice, and
// none may change or be deleted without having been added.
type ledger struct {
	mutex    sync.Mutex
	versions map[string]string
	problems []string
}

func (l *ledger) handler() toolscache.ResourceEventHandlerFuncs {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { l.take("added", object) },
		UpdateFunc: func(_, object any) { l.take("updated", object) },
		DeleteFunc: func(object any) {
			if unknown, is := object.(toolscache.DeletedFinalStateUnknown); is {
				object = unknown.Obj
			}
			l.take("deleted", object)
		},
	}
}

func (l *ledger) take(event string, object any) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	about, err := meta.Accessor(object)
	if err != nil {
		l.problems = append(l.problems, fmt.Sprintf("%s: %v", event, err))
		return
	}
	was, known := l.versions[about.GetName()]
	if known != (event != "added") {
		l.problems = append(l.problems, fmt.Sprintf("%s %s, which was known: %t", event, about.GetName(), known))
	}
	// A relist reports unchanged objects too.
	if event == "updated" && was != about.GetResourceVersion() && !isNewer(about.GetResourceVersion(), was) {
		l.problems = append(l.problems, fmt.Sprintf("%s at %s, after %s", about.GetName(), about.GetResourceVersion(), was))
	}
	if event == "deleted" {
		delete(l.versions, about.GetName())
	} else {
		l.versions[about.GetName()] = about.GetResourceVersion()
	}
}

// differs returns the differences between the known objects and want, and the problems so far.
func (l *ledger) differs(want map[string]string) string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return fmt.Sprint(cmp.Diff(want, l.versions)) + fmt.Sprint(cmp.Diff([]string(nil), l.problems))
}

// informed are the resources that the informers follow.
var informed = map[string]struct {
	object client.Object
	// truth is listed from the API server itself. prefix precedes its names in ours.
	truth  client.ObjectList
	prefix string
}{
	"farmpods": {&farmv1alpha1.FarmPod{}, &corev1.PodList{}, farmv1alpha1.FarmPodPrefix},
	"llamas":   {&farmv1alpha1.Llama{}, &farmv1alpha1.LlamaList{}, ""},
}

// TestInformers checks that informers of client-go and of controller-runtime see all objects and
// their changes, across a restart of the server.
func TestInformers(t *testing.T) {
	t.Parallel()
	server := newServer(t, grantAll, func(*aggregated.Options) {})
	server.awaitReady(t)
	namespace := newNamespace(t)
	writeAll(t, namespace, 0)
	ledgers := inform(t, server, namespace)
	expectInformed(t, ledgers, namespace, "at first")
	writeAll(t, namespace, 1)
	expectInformed(t, ledgers, namespace, "after changes")
	if err := server.end(); err != nil {
		t.Fatal(err)
	}
	writeAll(t, namespace, 2)
	// Meanwhile an outgoing connection may have taken the port.
	gomega.NewWithT(t).Eventually(func() error { return server.Listen(server.Port) }).Should(gomega.Succeed())
	server.start()
	expectInformed(t, ledgers, namespace, "after a restart, with changes meanwhile")
	writeAll(t, namespace, 3)
	expectInformed(t, ledgers, namespace, "with changes after the restart")
}

// inform runs an informer of each kind until the test ends, and returns their ledgers.
func inform(t *testing.T, server *ownServer, namespace string) map[string]*ledger {
	t.Helper()
	g := gomega.NewWithT(t)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	asked, err := dynamic.NewForConfig(server.directly())
	g.Expect(err).NotTo(gomega.HaveOccurred())
	cached, err := cache.New(server.directly(), cache.Options{Scheme: scheme(), DefaultNamespaces: map[string]cache.Config{namespace: {}}})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	running.Go(func() { _ = cached.Start(ctx) })
	ledgers := map[string]*ledger{}
	for name, one := range informed {
		first, second := &ledger{versions: map[string]string{}}, &ledger{versions: map[string]string{}}
		ledgers["client-go: "+name], ledgers["controller-runtime: "+name] = first, second
		informer := dynamicinformer.NewFilteredDynamicInformer(asked, farmv1alpha1.GroupVersion.WithResource(name), namespace, 0,
			toolscache.Indexers{}, nil).Informer()
		_, err := informer.AddEventHandler(first.handler())
		g.Expect(err).NotTo(gomega.HaveOccurred())
		running.Go(func() { informer.Run(ctx.Done()) })
		other, err := cached.GetInformer(ctx, one.object)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		_, err = other.AddEventHandler(second.handler())
		g.Expect(err).NotTo(gomega.HaveOccurred())
	}
	return ledgers
}

// expectInformed waits until all informers know all objects.
func expectInformed(t *testing.T, ledgers map[string]*ledger, namespace, when string) {
	t.Helper()
	for name, one := range informed {
		want, err := listVersions(t.Context(), cluster.client, one.truth, namespace, one.prefix)
		if err != nil {
			t.Fatal(err)
		}
		for _, by := range []string{"client-go: ", "controller-runtime: "} {
			gomega.NewWithT(t).Eventually(func() string { return ledgers[by+name].differs(want) }).Should(gomega.BeEmpty(), "%s%s %s", by, name,
				when)
		}
	}
}

// writeAll creates, changes and deletes some Pods and Llamas. Each round has other ones.
func writeAll(t *testing.T, namespace string, round int) {
	t.Helper()
	g := gomega.NewWithT(t)
	for i := range 4 {
		name := fmt.Sprintf("r%d-%d", round, i)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "demo"}}}}
		g.Expect(cluster.client.Create(t.Context(), pod)).To(gomega.Succeed())
		g.Expect(cluster.client.Create(t.Context(), newLlama(namespace, name))).To(gomega.Succeed())
	}
	if round == 0 {
		return
	}
	former := "r" + strconv.Itoa(round-1)
	for _, object := range []client.Object{&corev1.Pod{}, &farmv1alpha1.Llama{}} {
		object.SetNamespace(namespace)
		object.SetName(former + "-0")
		g.Expect(cluster.client.Delete(t.Context(), object, client.GracePeriodSeconds(0))).To(gomega.Succeed())
		object.SetName(former + "-1")
		g.Expect(cluster.client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)))).To(gomega.Succeed())
	}
}
