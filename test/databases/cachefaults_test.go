//go:build e2e

package databases

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"
	corev1 "k8s.io/api/core/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/test/ledger"
)

var caches = databaseKind{
	kind: "Cache", resource: "caches", process: "valkey-server", starts: 10 * time.Second,
	look: func(d *database) looks {
		var found databasev1.Cache
		d.get(name, &found)
		return looks{found.Status.Primary, int(found.Spec.Replicas), found.Generation, found.Status.Conditions}
	},
	replicates: func(d *database, now looks) bool {
		program, err := d.findProgram(now.primary)
		if err != nil {
			return false
		}
		answer, err := d.tryValkey(program, "INFO", "replication")
		return err == nil && strings.Count(answer, "state=online") == now.replicas-1
	},
}

// insideLimit returns for how long a client inside a container waits, of which each write is a
// process.
func insideLimit() time.Duration { return 2 * statementLimit() }

// list is the key of a list to which each write appends an entry, so that their order is seen, and
// an entry that is there twice.
const list = "ledger"

// appends is a script that appends an entry, and says which server does it, in which life as the
// primary: each has an identifier of replication of its own.
const appends = "redis.call('RPUSH', KEYS[1], ARGV[1]) return redis.call('INFO', 'server', 'replication')"

// cacheFaults are those of a Cache. A handover that is asked for, and the end of a pod that has the
// time for one, lose nothing.
var cacheFaults = []fault{
	{name: "the primary is asked to hand over", limit: 2 * time.Second, noticed: anotherLeads, managed: true,
		hurt: func(s *scene) { s.patch(`{"switchoverAt":"` + time.Now().UTC().Format(time.RFC3339) + `"}`) }},
	{name: "all instances are restarted on request", limit: 2 * time.Second, noticed: replaced, managed: true,
		hurt: func(s *scene) { s.patch(`{"restartedAt":"` + time.Now().UTC().Format(time.RFC3339) + `"}`) }},
	{name: "the primary's node is drained", limit: 2 * time.Second, noticed: anotherLeads, hurt: drains,
		mend: func(s *scene) { kubectl(s.t, "uncordon", s.node) }},
	{name: "the primary's pod is deleted", limit: 2 * time.Second, noticed: anotherLeads, hurt: deletes()},
	{name: "the primary's pod is deleted by force", limit: 8 * time.Second, loses: true, noticed: anotherLeads, hurt: deletes("--force")},
	{name: "the server is killed", limit: 2 * time.Second, loses: true, noticed: servesAgain,
		hurt: func(s *scene) {
			s.killed = s.postmaster(s.primary)
			signal(syscall.SIGKILL, s.killed)
		}},
	{name: "the first process is killed", limit: 8 * time.Second, loses: true, noticed: anotherLeads,
		hurt: func(s *scene) { signal(syscall.SIGKILL, s.program(s.primary)) }},
	{name: "the primary and a replica are killed", limit: 15 * time.Second, loses: true, noticed: anotherLeads,
		hurt: func(s *scene) { signal(syscall.SIGKILL, s.program(s.replicas[0]), s.program(s.primary)) }},
	{name: "the server is stopped", limit: 20 * time.Second, loses: true, noticed: anotherLeads,
		hurt: func(s *scene) { signal(syscall.SIGSTOP, s.server(s.primary)...) },
		mend: func(s *scene) { s.goOn(s.primary) }},
	{name: "the primary's node is cut off", limit: 15 * time.Second, loses: true, noticed: anotherLeads,
		hurt: func(s *scene) { s.writeInside(); testbed(s.t, "partition", s.node) },
		mend: func(s *scene) { s.endInside(); testbed(s.t, "heal", s.node) }},
	{name: "the primary's node is cut off, and its pod deleted by force", limit: 15 * time.Second, loses: true, noticed: anotherLeads,
		hurt: deletesCutOff,
		mend: func(s *scene) {
			s.endInside()
			testbed(s.t, "heal", s.node)
			kubectl(s.t, "uncordon", s.node)
		}},
	{name: "the primary's node dies", limit: 15 * time.Second, loses: true, noticed: anotherLeads,
		hurt: func(s *scene) { testbed(s.t, "stop", s.node) },
		mend: func(s *scene) { testbed(s.t, "start", s.node) }},
	{name: "the primary's node is cut off from the API server alone", limit: time.Second, stays: true,
		noticed: passed(failoverAfter + 4*time.Second),
		hurt:    func(s *scene) { testbed(s.t, "partition", s.node, "--from", "api") },
		mend:    func(s *scene) { testbed(s.t, "heal", s.node) }},
	{name: "the Lease is deleted", limit: time.Second, stays: true, noticed: rewritten,
		hurt: func(s *scene) { s.must(cluster.Delete(s.t.Context(), s.lease())) }},
	{name: "a replica is killed", limit: time.Second, stays: true,
		hurt: func(s *scene) { signal(syscall.SIGKILL, s.program(s.replicas[0])) }},
	{name: "the primary and the managers are killed", limit: 8 * time.Second, loses: true, noticed: anotherLeads, managed: true,
		hurt: func(s *scene) {
			kubectl(s.t, "-n", system, "delete", "pods", "-l", "app.kubernetes.io/component=manager", "--force", "--wait=false")
			signal(syscall.SIGKILL, s.program(s.primary))
		}},
}

