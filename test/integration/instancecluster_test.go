package integration

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/instance"
	instancecluster "github.com/mainstay-platform/mainstay/internal/instance/cluster"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// instanceOf returns what the instance of a pod reads and writes, and its requests.
func instanceOf(t *testing.T, namespace, pod, address string) (*instancecluster.Cluster, *testenv.Requests) {
	t.Helper()
	requests := &testenv.Requests{}
	config := rest.CopyConfig(cluster.Config)
	config.Wrap(requests.Wrap)
	made, err := instancecluster.New(instancecluster.Configure(config), instancecluster.Options{
		Namespace: namespace, Database: "db", Pod: pod, Address: address, Port: 5432, Clock: clock.RealClock{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return made, requests
}

// recordOf is a record of a term.
func recordOf(term uint64) election.Record {
	me := election.Member{Name: "db-0", Incarnation: "a"}
	holder := election.Holder{Member: me, PodUID: "u"}
	return election.Record{System: "7", Term: term, Seq: term, Holder: holder, Rules: []election.Rule{{Leader: me}}}
}

// TestInstanceMakesWhatGoesWithTheDatabase: a Lease and an EndpointSlice that an instance makes
// anew belong to the owner of the settings, with their labels; so does a Lease that was replaced.
func TestInstanceMakesWhatGoesWithTheDatabase(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	namespace := cluster.Namespace(t)
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "owner"}}
	create(t, owner)
	reference := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: new(true)}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: contract.SettingsName("db"), Labels: map[string]string{"team": "shop"},
		OwnerReferences: []metav1.OwnerReference{reference},
	}}
	settings.OwnerReferences[0].BlockOwnerDeletion = new(true)
	create(t, settings)
	a, _ := instanceOf(t, namespace, "db-0", "10.0.0.1")
	_, err := a.Settings(t.Context())
	g.Expect(err).NotTo(gomega.HaveOccurred())
	goes := func(name string, object client.Object) {
		t.Helper()
		g.Expect(cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object)).To(gomega.Succeed())
		g.Expect(object.GetOwnerReferences()).To(gomega.Equal([]metav1.OwnerReference{reference}))
		g.Expect(object.GetLabels()).To(gomega.HaveKeyWithValue("team", "shop"))
	}
	outcome, version := a.Write(t.Context(), election.WriteRecord{Record: recordOf(1)})
	g.Expect(outcome).To(gomega.Equal(election.Done))
	lease := &coordinationv1.Lease{}
	goes("db", lease)
	for term := uint64(1); term < 3; term++ { // It is made, then written again.
		g.Expect(a.Publish(t.Context(), term)).To(gomega.Succeed())
		goes("db-rw", &discoveryv1.EndpointSlice{})
	}

	lease.OwnerReferences, lease.Labels = nil, nil
	g.Expect(cluster.Client.Update(t.Context(), lease)).To(gomega.Succeed())
	g.Expect(a.Read(t.Context()).Version).NotTo(gomega.Equal(version))
	outcome, _ = a.Write(t.Context(), election.WriteRecord{Record: recordOf(2), Version: lease.ResourceVersion})
	g.Expect(outcome).To(gomega.Equal(election.Done))
	goes("db", lease)
}

// TestInstanceRecords: a record is written only over what was read, and one that was changed by
// hand is said to be damaged, not missing.
func TestInstanceRecords(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	namespace := cluster.Namespace(t)
	a, requests := instanceOf(t, namespace, "db-0", "10.0.0.1")
	b, _ := instanceOf(t, namespace, "db-1", "10.0.0.2")
	g.Expect(a.Read(t.Context())).To(gomega.Equal(election.ReadResult{}), "there is no Lease")
	outcome, first := a.Write(t.Context(), election.WriteRecord{Record: recordOf(1)})
	g.Expect(outcome).To(gomega.Equal(election.Done))
	again, _ := b.Write(t.Context(), election.WriteRecord{Record: recordOf(1)})
	g.Expect(again).To(gomega.Equal(election.Conflict), "the other one made it already")
	g.Expect(b.Read(t.Context())).To(gomega.Equal(election.ReadResult{Version: first, Record: recordOf(1)}))

	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db"}}
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(lease), lease)).To(gomega.Succeed())
	g.Expect(*lease.Spec.HolderIdentity).To(gomega.Equal("db-0"), "people see who leads")
	lease.Labels = map[string]string{"team": "a"}
	g.Expect(cluster.Client.Update(t.Context(), lease)).To(gomega.Succeed())
	outcome, _ = a.Write(t.Context(), election.WriteRecord{Record: recordOf(2), Version: first})
	g.Expect(outcome).To(gomega.Equal(election.Conflict), "the Lease was changed since")
	outcome, _ = a.Write(t.Context(), election.WriteRecord{Record: recordOf(2), Version: lease.ResourceVersion})
	g.Expect(outcome).To(gomega.Equal(election.Done))
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(lease), lease)).To(gomega.Succeed())
	g.Expect(lease.Labels).To(gomega.HaveKeyWithValue("team", "a"), "what others wrote stays")

	lease.Annotations[api.AnnotationRecord] = strings.Replace(lease.Annotations[api.AnnotationRecord], `"term":2`, `"term":9`, 1)
	g.Expect(cluster.Client.Update(t.Context(), lease)).To(gomega.Succeed())
	g.Expect(a.Read(t.Context())).To(gomega.Equal(election.ReadResult{Version: lease.ResourceVersion, Damaged: true}))

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	outcome, _ = a.Write(ended, election.WriteRecord{Record: recordOf(3), Version: lease.ResourceVersion})
	g.Expect(outcome).To(gomega.Equal(election.Unanswered))
	g.Expect(a.Read(ended).Failed).To(gomega.BeTrue())
	g.Expect(requests.Since(0, "list")).To(gomega.BeEmpty())
}

