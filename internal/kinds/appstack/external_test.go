package appstack

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

const queueSpec = `{"apiVersion":"mq.example.com/v1","kind":"Queue","metadata":{"labels":{"team":"a"}},"spec":{"size":3}}`

// withQueues are the kinds of the tests, and one of another project.
func withQueues(missing string) component.Kinds {
	queue := schema.GroupVersionKind{Group: "mq.example.com", Version: "v1", Kind: "Queue"}
	return append(append(component.Kinds{}, kinds...), component.NewExternal(queue, func() string { return missing }))
}

func queue(outputs ...platformv1.Output) platformv1.Component {
	c := one("queue", "object", queueSpec)
	c.Outputs = outputs
	return c
}

func TestValidateExternal(t *testing.T) {
	path := platformv1.Output{Name: "URI", Path: "status.uri"}
	twice := one("queue-x", "object", queueSpec)
	twice.Outputs = []platformv1.Output{path}
	long := queue(platformv1.Output{Name: "X_URI", Path: "status.uri"})
	own := web("a")
	own.Outputs = []platformv1.Output{path}
	for want, test := range map[string]struct {
		components []platformv1.Component
		missing    string
	}{
		"": {[]platformv1.Component{queue(path), web("a", "queue")}, ""},
		`spec.components[0].spec.kind: Unsupported value: "v1 Secret": supported values: "mq.example.com/v1 Queue"`: {
			[]platformv1.Component{one("a", "object", `{"apiVersion":"v1","kind":"Secret"}`)}, ""},
		`spec.components[0].spec.kind: Unsupported value: ""`: {[]platformv1.Component{one("a", "object", `{}`)}, ""},
		`spec.components[0].spec.kind: Invalid value: "Queue": the cluster does not serve it`: {
			[]platformv1.Component{queue()}, "the cluster does not serve it"},
		"spec.components[0].spec.metadata.name: Forbidden: only labels and annotations": {[]platformv1.Component{
			one("a", "object", `{"apiVersion":"mq.example.com/v1","kind":"Queue","metadata":{"name":"x"}}`)}, ""},
		"spec.components[0].spec.metadata: Invalid value: must be an object": {[]platformv1.Component{
			one("a", "object", `{"apiVersion":"mq.example.com/v1","kind":"Queue","metadata":"x"}`)}, ""},
		"spec.components[0].spec.metadata.annotations[mainstay.dev/adopt]: Forbidden": {[]platformv1.Component{
			one("a", "object", `{"apiVersion":"mq.example.com/v1","kind":"Queue","metadata":{"annotations":{"mainstay.dev/adopt":"x"}}}`)}, ""},
		"spec.components[0].spec.status: Forbidden": {[]platformv1.Component{
			one("a", "object", `{"apiVersion":"mq.example.com/v1","kind":"Queue","status":{}}`)}, ""},
		"spec.components[0].outputs: Forbidden: may be set for the type object only": {[]platformv1.Component{own}, ""},
		`spec.components[2].dependsOn[1]: Invalid value: "queue-x": must not provide the variable QUEUE_X_URI, which queue provides too`: {
			[]platformv1.Component{long, twice, web("a", "queue", "queue-x")}, ""},
	} {
		problems := Validate(newStack(test.components...), withQueues(test.missing)).ToAggregate()
		if want == "" && problems != nil || want != "" && (problems == nil || !strings.Contains(problems.Error(), want)) {
			t.Errorf("got  %v\nwant %s", problems, want)
		}
	}
}

