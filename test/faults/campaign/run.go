package campaign

import (
	"cmp"
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
	// poll is how often a run looks at what has become of it.
	poll = 10 * time.Millisecond
	// settleLimit is how long a step may take. It bounds failures only: with a first retry after about
	// a second, a step with one fault takes some two, and ten times as long on a busy machine.
	settleLimit = 60 * time.Second
	// calmPolls is how many looks in a row must find that nothing was written for a step to be over: 300 ms on an idle machine. What
	// follows a write follows within milliseconds there. It is counted in looks because those become slower on a busy machine as the
	// managers do, which are in the same process.
	calmPolls = 30
	// restPolls is how many looks in a row must find that nothing at all happened before a step with GiveUp is given up: 2 s on an idle
	// machine, in which the garbage collector and the watches that were opened again have done what they do.
	restPolls = 200
	// vainFailures and vainWrites are how many failed requests and how many writes in a step show with GiveUp that the manager does not
	// come to rest: a fault makes one request fail, and a step has some ten writes, twice as many if the manager is killed.
	vainFailures = 3
	vainWrites   = 24
	// firstRetry is the longest first wait of a manager that tries again, and each further one is twice as long
	// (see internal/kit/errclass); mostRetry bounds how much of that is waited for.
	firstRetry = 1200 * time.Millisecond
	mostRetry  = 20 * time.Second
)

// Cluster is where scenarios run.
type Cluster struct {
	// Config reaches the API server with all rights.
	Config *rest.Config
	// Client does so too.
	Client client.WithWatch
	// New makes a manager, as it runs in production, but that it needs no election and serves no ports: many run in
	// this process.
	New func(ctx context.Context, config *rest.Config) (manager.Manager, error)
	// Looked is how often managers have looked at something in a namespace, and come to an end with it.
	Looked func(namespace string) (int, error)

	namespaced testenv.Namespaced
}

// Prepare learns what the API server has. It is called once, before the first run.
func (c *Cluster) Prepare() error {
	var err error
	c.namespaced, err = testenv.FindNamespaced(c.Config)
	return err
}

// Options are what disturbs a run.
type Options struct {
	// Plan is what the proxy does.
	Plan proxy.Plan
	// AwayIn is the step, by name, during which the manager is not running: it is started when the step has been done.
	AwayIn string
	// SilentIn is the step, by name, during which the manager hears nothing of the owner: its watch is silent.
	SilentIn string
	// Wrap, if there is one, stands between each manager and the proxy: a seeded bug. It is called for every manager anew, so
	// that what it remembers dies with it.
	Wrap func(http.RoundTripper) http.RoundTripper
	// SettleLimit is how long a step may take; 0 means a minute.
	SettleLimit time.Duration
	// GiveUp ends a step early that will not settle: nothing happens any more, or the same again and again. It is for managers that are
	// expected to be wrong; one that waits for something would be given up too.
	GiveUp bool
}

// Outcome is all that a run left behind.
type Outcome struct {
	// Options are what disturbed it.
	Options Options
	// Steps are in the order of the scenario's.
	Steps []Observed
	// Counts has, by "Kind name", how often it was created and deleted.
	Counts map[string]Count
	// Requests of the managers for something in the namespace, but for events and watches.
	Requests []Asked
	// Watched are the resources of which the managers watched what is in the namespace, each once.
	Watched []proxy.Request
	// Fired are the rules that hit something.
	Fired []proxy.Firing
	// Claims are what there was, each time that a manager had been killed, if the owner then said that it was ready.
	Claims []Observed
	// Unsettled is why a step was given up, and all that follow; nil if none was.
	Unsettled *UnsettledError
	// Took is how long it all was.
	Took time.Duration
}

// Asked is a request and the step in which it was made.
type Asked struct {
	Step string
	proxy.Exchange
}

// Observed is what there was at the end of a step.
type Observed struct {
	Step     string
	Snapshot Snapshot
}

// UnsettledError tells of a step that did not come to its end, or not to rest.
type UnsettledError struct {
	Step string
	// Missing is what the step did not come to; nil if it did, and the manager went on writing.
	Missing error
}

