package campaign

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mainstay-platform/mainstay/test/faults/proxy"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

const (
	// poll is the interval between two checks of a run.
	poll = 10 * time.Millisecond
	// settleLimit is how long a step may take. Only failures take that long: with a first retry after
	// about a second, a step with one fault takes some two seconds, and thirty times that while
	// a dozen runs share two busy processors.
	settleLimit = testenv.Within
	// calmPolls is how many consecutive polls must find no new write before a step is complete: 300 ms
	// on an idle machine, where a subsequent write follows within milliseconds. It is a number of
	// polls because polls slow down on a busy machine just as the managers in the same process do.
	calmPolls = 30
	// restPolls is how many consecutive polls must find no activity at all before a step with GiveUp
	// is given up: 2 s on an idle machine, enough for the garbage collector and for watches that
	// reconnect.
	restPolls = 200
	// vainFailures and vainWrites are how many failed requests and how many writes in a step show,
	// with GiveUp, that the manager does not come to rest. A fault makes one request fail, and a step
	// has some ten writes, the creation of a PostgreSQL twenty, twice as many if the manager is
	// killed.
	vainFailures = 3
	vainWrites   = 48
	// firstRetry is the longest time before a manager's first retry. Each further one takes twice as
	// long (see internal/kit/errclass). mostRetry limits how long a run waits for retries.
	firstRetry = 1200 * time.Millisecond
	mostRetry  = 20 * time.Second
)

// Cluster is where scenarios run.
type Cluster struct {
	// Config reaches the API server with all rights.
	Config *rest.Config
	// Client reaches it too.
	Client client.WithWatch
	// New returns a manager as in production, but without leader election and ports, because many run
	// in this process.
	New func(ctx context.Context, config *rest.Config) (manager.Manager, error)
	// Reconciled returns how many reconciles in a namespace have completed.
	Reconciled func(namespace string) (int, error)

	namespaced testenv.Namespaced
}

// Prepare discovers the API server's resources. Call it once before the first run.
func (c *Cluster) Prepare() error {
	var err error
	c.namespaced, err = testenv.FindNamespaced(c.Config)
	return err
}

// Options are the disturbances of a run.
type Options struct {
	// Plan is the proxy's plan.
	Plan proxy.Plan
	// AwayIn names the step during which the manager does not run. It starts after the step has been
	// done.
	AwayIn string
	// SilentIn names the step during which the manager receives no events of the owner: the watch
	// stalls.
	SilentIn string
	// Wrap, if set, wraps the transport between each manager and the proxy: a seeded bug. It is called
	// for every new manager, so that its memory ends with the manager.
	Wrap func(http.RoundTripper) http.RoundTripper
	// GiveUp ends a step early if it will not settle, because nothing happens any more or the same
	// repeats. It is for managers that are expected to be wrong; it would also give up one that waits
	// for a timer.
	GiveUp bool
}

// Outcome is the result of a run.
type Outcome struct {
	// Options are the disturbances of the run.
	Options Options
	// Steps has the observed state of each step, in the order of the scenario.
	Steps []Observed
	// Counts has the creations and deletions of each object, by "Kind name".
	Counts map[string]Count
	// Requests are the managers' requests in the namespace, except events and watches.
	Requests []Asked
	// Watched are the resources in the namespace that the managers watched, each once.
	Watched []proxy.Request
	// Fired are the rules that hit a request.
	Fired []proxy.Firing
	// Claims has the state after each kill of a manager if the owner reported itself ready then.
	Claims []Observed
	// Unsettled is why the run was given up at a step, nil if it completed.
	Unsettled *UnsettledError
	// Took is the duration of the run.
	Took time.Duration
}

// Asked is a request and the step in which it was made.
type Asked struct {
	Step string
	proxy.Exchange
}

// Observed is the state at the end of a step.
type Observed struct {
	Step     string
	Snapshot Snapshot
}

// UnsettledError is the error of a step that did not complete, or in which the manager did not come
// to rest.
type UnsettledError struct {
	Step string
	// Missing is what the step lacks. Nil means that it lacks nothing, but the manager went on
	// writing.
	Missing error
}

