package apiservice

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"
)

var (
	start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	role  = metav1.OwnerReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "mainstay-manager", UID: "1"}
)

// stored returns the desired APIService with changes.
func stored(change ...func(*apiregistrationv1.APIService)) *apiregistrationv1.APIService {
	made := desired("system", "server", []byte("ca"), &role)
	for _, change := range change {
		change(made)
	}
	return made
}

// unavailable returns a change that marks an APIService as unavailable since a time.
func unavailable(since time.Time) func(*apiregistrationv1.APIService) {
	return func(a *apiregistrationv1.APIService) {
		a.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Type: "Available", Status: "False",
			LastTransitionTime: metav1.NewTime(since)}}
	}
}

func edited(a *apiregistrationv1.APIService) { a.Spec.VersionPriority = 1 }
func deleted(a *apiregistrationv1.APIService) {
	a.DeletionTimestamp = new(metav1.NewTime(start))
}

func TestDecide(t *testing.T) {
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	for name, test := range map[string]struct {
		o     observed
		want  action
		again time.Time
	}{
		"served, and all is well": {observed{apiService: stored(), isOurs: true, known: true, ready: 2, wanted: stored()}, keep,
			time.Time{}},
		"served, and it was edited": {observed{apiService: stored(edited), isOurs: true, known: true, ready: 2, wanted: stored()},
			publish, time.Time{}},
		"edited, and the bundle is unknown":   {observed{apiService: stored(edited), isOurs: true, known: true, ready: 2}, keep, time.Time{}},
		"served, and it is not there":         {observed{known: true, ready: 1, wanted: stored()}, publish, time.Time{}},
		"served, without a certificate":       {observed{known: true, ready: 1}, wait, time.Time{}},
		"no ready endpoint, and it is absent": {observed{known: true, wanted: stored(), missing: start}, wait, time.Time{}},
		"endpoints unknown, and it is absent": {observed{wanted: stored()}, wait, time.Time{}},
		"endpoints unknown, and it exists":    {observed{apiService: stored(), isOurs: true, wanted: stored()}, keep, time.Time{}},
		"no ready endpoint from now on": {observed{apiService: stored(), isOurs: true, known: true, missing: start, wanted: stored()}, keep,
			at(60)},
		"no ready endpoint for 59 s": {observed{apiService: stored(), isOurs: true, known: true, missing: at(-59), wanted: stored()},
			keep, at(1)},
		"no ready endpoint for 60 s": {observed{apiService: stored(), isOurs: true, known: true, missing: at(-60), wanted: stored()},
			withdraw, time.Time{}},
		"no ready endpoint for 60 s, no bundle": {observed{apiService: stored(), isOurs: true, known: true, missing: at(-60)}, withdraw,
			time.Time{}},
		"edited without a ready endpoint": {observed{apiService: stored(edited), isOurs: true, known: true, missing: at(-59),
			wanted: stored()}, publish, at(1)},
		"edited, and no ready endpoint for 60 s": {observed{apiService: stored(edited), isOurs: true, known: true, missing: at(-60),
			wanted: stored()}, withdraw, time.Time{}},
		"our namespace is being deleted": {observed{apiService: stored(), isOurs: true, known: true, ready: 2, leaving: true,
			wanted: stored()}, withdraw, time.Time{}},
		"our namespace is deleted, endpoints unknown": {observed{apiService: stored(), isOurs: true, leaving: true}, withdraw, time.Time{}},
		"our namespace is deleted, it is absent":      {observed{known: true, ready: 2, leaving: true, wanted: stored()}, wait, time.Time{}},
		"it is being deleted": {observed{apiService: stored(deleted), isOurs: true, known: true, missing: at(-60),
			wanted: stored()}, wait, time.Time{}},
		"another's, and we serve": {observed{apiService: stored(edited), known: true, ready: 2, wanted: stored()}, wait, time.Time{}},
		"another's, and no ready endpoint": {observed{apiService: stored(), known: true, missing: at(-60), wanted: stored()}, wait,
			time.Time{}},
		"another's, our namespace is deleted": {observed{apiService: stored(), known: true, leaving: true, wanted: stored()}, wait, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			test.o.now = start
			got := decide(test.o)
			if got.action != test.want || !got.again.Equal(test.again) {
				t.Errorf("%s, and again at %s; want %s, and at %s", got.action, got.again, test.want, test.again)
			}
			if isAnothers := test.o.apiService != nil && !test.o.isOurs; got.conflict != isAnothers {
				t.Errorf("conflict: %t", got.conflict)
			}
			if (got.why == "") != (got.action == keep) {
				t.Errorf("%s because %q", got.action, got.why)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	refused := func(seconds int) *apiregistrationv1.APIService {
		return stored(unavailable(at(seconds)), func(a *apiregistrationv1.APIService) { a.Status.Conditions[0].Reason = "FailedDiscoveryCheck" })
	}
	reached := stored(unavailable(at(-90)), func(a *apiregistrationv1.APIService) { a.Status.Conditions[0].Status = "True" })
	for name, test := range map[string]struct {
		o     observed
		want  string
		again time.Time
	}{
		"not there":               {observed{present: at(-90)}, "", time.Time{}},
		"nothing said yet":        {observed{apiService: stored(), isOurs: true, present: at(-90)}, "", time.Time{}},
		"reached":                 {observed{apiService: reached, isOurs: true, present: at(-90)}, "", time.Time{}},
		"not reached from now on": {observed{apiService: refused(0), isOurs: true, present: at(-90)}, "", at(60)},
		"not reached for 59 s":    {observed{apiService: refused(-59), isOurs: true, present: at(-90)}, "", at(1)},
		"not reached for 60 s": {observed{apiService: refused(-60), isOurs: true, present: at(-90)}, "FailedDiscoveryCheck",
			time.Time{}},
		"ready from now on": {observed{apiService: refused(-90), isOurs: true, present: at(0)}, "", at(60)},
		"ready for 60 s, never reached": {observed{apiService: refused(-90), isOurs: true, present: at(-60)}, "FailedDiscoveryCheck",
			time.Time{}},
		"no ready endpoint": {observed{apiService: refused(-90), isOurs: true}, "", time.Time{}},
		"another's":         {observed{apiService: refused(-90), present: at(-90)}, "", time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			test.o.now = start
			if got, again := unreachable(test.o); got != test.want || !again.Equal(test.again) {
				t.Errorf("%q, and again at %s; want %q, and at %s", got, again, test.want, test.again)
			}
		})
	}
	if !isAvailable(reached) || isAvailable(refused(0)) || isAvailable(stored()) || isAvailable(nil) {
		t.Error("available is what the API server says is")
	}
}

// TestAbsence: a process that starts without a ready endpoint continues the former leader's count;
// a process that saw the last endpoint disappear starts at that time.
func TestAbsence(t *testing.T) {
	earlier, later := start.Add(-30*time.Second), start.Add(30*time.Second)
	for name, test := range map[string]struct {
		before absence
		o      observed
		want   absence
	}{
		"not known yet":                   {absence{}, observed{}, absence{}},
		"not known, after it was":         {absence{since: earlier}, observed{}, absence{since: earlier}},
		"one is ready":                    {absence{since: earlier}, observed{known: true, ready: 1}, absence{sawReady: true}},
		"none at the start":               {absence{}, observed{known: true, apiService: stored()}, absence{since: start}},
		"none at the start, nor anything": {absence{}, observed{known: true}, absence{since: start}},
		"none at the start, as was before": {absence{}, observed{known: true, apiService: stored(unavailable(earlier))},
			absence{since: earlier}},
		"none at the start, by another's clock": {absence{}, observed{known: true, apiService: stored(unavailable(later))},
			absence{since: start}},
		"none at the start, said without time": {absence{}, observed{known: true, apiService: stored(unavailable(time.Time{}))},
			absence{since: start}},
		"the last one went": {absence{sawReady: true}, observed{known: true, apiService: stored(unavailable(earlier))},
			absence{since: start, sawReady: true}},
		"still none": {absence{since: earlier},
			observed{known: true, apiService: stored(unavailable(start.Add(-time.Hour)))}, absence{since: earlier}},
	} {
		t.Run(name, func(t *testing.T) {
			test.o.now = start
			if got := test.before.next(test.o); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	available := stored(unavailable(earlier))
	available.Status.Conditions[0].Status = "True"
	if since := unavailableSince(available); !since.IsZero() {
		t.Errorf("unavailable since %s, while it is available", since)
	}
}

// TestDiffers: every field that we write is corrected, and fields that others added stay.
func TestDiffers(t *testing.T) {
	wanted := stored()
	for name, change := range map[string]func(*apiregistrationv1.APIService){
		"a label":            func(a *apiregistrationv1.APIService) { delete(a.Labels, "app.kubernetes.io/part-of") },
		"owner":              func(a *apiregistrationv1.APIService) { a.OwnerReferences[0].UID = "2" },
		"group":              func(a *apiregistrationv1.APIService) { a.Spec.Group = "x" },
		"version":            func(a *apiregistrationv1.APIService) { a.Spec.Version = "x" },
		"group's priority":   func(a *apiregistrationv1.APIService) { a.Spec.GroupPriorityMinimum = 1001 },
		"version's priority": edited,
		"bundle":             func(a *apiregistrationv1.APIService) { a.Spec.CABundle = []byte("other") },
		"trust":              func(a *apiregistrationv1.APIService) { a.Spec.InsecureSkipTLSVerify = true },
		"no Service":         func(a *apiregistrationv1.APIService) { a.Spec.Service = nil },
		"Service":            func(a *apiregistrationv1.APIService) { a.Spec.Service.Name = "x" },
		"Service namespace":  func(a *apiregistrationv1.APIService) { a.Spec.Service.Namespace = "x" },
		"port":               func(a *apiregistrationv1.APIService) { a.Spec.Service.Port = ptr.To[int32](8443) },
	} {
		if live := stored(change); !differs(live, wanted) {
			t.Errorf("a changed %s is not noticed", name)
		}
	}
	theirs := stored(unavailable(start), func(a *apiregistrationv1.APIService) {
		a.Labels["team"], a.Annotations = "a", map[string]string{"b": "c"}
		a.OwnerReferences = append(a.OwnerReferences, metav1.OwnerReference{Kind: "ConfigMap", UID: "3"})
	})
	if differs(theirs, wanted) {
		t.Error("what others added is undone")
	}
	if differs(stored(), desired("system", "server", []byte("ca"), nil)) {
		t.Error("an owner is removed though none is desired")
	}
}

func TestDesired(t *testing.T) {
	want := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{
			Name: "v1alpha1.farm.mainstay.dev", OwnerReferences: []metav1.OwnerReference{role},
			Labels: map[string]string{"app.kubernetes.io/managed-by": "mainstay", "app.kubernetes.io/part-of": "mainstay"},
		},
		Spec: apiregistrationv1.APIServiceSpec{
			Service: &apiregistrationv1.ServiceReference{Namespace: "system", Name: "server", Port: ptr.To[int32](443)},
			Group:   "farm.mainstay.dev", Version: "v1alpha1", CABundle: []byte("ca"), GroupPriorityMinimum: 1000, VersionPriority: 15,
		},
	}
	if diff := cmp.Diff(want, stored()); diff != "" {
		t.Error(diff)
	}
}

// TestWhose: an installation accepts its own APIService even if its labels or its owner were
// removed by hand. An uninstallation without a role accepts any of Mainstay's.
func TestWhose(t *testing.T) {
	unlabelled := func(a *apiregistrationv1.APIService) { a.Labels = nil }
	unowned := func(a *apiregistrationv1.APIService) { a.OwnerReferences = nil }
	another := func(a *apiregistrationv1.APIService) { a.OwnerReferences[0].Name = "other-manager" }
	for name, test := range map[string]struct {
		live                  *apiregistrationv1.APIService
		ours, nobodys, anyone bool
	}{
		"ours":                  {stored(), true, false, true},
		"ours without labels":   {stored(unlabelled), true, false, false},
		"ours without an owner": {stored(unowned), true, true, true},
		"another's":             {stored(another), false, false, true},
		"not Mainstay's":        {stored(unowned, unlabelled), false, false, false},
		"ours, and another's": {stored(func(a *apiregistrationv1.APIService) {
			a.OwnerReferences = append([]metav1.OwnerReference{{Kind: "ClusterRole", Name: "other-manager"}}, a.OwnerReferences...)
		}), true, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := [3]bool{Of("mainstay-manager")(test.live), Of("")(test.live), Anyones(test.live)}
			if want := [3]bool{test.ours, test.nobodys, test.anyone}; got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestCountReady(t *testing.T) {
	endpoint := func(ready *bool, pod string, addresses ...string) discoveryv1.Endpoint {
		made := discoveryv1.Endpoint{Addresses: addresses, Conditions: discoveryv1.EndpointConditions{Ready: ready}}
		if pod != "" {
			made.TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: pod}
		}
		return made
	}
	yes, no := new(true), new(false)
	for name, test := range map[string]struct {
		slices []discoveryv1.EndpointSlice
		want   int
	}{
		"no slice":       {nil, 0},
		"an empty slice": {[]discoveryv1.EndpointSlice{{}}, 0},
		"none is ready":  {[]discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{endpoint(no, "a", "10.0.0.1")}}}, 0},
		"one of two": {[]discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{endpoint(no, "a", "10.0.0.1"),
			endpoint(yes, "b", "10.0.0.2")}}}, 1},
		"no condition":       {[]discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{endpoint(nil, "", "10.0.0.1")}}}, 1},
		"without an address": {[]discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{endpoint(yes, "a")}}}, 0},
		"by addresses": {[]discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{endpoint(yes, "", "10.0.0.1"),
			endpoint(yes, "", "10.0.0.2")}}}, 2},
		"of both families": {[]discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{endpoint(yes, "a", "10.0.0.1")}},
			{Endpoints: []discoveryv1.Endpoint{endpoint(yes, "a", "fd00::1")}}}, 1},
		"in different slices": {[]discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{endpoint(yes, "a", "10.0.0.1")}},
			{Endpoints: []discoveryv1.Endpoint{endpoint(yes, "b", "10.0.0.2")}}}, 2},
	} {
		if got := countReady(test.slices); got != test.want {
			t.Errorf("%s: got %d, want %d", name, got, test.want)
		}
	}
}
