package integration

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/install/apiservice"
	"github.com/mainstay-platform/mainstay/internal/install/certificates"
	"github.com/mainstay-platform/mainstay/internal/install/crds"
	"github.com/mainstay-platform/mainstay/internal/install/uninstall"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

const (
	servedBy   = "mainstay-apiserver"
	servedRole = "mainstay-manager"
	farmGroup  = "v1alpha1.farm.mainstay.dev"
	// oneWrite is the interval after which one more write is allowed. lateLeader is how long no server
	// has been ready when a leader starts.
	oneWrite   = 30 * time.Second
	lateLeader = 50 * time.Second
	// tenWrites is the number of writes allowed at once.
	tenWrites = 10
)

// TestAPIService checks the APIService of one installation. There is one object of that name, so
// the subtests share one API server and run one after the other.
func TestAPIService(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	for name, test := range map[string]func(*serving, *testing.T){
		"published only while a server is ready":               (*serving).testPublished,
		"the servers are unreachable":                          (*serving).testUnreachable,
		"a rotation":                                           (*serving).testRotation,
		"edits and deletions are healed":                       (*serving).testHealed,
		"writes against another writer are limited":            (*serving).testOtherWriter,
		"withdrawn after a minute":                             (*serving).testWithdrawn,
		"a new leader continues the countdown":                 (*serving).testNewLeader,
		"unknown is not absent":                                (*serving).testUnknown,
		"our namespace is being deleted":                       (*serving).testLeaving,
		"a foreign APIService":                                 (*serving).testForeign,
		"an external certificate":                              (*serving).testExternal,
		"the installation was deleted under a running manager": (*serving).testNoRole,
	} {
		t.Run(name, func(t *testing.T) { test(newServing(t, server.Config), t) })
	}
}

func (s *serving) testPublished(t *testing.T) {
	testenv.RequireKubernetes(t, cluster.Config, 34, "informers begin with a watch, so that a GET is one of ours,")
	g := gomega.NewWithT(t)
	s.lead(t)
	s.serve(t, 0)
	g.Eventually(s.keeper.Bundle).ShouldNot(gomega.BeEmpty())
	g.Eventually(s.publisher.State).Should(gomega.Equal(apiservice.State{Known: true}))
	s.calls.Settle(t)
	g.Expect(s.calls.Since(0, "apiservices")).To(gomega.BeEmpty(), "no server is ready yet")

	s.serve(t, 2)
	s.awaitLive(t)
	s.awaitEvent(t, "Normal Published")
	var secret corev1.Secret
	g.Expect(s.client.Get(t.Context(), client.ObjectKey{Namespace: s.in, Name: servedBy}, &secret)).To(gomega.Succeed())
	g.Expect(string(s.keeper.Bundle())).To(gomega.Equal(string(secret.Data["ca.crt"])))
	g.Eventually(s.publisher.State).Should(gomega.Equal(apiservice.State{Known: true, Published: true, Endpoints: 2}))

	// Idle.
	s.calls.Settle(t)
	s.clock.Step(time.Hour)
	s.calls.Settle(t)
	g.Expect(s.calls.Since(0, "PATCH", "DELETE")).To(gomega.HaveLen(1), "time alone causes no write")
}

// testUnreachable has endpoints on which nothing listens. Only the API server can find that out.
func (s *serving) testUnreachable(t *testing.T) {
	testenv.RequireKubernetes(t, cluster.Config, 34, "API servers are found by EndpointSlices, which this test writes,")
	g := gomega.NewWithT(t)
	first := s.begin(t)
	s.awaitEvent(t, "Normal Published")
	g.Eventually(func(g gomega.Gomega) {
		live, err := s.live(t.Context())
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(live.Status.Conditions).To(gomega.ContainElement(gomega.And(
			gomega.HaveField("Type", apiregistrationv1.Available), gomega.HaveField("Status",
				apiregistrationv1.ConditionFalse), gomega.HaveField("Reason", "FailedDiscoveryCheck"))))
	}).Should(gomega.Succeed())
	s.recheck(t)
	s.calls.Settle(t)
	g.Expect(s.events.Events).To(gomega.BeEmpty(), "the server may still start")
	// The API server says by its own clock since when it has not reached it.
	s.clock.SetTime(time.Now().Add(2 * apiservice.Patience))
	s.awaitEvent(t, "Warning Unreachable")
	g.Expect(s.recheck(t).UID).To(gomega.Equal(first.UID), "it is not withdrawn")
	s.clock.Step(time.Hour)
	g.Expect(s.recheck(t).UID).To(gomega.Equal(first.UID))
	g.Expect(s.events.Events).To(gomega.BeEmpty(), "the event is sent once")
	g.Expect(s.publisher.State()).To(gomega.Equal(apiservice.State{Known: true, Published: true, Endpoints: 1}))
}

