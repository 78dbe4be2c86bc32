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
)

const (
	// poll is how often a run looks at what has become of it.
	poll = 10 * time.Millisecond
	// settleLimit is how long a step may take. It bounds failures only: with a first retry after about
	// a second, a step with one fault takes some two.
	settleLimit = 25 * time.Second
	// calm is for how long nothing must have been written for a step to be over. What follows a write
	// follows within milliseconds.
	calm = 300 * time.Millisecond
	// firstRetry is the longest first wait of a manager that tries again, and each further one is twice as long
	// (see internal/kit/outcome); mostCalm bounds how much of that is waited for.
	firstRetry = 1200 * time.Millisecond
	mostCalm   = 20 * time.Second
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

	namespaced namespaced
}

// Prepare learns what the API server has. It is called once, before the first run.
func (c *Cluster) Prepare() error {
	var err error
	c.namespaced, err = findNamespaced(c.Config)
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
	// SettleLimit is how long a step may take; 0 means 25 s.
	SettleLimit time.Duration
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
	seen, since := activity{}, time.Now()
	for {
		select {
		case <-r.proxy.Deaths():
			if err := r.recover(ctx, step); err != nil {
				return err
			}
			since = time.Now()
		case err := <-r.manager.ended:
			return fmt.Errorf("the manager ended by itself: %w", err)
		default:
		}
		if now := r.activity(); now != seen || r.proxy.Underway() > 0 {
			seen, since = now, time.Now()
		}
		world, err := r.ledger.now()
		if err != nil {
			return err
		}
		missing := step.Settled(world)
		if missing == nil && r.looked >= 0 {
			if missing, err = r.look(world); err != nil {
				return err
			}
			since = time.Now()
		}
		if missing == nil && time.Since(since) > seen.calm() && len(r.proxy.Deaths()) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return &UnsettledError{step.Name, missing}
		}
		if err := pause(ctx, poll); err != nil {
			return err
		}
	}
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
	// writes of any of them.
	writes int
	// failures of the one that lives: it will try again.
	failures int
}

func (r *run) activity() activity {
	var sum activity
	for i, exchange := range r.proxy.Exchanges() {
		if i < r.begun[len(r.begun)-1] || !r.counts(exchange) {
			continue
		}
		if exchange.IsWrite() {
			sum.writes++
		}
		// What is not there is no failure to somebody who asks.
		failed := exchange.Code >= http.StatusBadRequest && exchange.Code != http.StatusNotFound || exchange.Fault != "" && exchange.Fault != proxy.Delay
		if failed && exchange.Client == r.managers {
			sum.failures++
		}
	}
	return sum
}

// calm is for how long nothing must happen after it.
func (a activity) calm() time.Duration {
	if a.failures == 0 {
		return calm
	}
	return min(mostCalm, calm+firstRetry<<min(a.failures-1, 10))
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
		if exchange.Verb == "watch" && exchange.Namespace == r.namespace && !slices.ContainsFunc(r.outcome.Watched, func(known proxy.Request) bool { return what(known) == what(exchange.Request) }) {
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
	config.Wrap(r.namespaced.confine(r.namespace))
	made, err := r.New(ctx, config)
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
