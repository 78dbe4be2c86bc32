package integration

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-platform/mainstay/internal/install/apiservice"
	"github.com/mainstay-platform/mainstay/internal/install/certificates"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// serving is an API server, a namespace in it with the Service of our served resources, and the
// leader that maintains their APIService.
type serving struct {
	config *rest.Config
	client client.Client
	in     string
	clock  *clocktesting.FakeClock

	calls     *testenv.Requests
	keeper    *certificates.Keeper
	publisher *apiservice.Publisher
	events    *events.FakeRecorder
	stop      func()
}

// newServing returns a serving without ready servers and without an APIService.
func newServing(t *testing.T, config *rest.Config) *serving {
	t.Helper()
	s := &serving{config: config, client: clientOf(t, config), clock: clocktesting.NewFakeClock(time.Now().Truncate(time.Second))}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: servedRole}}
	for _, object := range []client.Object{namespace, role} {
		if err := s.client.Create(t.Context(), object); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
	s.in = namespace.Name
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.in, Name: servedBy},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}}
	if err := s.client.Create(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.client.Delete(context.Background(), s.empty()); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *serving) empty() *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: farmGroup}}
}

// live returns the current APIService, nil if there is none.
func (s *serving) live(ctx context.Context) (*apiregistrationv1.APIService, error) {
	found := s.empty()
	err := s.client.Get(ctx, client.ObjectKeyFromObject(found), found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return found, err
}

// granted returns a config with exactly the rights that the chart grants the leader for the
// APIService.
func (s *serving) granted(t *testing.T) *rest.Config {
	t.Helper()
	content, err := os.ReadFile("../../charts/mainstay/files/rbac/apiservice.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string][]rbacv1.PolicyRule{}
	if err := yaml.UnmarshalStrict(content, &rules); err != nil {
		t.Fatal(err)
	}
	// The rights that depend on names, as in the chart's templates/rbac.yaml, and the right of the
	// part certificates.
	rules["cluster"] = append(rules["cluster"],
		rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, ResourceNames: []string{servedRole},
			Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{s.in},
			Verbs: []string{"list", "watch"}})
	rules["own"] = append(rules["own"],
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{servedBy},
			Verbs: []string{"list", "watch", "update"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services"}, ResourceNames: []string{servedBy}, Verbs: []string{"get"}})
	user := "leader-" + s.in
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules["cluster"]},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.in, Name: user}, Rules: rules["own"]},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: s.in, Name: user}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user}},
	} {
		if err := s.client.Create(t.Context(), object); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
	config := rest.CopyConfig(s.config)
	config.Impersonate.UserName = user
	// One right of each binding.
	awaitRight(t, config, authorizationv1.ResourceAttributes{Verb: "get", Group: rbacv1.GroupName, Resource: "clusterroles", Name: servedRole})
	awaitRight(t, config, authorizationv1.ResourceAttributes{Namespace: s.in, Verb: "get", Resource: "services", Name: servedBy})
	return config
}

// lead runs a leader until stop or the end of the test.
func (s *serving) lead(t *testing.T, change ...func(*apiservice.Options, *certificates.Options)) {
	t.Helper()
	s.calls = &testenv.Requests{}
	s.leadWith(t, change...)
}

// leadWith is like lead, with the existing recorder of calls.
func (s *serving) leadWith(t *testing.T, change ...func(*apiservice.Options, *certificates.Options)) {
	t.Helper()
	config := s.granted(t)
	config.Wrap(s.calls.Wrap)
	plain, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, plain)
	if err != nil {
		t.Fatal(err)
	}
	live := clientOf(t, config)
	watched, err := apiservice.NewCache(config, live.Scheme(), mapper, client.ObjectKey{Namespace: s.in, Name: servedBy})
	if err != nil {
		t.Fatal(err)
	}
	certificate := certificates.Options{Namespace: s.in, Name: servedBy, Names: []string{servedBy + "." + s.in + ".svc"}}
	s.events = events.NewFakeRecorder(100)
	options := apiservice.Options{
		Client: live, Cache: watched, Namespace: s.in, Service: servedBy, Whose: apiservice.Of(servedRole), Recorder: s.events, Clock: s.clock,
		Owner: func(ctx context.Context) (*metav1.OwnerReference, error) {
			role := &rbacv1.ClusterRole{}
			if err := live.Get(ctx, client.ObjectKey{Name: servedRole}, role); err != nil {
				return nil, err
			}
			return &metav1.OwnerReference{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole", Name: role.Name, UID: role.UID}, nil
		},
	}
	for _, change := range change {
		change(&options, &certificate)
	}
	if s.keeper, err = certificates.New(config, certificate); err != nil {
		t.Fatal(err)
	}
	options.Certificates = s.keeper
	s.publisher = apiservice.New(options)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, start := range []func(context.Context) error{s.keeper.Start, s.publisher.Start} {
		running.Go(func() {
			if err := start(ctx); err != nil || ctx.Err() == nil {
				t.Errorf("the leader ended with: %v", err)
			}
		})
	}
	s.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(s.stop)
}

