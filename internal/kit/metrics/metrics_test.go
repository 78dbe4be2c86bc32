package metrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/transport"
)

// TestDeclared checks that each metric has a help text, and a name that fits its type.
func TestDeclared(t *testing.T) {
	seen := map[string]bool{}
	for _, metric := range Declared() {
		if seen[metric.Name] {
			t.Errorf("%s is declared twice", metric.Name)
		}
		seen[metric.Name] = true
		if !regexp.MustCompile(`^mainstay(_[a-z]+)+$`).MatchString(metric.Name) {
			t.Errorf("%s is an invalid name", metric.Name)
		}
		if metric.Help == "" || metric.Normal == "" {
			t.Errorf("%s has no Help or Normal", metric.Name)
		}
		for _, label := range metric.Labels {
			if label.Meaning == "" || label.Name == "name" {
				t.Errorf("%s: label %s", metric.Name, label.Name)
			}
		}
		if (metric.Type == "counter") != strings.HasSuffix(metric.Name, "_total") {
			t.Errorf("%s is a %s", metric.Name, metric.Type)
		}
		if (metric.Type == "histogram") != (len(metric.Buckets) > 0) || !slices.IsSorted(metric.Buckets) {
			t.Errorf("%s has buckets %v", metric.Name, metric.Buckets)
		}
	}
	if len(seen) < 11 {
		t.Errorf("only %d metrics are declared", len(seen))
	}
}

// TestResultsAreClasses: the reconciler converts classes to results.
func TestResultsAreClasses(t *testing.T) {
	got := []Result{Transient, Blocked, Terminal}
	if want := []Result{Result(errclass.Transient), Result(errclass.Blocked), Result(errclass.Terminal)}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestReconciled(t *testing.T) {
	for result, isError := range map[Result]bool{
		Unchanged: false, Changed: false, Stopped: false, Transient: true, Blocked: true, Terminal: true, Conflict: true, Panicked: true,
	} {
		kind := "Test" + string(result)
		Reconciled(Pass{Kind: kind, Namespace: "shop", Result: result, Took: 20 * time.Millisecond})
		if got := testutil.ToFloat64(reconciles.WithLabelValues(kind, "shop", string(result))); got != 1 {
			t.Errorf("%s: counted %v", result, got)
		}
		if got := testutil.ToFloat64(failures.WithLabelValues(kind, string(result))); (got == 1) != isError {
			t.Errorf("%s: %v errors", result, got)
		}
	}
}

// TestKindWorkload: the metrics of a pass and of what it writes, and only these, name the kind that
// no object has.
func TestKindWorkload(t *testing.T) {
	var named []string
	for _, metric := range Declared() {
		for _, label := range metric.Labels {
			if label.Name == "kind" && strings.Contains(label.Meaning, "`Workload`") {
				named = append(named, metric.Name)
			}
		}
	}
	want := []string{"mainstay_reconcile_total", "mainstay_reconcile_duration_seconds", "mainstay_errors_total",
		"mainstay_contested_writes_total"}
	if !slices.Equal(named, want) {
		t.Errorf("named by %q", named)
	}
}

// TestNamesOfObjects: one metric has the names of objects, and the pages about that say so.
func TestNamesOfObjects(t *testing.T) {
	const only = "mainstay_unready_object"
	for _, metric := range Declared() {
		if slices.Contains(metric.names(), "object") != (metric.Name == only) {
			t.Errorf("%s has the labels %q", metric.Name, metric.names())
		}
	}
	for _, page := range []string{"metrics.md", "multi-tenancy.md", "threat-model.md"} {
		content, err := os.ReadFile("../../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		text := string(content)
		if page == "metrics.md" { // its introduction: the metric itself has a section
			text, _, _ = strings.Cut(text, "\n## ")
		}
		if !strings.Contains(text, only) {
			t.Errorf("%s does not say that %s has the names of objects", page, only)
		}
	}
}

// TestNamespaceLabels: only a limited number of namespaces have series of their own, and deleted
// namespaces make room.
func TestNamespaceLabels(t *testing.T) {
	series := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "x"}, []string{"kind", "namespace"})
	r := &namespaceLabels{limit: 2, vectors: []*prometheus.MetricVec{series.MetricVec}}
	count := func(names ...string) []string {
		var labels []string
		for _, name := range names {
			r.with(name, func(label string) {
				labels = append(labels, label)
				series.WithLabelValues("WebApp", label).Inc()
			})
		}
		return labels
	}
	if diff := cmp.Diff([]string{"a", "b", "(other)", "a", ""}, count("a", "b", "c", "a", "")); diff != "" {
		t.Error(diff)
	}
	r.sweep(func(namespace string) bool { return namespace == "a" })
	if got := testutil.CollectAndCount(series); got != 3 { // b, (other) and none
		t.Errorf("%d series are left", got)
	}
	if diff := cmp.Diff([]string{"c", "(other)", "b"}, count("c", "a", "b")); diff != "" {
		t.Error(diff)
	}
}

