package campaign

import (
	"errors"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-platform/mainstay/test/faults/proxy"
)

// outcome returns the outcome of a run that created a child, wrote a status, and made a change that
// takes two writes.
func outcome(change ...func(*Outcome)) Outcome {
	write := func(resource, subresource string) Asked {
		request := proxy.Request{Verb: "patch", Resource: resource, Subresource: subresource, Namespace: "x", Name: "shop"}
		return Asked{"create", proxy.Exchange{Request: request, Arrived: true, Code: 200}}
	}
	made := Outcome{
		Steps:    []Observed{{"create", Snapshot{"Owner shop": "ready", "Child shop": "good"}}},
		Counts:   map[string]Count{"Child shop": {Created: 1}},
		Requests: []Asked{write("children", ""), write("owners", "status"), write("pairs", ""), write("pairs", "")},
	}
	for _, apply := range change {
		apply(&made)
	}
	return made
}

func again(o *Outcome, index int) { o.Requests = append(o.Requests, o.Requests[index]) }

// fail adds a failed copy of a request that did not arrive.
func fail(o *Outcome, index int) {
	failed := o.Requests[index]
	failed.Fault, failed.Arrived, failed.Code = proxy.Drop, false, 0
	o.Fired = append(o.Fired, proxy.Firing{Fault: proxy.Drop, Request: failed.Request})
	o.Requests = append(o.Requests, failed)
}

func TestCompare(t *testing.T) {
	scenario := Scenario{Owner: schema.GroupVersionKind{Kind: "Owner"}}
	plan := Options{Plan: proxy.Plan{Rules: []proxy.Rule{{Fault: proxy.Drop}}}}
	for name, test := range map[string]struct {
		change func(*Outcome)
		want   []Reason
	}{
		"the same":          {func(*Outcome) {}, nil},
		"another namespace": {func(o *Outcome) { o.Requests[0].Namespace = "y" }, nil},
		"end state":         {func(o *Outcome) { o.Steps[0].Snapshot = Snapshot{"Owner shop": "ready"} }, []Reason{EndState}},
		"made twice":        {func(o *Outcome) { o.Counts = map[string]Count{"Child shop": {Created: 2, Deleted: 1}} }, []Reason{Counts}},
		"made besides": {func(o *Outcome) { o.Counts = map[string]Count{"Child shop": {Created: 1}, "Child x": {Created: 1}} },
			[]Reason{Counts}},
		"never made":         {func(o *Outcome) { o.Counts = map[string]Count{} }, []Reason{Counts}},
		"unsettled":          {func(o *Outcome) { o.Unsettled = &UnsettledError{"create", errors.New("x")}; o.Steps = nil }, []Reason{Unsettled}},
		"unquiet":            {func(o *Outcome) { o.Unsettled = &UnsettledError{Step: "create"} }, []Reason{Unquiet}},
		"nothing fired":      {func(o *Outcome) { o.Options = plan }, []Reason{Unfired}},
		"fired":              {func(o *Outcome) { o.Options, o.Fired = plan, []proxy.Firing{{}} }, nil},
		"written twice":      {func(o *Outcome) { again(o, 0) }, []Reason{Rewritten}},
		"after its fault":    {func(o *Outcome) { again(o, 0); fail(o, 0) }, []Reason{Rewritten}},
		"begun again":        {func(o *Outcome) { again(o, 2); fail(o, 2) }, nil},
		"with another fault": {func(o *Outcome) { again(o, 2); fail(o, 0) }, []Reason{Rewritten}},
		"it did not arrive":  {func(o *Outcome) { again(o, 0); o.Requests[0].Arrived = false }, nil},
		"it was refused":     {func(o *Outcome) { again(o, 0); o.Requests[0].Code = 409 }, nil},
		"status after fault": {func(o *Outcome) { again(o, 1); again(o, 1); fail(o, 0) }, nil},
		"status too often":   {func(o *Outcome) { again(o, 1); again(o, 1); again(o, 1); fail(o, 0) }, []Reason{Rewritten}},
		"a true claim":       {func(o *Outcome) { o.Claims = []Observed{{"create", Snapshot{"Owner shop": "x", "Child shop": "good"}}} }, nil},
		"a false claim":      {func(o *Outcome) { o.Claims = []Observed{{"create", Snapshot{"Owner shop": "x"}}} }, []Reason{Claimed}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []Reason
			for _, difference := range Compare(scenario, outcome(), outcome(test.change)) {
				got = append(got, difference.Reason)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestSnapshotHidesWhatDiffersAndNothingElse(t *testing.T) {
	child := func(namespace, uid, owner, at, address, image string) World {
		return World{"Child shop": {Object: map[string]any{
			"metadata": map[string]any{
				"name": "shop", "namespace": namespace, "uid": uid, "resourceVersion": at, "creationTimestamp": at,
				"ownerReferences": []any{map[string]any{"kind": "Owner", "name": "shop", "uid": owner}},
			},
			"spec": map[string]any{"clusterIP": address, "image": image},
		}}}
	}
	take := func(world World, namespace, owner string) string {
		t.Helper()
		taken, err := snapshot(world, map[types.UID]string{types.UID(owner): "Owner shop 1"}, namespace, nil)
		if err != nil {
			t.Fatal(err)
		}
		return taken["Child shop"]
	}
	base := take(child("run-1", "uid-1", "uid-2", "2026-01-02T03:04:05Z", "10.0.0.1", "x"), "run-1", "uid-2")
	if other := take(child("run-2", "uid-3", "uid-4", "2026-01-02T03:04:06Z", "10.0.0.2", "x"), "run-2", "uid-4"); other != base {
		t.Errorf("two undisturbed runs differ:\n%s\n%s", base, other)
	}
	for name, other := range map[string]string{
		"image":         take(child("run-1", "uid-1", "uid-2", "2026-01-02T03:04:05Z", "10.0.0.1", "y"), "run-1", "uid-2"),
		"no address":    take(child("run-1", "uid-1", "uid-2", "2026-01-02T03:04:05Z", "", "x"), "run-1", "uid-2"),
		"another owner": take(child("run-1", "uid-1", "uid-9", "2026-01-02T03:04:05Z", "10.0.0.1", "x"), "run-1", "uid-2"),
	} {
		if other == base {
			t.Errorf("%s makes no difference", name)
		}
	}
	masked, err := snapshot(child("run-1", "uid-1", "uid-2", "", "", "x"), nil, "run-1",
		func(o *unstructured.Unstructured) { delete(o.Object, "spec") })
	if err != nil || masked["Child shop"] == base {
		t.Errorf("got %v, %v", masked, err)
	}
}

func TestPointsCountWhatIsAskedAlike(t *testing.T) {
	var names []string
	gone := Asked{"create", proxy.Exchange{Request: proxy.Request{Verb: "get", Resource: "owners", Name: "shop"}, Arrived: true, Code: 404}}
	for _, point := range Points(outcome(func(o *Outcome) { again(o, 0); o.Requests = append(o.Requests, gone) })) {
		names = append(names, point.String())
		for _, fault := range point.Faults() {
			if err := point.Plan(fault).Validate(); err != nil {
				t.Errorf("%s: %v", fault, err)
			}
		}
	}
	if want := []string{"create: patch children shop 1", "create: patch owners/status shop 1", "create: patch pairs shop 1",
		"create: patch pairs shop 2", "create: patch children shop 2"}; !slices.Equal(names, want) {
		t.Errorf("got %q", names)
	}
	if err := Storm(1).Validate(); err != nil {
		t.Error(err)
	}
}