func (s *serving) testRotation(t *testing.T) {
	g := gomega.NewWithT(t)
	before := s.begin(t)
	var secret corev1.Secret
	g.Eventually(func() error {
		if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: s.in, Name: servedBy}, &secret); err != nil {
			return err
		}
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, api.AnnotationRotate, "now-1")
		return s.client.Update(t.Context(), &secret)
	}).Should(gomega.Succeed())
	g.Eventually(func() int { return len(certificatesIn(t, s.awaitLive(t).Spec.CABundle)) }).Should(gomega.Equal(2),
		"the previous CA stays trusted")
	after := s.awaitLive(t)
	g.Expect(after.UID).To(gomega.Equal(before.UID))
	g.Expect(string(after.Spec.CABundle)).To(gomega.ContainSubstring(string(before.Spec.CABundle)))
	g.Eventually(s.keeper.Ready).Should(gomega.Succeed(), "the Keeper knows of the bundle")
}

func (s *serving) testHealed(t *testing.T) {
	g := gomega.NewWithT(t)
	first := s.begin(t)
	for name, change := range map[string]func(*apiregistrationv1.APIService){
		"priority": func(a *apiregistrationv1.APIService) { a.Spec.GroupPriorityMinimum = 2000 },
		"trust": func(a *apiregistrationv1.APIService) {
			a.Spec.CABundle, a.Spec.InsecureSkipTLSVerify = nil, true
		},
		"Service": func(a *apiregistrationv1.APIService) {
			a.Spec.Service.Name, a.Spec.Service.Port = "other", ptr.To[int32](8443)
		},
		"owner":  func(a *apiregistrationv1.APIService) { a.OwnerReferences = nil },
		"labels": func(a *apiregistrationv1.APIService) { a.Labels = map[string]string{"team": "a"} },
	} {
		s.edit(t, change)
		g.Eventually(func(g gomega.Gomega) {
			live := s.awaitLive(t)
			g.Expect(live.UID).To(gomega.Equal(first.UID))
			g.Expect(live.Labels).To(gomega.HaveKeyWithValue(api.LabelManagedBy, api.ManagedBy))
		}).Should(gomega.Succeed(), name)
	}
	g.Expect(s.awaitLive(t).Labels).To(gomega.HaveKeyWithValue("team", "a"), "labels of others are kept")
	g.Expect(s.client.Delete(t.Context(), s.empty())).To(gomega.Succeed())
	g.Eventually(func() bool { return s.awaitLive(t).UID != first.UID }).Should(gomega.BeTrue())
}

// testOtherWriter has another writer that reverts each write at once.
func (s *serving) testOtherWriter(t *testing.T) {
	g := gomega.NewWithT(t)
	s.begin(t)
	undo := func() { s.edit(t, func(a *apiregistrationv1.APIService) { a.Spec.VersionPriority = 99 }) }
	isHealed := func() bool {
		live, err := s.live(t.Context())
		return err == nil && live != nil && live.Spec.VersionPriority == 15
	}
	// The first write is not part of the conflict. An update of the status meanwhile may add one more.
	writes := func() int { return len(s.calls.Since(0, "PATCH")) }
	for writes() < tenWrites {
		undo()
		g.Eventually(func() bool { return isHealed() || writes() >= tenWrites }).Should(gomega.BeTrue())
	}
	s.calls.Settle(t) // the limit counts a write when it is sent; the next line must revert no earlier one
	undo()
	s.calls.Settle(t)
	g.Expect(writes()).To(gomega.Equal(tenWrites), "the writes are not limited")
	g.Expect(isHealed()).To(gomega.BeFalse())
	// Step repeatedly: the Publisher may read the clock only after a step.
	g.Eventually(func() bool {
		s.clock.Step(oneWrite)
		return isHealed()
	}).Should(gomega.BeTrue())
	s.awaitLive(t)
}