// TestNamespaceLabelsLock: no sweep happens between the registration of a namespace and the
// creation of its series, which would leave the series forever.
func TestNamespaceLabelsLock(t *testing.T) {
	r := &namespaceLabels{limit: 2}
	recorded := false
	r.with("a", func(string) {
		recorded = true
		if r.mutex.TryLock() {
			t.Error("a sweep is possible in between")
		}
	})
	if !recorded || !r.mutex.TryLock() {
		t.Errorf("recorded: %t, and then the lock must be free", recorded)
	}
}

// TestSeriesOfNamespaces: namespaces has all metrics with the label. A gauge keeps no series.
func TestSeriesOfNamespaces(t *testing.T) {
	with := 0
	for _, metric := range Declared() {
		if slices.Contains(metric.names(), "namespace") && metric.Type != "gauge" {
			with++
		}
	}
	if with != len(namespaces.vectors) {
		t.Errorf("%d metrics have the label namespace, namespaces has %d", with, len(namespaces.vectors))
	}
}

func TestDescribe(t *testing.T) {
	for request, want := range map[string]string{
		"GET /api/v1/pods":                                                      "list pods",
		"GET /api/v1/pods?watch=true":                                           "watch pods",
		"GET /api/v1/namespaces/shop/pods/web-1":                                "get pods",
		"GET /api/v1/namespaces/shop":                                           "get namespaces",
		"PUT /api/v1/namespaces/shop/finalize":                                  "update namespaces/finalize",
		"POST /apis/apps/v1/namespaces/shop/deployments":                        "create deployments.apps",
		"PATCH /apis/apps.mainstay.dev/v1/namespaces/shop/webapps/web/status":   "patch webapps.apps.mainstay.dev/status",
		"DELETE /apis/apps/v1/namespaces/shop/deployments/web":                  "delete deployments.apps",
		"DELETE /apis/apps/v1/namespaces/shop/deployments":                      "deletecollection deployments.apps",
		"PUT /apis/coordination.k8s.io/v1/namespaces/x/leases/m":                "update leases.coordination.k8s.io",
		"GET /k8s/clusters/c-1/apis/policy.mainstay.dev/v1/platformpolicies":    "list platformpolicies.policy.mainstay.dev",
		"GET /apis/apps/v1":                                                     "get none",
		"GET /api":                                                              "get none",
		"GET /version":                                                          "get none",
		"POST /apis/authentication.k8s.io/v1/tokenreviews":                      "create tokenreviews.authentication.k8s.io",
		"GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/a.b.c.dev": "get customresourcedefinitions.apiextensions.k8s.io",
	} {
		method, path, _ := strings.Cut(request, " ")
		verb, resource := describe(httptest.NewRequestWithContext(t.Context(), method, "https://api"+path, nil))
		if got := verb + " " + resource; got != want {
			t.Errorf("%s is described as %q, want %q", request, got, want)
		}
	}
	apply := httptest.NewRequestWithContext(t.Context(), http.MethodPatch, "https://api/api/v1/namespaces/shop/services/web", nil)
	apply.Header.Set("Content-Type", "application/apply-patch+yaml")
	if verb, _ := describe(apply); verb != "apply" {
		t.Errorf("server-side apply is described as %s", verb)
	}
}

func TestCalls(t *testing.T) {
	status, failure := 200, error(nil)
	counting := Calls(transport.Func(func(*http.Request) (*http.Response, error) {
		if failure != nil {
			return nil, failure
		}
		return &http.Response{StatusCode: status, Body: http.NoBody}, nil
	}))
	call := func() {
		response, err := counting.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet,
			"https://api/api/v1/namespaces/shop/gizmos/secret-name", nil))
		if err == nil {
			_ = response.Body.Close()
		}
	}
	for _, status = range []int{200, 201, 404, 409, 429, 503} {
		call()
	}
	failure = fmt.Errorf("no network")
	call()
	got := map[string]float64{}
	for _, code := range []string{"2xx", "4xx", "409", "429", "5xx", "error"} {
		got[code] = testutil.ToFloat64(calls.WithLabelValues("get", "gizmos", code))
	}
	if diff := cmp.Diff(map[string]float64{"2xx": 2, "4xx": 1, "409": 1, "429": 1, "5xx": 1, "error": 1}, got); diff != "" {
		t.Error(diff)
	}
}

