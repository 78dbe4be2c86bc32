package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/internal/workload"
	"github.com/mainstay-platform/mainstay/test/cases"
	"github.com/mainstay-platform/mainstay/test/faults/proxy"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

const (
	// fewEdits and fewKills are for `make test`, manyEdits and manyKills for `make faults`.
	fewEdits, fewKills   = 200, 10
	manyEdits, manyKills = 10_000, 100
	// unreliable is the share of the manager's requests about workloads that fail.
	unreliable = 0.01
	// editLimit is how long one edit may take to reach all workloads. Only failures take that long.
	editLimit = testenv.Within
)

// TestEdits edits, deletes and recreates ConfigMaps at random, while the manager is killed now and
// then, sometimes stays away, and some of its requests fail. Each workload restarts exactly as
// often as the content that its pods run changes.
func TestEdits(t *testing.T) {
	edits, kills := fewEdits, fewKills
	if *whole {
		edits, kills = manyEdits, manyKills
	}
	e := newEditing(t, cases.Seed(t, 20261121))
	e.start()
	e.settle(-1) // the first reconcile of each restarts nothing
	for i := range edits {
		kill := i%(edits/kills) == edits/kills-1
		switch {
		case kill && e.random.IntN(2) == 0: // the edit happens while no manager runs
			e.kill()
			for range 1 + e.random.IntN(3) {
				e.edit()
			}
			e.start()
		case kill: // while the manager handles an edit
			e.edit()
			<-time.After(time.Duration(e.random.IntN(20)) * time.Millisecond) // chooses the moment; nothing waits for it
			e.kill()
			e.start()
		case e.random.IntN(10) == 0: // two at once cause one restart or two: settleUncounted accepts both
			first := e.random.IntN(len(sources))
			e.editOf(sources[first])
			// A different source: the manager may or may not have seen an edit that is reverted.
			e.editOf(sources[(first+1)%len(sources)])
			e.settleUncounted(i)
			continue
		default:
			e.edit()
		}
		e.settle(i)
	}
	// A superfluous restart may come late. After this, every workload has been reconciled once more.
	e.clock.Leap(time.Hour)
	for _, name := range sources {
		e.write(name, "end")
		e.settle(edits)
	}
	t.Attr("faults", fmt.Sprintf("%s: %d edits, %d kills, %d restarts of %d workloads, %d requests failed", t.Name(), edits, kills, e.total(),
		len(e.reads), len(e.proxy.Fired())))
}

// none is the value in a stamp for pods that were started without the ConfigMap.
const none = "-"

// sources are the names of the ConfigMaps.
var sources = []string{"one", "two", "three"}

// editing is a namespace with ConfigMaps and Deployments, and their expected state.
type editing struct {
	t         *testing.T
	random    *rand.Rand
	namespace string
	proxy     *proxy.Proxy
	// clock leaps an hour with each edit, so that the workloads' last restart is always long ago.
	// Other tests check cooldowns.
	clock *testenv.Clock
	stop  func()
	// contents are the values of the existing ConfigMaps.
	contents map[string]string
	// reads maps each Deployment to the ConfigMaps that its monitors watch.
	reads map[string][]string
	// runs has for each Deployment the contents that its pods were started with; restarts has the
	// number of its restarts.
	runs     map[string]map[string]string
	restarts map[string]int

	mutex sync.Mutex
	// seen is the state of the Deployments by the watch.
	seen map[string]*seenDeployment
}

// seenDeployment is the last state of a Deployment and the number of changes of its template.
type seenDeployment struct {
	token    string
	restarts int
	stamp    workload.Stamp
}

func newEditing(t *testing.T, seed uint64) *editing {
	t.Helper()
	e := &editing{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), clock: testenv.NewClock(), //nolint:gosec // a test
		contents: map[string]string{}, runs: map[string]map[string]string{}, restarts: map[string]int{}, seen: map[string]*seenDeployment{},
		reads: map[string][]string{"a": {"one"}, "b": {"one", "two"}, "c": {"one", "two", "three"}, "d": {"three"}},
	}
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "faults-edits-"}}
	e.must(cluster.Client.Create(t.Context(), space))
	e.namespace = space.Name
	var err error
	e.proxy, err = proxy.New(cluster.Config, proxy.Plan{Seed: seed, Rules: []proxy.Rule{
		{Match: proxy.Match{Verb: "write", Group: "apps", Namespace: e.namespace}, Times: -1, Chance: unreliable, Fault: proxy.LoseAnswer},
		{Match: proxy.Match{Verb: "write", Group: "apps", Namespace: e.namespace}, Times: -1, Chance: unreliable, Fault: proxy.InternalError},
		{Match: proxy.Match{Verb: "write", Group: "apps", Namespace: e.namespace}, Times: -1, Chance: unreliable, Fault: proxy.Conflict},
		{Match: proxy.Match{Verb: "list", Group: "apps", Namespace: e.namespace}, Times: -1, Chance: unreliable, Fault: proxy.Drop},
	}})
	e.must(err)
	t.Cleanup(e.proxy.Close)
	for _, name := range sources {
		e.write(name, "begin")
	}
	for deployment, sources := range e.reads {
		e.runs[deployment] = map[string]string{}
		e.must(cluster.Client.Create(t.Context(), testenv.Deployment(e.namespace, deployment)))
		for _, source := range sources {
			e.runs[deployment][source] = "begin"
			e.must(cluster.Client.Create(t.Context(), &configv1.ConfigMonitor{
				ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: deployment + "-" + source},
				Spec: configv1.ConfigMonitorSpec{ConfigMap: source, PodSelector: map[string]string{"app": deployment},
					Cooldown: &metav1.Duration{}},
			}))
		}
	}
	e.watch()
	return e
}

