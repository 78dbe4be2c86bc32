package instrumentationcontroller

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mainstay-platform/mainstay/api"
	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/agentrollout"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

const space = "shop"

var now = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// java returns an Instrumentation for Deployments "web-*".
func java() *instrv1.Instrumentation {
	object := &instrv1.Instrumentation{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "java", UID: "java",
		Finalizers: []string{injection.Finalizer}}}
	object.Spec.Agent = instrv1.Agent{Image: "registry.example.com/agent:1", Language: instrv1.LanguageJava}
	object.Spec.Matchers = []instrv1.Matcher{{Deployment: "web-*"}}
	return object
}

// everywhere returns a ClusterInstrumentation for the same Deployments in the namespaces that are
// labelled for it.
func everywhere() *instrv1.ClusterInstrumentation {
	object := &instrv1.ClusterInstrumentation{ObjectMeta: metav1.ObjectMeta{Name: "java", UID: "everywhere",
		Finalizers: []string{injection.Finalizer}}}
	object.Spec.InstrumentationSpec = java().Spec
	object.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"agents": "yes"}}
	return object
}

// deployment returns a Deployment with one container.
func deployment(name string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name, UID: types.UID(name)},
		Spec:       appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}},
	}
}

// readerOf returns a Reader of a cluster with these objects.
func readerOf(t *testing.T, objects ...client.Object) *Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, instrv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	return &Reader{Cached: c, Live: c, Reviewing: c, caches: newCaches()}
}

// backwards returns lists in the opposite order: a cache's lists have no order.
type backwards struct{ client.Client }

func (b backwards) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := b.Client.List(ctx, list, options...); err != nil {
		return err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	slices.Reverse(items)
	return meta.SetList(list, items)
}

// TestWorkloadsInOrder: messages name the first workloads, and must not change without a cause.
func TestWorkloadsInOrder(t *testing.T) {
	reader := readerOf(t, namespace(nil), deployment("b"), deployment("a"),
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "c"}})
	reader.Cached = backwards{reader.Cached.(client.Client)}
	found, err := reader.workloads(t.Context(), space)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, one := range found {
		names = append(names, one.String())
	}
	if !slices.Equal(names, []string{"DaemonSet/c", "Deployment/a", "Deployment/b"}) {
		t.Errorf("the order is %q", names)
	}
}

func namespace(given map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space, Labels: given}}
}

// seenOf returns a Deployment as the cache has it, composed for some agents.
func seenOf(name string, agents ...*injection.Agent) agentrollout.ObservedWorkload {
	object := deployment(name)
	w := workloadOf(object, "Deployment", &object.Spec.Template)
	setting := &injection.NamespaceContext{Agents: agents}
	setting.Compose(w, nil)
	return agentrollout.ObservedWorkload{Workload: *w, UID: object.UID, Context: setting}
}

func compiled(t *testing.T, object injection.Object) *injection.Agent {
	t.Helper()
	agent := instrumentation.Compile(object)
	if agent.Invalid != nil {
		t.Fatal(agent.Invalid)
	}
	return agent
}