// app returns an object with conditions, in the form Type=Status.
func app(uid types.UID, conditions ...string) *msappsv1.WebApp {
	made := &msappsv1.WebApp{}
	made.UID = uid
	for _, condition := range conditions {
		name, status, _ := strings.Cut(condition, "=")
		made.Status.Conditions = append(made.Status.Conditions, metav1.Condition{Type: name, Status: metav1.ConditionStatus(status)})
	}
	return made
}

// TestPhaseOf tests the table in the comment of phaseOf. The object of each row also fulfils the
// conditions of the rows below.
func TestPhaseOf(t *testing.T) {
	gone := app("", "Ready=True")
	gone.DeletionTimestamp = &metav1.Time{}
	for want, object := range map[string]*msappsv1.WebApp{
		"Deleting":    gone,
		"Pending":     app("", "Paused=True", "Stalled=True"),
		"Ready":       app("", "Ready=True", "Degraded=True"),
		"Paused":      app("", "Ready=False", "Degraded=True", "Stalled=True", "Suspended=True", "Paused=True"),
		"Suspended":   app("", "Ready=False", "Degraded=True", "Stalled=True", "Suspended=True"),
		"Stalled":     app("", "Ready=False", "Degraded=True", "Stalled=True"),
		"Degraded":    app("", "Ready=Unknown", "Degraded=True"),
		"Unknown":     app("", "Ready=Unknown", "Degraded=False", "Stalled=False", "Paused=False"),
		"Progressing": app("", "Ready=False", "Degraded=False"),
	} {
		if got := phaseOf(object); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestPhaseOfHibernated: a database that its user has stopped needs no attention.
func TestPhaseOfHibernated(t *testing.T) {
	object := app("", "Degraded=False", "Ready=False")
	for reason, want := range map[string]string{databasev1.ReasonHibernated: "Suspended", databasev1.ReasonScaling: "Progressing"} {
		object.Status.Conditions[1].Reason = reason
		if got := phaseOf(object); got != want {
			t.Errorf("%s: got %s, want %s", reason, got, want)
		}
	}
}

// TestPhaseOfAnEarlierGeneration: a Ready condition of an earlier generation says nothing about the
// current spec.
func TestPhaseOfAnEarlierGeneration(t *testing.T) {
	for observed, want := range map[int64]string{0: "Ready", 1: "Pending", 2: "Ready", 3: "Ready"} {
		object := app("", "Degraded=False", "Ready=True")
		object.Generation = 2
		// Other conditions may be older: not all are set anew each time.
		object.Status.Conditions[0].ObservedGeneration, object.Status.Conditions[1].ObservedGeneration = 1, observed
		if got := phaseOf(object); got != want {
			t.Errorf("Ready as of %d: got %s, want %s", observed, got, want)
		}
	}
}

// TestTally: each object counts once, by its current phase, and deleted objects do not count.
func TestTally(t *testing.T) {
	tally := &Tally{known: map[types.UID]counted{}}
	expect := func(want map[string]int) {
		t.Helper()
		byPhase, _, _ := tally.count(time.Now())
		if diff := cmp.Diff(want, byPhase); diff != "" {
			t.Error(diff)
		}
	}
	tally.OnAdd(app("a"), true)
	tally.OnAdd(app("b", "Ready=True"), false)
	expect(map[string]int{"Pending": 1, "Ready": 1})
	tally.OnUpdate(app("a"), app("a", "Ready=False"))
	expect(map[string]int{"Progressing": 1, "Ready": 1})
	// Deleted and made again while the watch was cut.
	tally.OnUpdate(app("b", "Ready=True"), app("c"))
	expect(map[string]int{"Progressing": 1, "Pending": 1})
	tally.OnDelete(app("a"))
	tally.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "shop/c", Obj: app("c")})
	expect(map[string]int{})
}