func (e *editing) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// watch records each change of a Deployment from a watch.
func (e *editing) watch() {
	e.t.Helper()
	watcher, err := cluster.Client.Watch(e.t.Context(), &appsv1.DeploymentList{}, client.InNamespace(e.namespace))
	e.must(err)
	e.t.Cleanup(watcher.Stop)
	go func() {
		for event := range watcher.ResultChan() {
			if deployment, ok := event.Object.(*appsv1.Deployment); ok && event.Type != watch.Deleted {
				e.note(deployment)
			}
		}
	}()
}

func (e *editing) note(deployment *appsv1.Deployment) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	seen := e.seen[deployment.Name]
	if seen == nil {
		seen = &seenDeployment{}
		e.seen[deployment.Name] = seen
	}
	if token := deployment.Spec.Template.Annotations[configv1.AnnotationRestartedFor]; token != seen.token {
		seen.token = token
		seen.restarts++
	}
	seen.stamp = workload.ParseStamp(deployment.Annotations[configv1.AnnotationObserved])
}

// start starts a manager.
func (e *editing) start() {
	e.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	settings := managerSettings()
	settings.Clock = e.clock
	manager, err := setup.New(ctx, e.proxy.Connect(), settings)
	e.must(err)
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	e.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			e.t.Logf("a manager ended: %v", err)
		}
	})
	e.t.Cleanup(e.stop)
}

// kill kills the manager in the middle of its work.
func (e *editing) kill() {
	e.proxy.Kill()
	<-e.proxy.Deaths()
	e.stop()
}

// edit changes one ConfigMap: it writes another content or the same, deletes it, or recreates it.
func (e *editing) edit() {
	e.t.Helper()
	e.editOf(sources[e.random.IntN(len(sources))])
}

func (e *editing) editOf(source string) {
	e.t.Helper()
	e.clock.Leap(time.Hour)
	_, there := e.contents[source]
	if there && e.random.IntN(5) == 0 {
		e.must(cluster.Client.Delete(e.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: source}}))
		delete(e.contents, source)
		return
	}
	e.write(source, strconv.Itoa(e.random.IntN(4)))
}

func (e *editing) write(name, value string) {
	e.t.Helper()
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: name}, Data: map[string]string{"value": value}}
	err := cluster.Client.Update(e.t.Context(), configMap)
	if apierrors.IsNotFound(err) {
		configMap.ResourceVersion = ""
		err = cluster.Client.Create(e.t.Context(), configMap)
	}
	e.must(err)
	e.contents[name] = value
}

// settleUncounted waits until all pods run the current contents, and accepts the number of restarts
// for that, at most two each.
func (e *editing) settleUncounted(round int) {
	e.t.Helper()
	for _, runs := range e.runs {
		e.begin(runs)
	}
	before := maps.Clone(e.restarts)
	e.await(round, func() string {
		e.mutex.Lock()
		for deployment := range e.runs {
			if more := e.seen[deployment].restarts - before[deployment]; more >= 0 && more <= 2 {
				e.restarts[deployment] = e.seen[deployment].restarts
			}
		}
		e.mutex.Unlock()
		return e.difference(false)
	})
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for deployment, runs := range e.runs {
		for source := range runs {
			if e.seen[deployment].stamp.Sources["ConfigMap/"+source].All == none {
				runs[source] = none
			}
		}
	}
}

// settle waits until each Deployment has restarted for the current contents, and compares the
// number of restarts.
func (e *editing) settle(round int) {
	e.t.Helper()
	for deployment, runs := range e.runs {
		if !e.begin(runs) {
			continue
		}
		e.restarts[deployment]++
		for source := range runs {
			if _, there := e.contents[source]; !there {
				runs[source] = none
			}
		}
	}
	e.await(round, func() string { return e.difference(true) })
}

// begin records that pods start now, with the current contents, and reports whether that changes
// anything.
func (e *editing) begin(runs map[string]string) bool {
	changed := false
	for source, ran := range runs {
		if now, there := e.contents[source]; there && now != ran {
			runs[source], changed = now, true
		}
	}
	return changed
}

// await waits until there is no difference.
func (e *editing) await(round int, difference func() string) {
	e.t.Helper()
	var wrong string
	for end := time.Now().Add(editLimit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if wrong = difference(); wrong == "" {
			return
		}
	}
	e.t.Fatalf("edit %d: %s", round, wrong)
}

// difference returns what is not as expected, empty if nothing. It compares the stamp of a missing
// ConfigMap only if ofMissing is set: that stamp depends on which of two edits preceded the
// restart.
func (e *editing) difference(ofMissing bool) string {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for deployment, runs := range e.runs {
		seen := e.seen[deployment]
		if seen == nil {
			return deployment + " was not seen"
		}
		if seen.restarts != e.restarts[deployment] {
			return fmt.Sprintf("%s was restarted %d times, for %d contents", deployment, seen.restarts, e.restarts[deployment])
		}
		for source, value := range runs {
			if _, there := e.contents[source]; !there && !ofMissing {
				continue
			}
			wanted := none
			if value != none {
				wanted = workload.HashAll(map[string]string{"value": workload.HashKey([]byte(value))})
			}
			if got := seen.stamp.Sources["ConfigMap/"+source].All; got != wanted {
				return fmt.Sprintf("%s: the stamp for %s is %q, but %q has the stamp %q", deployment, source, got, value, wanted)
			}
		}
	}
	return ""
}

// total returns the number of restarts.
func (e *editing) total() int {
	sum := 0
	for _, count := range e.restarts {
		sum += count
	}
	return sum
}