func (s *serving) testWithdrawn(t *testing.T) {
	g := gomega.NewWithT(t)
	first := s.begin(t)
	s.awaitEvent(t, "Normal Published")
	s.serve(t, 0)
	s.awaitTimer(t)
	s.clock.Step(apiservice.Patience - time.Second)
	g.Expect(s.recheck(t).UID).To(gomega.Equal(first.UID))
	s.awaitTimer(t)
	s.clock.Step(time.Second)
	s.awaitGone(t)
	s.awaitEvent(t, "Warning Withdrawn")
	g.Eventually(s.publisher.State).Should(gomega.Equal(apiservice.State{Known: true}))

	s.serve(t, 1)
	second := s.awaitLive(t)
	s.awaitEvent(t, "Normal Published")
	s.serve(t, 0)
	s.awaitTimer(t)
	s.clock.Step(apiservice.Patience - time.Second)
	s.serve(t, 2)
	s.recheck(t)
	s.clock.Step(apiservice.Patience)
	g.Expect(s.recheck(t).UID).To(gomega.Equal(second.UID), "a server that is ready again in time stays published")
}

func (s *serving) testNewLeader(t *testing.T) {
	g := gomega.NewWithT(t)
	first := s.begin(t)
	s.stop()
	s.publisher = nil
	s.serve(t, 0)
	since := metav1.NewTime(s.clock.Now().Add(-lateLeader))
	g.Eventually(func() error {
		live, err := s.live(t.Context())
		if err != nil {
			return err
		}
		live.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Type: apiregistrationv1.Available,
			Status: apiregistrationv1.ConditionFalse, LastTransitionTime: since}}
		return s.client.Status().Update(t.Context(), live)
	}).Should(gomega.Succeed())
	s.lead(t)
	s.awaitTimer(t)
	s.clock.Step(apiservice.Patience - lateLeader - time.Second)
	g.Expect(s.recheck(t).UID).To(gomega.Equal(first.UID))
	s.awaitTimer(t)
	s.clock.Step(time.Second)
	s.awaitGone(t)
}

func (s *serving) testUnknown(t *testing.T) {
	g := gomega.NewWithT(t)
	first := s.begin(t)
	s.stop()
	s.publisher = nil
	s.serve(t, 0)
	s.calls = &testenv.Requests{}
	s.calls.Forbid("/endpointslices")
	s.leadWith(t)
	g.Expect(s.recheck(t).UID).To(gomega.Equal(first.UID))
	g.Expect(s.publisher.State().Known).To(gomega.BeFalse())
	s.clock.Step(time.Hour)
	g.Expect(s.recheck(t).UID).To(gomega.Equal(first.UID))
	s.awaitNoTimer(t)
	s.calls.Forbid("")
	// Where the API server has not said yet since when it reaches no server, the countdown begins now.
	g.Eventually(func(ctx context.Context) (*apiregistrationv1.APIService, error) {
		s.clock.Step(apiservice.Patience)
		return s.live(ctx)
	}).WithContext(t.Context()).Should(gomega.BeNil())
}

func (s *serving) testLeaving(t *testing.T) {
	g := gomega.NewWithT(t)
	s.begin(t)
	g.Expect(s.client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.in}})).To(gomega.Succeed())
	s.awaitGone(t)
	s.serve(t, 0)
	s.serve(t, 2)
	s.calls.Settle(t)
	g.Expect(s.live(t.Context())).To(gomega.BeNil(), "it is not created again")
	s.awaitNoTimer(t)
}

func (s *serving) testForeign(t *testing.T) {
	g := gomega.NewWithT(t)
	theirs := apiServiceOf("other-manager")
	g.Expect(s.client.Create(t.Context(), theirs)).To(gomega.Succeed())
	s.lead(t)
	s.serve(t, 1)
	s.awaitEvent(t, "Warning Conflict")
	s.serve(t, 0)
	s.serve(t, 2)
	s.calls.Settle(t)
	live, err := s.live(t.Context())
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(live.UID).To(gomega.Equal(theirs.UID))
	g.Expect(live.Spec).To(gomega.Equal(theirs.Spec))
	g.Expect(s.calls.Since(0, "PATCH", "DELETE")).To(gomega.BeEmpty())
	g.Expect(s.events.Events).To(gomega.BeEmpty(), "the event is sent once")
	g.Expect(s.publisher.State()).To(gomega.Equal(apiservice.State{Known: true, Endpoints: 2}))

	g.Expect(s.client.Delete(t.Context(), theirs)).To(gomega.Succeed())
	g.Expect(s.awaitLive(t).UID).NotTo(gomega.Equal(theirs.UID))
}