// A removal without effect is repeated after 10 s, 20 s, ...: nothing on the workload records the
// attempts.
func TestRepeatedRemovals(t *testing.T) {
	reader, agent := readerOf(t), compiled(t, java())
	writes := func(at time.Time, seen ...agentrollout.ObservedWorkload) (int, time.Duration) {
		for i := range seen {
			seen[i].Context = &injection.NamespaceContext{}
		}
		observed := Observed{identity: agent.Identity, seen: seen, assessment: agentrollout.Assess(agent.Identity, nil, seen, at)}
		observed.assessment.LastRemovals = reader.lastRemovals(&observed)
		of := kind[*instrv1.Instrumentation]{reader: reader}
		decided := of.Decide(nil, observed)
		if err := of.Act(t.Context(), nil, nil, observed, &decided); err != nil {
			t.Fatal(err)
		}
		return len(decided.Writes), decided.RequeueAfter
	}
	at := now
	for _, wait := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
		// Whether a removal had an effect is checked after 10 s, however long the next one waits.
		if n, again := writes(at, seenOf("web-1", agent)); n != 1 || again != 10*time.Second {
			t.Fatalf("after %s it writes %d, and requeues after %s: wanted one, and 10s", at.Sub(now), n, again)
		}
		at = at.Add(wait*time.Second - time.Second)
		if n, again := writes(at, seenOf("web-1", agent)); n != 0 || again != time.Second {
			t.Fatalf("after %s it writes %d, and requeues after %s", at.Sub(now), n, again)
		}
		at = at.Add(time.Second)
	}
	if n, _ := writes(at.Add(-time.Second), seenOf("web-1", agent), seenOf("web-2", agent)); n != 1 {
		t.Errorf("of one workload that was just written and another, %d are written", n)
	}
	granted := seenOf("web-1")
	granted.Annotations = map[string]string{injection.GrantKey(agent.ID): injection.Grant{Revision: agent.Revision, At: at}.String()}
	if n, _ := writes(at.Add(-time.Second), granted); n != 1 {
		t.Error("the removal of a grant is withheld: it leaves nothing to repeat")
	}
	if n, again := writes(at.Add(time.Hour), seenOf("web-1", agent)); n != 1 || again != 10*time.Second {
		t.Errorf("an hour later it writes %d, and requeues after %s", n, again)
	}
	injected := Observed{identity: agent.Identity, agent: agent, seen: []agentrollout.ObservedWorkload{seenOf("web-1", agent)}}
	injected.assessment = agentrollout.Assess(agent.Identity, agent, injected.seen, at.Add(time.Hour))
	reader.lastRemovals(&injected)
	if n, again := writes(at.Add(time.Hour+time.Second), seenOf("web-1", agent)); n != 1 || again != 10*time.Second {
		t.Errorf("injected again and removed at once, it writes %d, and requeues after %s", n, again)
	}
}

