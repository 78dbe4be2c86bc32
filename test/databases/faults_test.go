//go:build e2e

package databases

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/test/programs"
)

// fault is something that happens to a database that works.
type fault struct {
	name string
	// limit is for how long no write may be acknowledged on an idle machine. Tests fail later: see
	// allowed.
	limit time.Duration
	hurt  func(*scene)
	// noticed is whether the instances show that they know of it; nil if hurt waits for that.
	noticed func(*scene) bool
	// mend makes good what it did, once writes are acknowledged again.
	mend func(*scene)
	// stays is true if the primary must stay the primary.
	stays bool
	// managed is true if it is the manager that carries it out, or to which it happens.
	managed bool
	// loses is true if the last writes may be lost where no write waits for a replica.
	loses bool
	// brief is true for one fault of each sort of a PostgreSQL, which happen with -brief.
	brief bool
}

// scene is a database to which something happens.
type scene struct {
	*database
	writer *writer
	// primary is the primary's pod when it begins, and node that pod's node. term is that of the
	// record.
	primary, node string
	term          uint64
	// replicas are the other pods, and data is which data the first one has.
	replicas []string
	data     string
	// killed is the primary's postmaster, where that is what ends.
	killed process
	// inside is a client in the primary's container, if there is one.
	inside *insider
	// stalled is for how long the server was stopped before it went on, if it was.
	stalled time.Duration
	begun   time.Time
}

// anotherLeads is whether another term is open.
func anotherLeads(s *scene) bool {
	record, known := s.record()
	return known && record.Term > s.term && record.Open && !record.Released()
}

// servesAgain is whether another term is open, or the primary has another server in its own: an
// instance whose server ends may start it again before the others elect one of theirs.
func servesAgain(s *scene) bool {
	if anotherLeads(s) {
		return true
	}
	now, isThere := s.findPostmaster(s.primary)
	return isThere && now.pid != s.killed.pid && rewritten(s)
}

// passed is whether that long has passed.
func passed(long time.Duration) func(*scene) bool {
	return func(s *scene) bool { return time.Since(s.begun) >= long }
}

// rewritten is whether the primary has written the record anew.
func rewritten(s *scene) bool {
	record, known := s.record()
	return known && record.Term == s.term && record.Open && record.Holder.Member.Name == s.primary
}

// failoverAfter is the default of spec.failover.after. mostStalled is for how long a server may be
// stopped while it must stay the primary: it is replaced after some 10 s, and has its own work to
// catch up with.
const (
	failoverAfter = 11 * time.Second
	mostStalled   = 7 * time.Second
)