// TestOverdue: what is in progress, or being deleted, needs attention after an hour of that. What
// waits for its window or for a user does not, and neither does what was not ready for another
// reason before. Overdue objects take no name from those that are not ready.
func TestOverdue(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	tally := &Tally{known: map[types.UID]counted{}}
	add := func(name string, begun time.Duration, conditions ...string) *msappsv1.WebApp {
		object := app(types.UID(name), conditions...)
		object.Name, object.Namespace = name, "shop"
		object.CreationTimestamp = metav1.NewTime(now.Add(-24 * time.Hour))
		for i := range object.Status.Conditions {
			object.Status.Conditions[i].LastTransitionTime = metav1.NewTime(now.Add(-24 * time.Hour))
			if object.Status.Conditions[i].Type == "Progressing" {
				object.Status.Conditions[i].LastTransitionTime = metav1.NewTime(now.Add(-begun))
			}
		}
		tally.OnAdd(object, true)
		return object
	}
	add("rolls-out", 59*time.Minute, "Ready=False", "Progressing=True")
	add("hangs", 61*time.Minute, "Ready=False", "Progressing=True")
	notReady := add("ready-until-now", 24*time.Hour, "Ready=False", "Progressing=True")
	notReady.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-10 * time.Minute))
	tally.OnUpdate(notReady, notReady)
	add("waits-for-its-window", 61*time.Minute, "Ready=False", "Progressing=False")
	add("paused", 61*time.Minute, "Ready=False", "Paused=True", "Progressing=True")
	add("works", 61*time.Minute, "Ready=True", "Progressing=True")
	for name, ago := range map[string]time.Duration{"goes": 59 * time.Minute, "stays": 61 * time.Minute} {
		object := add(name, 24*time.Hour, "Ready=True")
		object.DeletionTimestamp = new(metav1.NewTime(now.Add(-ago)))
		tally.OnUpdate(object, object)
	}
	expect := func(want ...string) {
		t.Helper()
		_, in, named := tally.count(now)
		var got []string
		for _, one := range named {
			got = append(got, one.name+" "+one.phase)
		}
		if diff := cmp.Diff(want, got); diff != "" || in["shop"] != len(want)-2 {
			t.Errorf("unready are %v: %s", in, diff)
		}
	}
	expect("hangs Progressing", "stays Deleting")
	add("broken", 0, "Ready=False", "Degraded=True")
	expect("broken Degraded", "hangs Progressing", "stays Deleting")
	for i := range 2 * mostNamed {
		add(fmt.Sprintf("z-%03d", i), 30*time.Minute+time.Hour, "Ready=False", "Progressing=True")
	}
	if _, _, named := tally.count(now); len(named) != 1+mostNamed || named[0].name != "broken" {
		t.Errorf("%d are named, first %s", len(named), named[0].name)
	}
}

// TestUnready: objects that are Ready, on their way, paused, suspended or being deleted need no
// attention.
func TestUnready(t *testing.T) {
	tally := &Tally{known: map[types.UID]counted{}}
	in := func(namespace string, object *msappsv1.WebApp) *msappsv1.WebApp {
		object.Namespace = namespace
		return object
	}
	tally.OnAdd(in("shop", app("a", "Ready=True")), true)
	tally.OnAdd(in("shop", app("b", "Ready=False")), true)
	tally.OnAdd(in("shop", app("c", "Ready=False", "Paused=True")), true)
	tally.OnAdd(in("shop", app("d", "Ready=False", "Stalled=True")), true)
	tally.OnAdd(in("shop", app("e", "Ready=False", "Degraded=True")), true)
	tally.OnAdd(in("blog", app("f")), true)
	tally.OnAdd(in("docs", app("g", "Ready=Unknown")), true)
	tally.OnAdd(in("shop", app("h", "Ready=False", "Suspended=True")), true)
	_, got, _ := tally.count(time.Now())
	if diff := cmp.Diff(map[string]int{"shop": 2, "blog": 1, "docs": 1}, got); diff != "" {
		t.Error(diff)
	}
	few := &namespaceLabels{limit: 1}
	few.with("shop", func(string) {})
	if diff := cmp.Diff(map[string]int{"shop": 2, otherNamespaces: 2}, few.sum(got)); diff != "" {
		t.Error(diff)
	}
}

