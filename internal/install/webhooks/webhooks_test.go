package webhooks

import (
	"context"
	"errors"
	goruntime "runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mainstay-platform/mainstay/internal/install/loop/looptest"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
)

// serving is a fake of Certificates.
type serving struct {
	bundle []byte
	err    error
}

func (c serving) Bundle() []byte           { return c.bundle }
func (c serving) Changed() <-chan struct{} { return nil }
func (c serving) Trusted([]byte)           {}
func (c serving) Ready() error             { return c.err }

func TestReady(t *testing.T) {
	untrusted := errors.New("not trusted yet")
	for name, test := range map[string]struct {
		started        error
		known, present bool
		certificates   serving
		want           bool
	}{
		"all is well":                       {nil, true, true, serving{[]byte("ca"), nil}, true},
		"not called, untrusted certificate": {nil, true, false, serving{[]byte("ca"), untrusted}, true},
		"not called, no certificate":        {nil, true, false, serving{nil, untrusted}, false},
		"called, untrusted certificate":     {nil, true, true, serving{[]byte("ca"), untrusted}, false},
		"it does not listen":                {errors.New("no"), true, true, serving{[]byte("ca"), nil}, false},
		"unknown whether it is called":      {nil, false, false, serving{[]byte("ca"), nil}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := New(Options{Started: func() error { return test.started }, Certificates: test.certificates})
			p.known, p.present = test.known, test.present
			if err := p.Ready(); (err == nil) != test.want {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestReadyIsNotAnother: next to another installation a replica is never ready, and says why.
func TestReadyIsNotAnother(t *testing.T) {
	p := New(Options{Started: func() error { return nil }, Certificates: serving{[]byte("ca"), nil}})
	p.known, p.present, p.another = true, true, AnotherError{ClusterRole: "other-manager"}
	if err := p.Ready(); !errors.Is(err, AnotherError{ClusterRole: "other-manager"}) {
		t.Errorf("got %v", err)
	}
}

// TestReadyStays: a rotation does not make all replicas unready.
func TestReadyStays(t *testing.T) {
	p := New(Options{Started: func() error { return nil }, Certificates: serving{[]byte("ca"), nil}})
	p.known, p.present = true, true
	if err := p.Ready(); err != nil {
		t.Fatal(err)
	}
	p.options.Certificates = serving{[]byte("other"), errors.New("not trusted yet")}
	if err := p.Ready(); err != nil {
		t.Error(err)
	}
}

func wanted() Wanted {
	rules := []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{"CREATE"}}}
	return Wanted{
		Hooks: []admission.Hook{
			{Name: "a.mainstay.dev", Path: "/validate/a", Rules: rules},
			{Name: "a.mainstay.dev", Path: "/mutate/a", Rules: rules, Mutating: true},
		},
		Endpoint:   Endpoint{Namespace: "system", Service: "webhook"},
		Ungoverned: []string{"kube-system", "system"},
	}
}

// TestConfigurations: the webhooks fail closed after five seconds, and never block the components
// that could repair them.
func TestConfigurations(t *testing.T) {
	validating, mutating := wanted().configuration(validating, []byte("ca")), wanted().configuration(mutating, []byte("ca"))
	if len(validating.Webhooks) != 1 || len(mutating.Webhooks) != 1 {
		t.Fatalf("%d and %d webhooks", len(validating.Webhooks), len(mutating.Webhooks))
	}
	v, m := validating.Webhooks[0], mutating.Webhooks[0]
	for name, pair := range map[string][2]any{
		"paths":           {[]string{"/validate/a", "/mutate/a"}, []string{*v.ClientConfig.Service.Path, *m.ClientConfig.Service.Path}},
		"service":         {"webhook", m.ClientConfig.Service.Name},
		"failure policy":  {admissionregistrationv1.Fail, *v.FailurePolicy},
		"failure policy ": {admissionregistrationv1.Fail, *m.FailurePolicy},
		"seconds":         {int32(5), *v.TimeoutSeconds},
		"side effects":    {admissionregistrationv1.SideEffectClassNone, *m.SideEffects},
		"match policy":    {admissionregistrationv1.Equivalent, *v.MatchPolicy},
		"not asked about": {[]string{"kube-system", "system"}, v.NamespaceSelector.MatchExpressions[0].Values},
		"bundle":          {[]byte("ca"), m.ClientConfig.CABundle},
	} {
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	owner := &metav1.OwnerReference{Kind: "ClusterRole", Name: "manager", UID: types.UID("1")}
	complete(validating, owner, "1.2.3")
	if !children.IsOwned(validating, owner) || children.IsOwned(validating, &metav1.OwnerReference{UID: "2"}) ||
		!children.IsOwned(validating, nil) {
		t.Error("IsOwned reports the wrong owner")
	}
}

// TestHookThatMayFail: a hook can set its own failure policy, and other hooks keep the default. All
// have the same timeout.
func TestHookThatMayFail(t *testing.T) {
	some := wanted()
	for _, isMutating := range []bool{false, true} {
		some.Hooks = append(some.Hooks, admission.Hook{
			Name: "b.mainstay.dev", Mutating: isMutating, FailurePolicy: admissionregistrationv1.Ignore,
		})
	}
	all := some
	all.TimeoutSeconds = 30
	patient := all.configuration(mutating, nil).Webhooks
	validating, mutating := some.configuration(validating, nil).Webhooks, some.configuration(mutating, nil).Webhooks
	for name, pair := range map[string][2]any{
		"failure policies": {[]admissionregistrationv1.FailurePolicyType{"Fail", "Ignore"},
			[]admissionregistrationv1.FailurePolicyType{*validating[0].FailurePolicy, *validating[1].FailurePolicy}},
		"failure policies ": {[]admissionregistrationv1.FailurePolicyType{"Fail", "Ignore"},
			[]admissionregistrationv1.FailurePolicyType{*mutating[0].FailurePolicy, *mutating[1].FailurePolicy}},
		"seconds":              {[]int32{5, 5}, []int32{*validating[0].TimeoutSeconds, *validating[1].TimeoutSeconds}},
		"seconds ":             {[]int32{5, 5}, []int32{*mutating[0].TimeoutSeconds, *mutating[1].TimeoutSeconds}},
		"seconds that are set": {[]int32{30, 30}, []int32{*patient[0].TimeoutSeconds, *patient[1].TimeoutSeconds}},
	} {
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestWatched: the webhooks of an installation for some namespaces are not called for others, nor
// for ungoverned ones.
func TestWatched(t *testing.T) {
	some := wanted()
	some.Watched = []string{"shop", "system"}
	selector, err := metav1.LabelSelectorAsSelector(some.configuration(mutating, nil).Webhooks[0].NamespaceSelector)
	if err != nil {
		t.Fatal(err)
	}
	for namespace, want := range map[string]bool{"shop": true, "system": false, "other": false, "kube-system": false} {
		if got := selector.Matches(labels.Set{"kubernetes.io/metadata.name": namespace}); got != want {
			t.Errorf("asked about %s: %t", namespace, got)
		}
	}
}

// TestOurs: configurations owned by another ClusterRole belong to another installation. So do, for
// a manager that starts, those that call another namespace; not those of which one webhook was
// edited.
func TestOurs(t *testing.T) {
	owner := &metav1.OwnerReference{Kind: "ClusterRole", Name: "mainstay-manager", UID: "1"}
	some := wanted()
	some.Hooks = append(some.Hooks, admission.Hook{Name: "b.mainstay.dev", Path: "/mutate/b", Mutating: true})
	owned := some.configuration(mutating, nil)
	complete(owned, owner, "1.2.3")
	edited := owned.DeepCopy()
	edited.Webhooks[0].ClientConfig.Service.Namespace = "second"
	some.Endpoint = Endpoint{URL: "https://10.0.0.1:9443"}
	outside := some.configuration(mutating, nil)
	complete(outside, owner, "1.2.3")
	unowned := owned.DeepCopy()
	unowned.OwnerReferences = nil
	for name, test := range map[string]struct {
		there           client.Object
		role, namespace string
		want            error
		isGone          bool // the Service that the webhooks call
	}{
		"none are there":                {&admissionregistrationv1.MutatingWebhookConfiguration{}, "mainstay-manager", "system", nil, false},
		"ours":                          {owned, "mainstay-manager", "system", nil, false},
		"nobody's":                      {validating.empty(), "mainstay-manager", "system", nil, false},
		"nobody's, another namespace":   {unowned, "mainstay-manager", "second", nil, false},
		"another's":                     {owned, "second-manager", "second", AnotherError{ClusterRole: "mainstay-manager"}, false},
		"another's of the same name":    {owned, "mainstay-manager", "second", AnotherError{"mainstay-manager", "system"}, false},
		"no namespace is given":         {owned, "mainstay-manager", "", nil, false},
		"one is edited":                 {edited, "mainstay-manager", "system", nil, false},
		"called outside of the cluster": {outside, "mainstay-manager", "system", nil, false},
		"we have no owner":              {owned, "", "second", nil, false},
		"one that has moved here":       {owned, "mainstay-manager", "second", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder()
			if !test.isGone {
				builder = builder.WithObjects(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "webhook"}})
			}
			if test.there.GetName() != "" {
				builder = builder.WithObjects(test.there.DeepCopyObject().(client.Object))
			}
			if err := OursIn(t.Context(), builder.Build(), test.role, test.namespace); !errors.Is(err, test.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestEndpoint(t *testing.T) {
	for _, test := range []struct {
		endpoint Endpoint
		names    []string
		url      string
	}{
		{Endpoint{Namespace: "system", Service: "webhook"}, []string{"webhook.system.svc"}, ""},
		{Endpoint{URL: "https://10.0.0.1:9443"}, []string{"10.0.0.1"}, "https://10.0.0.1:9443/convert"},
		{Endpoint{URL: "https://laptop.example.com:9443/"}, []string{"laptop.example.com"}, "https://laptop.example.com:9443/convert"},
	} {
		if !slices.Equal(test.endpoint.Names(), test.names) {
			t.Errorf("%v has the names %q", test.endpoint, test.endpoint.Names())
		}
		conversion := test.endpoint.Conversion(nil)
		switch {
		case test.url == "" && (conversion.URL != nil || *conversion.Service.Path != "/convert" || *conversion.Service.Port != 443):
			t.Errorf("%v converts at %v", test.endpoint, conversion)
		case test.url != "" && (conversion.Service != nil || *conversion.URL != test.url):
			t.Errorf("%v converts at %v", test.endpoint, conversion)
		}
	}
}

// TestReachedAs: after a rollback the webhooks of a later release stay, and are reached at our
// endpoint.
func TestReachedAs(t *testing.T) {
	later := wanted()
	later.Hooks = append(later.Hooks, admission.Hook{Name: "new.mainstay.dev", Path: "/validate/new"})
	later.Endpoint = Endpoint{URL: "https://10.0.0.1:9443"}
	own := Endpoint{Namespace: "system", Service: "webhook"}
	for _, before := range []*admissionregistrationv1.MutatingWebhookConfiguration{later.configuration(validating, []byte("old")),
		wanted().configuration(validating, []byte("old"))} {
		after := reachedAs(before.Webhooks, own, []byte("ca"))
		for i, webhook := range after {
			if webhook.Name != before.Webhooks[i].Name || *webhook.ClientConfig.Service.Path != pathOf(before.Webhooks[i].ClientConfig) ||
				string(webhook.ClientConfig.CABundle) != "ca" {
				t.Errorf("%s is reached as %v", webhook.Name, webhook.ClientConfig)
			}
		}
		if string(before.Webhooks[0].ClientConfig.CABundle) != "old" {
			t.Error("the cached object was modified")
		}
	}
	mutated := reachedAs(later.configuration(mutating, []byte("old")).Webhooks, own, []byte("ca"))
	if len(mutated) != 1 || *mutated[0].ClientConfig.Service.Path != "/mutate/a" {
		t.Errorf("got %v", mutated)
	}
}

// fakeCache reads from a client.
type fakeCache struct {
	cache.Cache
	client client.Reader
}

// Get reads from the client.
func (c fakeCache) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	return c.client.Get(ctx, key, into, options...)
}

// TestWrite: a configuration of either kind that is written as desired is not written again.
func TestWrite(t *testing.T) {
	var written []string
	stored := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(ctx context.Context, under client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			written = append(written, object.(runtime.Object).GetObjectKind().GroupVersionKind().Kind)
			return under.Apply(ctx, object, options...)
		},
	}).Build()
	p := New(Options{Client: stored, Cache: fakeCache{client: stored}, Wanted: wanted(), Release: "1.2.3"})
	owner := &metav1.OwnerReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "manager", UID: "1"}
	both := []string{string(validating), string(mutating)}
	for _, step := range []struct {
		bundle string
		want   []string
	}{{"ca", both}, {"ca", nil}, {"another", both}} {
		written = nil
		if err := p.write(t.Context(), owner, []byte(step.bundle)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, written); diff != "" {
			t.Error(diff)
		}
	}
}

// TestAwaitProxy: kube-proxy always gets its time.
func TestAwaitProxy(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	p := New(Options{Clock: clock})
	p.loop.Wake()
	ended := make(chan error, 1)
	go func() { ended <- p.awaitProxy(t.Context()) }()
	for !clock.HasWaiters() {
		goruntime.Gosched()
	}
	clock.Step(proxyDelay - time.Millisecond)
	select {
	case err := <-ended:
		t.Fatalf("it ended early: %v", err)
	default:
	}
	clock.Step(time.Millisecond)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.awaitProxy(ctx); err == nil {
		t.Error("the end of ctx counts as an endpoint")
	}
}

// TestStartBroken: without a cache or a watch the process would never be ready, so it ends with an
// error.
func TestStartBroken(t *testing.T) {
	looptest.EndsWhenBroken(t, func(ctx context.Context, broken cache.Cache) error { return New(Options{Cache: broken}).Start(ctx) })
}