// Error returns the step and what it lacks.
func (e *UnsettledError) Error() string {
	if e.Missing == nil {
		return fmt.Sprintf("step %s: the manager goes on writing", e.Step)
	}
	return fmt.Sprintf("step %s: %v", e.Step, e.Missing)
}

// run is one run of a scenario.
type run struct {
	*Cluster
	Options
	scenario  Scenario
	namespace string
	proxy     *proxy.Proxy
	ledger    *ledger
	manager   *process
	// managers is the number of managers started, and so the proxy's number of the last.
	managers int
	// reconciled is the number of reconciles of the owner when the last manager was started, negative
	// once that manager has reconciled it too.
	reconciled int
	outcome    Outcome
	// begun has for each step the number of earlier requests.
	begun []int
}

// Run runs a scenario. An error is a failure of the run itself; the outcome has what is wrong with
// the manager.
func (c *Cluster) Run(ctx context.Context, scenario Scenario, options Options) (outcome Outcome, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	start := time.Now()
	created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "faults-" + scenario.Name + "-"}}
	if err := c.Client.Create(ctx, created); err != nil {
		return Outcome{}, fmt.Errorf("making a namespace: %w", err)
	}
	defer func() { err = errors.Join(err, c.remove(context.WithoutCancel(ctx), created)) }()
	faulty, err := proxy.New(c.Config, options.Plan)
	if err != nil {
		return Outcome{}, err
	}
	defer faulty.Close()
	r := &run{Cluster: c, Options: options, outcome: Outcome{Options: options}, scenario: scenario, namespace: created.Name, proxy: faulty}
	if r.ledger, err = openLedger(ctx, c.Client, scenario.kinds(), r.namespace); err != nil {
		return Outcome{}, err
	}
	if err := r.start(ctx); err != nil {
		return Outcome{}, err
	}
	defer func() { r.manager.stop() }()
	err = r.steps(ctx)
	r.conclude()
	r.outcome.Took = time.Since(start)
	return r.outcome, err
}

// remove removes the namespace of a run as Kubernetes' controller would, but not what is in it. Our
// metrics, by which Reconciled counts, have series for a limited number of namespaces, and a
// campaign has more runs than that.
func (c *Cluster) remove(ctx context.Context, namespace *corev1.Namespace) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	if err := c.Client.Delete(ctx, namespace); err != nil {
		return fmt.Errorf("deleting the namespace: %w", err)
	}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace); err != nil {
		return fmt.Errorf("reading the deleted namespace: %w", err)
	}
	namespace.Spec.Finalizers = nil
	if err := c.Client.SubResource("finalize").Update(ctx, namespace); err != nil {
		return fmt.Errorf("finalizing the namespace: %w", err)
	}
	return nil
}

// steps does the steps until one does not settle.
func (r *run) steps(ctx context.Context) error {
	for _, step := range r.scenario.Steps {
		r.begun = append(r.begun, len(r.proxy.Exchanges()))
		err := r.step(ctx, step)
		if unsettled, ok := errors.AsType[*UnsettledError](err); ok {
			r.outcome.Unsettled = unsettled
			return nil
		}
		if err != nil {
			return fmt.Errorf("step %s: %w", step.Name, err)
		}
	}
	return nil
}

func (r *run) step(ctx context.Context, step Step) error {
	if r.AwayIn == step.Name {
		r.proxy.Kill()
		<-r.proxy.Deaths()
		r.manager.stop()
	}
	if r.SilentIn == step.Name {
		if err := r.silence(); err != nil {
			return err
		}
	}
	if err := step.Do(ctx, r.Client, r.namespace); err != nil {
		return err
	}
	if r.AwayIn == step.Name {
		if err := r.start(ctx); err != nil {
			return err
		}
	}
	if err := r.settle(ctx, step); err != nil {
		return err
	}
	taken, err := r.snapshot(ctx)
	r.outcome.Steps = append(r.outcome.Steps, Observed{step.Name, taken})
	return err
}