// Error tells it.
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
	// managers is how many have been started: the number by which the proxy knows the last.
	managers int
	// looked is how often managers had looked at the owner when the last was started; negative once it did so too.
	looked  int
	outcome Outcome
	// begun has for each step how many requests there were before it.
	begun []int
}

// Run runs a scenario. An error is one of the run itself; what is wrong with the manager is told by the outcome.
func (c *Cluster) Run(ctx context.Context, scenario Scenario, options Options) (Outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	start := time.Now()
	created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "faults-" + scenario.Name + "-"}}
	if err := c.Client.Create(ctx, created); err != nil {
		return Outcome{}, fmt.Errorf("making a namespace: %w", err)
	}
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

// steps are taken until one does not settle.
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

// settle waits until the step has come to its end, and nothing has been written for a while. It starts the manager
// again when it was killed.
func (r *run) settle(ctx context.Context, step Step) error {
	deadline := time.Now().Add(cmp.Or(r.SettleLimit, settleLimit))
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
		if missing == nil && r.looked >= 0 {
			if missing, err = r.look(world); err != nil {
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

// quiet is for how long nothing has happened in a step.
type quiet struct {
	seen  activity
	world World
	// since is when something was last written, calm how many looks ago, and rest how many looks ago anything happened at all.
	since      time.Time
	calm, rest int
}

func (q *quiet) restart() { q.since, q.calm, q.rest = time.Now(), 0, 0 }

// observe looks at what there is now.
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

// isVain reports whether it is of no use to wait for what is missing, or, if nothing is, for calm.
func (q *quiet) isVain(missing error) bool {
	if missing != nil && (q.seen.failures >= vainFailures || q.rest >= restPolls && q.isCalm()) {
		return true
	}
	return q.seen.writes >= vainWrites
}

// look tells whether a manager that was started has yet to look at the owner. Before it has, its silence says nothing.
func (r *run) look(world World) (missing, err error) {
	if !slices.ContainsFunc(slices.Collect(maps.Keys(world)), r.isOwner) {
		r.looked = -1
		return nil, nil
	}
	looked, err := r.Looked(r.namespace)
	if err != nil || looked <= r.looked {
		return errors.New("the manager has not looked at it since it was started"), err
	}
	r.looked = -1
	return nil, nil
}

// isOwner tells the owner's kind by a key of the world.
func (r *run) isOwner(key string) bool { return strings.HasPrefix(key, r.scenario.Owner.Kind+" ") }

// activity is what a step's managers have tried so far.
type activity struct {
	// asked are the requests of any of them, writes those that were writes.
	asked, writes int
	// failures of the one that lives: it will try again.
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
		// What is not there is no failure to somebody who asks.
		failed := exchange.Code >= http.StatusBadRequest && exchange.Code != http.StatusNotFound || exchange.Fault != "" &&
			exchange.Fault != proxy.Delay
		if failed && exchange.Client == r.managers {
			sum.failures++
		}
	}
	return sum
}

// retry is how long the manager may wait until it tries again what has failed.
func (a activity) retry() time.Duration {
	if a.failures == 0 {
		return 0
	}
	return min(mostRetry, firstRetry<<min(a.failures-1, 10))
}

// counts tells what belongs to the work. Events do not: they are sent beside it, in no certain order, and nothing
// depends on them.
func (r *run) counts(exchange proxy.Exchange) bool {
	return exchange.Namespace == r.namespace && exchange.Resource != "events" && exchange.Verb != "watch" && exchange.Verb != "list"
}

// recover looks at what a killed manager left, and starts the next.
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

// conclude notes what the ledger and the proxy have recorded.
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

// process is a manager that runs.
type process struct {
	stop func()
	// ended receives why it ended, if nobody stopped it.
	ended chan error
}

// start starts a manager, and waits until its caches are filled.
func (r *run) start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	looked, err := r.Looked(r.namespace)
	if err != nil {
		cancel()
		return err
	}
	r.looked = looked
	config := r.proxy.Connect()
	r.managers++
	if r.Wrap != nil {
		config.Wrap(r.Wrap)
	}
	config.Wrap(r.namespaced.Confine(r.namespace))
	// A manager that is made asks an API server that does not answer again and again, for as long as the context lives.
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
