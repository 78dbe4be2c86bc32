package instances

import (
	"context"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// fault is something that happens to a database that works.
type fault struct {
	name string
	hurt func(*scene)
	// noticed is whether the instances show that they know of it.
	noticed func(*scene) bool
	// mend makes good what it did, once writes are acknowledged again; before that, if it blocks
	// them until then.
	mend   func(*scene)
	blocks bool
	// atRest is true if it happens once the record has not changed for a while. Others let a
	// changed record rest before they stand, which is not part of what is measured.
	atRest bool
	// leaderStays is true if nobody else may be elected, and keeps if the replicas must keep their
	// data.
	leaderStays, keeps bool
}

// scene is a database to which something happens.
type scene struct {
	d *Database
	// leader leads when it begins; other and third are the replicas.
	leader, other, third *Pod
	// before is the record at that time, and postmaster the process of the leader's server.
	before     election.Record
	postmaster int
	begun      time.Time
}

// record is what the Lease says now.
func (s *scene) record() election.Record { return s.d.Record(context.Background()) }

// anotherTerm is whether somebody was elected, and leads.
func anotherTerm(s *scene) bool {
	record := s.record()
	return record.Term > s.before.Term && record.Open && s.d.Published(context.Background()) != nil
}

// renewed is whether the Lease was renewed, as it is when a member does not answer.
func renewed(s *scene) bool {
	at := s.d.Lease(context.Background()).Spec.RenewTime
	return at != nil && at.After(s.begun)
}

// passed is whether that long has passed.
func passed(long time.Duration) func(*scene) bool {
	return func(s *scene) bool { return time.Since(s.begun) >= long }
}

// restored is whether the leader has written the record anew.
func restored(s *scene) bool {
	record := s.record()
	return record.Term == s.before.Term && record.Seq > s.before.Seq && record.Holder == s.before.Holder && record.Open
}

// leadsAgain reports whether an instance leads after the leader was killed and started at once, or
// its record was lost: another one, or the same one, if it was back before the others could elect
// one. Whether another may lead is judged elsewhere.
func leadsAgain(s *scene) bool { return anotherTerm(s) || restored(s) }

// resumed reports whether an instance leads after the leader's server has ended: another one, or
// the same one with the next server, if no replica answered in time, as on a busy machine.
func resumed(s *scene) bool {
	now := s.leader.process.Postmaster()
	return anotherTerm(s) || now != 0 && now != s.postmaster
}

// gaveUp reports whether the leader has ended its server although it should lead on, because this
// machine stood still. Without the API server nobody leads until that is back.
func (s *scene) gaveUp() bool {
	return s.leader.process.Postmaster() == 0 && s.d.stoodStill(s.begun)
}

// whileElecting waits until somebody has claimed a later term and is about to lead, and some more,
// so that what follows meets each step of that sooner or later.
func whileElecting(s *scene, more time.Duration) *Pod {
	var candidate *Pod
	s.d.Await("candidate", func() bool {
		record := s.record()
		candidate = s.d.pod(record.Holder.Member.Name)
		return record.Term > s.before.Term && candidate != nil
	})
	s.wait(rand.N(more))
	return candidate
}

// wait lets some time pass.
func (s *scene) wait(long time.Duration) {
	moment := time.Now().Add(long)
	s.d.Await("moment", func() bool { return time.Now().After(moment) })
}

// data are those of the replicas.
func (s *scene) data() [2]string {
	return [2]string{s.other.Report(context.Background()).Incarnation, s.third.Report(context.Background()).Incarnation}
}

var faults = []fault{
	{name: "the postmaster is killed", atRest: true, noticed: resumed,
		hurt: func(s *scene) { _ = syscall.Kill(s.postmaster, syscall.SIGKILL) }},
	{name: "the program is killed", atRest: true, noticed: anotherTerm,
		hurt: func(s *scene) { s.leader.Kill() },
		mend: func(s *scene) { s.leader.Start() }},
	{name: "the program is killed in the middle of a large transaction", noticed: anotherTerm, keeps: true,
		hurt: func(s *scene) {
			inserted := make(chan struct{})
			go func() {
				_, _ = s.leader.SQL("CREATE TABLE IF NOT EXISTS large (g int, text text);" +
					"INSERT INTO large SELECT g, repeat('x', 500) FROM generate_series(1, 1000000) g")
				close(inserted)
			}()
			s.wait(100*time.Millisecond + rand.N(200*time.Millisecond))
			s.leader.Kill()
			<-inserted
		},
		mend: func(s *scene) { s.leader.Start() }},
	{name: "the pod is asked to end", atRest: true, noticed: anotherTerm,
		hurt: func(s *scene) { s.leader.process.Signal(syscall.SIGTERM) },
		mend: func(s *scene) { <-s.leader.process.ended; s.leader.Start() }},
	{name: "the pod is deleted by force, and its token with it", atRest: true, noticed: anotherTerm,
		hurt: func(s *scene) { s.leader.API.Pause(); s.leader.process.Signal(syscall.SIGTERM) },
		mend: func(s *scene) { s.leader.API.Resume(); <-s.leader.process.ended; s.leader.Start() }},
	{name: "the program is stopped", atRest: true, noticed: anotherTerm,
		hurt: func(s *scene) { s.leader.process.Signal(syscall.SIGSTOP) },
		mend: func(s *scene) { s.leader.process.Signal(syscall.SIGCONT) }},
	{name: "the postmaster is stopped", atRest: true, noticed: resumed,
		hurt: func(s *scene) { signalAll(s.leader.process.All()[1:], syscall.SIGSTOP) },
		mend: func(s *scene) { signalAll(s.leader.process.All(), syscall.SIGCONT) }},
	{name: "all processes are stopped", noticed: anotherTerm,
		hurt: func(s *scene) { signalAll(s.leader.process.All(), syscall.SIGSTOP) },
		mend: func(s *scene) { signalAll(s.leader.process.All(), syscall.SIGCONT) }},
	{name: "the leader is cut off", noticed: anotherTerm,
		hurt: func(s *scene) { s.leader.Isolate(true) },
		mend: func(s *scene) { s.leader.Isolate(false) }},
	{name: "a replica is cut off", leaderStays: true, noticed: renewed,
		hurt: func(s *scene) { s.other.Isolate(true) },
		mend: func(s *scene) { s.other.Isolate(false) }},
	{name: "both replicas are cut off", leaderStays: true, blocks: true, noticed: passed(8 * time.Second),
		hurt: func(s *scene) { s.other.Isolate(true); s.third.Isolate(true) },
		mend: func(s *scene) { s.other.Isolate(false); s.third.Isolate(false) }},
	{name: "all are cut off", blocks: true,
		hurt:    func(s *scene) { s.isolateAll(true) },
		noticed: func(s *scene) bool { return s.leader.process.Postmaster() == 0 || passed(8*time.Second)(s) },
		mend:    func(s *scene) { s.isolateAll(false) }},
	{name: "a replica loses its volume", leaderStays: true, noticed: renewed,
		hurt: func(s *scene) { s.other.Kill(); s.d.must(s.other.Wipe()) },
		mend: startAnew},
	{name: "a replica comes back without its volume as the leader dies", blocks: true, noticed: passed(4 * time.Second),
		hurt: func(s *scene) {
			s.other.Kill()
			s.d.must(s.other.Wipe())
			s.other.Start()
			s.leader.Kill()
		},
		mend: func(s *scene) { s.leader.Start() }},
	{name: "the leader and a replica are killed", noticed: anotherTerm,
		hurt: func(s *scene) { s.leader.Kill(); s.other.Kill(); s.other.Start() },
		mend: func(s *scene) { s.leader.Start() }},
	{name: "all are killed", noticed: passed(0),
		hurt: func(s *scene) {
			for _, pod := range s.d.Pods {
				pod.Kill()
			}
			for _, pod := range s.d.Pods {
				pod.Start()
			}
		}},
	{name: "the leader is killed while its replicas do not hear each other", noticed: leadsAgain,
		hurt: func(s *scene) {
			s.cutReplicas(true)
			s.leader.Kill()
			s.leader.Start()
		},
		mend: func(s *scene) { s.cutReplicas(false) }},
	{name: "the next leader is killed in the middle of its promotion", noticed: passed(0),
		hurt: func(s *scene) {
			s.leader.Kill()
			candidate := whileElecting(s, 150*time.Millisecond)
			candidate.Kill()
			candidate.Start()
			s.leader.Start()
		}},
	{name: "a replica is killed in the middle of its change of timeline", noticed: anotherTerm,
		hurt: func(s *scene) {
			s.leader.Kill()
			candidate := whileElecting(s, 400*time.Millisecond)
			for _, pod := range []*Pod{s.other, s.third} {
				if pod != candidate {
					pod.Kill()
					pod.Start()
				}
			}
		},
		mend: func(s *scene) { s.leader.Start() }},
	{name: "the API server is away", leaderStays: true,
		hurt:    func(s *scene) { s.pauseAPI(true) },
		noticed: func(s *scene) bool { return passed(*away)(s) },
		mend:    func(s *scene) { s.pauseAPI(false) }},
	{name: "a replica starts again without the API server, and the other one dies", leaderStays: true, noticed: passed(0),
		hurt: func(s *scene) {
			s.pauseAPI(true)
			s.other.Kill()
			s.other.Start()
			s.d.Await("replica that receives again", func() bool {
				status, err := s.other.SQL("SELECT status FROM pg_stat_wal_receiver")
				return err == nil && status == "streaming" || s.gaveUp()
			})
			s.third.Kill()
		},
		mend: func(s *scene) { s.pauseAPI(false); s.third.Start() }},
	{name: "the record is set back", leaderStays: true, noticed: leadsAgain,
		hurt: func(s *scene) { s.d.writeRecord(s.d.old(s.before)) }},
	{name: "the record is overwritten", leaderStays: true, noticed: leadsAgain,
		hurt: func(s *scene) { s.d.writeRecord("nonsense") }},
	{name: "the record is set back as the leader dies", noticed: leadsAgain,
		hurt: func(s *scene) {
			s.leader.Kill()
			s.d.writeRecord(s.d.old(s.before))
			s.leader.Start()
		}},
	{name: "the Lease is deleted", leaderStays: true, noticed: leadsAgain,
		hurt: func(s *scene) { s.d.deleteLease() }},
}

// startAnew starts the replica that lost its volume, and waits until it has data again.
func startAnew(s *scene) {
	before := s.other.Report(context.Background()).Incarnation
	s.other.Start()
	s.d.Await("data that were made anew", func() bool {
		made := s.other.Report(context.Background()).Incarnation
		return made != "" && made != before
	})
}

// isolateAll cuts all pods off from each other and the API server, or connects them again.
func (s *scene) isolateAll(cut bool) {
	for _, pod := range s.d.Pods {
		pod.Isolate(cut)
	}
}

// cutReplicas cuts the replicas off from each other, but not from the leader.
func (s *scene) cutReplicas(cut bool) {
	s.other.Links[s.third.Name].Cut(cut)
	s.third.Links[s.other.Name].Cut(cut)
}

// pauseAPI takes the API server away from all pods, or gives it back.
func (s *scene) pauseAPI(away bool) {
	for _, pod := range s.d.Pods {
		if away {
			pod.API.Pause()
		} else {
			pod.API.Resume()
		}
	}
}