// testExternal checks that a CA stays trusted after a rotation: pods may still serve certificates
// that it signed.
func (s *serving) testExternal(t *testing.T) {
	g := gomega.NewWithT(t)
	write := func() []byte {
		data := externalDataFor(t, servedBy+"."+s.in+".svc")
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.in, Name: servedBy}, Type: corev1.SecretTypeTLS, Data: data}
		err := s.client.Create(t.Context(), secret)
		if apierrors.IsAlreadyExists(err) {
			err = s.client.Update(t.Context(), secret)
		}
		g.Expect(err).NotTo(gomega.HaveOccurred())
		return data["ca.crt"]
	}
	external := func(options *apiservice.Options, certificate *certificates.Options) {
		options.External, certificate.External = true, true
	}
	bundle := func() string {
		live, err := s.live(t.Context())
		if err != nil || live == nil {
			return ""
		}
		return string(live.Spec.CABundle)
	}
	first := write()
	s.serve(t, 1)
	s.lead(t, external)
	g.Eventually(bundle).Should(gomega.Equal(string(first)))
	s.stop()
	second := write()
	s.lead(t, external)
	g.Eventually(bundle).Should(gomega.And(gomega.ContainSubstring(strings.TrimSpace(string(first))),
		gomega.ContainSubstring(strings.TrimSpace(string(second)))))
	s.calls.Settle(t)
	written := len(s.calls.Since(0, "PATCH"))
	s.clock.Step(time.Minute)
	s.calls.Settle(t)
	g.Expect(s.calls.Since(0, "PATCH")).To(gomega.HaveLen(written), "no difference is left")
	g.Expect(s.calls.Since(0, "PUT", "POST")).To(gomega.BeEmpty(), "the Secret is not ours")
}

// testNoRole deletes the ClusterRole of an installation; Kubernetes then deletes the APIService.
func (s *serving) testNoRole(t *testing.T) {
	g := gomega.NewWithT(t)
	s.begin(t)
	g.Expect(s.client.Delete(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: servedRole}})).To(gomega.Succeed())
	g.Expect(s.client.Delete(t.Context(), s.empty())).To(gomega.Succeed())
	g.Eventually(s.publisher.State).Should(gomega.HaveField("Published", false))
	s.awaitTimer(t)
	g.Expect(s.live(t.Context())).To(gomega.BeNil(), "it is not created again")
	g.Expect(s.client.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: servedRole}})).To(gomega.Succeed())
	// Step repeatedly: a try that was under way sets its timer after the step.
	g.Eventually(func(ctx context.Context) (*apiregistrationv1.APIService, error) {
		s.clock.Step(5 * time.Second)
		return s.live(ctx)
	}).WithContext(t.Context()).ShouldNot(gomega.BeNil())
	s.awaitLive(t)
}

// TestAPIServiceOfTheManager checks the flags, with and without webhooks, and that a manager
// withdraws an APIService that another published.
func TestAPIServiceOfTheManager(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	server := ownServer(t)
	g.Expect(crds.Install(t.Context(), definitionsOf(t, server.Config))).To(gomega.Succeed())
	s := newServing(t, server.Config)
	s.serve(t, 1)
	stop := s.manage(t, servedBy)
	var live *apiregistrationv1.APIService
	g.Eventually(func() (err error) {
		if live, err = s.live(t.Context()); err == nil && live == nil {
			err = errors.New("there is no APIService")
		}
		return err
	}).Should(gomega.Succeed())
	var secret corev1.Secret
	g.Expect(s.client.Get(t.Context(), client.ObjectKey{Namespace: s.in, Name: "mainstay-apiserver"}, &secret)).To(gomega.Succeed())
	g.Expect(string(live.Spec.CABundle)).To(gomega.Equal(string(secret.Data["ca.crt"])))
	for _, owned := range []client.Object{live, &secret} {
		g.Expect(owned.GetOwnerReferences()).To(gomega.HaveExactElements(gomega.HaveField("Name", servedRole)))
	}
	served := certificatesIn(t, secret.Data["tls.crt"])[0]
	g.Expect(served.VerifyHostname(servedBy + "." + s.in + ".svc")).To(gomega.Succeed())
	g.Eventually(func() []eventsv1.Event {
		var found eventsv1.EventList
		g.Expect(s.client.List(t.Context(), &found, client.InNamespace(s.in))).To(gomega.Succeed())
		return found.Items
	}).Should(gomega.ContainElement(gomega.And(gomega.HaveField("Reason", "Published"), gomega.HaveField("Regarding.Name", servedBy),
		gomega.HaveField("Regarding.UID", gomega.Not(gomega.BeEmpty())))))
	stop()
	g.Expect(s.live(t.Context())).NotTo(gomega.BeNil(), "a manager that ends leaves it for the next")

	stop = s.manage(t, "")
	s.awaitGone(t)
	stop()
	theirs := apiServiceOf("other-manager")
	g.Expect(s.client.Create(t.Context(), theirs)).To(gomega.Succeed())
	stop = s.manage(t, "")
	g.Eventually(func() []string { return s.calls.Since(0, "apiservices/"+farmGroup) }).Should(gomega.HaveLen(1))
	s.calls.Settle(t)
	stop()
	g.Expect(s.live(t.Context())).To(gomega.HaveField("UID", theirs.UID))
}