// An event says that an agent is injected, updated or removed only if it is.
func TestIsDone(t *testing.T) {
	older, agent := compiled(t, java()), func() *injection.Agent {
		changed := java()
		changed.Spec.Agent.Options = "changed"
		return compiled(t, changed)
	}()
	composed := func(agents ...*injection.Agent) *appsv1.Deployment {
		object := deployment("web-1")
		(&injection.NamespaceContext{Agents: agents}).Compose(workloadOf(object, "Deployment", &object.Spec.Template), nil)
		return object
	}
	for name, test := range map[string]struct {
		agent  *injection.Agent
		object plan.Object
		want   bool
	}{
		"injected":                   {agent, composed(agent), true},
		"the webhook did not answer": {agent, composed(), false},
		"still the former one":       {agent, composed(older), false},
		"taken out":                  {nil, composed(), true},
		"still there":                {nil, composed(agent), false},
	} {
		setting := &injection.NamespaceContext{}
		if test.agent != nil {
			setting.Agents = append(setting.Agents, test.agent)
		}
		observed := &Observed{identity: agent.Identity, agent: test.agent, now: now, seen: []agentrollout.ObservedWorkload{seenOf("web-1")}}
		observed.seen[0].Context = setting
		if got := observed.isDone(0)(test.object); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// The webhook of one replica waits for what the controller of another has seen, and for nothing
// else.
func TestIsBehind(t *testing.T) {
	plain := compiled(t, java())
	starting := java()
	starting.Finalizers = nil
	noted := java()
	noted.Spec.Rollout.Strategy = instrv1.RolloutCanary
	noted.Annotations = map[string]string{instrv1.AnnotationFailed: plain.Revision + " it exits"}
	invalid := java()
	invalid.Spec.Agent.Image = ""
	granted := func(revision string) map[string]string {
		return map[string]string{injection.GrantKey(plain.ID): injection.Grant{Revision: revision, At: now, Attempts: 1}.String()}
	}
	for name, test := range map[string]struct {
		agent         injection.Object
		before, after map[string]string
		workload      string
		injected      bool
		want          bool
	}{
		"no grant":                               {agent: java()},
		"a grant of what is known":               {agent: java(), after: granted(plain.Revision)},
		"a grant of another revision":            {agent: java(), after: granted("another"), want: true},
		"a grant that was there before":          {agent: java(), before: granted("another"), after: granted("another")},
		"a grant of what is not known":           {after: granted(plain.Revision), want: true},
		"a grant, and its finalizer is not seen": {agent: starting, after: granted(plain.Revision), want: true},
		"a grant of what is not matched":         {agent: java(), after: granted(plain.Revision), workload: "api", want: true},
		"a grant to keep what there is":          {agent: java(), after: granted("kept")},
		"no valid grant": {agent: java(), after: map[string]string{injection.GrantKey(plain.ID): "x"},
			workload: "api"},
		"a grant is taken off":                           {agent: java(), before: granted(plain.Revision), want: true},
		"a grant is taken off, as it failed":             {agent: noted, before: granted(plain.Revision)},
		"a grant is taken off, as it is gone":            {before: granted(plain.Revision)},
		"a grant is taken off, as it is no more matched": {agent: java(), before: granted(plain.Revision), workload: "api"},
		"a grant of what is invalid still":               {agent: invalid, after: granted(plain.Revision), injected: true, want: true},
		"a grant is taken off what is invalid still":     {agent: invalid, before: granted(plain.Revision), injected: true, want: true},
		"a grant is taken off what is not in":            {agent: invalid, before: granted(plain.Revision)},
	} {
		t.Run(name, func(t *testing.T) {
			setting := &injection.NamespaceContext{}
			if test.agent != nil {
				setting.Agents = append(setting.Agents, instrumentation.Compile(test.agent))
			}
			object := deployment("web-1")
			if test.injected {
				object.Spec.Template = *seenOf("web-1", plain).Template
			}
			if test.workload != "" {
				object.Name = test.workload
			}
			object.Annotations = test.after
			if got := isBehind(setting, workloadOf(object, "Deployment", &object.Spec.Template), nil, test.before); got != test.want {
				t.Errorf("it is %t", got)
			}
		})
	}
}

// A name that is still to be generated is matched by its prefix.
func TestComposeOfAGeneratedName(t *testing.T) {
	reader := readerOf(t, namespace(nil), java())
	for generate, want := range map[string]bool{"web-": true, "api-": false} {
		object := deployment("")
		object.GenerateName = generate
		request := ctrladmission.Request{}
		request.Namespace, request.Kind.Kind = space, "Deployment"
		if _, err := reader.compose(t.Context(), request, object, nil); err != nil {
			t.Fatal(err)
		}
		if got := len(object.Spec.Template.Spec.Volumes) > 0; got != want || object.Name != "" {
			t.Errorf("%s: injected: %t, and its name is %q", generate, got, object.Name)
		}
	}
}

// What a disabled kind has injected stays, whatever the write.
func TestComposeWithAKindThatIsOff(t *testing.T) {
	object := deployment("web-1")
	object.Spec.Template = *seenOf("web-1", compiled(t, java())).Template
	before := object.DeepCopy()
	reader := readerOf(t, namespace(nil), java())
	for name, test := range map[string]struct {
		reader *Reader
		want   string
	}{
		"off": {&Reader{Cached: reader.Cached, Live: reader.Live, Reviewing: reader.Reviewing, Off: []string{injection.KindNamespaced},
			caches: newCaches()},
			before.Spec.Template.Annotations[instrv1.AnnotationInjected]},
		"on, and the Instrumentation has gone": {readerOf(t, namespace(nil)), ""},
	} {
		got := before.DeepCopy()
		request := ctrladmission.Request{}
		request.Namespace, request.Kind.Kind = space, "Deployment"
		if _, err := test.reader.compose(t.Context(), request, got, before); err != nil {
			t.Fatal(err)
		}
		if record := got.Spec.Template.Annotations[instrv1.AnnotationInjected]; record != test.want {
			t.Errorf("%s: what is injected is %q, wanted %q", name, record, test.want)
		}
	}
}

// A stored invalid spec injects nothing, whatever the labels of the namespace, and what it injected
// before is retained.
func TestComposeWithWhatIsInvalid(t *testing.T) {
	invalid := everywhere()
	invalid.Spec.Matchers = []instrv1.Matcher{{}}
	before := deployment("web-1")
	before.Spec.Template = *seenOf("web-1", compiled(t, everywhere())).Template
	for name, object := range map[string]*appsv1.Deployment{"never injected": deployment("web-1"), "injected before": before} {
		for _, given := range []map[string]string{nil, {"agents": "yes"}} {
			reader := readerOf(t, namespace(given), invalid)
			request := ctrladmission.Request{}
			request.Namespace, request.Kind.Kind = space, "Deployment"
			got := object.DeepCopy()
			if _, err := reader.compose(t.Context(), request, got, object); err != nil {
				t.Fatal(err)
			}
			if is, should := got.Spec.Template.String(), object.Spec.Template.String(); is != should {
				t.Errorf("%s, in a namespace with labels %v: it is %s, was %s", name, given, is, should)
			}
		}
	}
}

// A workload enqueues the Instrumentations that match it and those that are in it; not one that a
// forged record names, and not those of other namespaces.
func TestByWorkload(t *testing.T) {
	const forged = `[{"by":"Instrumentation/another","id":"00000000"}]`
	for name, test := range map[string]struct {
		kind     string
		labels   map[string]string
		workload string
		record   string
		injected injection.Object
		want     string
	}{
		"matched":                                {kind: injection.KindNamespaced, want: "shop/java"},
		"not matched":                            {kind: injection.KindNamespaced, workload: "api"},
		"matched in a namespace that is covered": {kind: injection.KindCluster, labels: map[string]string{"agents": "yes"}, want: "/java"},
		"matched in one that is not":             {kind: injection.KindCluster},
		"injected, in one that is not any more":  {kind: injection.KindCluster, injected: everywhere(), want: "/java"},
		"injected, and gone": {kind: injection.KindNamespaced, workload: "api",
			injected: &instrv1.Instrumentation{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "gone"}}, want: "shop/gone"},
		"injected by another kind":       {kind: injection.KindNamespaced, workload: "api", injected: everywhere()},
		"a record whose id is another's": {kind: injection.KindNamespaced, workload: "api", record: forged},
	} {
		t.Run(name, func(t *testing.T) {
			object := deployment("web-1")
			if test.workload != "" {
				object.Name = test.workload
			}
			if test.injected != nil {
				identity := injection.IdentityOf(test.injected)
				test.record = `[{"by":"` + identity.String() + `","id":"` + identity.ID() + `"}]`
			}
			object.Spec.Template.Annotations = map[string]string{instrv1.AnnotationInjected: test.record}
			reader := readerOf(t, namespace(test.labels), java(), everywhere())
			var woken []string
			for _, request := range (concerned{reader, test.kind}).byWorkload(t.Context(), object) {
				woken = append(woken, request.String())
			}
			if got := strings.Join(woken, " "); got != test.want {
				t.Errorf("it enqueues %q, wanted %q", got, test.want)
			}
		})
	}
}

// Each kind that is on is a rival of both. A change of a ClusterInstrumentation enqueues those of
// all namespaces, and one of an Instrumentation those that cover its namespace.
func TestByRival(t *testing.T) {
	elsewhere := java()
	elsewhere.Namespace, elsewhere.UID = "elsewhere", "elsewhere"
	reader := readerOf(t, namespace(nil), java(), elsewhere, everywhere())
	for name, test := range map[string]struct {
		kind  string
		rival client.Object
		want  string
	}{
		"one of the cluster, those of namespaces":     {injection.KindNamespaced, everywhere(), "elsewhere/java shop/java"},
		"one of a namespace, those of the namespace":  {injection.KindNamespaced, java(), "shop/java"},
		"one of a namespace, those of the cluster":    {injection.KindCluster, java(), "/java"},
		"one of the cluster, the rest of the cluster": {injection.KindCluster, everywhere(), "/java"},
	} {
		isWatched := slices.ContainsFunc(scopes(registration.Input{Kinds: Registrations()}),
			func(rival registration.Kind) bool { return reflect.TypeOf(rival.Object) == reflect.TypeOf(test.rival) })
		var woken []string
		for _, request := range (concerned{reader, test.kind}).byRival(t.Context(), test.rival) {
			woken = append(woken, request.String())
		}
		slices.Sort(woken)
		if got := strings.Join(woken, " "); got != test.want || !isWatched {
			t.Errorf("%s: it is watched: %t, and enqueues %q, wanted %q", name, isWatched, got, test.want)
		}
	}
	if on := scopes(registration.Input{Kinds: Registrations()[:1]}); len(on) != 1 {
		t.Errorf("of one kind the rivals are %v", on)
	}
}

// Only the pods of a workload that run what is injected now count; they say since when all of them
// are ready, and since when nothing has happened while one is not.
func TestNote(t *testing.T) {
	pod := func(record string, age time.Duration, ready corev1.ConditionStatus) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"},
				Annotations: map[string]string{instrv1.AnnotationInjected: record}},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)},
				{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(now.Add(-age))},
			}},
		}
	}
	one := &seen{ObservedWorkload: seenOf("web-1", compiled(t, java()))}
	record := one.Template.Annotations[instrv1.AnnotationInjected]
	other := pod(record, time.Second, corev1.ConditionTrue)
	other.Labels = nil
	assessed := &agentrollout.WorkloadAssessment{}
	note(assessed, one, labels.SelectorFromSet(labels.Set{"app": "web"}), []corev1.Pod{
		pod(record, 4*time.Minute, corev1.ConditionTrue), pod(record, 3*time.Minute, corev1.ConditionTrue),
		pod(record, time.Minute, corev1.ConditionFalse), pod("earlier", time.Minute, corev1.ConditionTrue), other,
	})
	if got := now.Sub(assessed.ReadySince); got != 3*time.Minute {
		t.Errorf("they are ready for %s", got)
	}
	if got := now.Sub(assessed.HangsSince); got != time.Minute {
		t.Errorf("one hangs for %s", got)
	}
	fresh, deleted := pod(record, time.Hour, corev1.ConditionFalse), pod(record, time.Second, corev1.ConditionFalse)
	fresh.CreationTimestamp, deleted.DeletionTimestamp = metav1.NewTime(now.Add(-2*time.Minute)), new(metav1.NewTime(now))
	if got := now.Sub(hangsSince([]corev1.Pod{fresh, deleted})); got != 2*time.Minute {
		t.Errorf("a new one hangs for %s", got)
	}
	if got := hangsSince([]corev1.Pod{pod(record, time.Hour, corev1.ConditionTrue), deleted}); !got.IsZero() {
		t.Errorf("ready ones hang since %s", got)
	}
}