// serve makes this many of two endpoints ready.
func (s *serving) serve(t *testing.T, ready int) {
	t.Helper()
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: s.in, Name: servedBy + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: servedBy}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new(""), Port: ptr.To[int32](6443)}},
	}
	for at := range 2 {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("203.0.113.%d", at+1)}, Conditions: discoveryv1.EndpointConditions{Ready: new(at < ready)},
		})
	}
	err := s.client.Update(t.Context(), slice)
	if apierrors.IsNotFound(err) {
		err = s.client.Create(t.Context(), slice)
	}
	if err != nil {
		t.Fatal(err)
	}
	if s.publisher != nil {
		gomega.NewWithT(t).Eventually(s.publisher.State).Should(gomega.HaveField("Endpoints", ready))
	}
}

// begin makes one server ready and starts a leader. It returns the published APIService.
func (s *serving) begin(t *testing.T) *apiregistrationv1.APIService {
	t.Helper()
	s.lead(t)
	s.serve(t, 1)
	return s.awaitLive(t)
}

// awaitLive waits until the APIService is as desired.
func (s *serving) awaitLive(t *testing.T) *apiregistrationv1.APIService {
	t.Helper()
	var live *apiregistrationv1.APIService
	gomega.NewWithT(t).Eventually(func(g gomega.Gomega) {
		var err error
		live, err = s.live(t.Context())
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(live).NotTo(gomega.BeNil())
		g.Expect(live.Spec).To(gomega.Equal(apiregistrationv1.APIServiceSpec{
			Service: &apiregistrationv1.ServiceReference{Namespace: s.in, Name: servedBy, Port: ptr.To[int32](443)},
			Group:   "farm.mainstay.dev", Version: "v1alpha1", GroupPriorityMinimum: 1000, VersionPriority: 15, CABundle: s.keeper.Bundle(),
		}))
		g.Expect(live.Spec.CABundle).NotTo(gomega.BeEmpty())
		g.Expect(live.OwnerReferences).To(gomega.HaveLen(1))
		g.Expect(live.OwnerReferences[0].Name).To(gomega.Equal(servedRole))
		g.Expect(live.DeletionTimestamp).To(gomega.BeNil())
	}).Should(gomega.Succeed())
	return live
}

func (s *serving) awaitGone(t *testing.T) {
	t.Helper()
	gomega.NewWithT(t).Eventually(s.live).WithContext(t.Context()).Should(gomega.BeNil())
}

// awaitTimer waits until the Publisher waits only for a change or for its timer.
func (s *serving) awaitTimer(t *testing.T) {
	t.Helper()
	gomega.NewWithT(t).Eventually(s.clock.HasWaiters).MustPassRepeatedly(3).Should(gomega.BeTrue())
}

// awaitNoTimer waits until the Publisher waits only for a change: no countdown is running. While
// its cache does not show the last write, it has a timer, too.
func (s *serving) awaitNoTimer(t *testing.T) {
	t.Helper()
	gomega.NewWithT(t).Eventually(s.clock.HasWaiters).MustPassRepeatedly(3).Should(gomega.BeFalse())
}

// recheck makes the Publisher reconcile the APIService, by an edit, and waits until the edit is
// reverted. It must not be used where the APIService would be withdrawn.
func (s *serving) recheck(t *testing.T) *apiregistrationv1.APIService {
	t.Helper()
	s.edit(t, func(a *apiregistrationv1.APIService) { a.Spec.VersionPriority = 99 })
	return s.awaitLive(t)
}

func (s *serving) edit(t *testing.T, change func(*apiregistrationv1.APIService)) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() error {
		live, err := s.live(t.Context())
		if err != nil || live == nil {
			return fmt.Errorf("there is no APIService, %w", err)
		}
		change(live)
		return s.client.Update(t.Context(), live)
	}).Should(gomega.Succeed())
}

// awaitEvent waits for an event on the Service.
func (s *serving) awaitEvent(t *testing.T, want string) {
	t.Helper()
	gomega.NewWithT(t).Eventually(s.events.Events).Should(gomega.Receive(gomega.HavePrefix(want)))
}

// manage runs a complete manager with the name of a Service, or with none, until stop or the end of
// the test.
func (s *serving) manage(t *testing.T, service string) (stop func()) {
	t.Helper()
	manager := testenv.RunManager(t, s.config, testenv.ManagerOptions{Settings: func(settings *setup.Settings) {
		settings.Kinds = []string{"webapp"}
		settings.Namespace, settings.Webhooks.Owner, settings.APIService.Service = s.in, servedRole, service
	}})
	s.calls = manager.Requests
	return manager.Stop
}