func TestExternalObject(t *testing.T) {
	stack := newStack(queue())
	all := withQueues("")
	kind, known := KindOf(&stack.Spec.Components[0], all)
	if !known {
		t.Fatal("the kind is not known")
	}
	object, err := Object(stack, &stack.Spec.Components[0], kind, Additions{})
	if err != nil {
		t.Fatal(err)
	}
	if object.GetName() != "shop-queue" || object.GetNamespace() != "web" || object.GetLabels()["team"] != "a" ||
		object.GetLabels()["app.kubernetes.io/part-of"] != "shop" {
		t.Errorf("got %v", object)
	}
	live := object.DeepCopyObject().(*unstructured.Unstructured)
	live.Object["status"] = map[string]any{"uri": "x"}
	live.Object["spec"].(map[string]any)["defaulted"] = true
	if got := changes(live, object, false); got != "" {
		t.Errorf("changed: %s", got)
	}
	live.Object["spec"].(map[string]any)["size"] = int64(4)
	if got := changes(live, object, false); got != "spec.size" {
		t.Errorf("changed: %s", got)
	}
}

// TestMetadata: labels and annotations of the stack reach the objects of every type; those of a
// manifest take precedence, and ours over all.
func TestMetadata(t *testing.T) {
	manifest := one("queue", "object", `{"apiVersion":"mq.example.com/v1","kind":"Queue","metadata":{"labels":{"team":"q"},"annotations":{"note":"q"}}}`, "web")
	stack := newStack(web("web"), one("watch", "configMonitor", `{"configMap":"flags"}`), one("db", "postgresql", `{"version":"17"}`), queue(), manifest)
	stack.Spec.Labels = msappsv1.Labels{"team": "a", "tier": "1"}
	stack.Spec.Annotations = msappsv1.Annotations{"note": "n", "link": "l"}
	for i, want := range []string{"a 1 n l ", "a 1 n l ", "a 1 n l ", "a 1 n l ", "q 1 q l web"} {
		c := &stack.Spec.Components[i]
		kind, _ := KindOf(c, withQueues(""))
		object, err := Object(stack, c, kind, Additions{})
		if err != nil {
			t.Fatal(err)
		}
		labels, annotations := object.GetLabels(), object.GetAnnotations()
		got := fmt.Sprint(labels["team"], " ", labels["tier"], " ", annotations["note"], " ", annotations["link"], " ",
			annotations["platform.mainstay.dev/depends-on"])
		if got != want || labels["app.kubernetes.io/part-of"] != "shop" {
			t.Errorf("%s %s: got %s, want %s", c.Type, c.Name, got, want)
		}
	}
}