// A pod of a StatefulSet that has another record than the template is not replaced while it is not
// ready, unless it is being deleted. Pods of others do not count.
func TestNoteUnreplacedPods(t *testing.T) {
	one := &seen{ObservedWorkload: seenOf("web-1", compiled(t, java()))}
	pod := func(record, owner string, age time.Duration, ready corev1.ConditionStatus) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-2 * age)), Labels: map[string]string{"app": "web"},
				Annotations:     map[string]string{instrv1.AnnotationInjected: record},
				OwnerReferences: []metav1.OwnerReference{{UID: types.UID(owner), Controller: new(true)}}},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(now.Add(-age))},
			}},
		}
	}
	record := one.Template.Annotations[instrv1.AnnotationInjected]
	deleted := pod("earlier", "web-1", time.Hour, corev1.ConditionFalse)
	deleted.DeletionTimestamp = new(metav1.NewTime(now))
	pods := []corev1.Pod{pod(record, "web-1", 5*time.Minute, corev1.ConditionFalse), pod(record, "web-1", time.Minute, corev1.ConditionTrue),
		pod("earlier", "web-1", time.Hour, corev1.ConditionTrue), pod("earlier", "another", time.Hour, corev1.ConditionFalse), deleted}
	assessed := &agentrollout.WorkloadAssessment{}
	note(assessed, one, labels.SelectorFromSet(labels.Set{"app": "web"}), pods)
	if got := now.Sub(assessed.FirstSince); got != 10*time.Minute || !assessed.UnreplacedSince.IsZero() {
		t.Errorf("the first was created %s ago, and one is not replaced since %s", got, assessed.UnreplacedSince)
	}
	pods = append(pods, pod("earlier", "web-1", 2*time.Minute, corev1.ConditionFalse), pod("", "web-1", 3*time.Minute, corev1.ConditionFalse))
	note(assessed, one, labels.SelectorFromSet(labels.Set{"app": "web"}), pods)
	if got := now.Sub(assessed.UnreplacedSince); got != 3*time.Minute {
		t.Errorf("one is not replaced for %s", got)
	}
}