// TestCacheFaults lets each fault happen to a Cache of three instances in memory: never do two take
// writes, a planned handover loses nothing, any other at most the last writes of the former
// primary, and the Cache is whole again by itself.
func TestCacheFaults(t *testing.T) {
	// Nothing ties the pods to nodes, as volumes do, and one node that dies must not take two of them.
	d := newDatabaseOf(t, caches, "databases-cache-faults", "  version: \"9\"\n  memory: 64Mi\n  replicas: 3\n  topologySpread: Required\n")
	happenAll(d, newCacheWriter(t, d), cacheFaults)
}

// cacheSession is what an application connects to a Cache with.
type cacheSession struct {
	options valkey.ClientOption
	client  valkey.Client
}

// newCacheWriter starts the client of a Cache.
func newCacheWriter(t *testing.T, d *database) *writer {
	t.Helper()
	var secret corev1.Secret
	d.get(name+"-app", &secret)
	var service corev1.Service
	d.get(name+"-rw", &service)
	options := valkey.ClientOption{
		InitAddress: []string{net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(int(service.Spec.Ports[0].Port)))},
		Username:    string(secret.Data["username"]), Password: string(secret.Data["password"]),
		TLSConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the name in it is not that of the address
		Dialer:    net.Dialer{Timeout: statementLimit()}, ConnWriteTimeout: statementLimit(), ForceSingleClient: true, DisableCache: true,
		DisableRetry: true, PipelineMultiplex: -1,
	}
	w := &writer{Ledger: ledger.New(), d: d}
	w.compare = func(ctx context.Context, mayLose bool) []string {
		patient := options
		patient.Dialer.Timeout, patient.ConnWriteTimeout = patience, patience
		return compareList(ctx, d, &cacheSession{options: patient}, w.Ledger, mayLose)
	}
	w.start(through, (&cacheSession{options: options}).write)
	return w
}

// do sends a command, with a connection that is kept while it works.
func (c *cacheSession) do(ctx context.Context, command ...string) valkey.ValkeyResult {
	if c.client == nil {
		made, err := valkey.NewClient(c.options)
		if err != nil {
			return valkey.NewErrorResult(err)
		}
		c.client = made
	}
	result := c.client.Do(ctx, c.client.B().Arbitrary(command[0]).Args(command[1:]...).Build())
	if result.Error() != nil {
		c.close()
	}
	return result
}

func (c *cacheSession) close() {
	if c.client != nil {
		c.client.Close()
		c.client = nil
	}
}

// write implements [ledger.Write].
func (c *cacheSession) write(ctx context.Context, entry ledger.Entry) (string, error) {
	said, err := c.do(ctx, "EVAL", appends, "1", list, text(entry)).ToString()
	if err != nil {
		return "", err
	}
	return lifeOf(said)
}

// lifeOf returns which server says something about itself, and in which life as the primary.
func lifeOf(said string) (string, error) {
	var server, life string
	for line := range strings.Lines(said) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch key {
		case "run_id":
			server = value
		case "master_replid":
			life = value
		}
	}
	if server == "" || life == "" {
		return "", fmt.Errorf("the server does not say who it is: %q", said)
	}
	return server[:8] + "/" + life[:8], nil
}

// text is how an entry is written.
func text(entry ledger.Entry) string { return entry.Client + " " + strconv.Itoa(entry.Seq) }

// entriesOf returns all entries of the primary, and when they were asked for. The Service may lead
// to the former primary for a moment, which is a replica then, and may lack the last ones.
func entriesOf(ctx context.Context, session *cacheSession) (texts []string, asked time.Time, err error) {
	defer session.close()
	for ; ctx.Err() == nil; time.Sleep(poll) {
		asked = time.Now()
		if texts, err = session.do(ctx, "LRANGE", list, "0", "-1").AsStrSlice(); err != nil {
			continue
		}
		var role string
		if role, err = session.do(ctx, "INFO", "replication").ToString(); err == nil && strings.Contains(role, "role:master") {
			return texts, asked, nil
		}
		session.close()
	}
	return nil, asked, fmt.Errorf("the entries of the primary: %w", cmp.Or(err, ctx.Err()))
}

