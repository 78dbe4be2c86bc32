package simulation

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// event is something that happens at a time: do is called if the life it belongs to goes on.
type event struct {
	at    time.Duration
	order int
	do    func()
}

type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *queue) Push(x any) { *q = append(*q, x.(event)) }

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	(*q)[len(*q)-1] = event{}
	*q = (*q)[:len(*q)-1]
	return last
}

// world is all that there is: the instances, the Lease, the network, and the clients.
type world struct {
	now    time.Duration
	random *rand.Rand
	events queue
	order  int

	plan schedule
	// decided is what the user wants now. Instances may not have heard of it yet.
	decided election.Config
	nodes   []*node
	// ghosts are pods that were deleted by force and still run.
	ghosts []*node
	lease  lease
	slice  slice
	// cut says which node does not reach which other.
	cut [][]bool
	// apiAway says which node does not reach the API server.
	apiAway []bool

	check   checks
	only    string
	trace   func(format string, arguments ...any)
	stopped bool
}

// Violation is a broken invariant.
type Violation struct {
	Seed      uint64
	Invariant string
	At        time.Duration
	Message   string
}

// Error implements error.
func (v *Violation) Error() string {
	return fmt.Sprintf("seed %d: %s is broken at %s: %s", v.Seed, v.Invariant, v.At, v.Message)
}

// Run tries the schedule of a seed; nil means that every invariant held. trace gets what happened,
// nil for nobody. only is the one invariant that is checked, "" for all.
func Run(seed uint64, only string, trace func(format string, arguments ...any)) *Violation {
	random := rand.New(rand.NewPCG(seed, 7))
	w := &world{random: random, only: only, trace: trace, plan: draw(random)}
	w.plan.drawSlow(rand.New(rand.NewPCG(seed, 13)))
	return run(w, seed)
}

// run tries the schedule of a world.
func run(w *world, seed uint64) *Violation {
	w.decided = election.Config{
		Instances: w.plan.instances, Durability: w.plan.durability, After: w.plan.failAfter, Positions: positions{},
		Ephemeral: w.plan.ephemeral,
	}
	w.check = newChecks(w, seed)
	w.build()
	w.plan.apply(w)
	for len(w.events) > 0 && !w.stopped {
		next := heap.Pop(&w.events).(event)
		w.now = next.at
		if w.now > w.plan.end {
			break
		}
		next.do()
		if w.check.found != nil {
			return w.check.found
		}
	}
	w.check.atEnd()
	return w.check.found
}

// after does something after a duration.
func (w *world) after(wait time.Duration, do func()) {
	w.order++
	heap.Push(&w.events, event{at: w.now + wait, order: w.order, do: do})
}

// between draws a duration.
func (w *world) between(from, to time.Duration) time.Duration {
	return from + time.Duration(w.random.Int64N(int64(to-from)+1))
}

// chance is true once in so many times.
func (w *world) chance(once int) bool { return w.random.IntN(once) == 0 }

func (w *world) log(format string, arguments ...any) {
	if w.trace != nil {
		w.trace("%12s "+format, append([]any{w.now}, arguments...)...)
	}
}

// build makes the instances: with data and a leader, or new ones.
func (w *world) build() {
	n := w.plan.instances
	w.cut, w.apiAway = make([][]bool, n), make([]bool, n)
	for i := range n {
		w.cut[i] = make([]bool, n)
		w.nodes = append(w.nodes, newNode(w, i))
	}
	latest := time.Second
	switch {
	case w.plan.adopts:
		w.adopt()
		latest = w.plan.heal / 2
	case w.plan.fresh:
		w.lease.write(election.Record{Initialise: w.nodes[0].name()})
	default:
		w.establish()
	}
	for _, node := range w.nodes {
		w.after(w.between(0, latest), node.start)
	}
	w.after(time.Second, w.clients)
}

// adopt gives some instances the data of a former database, whose record is gone. Nothing that was
// acknowledged there may be lost.
func (w *world) adopt() {
	for i, node := range w.nodes {
		if w.plan.remains[i] {
			node.disk.makeData(node, wal{timeline: 1, end: 10})
			node.disk.system, node.disk.fresh = former, false
			node.disk.local.Seen = election.Seen{Term: 3, Seq: 5, Timeline: 1}
			w.check.acked[1] = 10
		}
	}
	w.lease.write(election.Record{})
}

// establish gives every instance the same data, and the first the Lease.
func (w *world) establish() {
	config := w.decided
	rule := election.Rule{Leader: w.nodes[0].disk.member}
	for _, node := range w.nodes {
		node.disk.makeData(node, wal{timeline: 1, end: 10})
		if node.index > 0 {
			rule.Set = append(rule.Set, node.disk.member)
		}
	}
	rule.Leader = w.nodes[0].disk.member
	switch {
	case config.Instances <= 1:
	case config.Durability == election.Required:
		rule.Acks = max(1, config.Instances/2)
	default:
		rule.Acks, rule.Async = min(max(1, config.Instances/2), len(rule.Set)), config.Durability == election.Asynchronous
	}
	record := election.Record{
		System: system, Term: 1, Seq: 1, Open: true, Rules: []election.Rule{rule}, Timeline: 1,
		Holder: election.Holder{Member: rule.Leader, PodUID: w.nodes[0].uid},
	}
	w.check.promoted(w.nodes[0], 1, 1)
	for _, node := range w.nodes {
		node.disk.local.Seen = election.Seen{Term: 1, Seq: 1, Timeline: 1}
		node.disk.local.Promised = election.Promised{Term: 1, Candidate: rule.Leader}
	}
	w.lease.write(record)
}

// clients write to every server that takes writes.
func (w *world) clients() {
	for _, node := range w.nodes {
		node.server.clientWrites()
	}
	w.after(w.between(100*time.Millisecond, 700*time.Millisecond), w.clients)
}

// reaches reports whether a message from one node arrives at another.
func (w *world) reaches(from, to *node) bool {
	if from.isMute || to.isMute || from != to && from.index == to.index {
		return false
	}
	return !w.cut[from.index][to.index]
}

// lacksAPI reports whether an instance does not reach the API server.
func (w *world) lacksAPI(n *node) bool {
	if n.isGhost {
		return n.isAway
	}
	return w.apiAway[n.index]
}