// silence stalls the watch of the owner's kind.
func (r *run) silence() error {
	owner := r.scenario.Owner
	mapping, err := r.Client.RESTMapper().RESTMapping(owner.GroupKind(), owner.Version)
	if err != nil {
		return fmt.Errorf("finding the resource of %s: %w", owner.Kind, err)
	}
	if r.proxy.StallWatches(proxy.Match{Group: owner.Group, Resource: mapping.Resource.Resource}) == 0 {
		return fmt.Errorf("the manager does not watch %s", mapping.Resource.Resource)
	}
	return nil
}

// settle waits until the step is complete and nothing has been written for a while. It starts a new
// manager after a kill.
func (r *run) settle(ctx context.Context, step Step) error {
	deadline := time.Now().Add(settleLimit)
	quiet := quiet{since: time.Now()}
	for {
		select {
		case <-r.proxy.Deaths():
			if err := r.recover(ctx, step); err != nil {
				return err
			}
			quiet.restart()
		case err := <-r.manager.ended:
			return fmt.Errorf("the manager ended by itself: %w", err)
		default:
		}
		world, err := r.ledger.now()
		if err != nil {
			return err
		}
		quiet.observe(r.activity(), world, r.proxy.Underway() > 0)
		missing := step.Settled(world)
		if missing == nil && r.reconciled >= 0 {
			if missing, err = r.awaitsReconcile(world); err != nil {
				return err
			}
			quiet.restart()
		}
		if missing == nil && quiet.isCalm() && len(r.proxy.Deaths()) == 0 {
			return nil
		}
		if time.Now().After(deadline) || r.GiveUp && quiet.isVain(missing) {
			return &UnsettledError{step.Name, missing}
		}
		if err := pause(ctx, poll); err != nil {
			return err
		}
	}
}

// quiet measures how long nothing has happened in a step.
type quiet struct {
	seen  activity
	world World
	// since is the time of the last write, calm the number of polls since then, and rest the number of
	// polls without any activity.
	since      time.Time
	calm, rest int
}

func (q *quiet) restart() { q.since, q.calm, q.rest = time.Now(), 0, 0 }

// observe compares with the current state.
func (q *quiet) observe(now activity, world World, isUnderway bool) {
	q.calm++
	q.rest++
	if now.asked != q.seen.asked || !maps.EqualFunc(world, q.world, isSameVersion) {
		q.rest = 0
	}
	if now.writes != q.seen.writes || now.failures != q.seen.failures || isUnderway {
		q.restart()
	}
	q.seen, q.world = now, world
}

// isCalm reports whether the manager has written all that it will write.
func (q *quiet) isCalm() bool { return q.calm >= calmPolls && time.Since(q.since) > q.seen.retry() }

// isVain reports whether it is useless to wait for what is missing, or, if nothing is, for calm.
func (q *quiet) isVain(missing error) bool {
	if missing != nil && (q.seen.failures >= vainFailures || q.rest >= restPolls && q.isCalm()) {
		return true
	}
	return q.seen.writes >= vainWrites
}

// awaitsReconcile reports whether a started manager has yet to reconcile the owner. Before that its
// silence means nothing.
func (r *run) awaitsReconcile(world World) (missing, err error) {
	if !slices.ContainsFunc(slices.Collect(maps.Keys(world)), r.isOwner) {
		r.reconciled = -1
		return nil, nil
	}
	reconciled, err := r.Reconciled(r.namespace)
	if err != nil || reconciled <= r.reconciled {
		return errors.New("the manager has not reconciled it since its start"), err
	}
	r.reconciled = -1
	return nil, nil
}

// isOwner reports whether a key of the world is of the owner's kind.
func (r *run) isOwner(key string) bool { return strings.HasPrefix(key, r.scenario.Owner.Kind+" ") }

// activity is what the managers have tried in a step so far.
type activity struct {
	// asked is the number of requests of all managers, writes that of the writes among them.
	asked, writes int
	// failures is the number of failures of the current manager, which it will retry.
	failures int
}