// compareList compares what the client was told with the entries that are there.
func compareList(ctx context.Context, d *database, session *cacheSession, told *ledger.Ledger, mayLose bool) []string {
	texts, asked, err := entriesOf(ctx, session)
	if err != nil {
		return []string{err.Error()}
	}
	var rows []ledger.Entry
	var wrong []string
	for _, one := range texts {
		client, number, _ := strings.Cut(one, " ")
		seq, err := strconv.Atoi(number)
		if err != nil {
			wrong = append(wrong, err.Error())
		}
		rows = append(rows, ledger.Entry{Client: client, Seq: seq})
	}
	if mayLose {
		lost, gaps := told.Forgive(rows, asked)
		d.t.Logf("%d of %d acknowledged writes are lost", lost, len(rows)+lost)
		wrong = append(wrong, gaps...)
	}
	return append(wrong, told.Check(rows, asked)...)
}

// drains drains the primary's node of the database's pods.
func drains(s *scene) {
	kubectl(s.t, "drain", s.node, "--pod-selector=app.kubernetes.io/instance="+name, "--delete-emptydir-data", "--ignore-daemonsets")
}

// deletesCutOff cuts the primary's node off and deletes its pod by force: the kubelet does not hear
// of it, and another pod of that name starts on another node, while the server of the former still
// runs.
func deletesCutOff(s *scene) {
	s.t.Helper()
	s.writeInside()
	former := s.pod(s.primary)
	kubectl(s.t, "cordon", s.node)
	testbed(s.t, "partition", s.node)
	deletes("--force")(s)
	eventually(s.t, "another pod of that name elsewhere", func() bool {
		for _, pod := range s.pods() {
			if pod.Name == s.primary && pod.UID != former.UID && pod.Spec.NodeName != "" && pod.Spec.NodeName != s.node {
				return true
			}
		}
		return false
	})
}

// tryValkey sends a command to the server of an instance, as its application, from inside the
// container of which it has the first process: also while no network leads there.
func (d *database) tryValkey(program process, words ...string) (string, error) {
	var secret corev1.Secret
	d.get(name+"-app", &secret)
	return askInside(d.t.Context(), program, string(secret.Data["password"]), words...)
}

// askInside is tryValkey with a password.
func askInside(ctx context.Context, program process, password string, words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, insideLimit())
	defer cancel()
	answer, err := command(ctx, "", "nsenter", append([]string{"-t", strconv.Itoa(program.pid), "-m", "-n", "--", "valkey-cli", "-e", "--tls", "--insecure",
		"--no-auth-warning", "--user", "app", "-a", password}, words...)...)
	if err != nil {
		return "", errors.New(strings.ReplaceAll(err.Error(), password, "..."))
	}
	return answer, nil
}

// insider is a client in the container of a primary: it reaches that one's server, and nothing
// else, whatever becomes of the network.
type insider struct {
	refused atomic.Int64
	end     func()
}

// writeInside starts such a client. Its writes are in the same ledger: if one is acknowledged while
// another primary takes writes, that is found.
func (s *scene) writeInside() {
	s.t.Helper()
	var secret corev1.Secret
	s.get(name+"-app", &secret)
	program, password := s.program(s.primary), string(secret.Data["password"])
	ctx, cancel := context.WithCancel(context.Background())
	done, accepted := make(chan struct{}), make(chan struct{}, 1)
	s.inside = &insider{end: func() { cancel(); <-done }}
	s.t.Cleanup(s.inside.end)
	write := func(ctx context.Context, entry ledger.Entry) (string, error) {
		said, err := askInside(ctx, program, password, "EVAL", appends, "1", list, text(entry))
		if err != nil {
			s.inside.refused.Add(1)
			return "", err
		}
		select {
		case accepted <- struct{}{}:
		default:
		}
		return lifeOf(said)
	}
	go func() {
		s.writer.Ledger.Client(ctx, fmt.Sprintf("inside-%d", s.term), 10*writeEvery, insideLimit(), write)
		close(done)
	}()
	select {
	case <-accepted:
	case <-time.After(within):
		s.t.Fatal("no write inside was acknowledged")
	}
}

// endInside ends the client inside, once some of its writes were refused beside the next primary.
func (s *scene) endInside() {
	s.t.Helper()
	before := s.inside.refused.Load()
	eventually(s.t, "writes that the former primary refuses", func() bool { return s.inside.refused.Load() > before+2 })
	s.inside.end()
}