// A failure that no longer counts is deleted from the Instrumentation before anything is injected,
// from exactly the version that was read. Removals do not wait.
func TestClearFailurePatch(t *testing.T) {
	object := java()
	object.ResourceVersion = "7"
	object.Annotations = map[string]string{instrv1.AnnotationFailed: "0123456789abcdef Deployment/web-1: CrashLoop: it exits"}
	left := deployment("api")
	left.Spec.Template = *seenOf("web-1", compiled(t, java())).Template
	reader := readerOf(t, namespace(nil), deployment("web-1"), left, object)
	of := kind[*instrv1.Instrumentation]{reader: reader, clock: clocktesting.NewFakePassiveClock(now)}
	observed, err := of.Observe(t.Context(), object)
	if err != nil {
		t.Fatal(err)
	}
	patches := of.Desired(object, observed, of.Decide(object, observed)).Patches
	if len(patches) != 2 || patches[0].Ref != (plan.Ref{Group: "instrumentation.mainstay.dev", Kind: injection.KindNamespaced,
		Namespace: space, Name: "java"}) ||
		patches[1].Ref != (plan.Ref{Group: "apps", Kind: "Deployment", Namespace: space, Name: "api"}) {
		t.Fatalf("it patches %v", patches)
	}
	const want = `{"metadata":{"annotations":{"instrumentation.mainstay.dev/failed":null},"resourceVersion":"7","uid":"java"}}`
	if form, got, err := patches[0].Body(); err != nil || string(got) != want || form != types.MergePatchType {
		t.Errorf("it sends %s as %s, %v, wanted %s", got, form, err, want)
	}
}