var faults = []fault{
	{name: "the primary is asked to hand over", limit: 2 * time.Second, brief: true, noticed: anotherLeads, managed: true,
		hurt: func(s *scene) { s.patch(`{"switchoverAt":"` + time.Now().UTC().Format(time.RFC3339) + `"}`) }},
	{name: "all instances are restarted on request", limit: 2 * time.Second, noticed: replaced, managed: true,
		hurt: func(s *scene) { s.patch(`{"restartedAt":"` + time.Now().UTC().Format(time.RFC3339) + `"}`) }},
	{name: "the primary's node is drained", limit: 2 * time.Second, brief: true, noticed: anotherLeads,
		hurt: drains,
		mend: func(s *scene) { kubectl(s.t, "uncordon", s.node) }},
	{name: "the primary's pod is deleted", limit: 3 * time.Second, brief: true, noticed: anotherLeads, hurt: deletes()},
	{name: "the primary's pod is deleted with a grace of 1 s", limit: 3 * time.Second, noticed: anotherLeads,
		hurt: deletes("--grace-period=1")},
	{name: "the primary's pod is deleted by force", limit: 3 * time.Second, noticed: anotherLeads, hurt: deletes("--force")},
	{name: "the primary's pod is deleted while no manager runs", limit: 3 * time.Second, noticed: anotherLeads, managed: true,
		hurt: func(s *scene) { s.managers(0); deletes()(s) },
		mend: func(s *scene) { s.managers(2) }},
	{name: "the postmaster is killed", limit: 3 * time.Second, noticed: servesAgain, brief: true,
		hurt: func(s *scene) {
			s.killed = s.postmaster(s.primary)
			signal(syscall.SIGKILL, s.killed)
		}},
	{name: "the first process is killed", limit: 8 * time.Second, noticed: servesAgain, brief: true,
		hurt: func(s *scene) {
			s.killed = s.postmaster(s.primary)
			signal(syscall.SIGKILL, s.program(s.primary))
		}},
	// Whoever is back first leads: the primary itself, in its term, or the replica that was left.
	{name: "the primary and a replica are killed", limit: 15 * time.Second,
		hurt: func(s *scene) { signal(syscall.SIGKILL, s.program(s.replicas[0]), s.program(s.primary)) }},
	{name: "the server is stopped", limit: 20 * time.Second, noticed: anotherLeads,
		hurt: func(s *scene) { signal(syscall.SIGSTOP, s.server(s.primary)...) },
		mend: func(s *scene) { s.goOn(s.primary) }},
	{name: "the server and the program are stopped", limit: 20 * time.Second, noticed: anotherLeads,
		hurt: func(s *scene) { signal(syscall.SIGSTOP, append(s.server(s.primary), s.program(s.primary))...) },
		mend: func(s *scene) { s.goOn(s.primary) }},
	{name: "the server stalls for 5 s", limit: 6 * time.Second, brief: true, stays: true,
		hurt: func(s *scene) {
			stopped := s.server(s.primary)
			begun := time.Now()
			signal(syscall.SIGSTOP, stopped...)
			eventually(s.t, "stall", func() bool { return time.Since(begun) >= 5*time.Second })
			signal(syscall.SIGCONT, stopped...)
			s.stalled = time.Since(begun)
		}},
	{name: "the primary's volume is frozen", limit: 20 * time.Second, noticed: anotherLeads,
		hurt: func(s *scene) { testbed(s.t, "freeze", s.namespace+"/data-"+s.primary) },
		mend: func(s *scene) { testbed(s.t, "thaw", s.namespace+"/data-"+s.primary) }},
	{name: "the primary's node is cut off", limit: 15 * time.Second, brief: true, noticed: anotherLeads,
		hurt: func(s *scene) { testbed(s.t, "partition", s.node) },
		mend: func(s *scene) { testbed(s.t, "heal", s.node) }},
	{name: "the primary's node dies", limit: 15 * time.Second, noticed: anotherLeads,
		hurt: func(s *scene) { testbed(s.t, "stop", s.node) },
		mend: func(s *scene) { testbed(s.t, "start", s.node) }},
	{name: "the primary's node is cut off from the API server alone", limit: time.Second, stays: true,
		noticed: passed(failoverAfter + 4*time.Second),
		hurt:    func(s *scene) { testbed(s.t, "partition", s.node, "--from", "api") },
		mend:    func(s *scene) { testbed(s.t, "heal", s.node) }},
	{name: "the control plane is away, and a replica restarts", limit: time.Second, stays: true, hurt: controlPlaneAway},
	{name: "the Lease is deleted", limit: time.Second, brief: true, stays: true, noticed: rewritten,
		hurt: func(s *scene) { s.must(cluster.Delete(s.t.Context(), s.lease())) }},
	{name: "the record is overwritten", limit: time.Second, stays: true, noticed: rewritten,
		hurt: func(s *scene) { s.writeRecord("nonsense") }},
	{name: "the record is set back", limit: time.Second, stays: true, noticed: rewritten,
		hurt: func(s *scene) { s.writeRecord(s.past[0]) }},
	{name: "a replica is killed", limit: time.Second, brief: true, stays: true,
		hurt: func(s *scene) { signal(syscall.SIGKILL, s.program(s.replicas[0])) }},
	{name: "a replica's volume is deleted", limit: time.Second, brief: true, stays: true,
		hurt: func(s *scene) { s.wipe(s.replicas[0]) }},
	{name: "a replica's data are damaged", limit: time.Second, stays: true, noticed: remade,
		hurt: func(s *scene) { s.damage(s.replicas[0]) }},
	{name: "a replica is promoted by hand", limit: time.Second, stays: true, noticed: remade,
		hurt: func(s *scene) { s.sql(s.replicas[0], "postgres", "SELECT pg_promote(wait => false)") }},
	// It may be the only one that has everything: then the others wait for it.
	{name: "a replica's volume is deleted, then the primary is killed", limit: 15 * time.Second,
		hurt: func(s *scene) { s.wipe(s.replicas[0]); signal(syscall.SIGKILL, s.program(s.primary)) }},
	{name: "the primary and the managers are killed", limit: 8 * time.Second, noticed: anotherLeads, managed: true,
		hurt: func(s *scene) {
			kubectl(s.t, "-n", system, "delete", "pods", "-l", "app.kubernetes.io/component=manager", "--force", "--wait=false")
			signal(syscall.SIGKILL, s.program(s.primary))
		}},
}