// TestInstancePublishes: the write Service leads to the highest term, whoever comes later.
func TestInstancePublishes(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	namespace := cluster.Namespace(t)
	a, requests := instanceOf(t, namespace, "db-0", "10.0.0.1")
	b, _ := instanceOf(t, namespace, "db-1", "fd00::2")
	g.Expect(a.Publish(t.Context(), 3)).To(gomega.Succeed())
	g.Expect(a.Publish(t.Context(), 5)).To(gomega.Succeed())
	written := requests.Count()
	g.Expect(a.Publish(t.Context(), 5)).To(gomega.Succeed())
	g.Expect(requests.Since(written)).To(gomega.HaveLen(1), "it is only read")
	g.Expect(b.Publish(t.Context(), 4)).To(gomega.MatchError(gomega.ContainSubstring("the EndpointSlice db-rw has term 5, which is higher than 4")))
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db-rw"}}
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(slice), slice)).To(gomega.Succeed())
	g.Expect(slice.Endpoints[0].Addresses).To(gomega.Equal([]string{"10.0.0.1"}))
	g.Expect(slice.Labels).To(gomega.HaveKeyWithValue(discoveryv1.LabelServiceName, "db-rw"))
	slice.Endpoints = []discoveryv1.Endpoint{}
	slice.Labels["team"] = "shop"
	g.Expect(cluster.Client.Update(t.Context(), slice)).To(gomega.Succeed())
	g.Expect(a.Publish(t.Context(), 5)).To(gomega.Succeed())
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(slice), slice)).To(gomega.Succeed())
	g.Expect(slice.Endpoints[0].Addresses).To(gomega.Equal([]string{"10.0.0.1"}), "it was emptied")
	g.Expect(slice.Labels).To(gomega.HaveKeyWithValue("team", "shop"), "what others wrote stays")
}

// TestInstanceReports: what an instance is stands on its Pod, and goes when it is nothing any more.
func TestInstanceReports(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	namespace := cluster.Namespace(t)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db-0"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "database", Image: "database"}}},
	}
	g.Expect(cluster.Client.Create(t.Context(), pod)).To(gomega.Succeed())
	a, _ := instanceOf(t, namespace, "db-0", "10.0.0.1")
	a.PodUID = string(pod.UID)
	g.Expect(a.Report(t.Context(), contract.Report{Role: contract.Primary, State: "Leading", Term: 3})).To(gomega.Succeed())
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)).To(gomega.Succeed())
	g.Expect(pod.Labels).To(gomega.HaveKeyWithValue(api.LabelRole, "primary"))
	g.Expect(pod.Annotations[api.AnnotationInstance]).To(gomega.MatchJSON(`{"role":"primary","state":"Leading","term":3}`))
	before, _ := instanceOf(t, namespace, "db-0", "10.0.0.1")
	before.PodUID = "that-of-the-pod-before"
	g.Expect(before.Report(t.Context(), instance.Ended(errors.New("too late")))).NotTo(gomega.Succeed(), "the Pod is another one now")
	g.Expect(a.Report(t.Context(), contract.Report{State: "Waiting"})).To(gomega.Succeed())
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)).To(gomega.Succeed())
	g.Expect(pod.Labels).NotTo(gomega.HaveKey(api.LabelRole))
}

// TestInstanceWatches: an instance hears of each version of its Lease and of its settings, of no
// other object, and asks for nothing in between.
func TestInstanceWatches(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	namespace := cluster.Namespace(t)
	a, requests := instanceOf(t, namespace, "db-0", "10.0.0.1")
	versions, settings := make(chan string, 100), make(chan string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		_ = a.Watch(ctx, func(version string) { versions <- version }, func(data map[string]string) { settings <- data["x"] })
		close(done)
	}()
	defer func() { cancel(); <-done }()
	version := ""
	for term := range uint64(3) {
		var outcome election.Outcome
		outcome, version = a.Write(t.Context(), election.WriteRecord{Record: recordOf(term + 1), Version: version})
		g.Expect(outcome).To(gomega.Equal(election.Done))
		g.Eventually(versions).Should(gomega.Receive(gomega.Equal(version)))
	}
	for i, name := range []string{"other", "db-config"} {
		object := metav1.ObjectMeta{Namespace: namespace, Name: name}
		config := &corev1.ConfigMap{ObjectMeta: object, Data: map[string]string{"x": strconv.Itoa(i)}}
		g.Expect(cluster.Client.Create(t.Context(), config)).To(gomega.Succeed())
	}
	g.Eventually(settings).Should(gomega.Receive(gomega.Equal("1")))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db"}}
	g.Expect(cluster.Client.Delete(t.Context(), lease)).To(gomega.Succeed())
	g.Eventually(versions).Should(gomega.Receive(gomega.BeEmpty()), "the Lease is gone")
	before := requests.Count()
	g.Consistently(requests.Count).WithTimeout(2 * time.Second).Should(gomega.Equal(before))
}