// The status says why the record of a failure could not be written, because nothing is undone until
// then. The same applies if it can't be deleted.
func TestReportOfAFailureThatIsNotRecorded(t *testing.T) {
	agent := compiled(t, java())
	object := java()
	self := plan.Ref{Group: "instrumentation.mainstay.dev", Kind: injection.KindNamespaced, Namespace: space, Name: "java"}
	fails, forgives := agentrollout.Decision{Failure: "Deployment/web-1: CrashLoop: it exits"}, agentrollout.Decision{ClearsFailure: true}
	refused, unmade := plan.Result{Refused: map[plan.Ref]string{self: "frozen"}},
		plan.Result{Unwritten: map[plan.Ref]string{self: "no answer"}}
	slowed := plan.Result{Slowed: map[plan.Ref]string{self: "someone changes it"}}
	for want, test := range map[string]struct {
		decision agentrollout.Decision
		result   plan.Result
	}{
		"can't be recorded on it, so nothing is undone: frozen":                        {fails, refused},
		"can't be recorded on it, so nothing is undone: retrying: no answer":           {fails, unmade},
		"can't be recorded on it, so nothing is undone: retrying: someone changes it":  {fails, slowed},
		"can't be removed from it, so no workload gets the agent: frozen":              {forgives, refused},
		"can't be removed from it, so no workload gets the agent: retrying: no answer": {forgives, unmade},
	} {
		observed := Observed{identity: agent.Identity, agent: agent, seen: []agentrollout.ObservedWorkload{seenOf("web-1", agent)}}
		into := object.DeepCopy()
		kind[*instrv1.Instrumentation]{}.Report(into, object, observed, test.decision, test.result)
		ready := into.Status.Conditions[slices.IndexFunc(into.Status.Conditions,
			func(one metav1.Condition) bool { return one.Type == instrv1.ConditionReady })]
		if ready.Status != metav1.ConditionFalse || ready.Reason != api.ReasonRefused || !strings.HasSuffix(ready.Message, want) {
			t.Errorf("it says %s, %s: %s", ready.Status, ready.Reason, ready.Message)
		}
	}
}

// TestReportOfASlowedWorkload: a workload that is left out for a while is not reported as written.
func TestReportOfASlowedWorkload(t *testing.T) {
	agent, into := compiled(t, java()), java()
	observed := Observed{identity: agent.Identity, agent: agent, seen: []agentrollout.ObservedWorkload{seenOf("web-1", agent)}}
	decided := agentrollout.Decision{Workloads: []agentrollout.ReportedWorkload{{Index: 0}}}
	kind[*instrv1.Instrumentation]{}.Report(into, java(), observed, decided,
		plan.Result{Slowed: map[plan.Ref]string{refOf(&observed.seen[0]): "someone changes it"}})
	if listed := into.Status.Workloads; len(listed) != 1 || listed[0].State != instrv1.StatePending ||
		!strings.HasSuffix(listed[0].Message, "someone changes it") {
		t.Errorf("got %+v", listed)
	}
}

// TestReleased: the finalizer stays while an agent is left, and while a removal is refused, could
// not be written, or is left out because someone else undoes it.
func TestReleased(t *testing.T) {
	some := map[plan.Ref]string{{Kind: "Deployment", Namespace: space, Name: "web"}: "no"}
	for name, test := range map[string]struct {
		leaving int
		result  plan.Result
		want    bool
	}{
		"all is removed": {want: true}, "an agent is left": {leaving: 1}, "one is refused": {result: plan.Result{Refused: some}},
		"one failed": {result: plan.Result{Unwritten: some}}, "one is slowed": {result: plan.Result{Slowed: some}},
	} {
		got := kind[*instrv1.Instrumentation]{}.Released(java(), Observed{}, agentrollout.Decision{Leaving: test.leaving}, test.result)
		if got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

func TestHasImageVolumes(t *testing.T) {
	for version, want := range map[[2]string]bool{{"1", "34"}: false, {"1", "35"}: true, {"1", "35+"}: true, {"2", "0"}: true} {
		if hasImageVolumes(version[0], version[1]) != want {
			t.Errorf("%s.%s: want %t", version[0], version[1], want)
		}
	}
}