// TestInjectExternal: what an object of another project offers is injected once it is known, and is
// not taken away.
func TestInjectExternal(t *testing.T) {
	offers := queue(platformv1.Output{Name: "URI", Path: "status.uri"}, platformv1.Output{Name: "PORT", Path: "status.port"},
		platformv1.Output{Name: "KEY", SecretKeyRef: &platformv1.OutputSecretKey{Name: "s", Key: "k"}})
	former := map[string]map[string]any{"QUEUE_URI": {"name": "QUEUE_URI", "value": "mq:1"}}
	for name, test := range map[string]struct {
		status map[string]any
		has    map[string]map[string]any
		want   string
	}{
		"all":                       {map[string]any{"uri": "mq:1", "port": int64(5672)}, nil, "QUEUE_KEY<s.k QUEUE_PORT=5672 QUEUE_URI=mq:1"},
		"one is no longer known":    {nil, former, "QUEUE_KEY<s.k QUEUE_URI=mq:1"},
		"one has another value now": {map[string]any{"uri": "mq:2"}, former, "QUEUE_KEY<s.k QUEUE_URI=mq:2"},
	} {
		t.Run(name, func(t *testing.T) {
			stack := newStack(offers, web("back", "queue"))
			observed := Observed{Children: plan.Children{}, Kinds: withQueues("")}
			kind, _ := KindOf(&stack.Spec.Components[0], observed.Kinds)
			made, err := Object(stack, &stack.Spec.Components[0], kind, Additions{})
			if err != nil {
				t.Fatal(err)
			}
			made.(*unstructured.Unstructured).Object["status"] = test.status
			observed.Children[kind.Ref("web", "shop-queue")] = plan.Found{Object: made, Ownership: plan.Ours}
			if test.has != nil {
				app, err := Object(stack, &stack.Spec.Components[1], kinds[0], Additions{Variables: test.has})
				if err != nil {
					t.Fatal(err)
				}
				observed.Children[kinds[0].Ref("web", "shop-back")] = plan.Found{Object: app, Ownership: plan.Ours}
			}
			if got := variablesOf(Decide(stack, observed)); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
	if _, known := KindOf(new(one("a", "object", fmt.Sprintf("[%s]", queueSpec))), withQueues("")); known {
		t.Error("a list is no manifest")
	}
}

// TestMissingOutput: nothing is created before all that it needs is known.
func TestMissingOutput(t *testing.T) {
	offers := queue(platformv1.Output{Name: "URI", Path: "status.uri"})
	for name, test := range map[string]struct {
		status map[string]any
		want   string
	}{
		"known":        {map[string]any{"uri": "mq:1"}, "queue Apply, back Apply"},
		"unknown":      {map[string]any{"other": "mq:1"}, "queue Apply, back Wait[queue]"},
		"not simple":   {map[string]any{"uri": []any{"a"}}, "queue Apply, back Wait[queue]"},
		"too long":     {map[string]any{"uri": strings.Repeat("a", 1001)}, "queue Apply, back Wait[queue]"},
		"just so long": {map[string]any{"uri": strings.Repeat("a", 1000)}, "queue Apply, back Apply"},
	} {
		t.Run(name, func(t *testing.T) {
			stack := newStack(offers, web("back", "queue"))
			observed := Observed{Children: plan.Children{}, Kinds: withQueues("")}
			kind, _ := KindOf(&stack.Spec.Components[0], observed.Kinds)
			made, err := Object(stack, &stack.Spec.Components[0], kind, Additions{})
			if err != nil {
				t.Fatal(err)
			}
			made.(*unstructured.Unstructured).Object["status"] = test.status
			observed.Children[kind.Ref("web", "shop-queue")] = plan.Found{Object: made, Ownership: plan.Ours}
			decided := Decide(stack, observed)
			if got := summaryOf(decided); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			isReady := Status(stack, observed, decided, plan.Result{}).Components[0].Phase == platformv1.ComponentReady
			if wanted := strings.HasSuffix(test.want, "back Apply"); isReady != wanted {
				t.Errorf("its status says ready: %t", isReady)
			}
		})
	}
}

// TestLargeManifestIsReadSeldom: what a large manifest costs does not grow with the number of
// components that depend on it.
func TestLargeManifestIsReadSeldom(t *testing.T) {
	large := one("queue", "object", `{"apiVersion":"mq.example.com/v1","kind":"Queue","spec":{"x":[`+strings.Repeat("0,", 1<<17)+`0]}}`)
	large.Outputs = []platformv1.Output{{Name: "URI", Path: "status.uri"}}
	with := func(dependents int) *platformv1.AppStack {
		all := []platformv1.Component{large}
		for i := range dependents {
			all = append(all, web(fmt.Sprintf("web-%d", i), "queue"))
		}
		return newStack(all...)
	}
	allocated := func(call func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		call()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	for name, call := range map[string]func(*platformv1.AppStack){
		"validation": func(stack *platformv1.AppStack) {
			if problems := Validate(stack, withQueues("")); len(problems) > 0 {
				t.Fatal(problems)
			}
		},
		"decision": func(stack *platformv1.AppStack) {
			stack = WithBindings(stack, withQueues(""))
			w := world{stack: stack, found: plan.Children{}}
			w.make(t, stack.Spec.Components[0], "")
			Decide(stack, w.observed())
		},
	} {
		t.Run(name, func(t *testing.T) {
			few, many := with(1), with(MaxComponents-1)
			call(few) // what is made once per process is no part of it
			alone, together := allocated(func() { call(few) }), allocated(func() { call(many) })
			t.Logf("%d bytes with one dependent, %d with %d", alone, together, MaxComponents-1)
			if together > 5*alone {
				t.Errorf("%d bytes with %d dependents, %d with one: want at most 5 times as many", together, MaxComponents-1, alone)
			}
		})
	}
}