// deletes deletes the primary's pod with kubectl, and does not wait until it is gone.
func deletes(options ...string) func(*scene) {
	return func(s *scene) {
		kubectl(s.t, append([]string{"-n", s.namespace, "delete", "pod", s.primary, "--wait=false"}, options...)...)
	}
}

// replaced is whether all pods are newer than the scene, and run.
func replaced(s *scene) bool {
	pods := s.pods()
	old := func(pod corev1.Pod) bool { return pod.CreationTimestamp.Time.Before(s.begun.Truncate(time.Second)) }
	return len(pods) == 3 && !slices.ContainsFunc(pods, old) && s.isReady()
}

// remade is whether the first replica has other data than when the scene began.
func remade(s *scene) bool {
	now := s.dataOf(s.replicas[0])
	return now != "" && now != s.data
}

// goOn continues all processes of a pod that were stopped, as far as they still exist.
func (s *scene) goOn(pod string) {
	all, err := processesOf(s.pod(pod))
	s.must(err)
	signal(syscall.SIGCONT, all...)
}

// wipe deletes the volume of an instance, with its pod, which makes another.
func (s *scene) wipe(pod string) {
	s.t.Helper()
	var claim corev1.PersistentVolumeClaim
	s.get("data-"+pod, &claim)
	s.must(cluster.Delete(s.t.Context(), &claim))
	s.must(cluster.Delete(s.t.Context(), s.pod(pod), client.GracePeriodSeconds(1)))
	eventually(s.t, "another volume", func() bool {
		var found corev1.PersistentVolumeClaim
		err := cluster.Get(s.t.Context(), types.NamespacedName{Namespace: s.namespace, Name: "data-" + pod}, &found)
		return err == nil && found.UID != claim.UID
	})
}

// damage makes an instance's data useless, and kills its server, which would not read them again.
func (s *scene) damage(pod string) {
	s.t.Helper()
	postmaster := s.postmaster(pod)
	control := fmt.Sprintf("/proc/%d/root/var/lib/mainstay/data/server/global/pg_control", postmaster.pid)
	s.must(os.WriteFile(control, make([]byte, 8192), 0o600))
	signal(syscall.SIGKILL, postmaster)
}

// dataOf returns the incarnation of an instance's data; "" without data.
func (d *database) dataOf(pod string) string {
	d.t.Helper()
	report, err := contract.ParseReport(d.pod(pod).Annotations[api.AnnotationInstance])
	d.must(err)
	return report.Incarnation
}

// managers sets how many managers there are.
func (d *database) managers(count int) {
	d.t.Helper()
	kubectl(d.t, "-n", system, "scale", "deployment/mainstay-manager", "--replicas", []string{"0", "1", "2"}[count])
	eventually(d.t, "managers", func() bool {
		var pods corev1.PodList
		d.must(cluster.List(d.t.Context(), &pods, client.InNamespace(system), client.MatchingLabels{"app.kubernetes.io/component": "manager"}))
		return len(pods.Items) == count
	})
}

// controlPlaneAway takes etcd, the API server and the controllers away, kills a replica, and brings
// them back.
func controlPlaneAway(s *scene) {
	s.t.Helper()
	replica := s.program(s.replicas[0])
	programs.KillOf(s.t, os.Getenv("MAINSTAY_TESTBED"), controlPlane...)
	signal(syscall.SIGKILL, replica)
	<-time.After(*away) // the outage itself: there is no API server to poll meanwhile
	ctx, cancel := context.WithTimeout(s.t.Context(), within)
	defer cancel()
	if _, err := command(ctx, "", os.Getenv("MAINSTAY_TESTBED"), "up"); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, "API server that answers", func() bool {
		return cluster.Get(s.t.Context(), types.NamespacedName{Name: s.namespace}, &corev1.Namespace{}) == nil
	})
}