// TestUnreadyAreNamed: those that have not been ready for longest, and beside them components of
// stacks, whatever else is not ready; and no more than a scrape can carry.
func TestUnreadyAreNamed(t *testing.T) {
	tally := &Tally{known: map[types.UID]counted{}}
	begun := time.Unix(1_000_000, 0)
	for i := range 3 * mostNamed {
		name := fmt.Sprintf("web-%03d", i)
		object := app(types.UID(name), "Ready=False", "Stalled=True")
		object.Name = name
		// The later it was made, the longer it has not been ready.
		object.CreationTimestamp = metav1.NewTime(begun.Add(time.Duration(i) * time.Hour))
		object.Status.Conditions[0].LastTransitionTime = metav1.NewTime(begun.Add(-time.Duration(i) * time.Hour))
		tally.OnAdd(object, true)
	}
	tally.OnAdd(app("ready", "Ready=True"), true)
	_, _, named := tally.count(time.Now())
	if len(named) != mostNamed || named[0].name != "web-149" || named[mostNamed-1].name != "web-100" {
		t.Errorf("%d are named, from %+v to %+v", len(named), named[0], named[len(named)-1])
	}
	for i := range 2 * mostComponents {
		name := fmt.Sprintf("part-%03d", i)
		object := app(types.UID(name), "Ready=False", "Degraded=True")
		object.Name = name
		object.OwnerReferences = []metav1.OwnerReference{{APIVersion: platformv1.GroupVersion.String(), Kind: "AppStack", Controller: new(true)}}
		object.Status.Conditions[0].LastTransitionTime = metav1.NewTime(begun.Add(time.Duration(1+i) * time.Hour))
		tally.OnAdd(object, true)
	}
	_, _, named = tally.count(time.Now())
	if len(named) != mostNamed+mostComponents || named[mostNamed-1].name != "web-100" || named[mostNamed].name != "part-000" ||
		named[len(named)-1].name != "part-499" {
		t.Errorf("with components of stacks %d are named, up to %+v", len(named), named[len(named)-1])
	}
	unseen := app("unseen")
	unseen.CreationTimestamp = metav1.NewTime(begun)
	if got := since(unseen); got != begun.Unix() {
		t.Errorf("an object without conditions has not been ready since %d", got)
	}
}

// TestCollector tests the gauges, and which of them are absent.
func TestCollector(t *testing.T) {
	t.Cleanup(func() { current.Store(nil) })
	filled := false
	tally := &Tally{kind: "WebApp", filled: func() bool { return filled }, known: map[types.UID]counted{
		"a": {phase: ready, namespace: "shop", name: "a"}, "b": {phase: ready, namespace: "shop", name: "b"},
		"c": {phase: stalled, namespace: "shop", name: "web", since: 7}}}
	current.Store(&Sources{Version: "1.2.3", Clock: clock.RealClock{}, Objects: []*Tally{tally}, Leads: func() bool { return true },
		CertificateExpiry: map[string]func() time.Time{"webhooks": func() time.Time { return time.Time{} }},
		WebhooksReady:     func() error { return fmt.Errorf("no certificate") }})
	expect := func(want map[string]float64) {
		t.Helper()
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(collector{})
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				name := family.GetName()
				for _, label := range metric.GetLabel() {
					name += " " + label.GetValue()
				}
				got[name] = metric.GetGauge().GetValue()
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	want := map[string]float64{"mainstay_info 1.2.3": 1, "mainstay_leader": 1, "mainstay_webhooks_ready": 0}
	expect(want)
	filled = true
	for _, phase := range phases {
		want["mainstay_objects WebApp "+phase] = 0
	}
	want["mainstay_objects WebApp Ready"], want["mainstay_objects WebApp Stalled"] = 2, 1
	want["mainstay_unready_objects WebApp shop"] = 1
	want["mainstay_unready_object WebApp shop web Stalled"] = 1
	expect(want)
	current.Store(&Sources{CertificateExpiry: map[string]func() time.Time{
		"webhooks": func() time.Time { return time.Unix(1000, 0) }, "apiserver": func() time.Time { return time.Unix(2000, 0) },
	}})
	expect(map[string]float64{"mainstay_info ": 1, "mainstay_certificate_expiry_timestamp_seconds webhooks": 1000,
		"mainstay_certificate_expiry_timestamp_seconds apiserver": 2000})
	current.Store(&Sources{Unserved: func() int { return 2 }})
	expect(map[string]float64{"mainstay_info ": 1, "mainstay_unserved_namespaces": 2})
	var served APIService
	current.Store(&Sources{APIService: func() APIService { return served }})
	expect(map[string]float64{"mainstay_info ": 1})
	served = APIService{Known: true, Published: true, Endpoints: 2}
	want = map[string]float64{"mainstay_info ": 1, "mainstay_apiservice_published": 1, "mainstay_apiservice_available": 0,
		"mainstay_apiservice_endpoints": 2}
	expect(want)
	served.Available, want["mainstay_apiservice_available"] = true, 1
	expect(want)
	served = APIService{Known: true}
	expect(map[string]float64{"mainstay_info ": 1, "mainstay_apiservice_published": 0, "mainstay_apiservice_endpoints": 0})
}