func (r *run) activity() activity {
	var sum activity
	for i, exchange := range r.proxy.Exchanges() {
		if i < r.begun[len(r.begun)-1] || !r.counts(exchange) {
			continue
		}
		sum.asked++
		if exchange.IsWrite() {
			sum.writes++
		}
		// For a reader, a missing object is no failure.
		failed := exchange.Code >= http.StatusBadRequest && exchange.Code != http.StatusNotFound || exchange.Fault != "" &&
			exchange.Fault != proxy.Delay
		if failed && exchange.Client == r.managers {
			sum.failures++
		}
	}
	return sum
}

// retry returns how long the manager may wait until it retries a failure.
func (a activity) retry() time.Duration {
	if a.failures == 0 {
		return 0
	}
	return min(mostRetry, firstRetry<<min(a.failures-1, 10))
}

// counts reports whether a request belongs to the work. Events do not: they are sent in parallel,
// in no particular order, and nothing depends on them.
func (r *run) counts(exchange proxy.Exchange) bool {
	return exchange.Namespace == r.namespace && exchange.Resource != "events" && exchange.Verb != "watch" && exchange.Verb != "list"
}

// recover checks what a killed manager has left, and starts the next.
func (r *run) recover(ctx context.Context, step Step) error {
	r.manager.stop()
	taken, err := r.snapshot(ctx)
	if err != nil {
		return err
	}
	world, err := r.ledger.now()
	if err != nil {
		return err
	}
	for name, object := range world {
		if r.isOwner(name) && r.scenario.IsReady(object) {
			r.outcome.Claims = append(r.outcome.Claims, Observed{step.Name, taken})
			break
		}
	}
	return r.start(ctx)
}

func (r *run) snapshot(ctx context.Context) (Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	world, err := r.ledger.sync(ctx)
	if err != nil {
		return nil, err
	}
	return snapshot(world, r.ledger.who(), r.namespace, r.scenario.Mask)
}

// conclude adds what the ledger and the proxy have recorded to the outcome.
func (r *run) conclude() {
	r.outcome.Counts = r.ledger.totals()
	r.outcome.Fired = r.proxy.Fired()
	for i, exchange := range r.proxy.Exchanges() {
		if exchange.Verb == "watch" && exchange.Namespace == r.namespace &&
			!slices.ContainsFunc(r.outcome.Watched, func(known proxy.Request) bool { return what(known) == what(exchange.Request) }) {
			r.outcome.Watched = append(r.outcome.Watched, exchange.Request)
		}
		if !r.counts(exchange) {
			continue
		}
		step := 0
		for step+1 < len(r.begun) && r.begun[step+1] <= i {
			step++
		}
		r.outcome.Requests = append(r.outcome.Requests, Asked{r.scenario.Steps[step].Name, exchange})
	}
}

// process is a running manager.
type process struct {
	stop func()
	// ended receives the error if the manager ends without being stopped.
	ended chan error
}

// start starts a manager, and waits until its caches are filled.
func (r *run) start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	reconciled, err := r.Reconciled(r.namespace)
	if err != nil {
		cancel()
		return err
	}
	r.reconciled = reconciled
	config := r.proxy.Connect()
	r.managers++
	if r.Wrap != nil {
		config.Wrap(r.Wrap)
	}
	config.Wrap(r.namespaced.Confine(r.namespace))
	// The constructor of a manager retries for as long as its context lives while the API server does
	// not answer.
	late := time.AfterFunc(settleLimit, cancel)
	made, err := r.New(ctx, config)
	late.Stop()
	if err != nil {
		cancel()
		return fmt.Errorf("making a manager: %w", err)
	}
	r.manager = &process{stop: cancel, ended: make(chan error, 1)}
	ended := r.manager.ended
	go func() {
		if err := made.Start(ctx); ctx.Err() == nil {
			ended <- err
		}
	}()
	filled, stop := context.WithTimeout(ctx, settleLimit)
	defer stop()
	if !made.GetCache().WaitForCacheSync(filled) {
		return errors.New("the manager's caches did not fill")
	}
	return nil
}
