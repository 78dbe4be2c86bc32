package simulation

import (
	"slices"
	"strconv"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// system is the database system of all data but those of a former database.
const (
	system = "7000000000000000001"
	former = "6000000000000000001"
)

// disk is what outlives everything but the loss of the volume.
type disk struct {
	member election.Member
	local  election.Local
	log    wal
	// system is that of the data. fresh is true while no server has loaded them: until then they do
	// not end with one.
	system string
	fresh  bool
	// answered is the highest term for which a promise was given away.
	answered uint64
}

// makeData writes data, which makes the volume another member.
func (d *disk) makeData(n *node, log wal) {
	n.made++
	d.member = election.Member{Name: n.name(), Incarnation: strconv.Itoa(n.made)}
	d.log, d.system, d.fresh = log, system, true
}

// node is an instance: a pod with its program, its server and its volume.
type node struct {
	w     *world
	index int
	uid   string
	pods  int
	made  int
	disk  disk

	core *election.Observed
	// life counts starts of the program.
	life      int
	alive     bool
	paused    bool
	startedAt time.Duration
	rate      float64
	wakeAt    time.Duration
	wakes     int
	// pending is what waits while the program is paused.
	pending []func()
	server  server
	// hangsForEver is true if the disk takes nothing, or the server is stopped, until the end. refuses
	// is true if a disk that hangs says so.
	hangsForEver, refuses bool
	// isGhost is true for a pod that was deleted by force and runs on. isMute is true if it reaches
	// no other, and isAway if it does not reach the API server.
	isGhost, isMute, isAway bool
}

func newNode(w *world, index int) *node {
	n := &node{w: w, index: index, rate: 1 + (w.random.Float64()*2-1)*0.01}
	n.server = server{n: n, state: election.NoData, links: make([]link, w.plan.instances)}
	n.newPod()
	return n
}

func (n *node) newPod() {
	n.pods++
	n.uid = n.name() + "-" + strconv.Itoa(n.pods)
}

var names = []string{"db-0", "db-1", "db-2", "db-3", "db-4"}

func (n *node) name() string { return names[n.index] }

func (w *world) byName(name string) *node { return w.nodes[slices.Index(names, name)] }

func (n *node) reaches(other *node) bool { return n.w.reaches(n, other) && n.w.reaches(other, n) }

// local is the program's clock.
func (n *node) local() time.Duration {
	return 1 + time.Duration(float64(n.w.now-n.startedAt)*n.rate)
}

// start starts the program: it knows nothing but what is on the volume.
func (n *node) start() {
	if n.alive || n.isGhost {
		return
	}
	n.life++
	n.alive, n.paused, n.startedAt, n.wakeAt, n.pending = true, false, n.w.now, 0, nil
	n.server.kill()
	n.server.rule, n.server.history = election.Rule{}, ""
	n.core = &election.Observed{
		Config: n.w.decided, Me: election.Member{Name: n.name(), Incarnation: n.disk.member.Incarnation},
		PodUID: n.uid, Local: n.disk.local, Saved: n.disk.local, Others: n.w.others(n),
	}
	if n.disk.member.HasData() {
		n.core.Found(n.disk.system, n.disk.log.timeline)
	}
	for _, other := range n.w.nodes {
		if other != n {
			n.core.Peers = append(n.core.Peers, election.Peer{Name: other.name()})
		}
	}
	n.w.log("%s starts", n.name())
	n.step()
}

// crash ends the program and its server. The others find its port closed, if they reach it.
func (n *node) crash() {
	if !n.alive {
		return
	}
	n.w.log("%s crashes", n.name())
	n.alive = false
	n.life++
	n.server.kill()
	down := n.life
	for _, other := range n.w.nodes {
		if other == n {
			continue
		}
		n.w.after(n.w.between(300*time.Millisecond, 700*time.Millisecond), func() {
			if n.life == down && other.alive && !other.paused && other.reaches(n) {
				other.core.Now = other.local()
				other.core.Refused(n.name())
				other.step()
			}
		})
	}
}

// resume does something in the life of the program that it belongs to, later if that is paused.
func (n *node) resume(life int, do func()) {
	if n.life != life || !n.alive {
		return
	}
	if n.paused {
		n.pending = append(n.pending, do)
		return
	}
	n.core.Now = n.local()
	n.observe()
	do()
}

// wake lets the program look at its server.
func (n *node) wake() { n.resume(n.life, n.step) }

func (n *node) observe() {
	if n.server.serves() && !n.server.frozen {
		n.server.receiversAt = n.local()
	}
	n.core.Heartbeat(n.server.observed())
	if n.w.plan.ephemeral && n.server.state == election.NoData && n.core.Me.HasData() && !n.server.busy && !n.core.Leads() {
		n.core.Became(election.Member{Name: n.name()}, "", 0)
	}
	if n.server.frozen {
		return
	}
	for i := range n.server.links {
		if link := &n.server.links[i]; link.fresh {
			link.fresh = false
			if n.server.serves() {
				n.core.Streams(link.member, link.flushed+3 >= n.disk.log.end)
			}
		}
	}
}

// step decides and acts until there is nothing to do.
func (n *node) step() {
	for range 100 {
		n.core.Now = n.local()
		n.observe()
		action := election.Decide(n.core)
		if wait, isWait := action.(election.Wait); isWait {
			n.sleep(wait)
			return
		}
		if !n.act(action) {
			return
		}
	}
	n.w.check.fail("liveness", "%s does not come to rest: %T", n.name(), election.Decide(n.core))
}

func (n *node) sleep(wait election.Wait) {
	until := time.Duration(float64(max(wait.Until-n.local(), time.Millisecond)) / n.rate)
	if n.wakeAt > n.w.now && n.wakeAt <= n.w.now+until {
		return
	}
	n.wakeAt = n.w.now + until
	n.wakes++
	wakes, life := n.wakes, n.life
	n.w.after(until, func() {
		if n.wakes == wakes {
			n.resume(life, n.step)
		}
	})
}

// act carries an action out, and reports whether the program goes on.
func (n *node) act(action election.Action) bool {
	w, core, server := n.w, n.core, &n.server
	switch action := action.(type) {
	case election.Kill:
		return n.kill(action)
	case election.Save:
		n.save(action.Local)
	case election.Start:
		server.start()
	case election.Resume:
		server.rule = action.Rule
		server.begin(50*time.Millisecond, 500*time.Millisecond, func() { server.lead(core.Held.Term) })
	case election.Follow:
		server.follow(election.Source(action))
	case election.Unfollow:
		server.unfollow()
	case election.Replace:
		n.replace(action)
	case election.Initialise:
		w.check.initialises(n)
		server.begin(100*time.Millisecond, time.Second, func() {
			n.disk.makeData(n, wal{timeline: 1, end: 1})
			if n.w.plan.ephemeral {
				n.disk.system = n.disk.member.Name + "/" + n.disk.member.Incarnation
			}
			server.state = election.Stopped
			core.Became(n.disk.member, n.disk.system, n.disk.log.timeline)
			core.Began()
		})
	case election.SetRule:
		server.setRule(action.Rule)
	case election.Promote:
		core.Promoting()
		server.promote(action.Term, action.Timeline)
	case election.StopCleanly:
		core.StoppingFor(action.Successor)
		server.stopCleanly()
	case election.ReadRecord:
		w.readRecord(n)
	case election.WriteRecord:
		w.writeRecord(n, action)
	case election.Publish:
		w.publish(n, action.Term)
	case election.Exit:
		n.exit()
		return false
	default:
		n.send(action)
	}
	return true
}

// send carries out the actions that send messages.
func (n *node) send(action election.Action) {
	core := n.core
	switch action := action.(type) {
	case election.SendPings:
		core.Pinged(action.Ping.Resigned)
		n.ping(action.Ping)
	case election.SendAsk:
		core.Asking(action.Ask.Term, n.w.between(0, 300*time.Millisecond))
		n.toAll(func(to *node) {
			if reply, ok := to.core.HeardAsk(action.Ask); ok {
				to.to(n, func() { n.core.HeardAskReply(reply) })
			}
		})
	case election.RequestPromises:
		core.Requested()
		n.toAll(func(to *node) { to.core.HeardPromiseRequest(action.Request) })
	case election.Reply:
		core.Replied(action.To)
		to := n.w.byName(action.To)
		if action.Promise.Given {
			n.disk.answered = max(n.disk.answered, action.Promise.Term)
		}
		n.to(to, func() { to.core.HeardPromise(action.Promise) })
	default:
		n.w.check.fail("liveness", "the simulator does not know the action %T", action)
	}
}

func (n *node) ping(ping election.Ping) {
	sent, life := n.local(), n.life
	n.toAll(func(to *node) {
		if pong, ok := to.core.HeardPing(ping); ok {
			to.to(n, func() {
				if n.life == life {
					n.core.HeardPong(pong, sent)
				}
			})
		}
	})
}

// toAll lets every other program hear something.
func (n *node) toAll(hear func(to *node)) {
	for _, other := range n.w.nodes {
		if other != n {
			n.to(other, func() { hear(other) })
		}
	}
}

// to lets another program hear something, if it arrives.
func (n *node) to(other *node, hear func()) {
	w := n.w
	if !w.reaches(n, other) || w.plan.loses && w.chance(20) {
		return
	}
	w.after(w.latency(), func() {
		if w.reaches(n, other) {
			other.resume(other.life, func() { hear(); other.step() })
		}
	})
}

// latency is how long a message takes.
func (w *world) latency() time.Duration {
	if w.plan.slowNetwork && w.chance(5) {
		return w.between(time.Millisecond, 900*time.Millisecond)
	}
	return w.between(200*time.Microsecond, 5*time.Millisecond)
}

func (n *node) kill(action election.Kill) bool {
	server := &n.server
	if server.killing {
		return false
	}
	n.w.log("%s kills its server: %s", n.name(), action.Why)
	n.w.check.killed(n, action)
	server.killing = true
	run, life := server.run, n.life
	n.w.after(n.w.between(0, 500*time.Millisecond), func() {
		if server.run == run {
			history := server.history
			server.kill()
			server.history = history
		}
		n.resume(life, n.step)
	})
	return false
}

// save writes to the volume, fails, or never returns.
func (n *node) save(local election.Local) {
	n.core.SavingLocal()
	if n.server.hung {
		if n.refuses {
			n.core.SaveFailed()
		}
		return
	}
	n.disk.local = local
	n.core.SavedLocal(local)
}

// replace clones the leader. The old data count until the new are there.
func (n *node) replace(action election.Replace) {
	server, core := &n.server, n.core
	n.w.check.replaces(n, action)
	n.w.log("%s makes its data anew from %s", n.name(), action.Leader.Name)
	leader := n.w.byName(action.Leader.Name)
	server.kill()
	run := leader.server.run
	server.begin(500*time.Millisecond, 3*time.Second, func() {
		if leader.server.run != run || leader.server.state != election.Leading || leader.server.term != action.Term ||
			leader.server.frozen || !n.reaches(leader) {
			return
		}
		n.disk.makeData(n, leader.disk.log)
		n.disk.system = leader.disk.system
		server.state = election.Stopped
		core.Became(n.disk.member, n.disk.system, n.disk.log.timeline)
	})
}

// exit ends the program after SIGTERM; a new pod comes.
func (n *node) exit() {
	n.crash()
	n.newPod()
	n.w.after(n.w.between(time.Second, 3*time.Second), n.start)
}