// apiServiceOf returns the APIService of an installation, which is identified by the name of its
// role.
func apiServiceOf(role string) *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{
			Name: farmGroup, Labels: map[string]string{api.LabelManagedBy: api.ManagedBy},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole", Name: role, UID: "1"}},
		},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "farm.mainstay.dev", Version: "v1alpha1", GroupPriorityMinimum: 1000, VersionPriority: 15, InsecureSkipTLSVerify: true,
			Service: &apiregistrationv1.ServiceReference{Namespace: "elsewhere", Name: "server", Port: ptr.To[int32](443)},
		},
	}
}

// TestUninstallWithdrawsTheAPIService checks that the APIService is deleted right after the
// managers, which would recreate it, and before all objects whose deletion it could block. Only
// that of the given installation is deleted, or any if none is given.
func TestUninstallWithdrawsTheAPIService(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	server := ownServer(t)
	live, definitions := clientOf(t, server.Config), definitionsOf(t, server.Config)
	g.Expect(crds.Install(t.Context(), definitions)).To(gomega.Succeed())
	recorded := &testenv.Requests{}
	counted := rest.CopyConfig(server.Config)
	counted.Wrap(recorded.Wrap)
	g.Expect(live.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}})).To(gomega.Succeed())
	g.Expect(live.Create(t.Context(), managersOf(system))).To(gomega.Succeed())
	options := uninstall.Options{
		Client: clientOf(t, counted), Definitions: definitionsOf(t,
			counted), Namespace: system, Deployment: "mainstay-manager", Patience: within,
	}
	uninstalled := func(owner string) *apiregistrationv1.APIService {
		options.Owner = owner
		g.Expect(uninstall.Run(t.Context(), options)).To(gomega.Succeed())
		found := &apiregistrationv1.APIService{}
		if err := live.Get(t.Context(), client.ObjectKey{Name: farmGroup}, found); err != nil {
			g.Expect(client.IgnoreNotFound(err)).To(gomega.Succeed())
			return nil
		}
		return found
	}
	g.Expect(live.Create(t.Context(), apiServiceOf("mainstay-manager"))).To(gomega.Succeed())
	g.Expect(uninstalled("mainstay-manager")).To(gomega.BeNil())
	var writes []string
	for _, call := range recorded.Since(0) {
		if !strings.HasPrefix(call, "GET ") {
			writes = append(writes, call)
		}
	}
	g.Expect(len(writes)).To(gomega.BeNumerically(">", 2))
	g.Expect(writes[:2]).To(gomega.Equal([]string{
		"PATCH /apis/apps/v1/namespaces/" + system +
			"/deployments/mainstay-manager/scale", "DELETE /apis/apiregistration.k8s.io/v1/apiservices/" + farmGroup,
	}))
	g.Expect(uninstalled("mainstay-manager")).To(gomega.BeNil(), "a second time")
	g.Expect(live.Create(t.Context(), apiServiceOf("other-manager"))).To(gomega.Succeed())
	g.Expect(uninstalled("mainstay-manager")).NotTo(gomega.BeNil())
	g.Expect(uninstalled("")).To(gomega.BeNil())
}
